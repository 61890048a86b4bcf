//! What this user trusts: folders that the user listed, and stores recorded in the user's state. Takes the
//! environment, the user's file and a store's address, and decides whether the store and the project's
//! guarded settings may be used. The library (`store::identity`) decides whether a store is foreign.

use std::path::{Path, PathBuf};

use milepost::internal::store::identity::StoreTrust;
use milepost::internal::store::{ProjectPaths, identity};
use milepost::internal::trust::{StoreRecord, TrustedProject, UserState};
use milepost::store::{ForeignReason, StoreUrl};

use super::file::File;
use super::guarded::Guarded;
use super::value::{Folders, RawValue, SettingValue as _};
use crate::error::{CommandError, Result};

/// The prefix of the pointer's keys.
const POINTER_PREFIX: &str = "pointer.";
/// The key in the user's file that lists trusted folders.
pub(super) const PATHS: &str = "trust.paths";

/// What this user trusts.
#[derive(Debug)]
pub(crate) struct Trust {
    /// Folders that the user listed, with symbolic links resolved.
    paths: Vec<PathBuf>,
    /// The user's state, or why it cannot be used.
    pub(crate) state: Result<UserState, String>,
}

impl Trust {
    pub(super) fn load(
        named: Vec<PathBuf>,
        home: Option<&Path>,
        user: Option<&File>,
        warnings: &mut Vec<String>,
    ) -> Result<Self> {
        let from_file = user.and_then(|file| Some((file.get(PATHS)?.clone(), &file.path)));
        let from_file = from_file.map(|(raw, path)| {
            let why = |why| CommandError::usage(format!("{PATHS} in {}: {why}", path.display()));
            Folders::parse(RawValue::Toml(raw)).map_err(why)
        });
        let from_file = from_file.transpose()?.map(|folders| folders.0).unwrap_or_default();
        let expanded = from_file.into_iter().map(|path| match (path.strip_prefix("~"), home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => path,
        });
        let (all, relative): (Vec<_>, Vec<_>) =
            named.into_iter().chain(expanded).partition(|path| path.is_absolute());
        for path in relative {
            let path = path.display();
            warnings
                .push(format!("{path} in MILEPOST_TRUST or {PATHS} is ignored: it is not an absolute path"));
        }
        let paths =
            all.into_iter().map(|path| milepost::internal::fs::canonicalize(&path).unwrap_or(path)).collect();
        let state = match super::state_folder() {
            Some(folder) => UserState::at(folder).map_err(|e| e.to_string()),
            None => Err("there is no home folder".to_owned()),
        };
        Ok(Self { paths, state })
    }

    /// Whether the user listed a folder that contains this path.
    pub(crate) fn covers(&self, path: &Path) -> bool {
        self.paths.iter().any(|folder| path.starts_with(folder))
    }

    /// Whether the user listed a folder that contains this store.
    pub(crate) fn covers_store(&self, url: &StoreUrl) -> bool {
        url.resolved().path().is_some_and(|path| self.covers(path))
    }

    /// Decides whether a store is trusted. The result does not restrict a store that a flag or variable
    /// selects.
    pub(crate) fn evaluate(&self, url: &StoreUrl, paths: &ProjectPaths) -> (StoreTrust, Option<StoreRecord>) {
        let base = base(url, paths);
        let (trust, record) = identity::check_trust(url, &base, self.state.as_ref().map_err(String::as_str));
        let trust = match trust {
            StoreTrust::New => self.evaluate_new(url, paths),
            other => other,
        };
        match trust {
            // A symbolic link may lead out of the trusted folder.
            StoreTrust::Foreign(ForeignReason::NotRegular { .. }) => (trust, record),
            StoreTrust::Foreign(_) if self.covers_store(url) => (StoreTrust::Trusted, record),
            trust => (trust, record),
        }
    }

    /// Decides whether a new store may be created: not in another user's folder or repository.
    fn evaluate_new(&self, url: &StoreUrl, paths: &ProjectPaths) -> StoreTrust {
        let base = base(url, paths);
        let folder = url.path().and_then(Path::parent).map(Path::to_owned);
        let repository = paths.worktree.is_some().then_some(base.clone());
        let below = folder.filter(|folder| folder.starts_with(&base) && *folder != base);
        for path in below.into_iter().chain(repository) {
            let owner =
                std::fs::metadata(&path).ok().as_ref().and_then(milepost::internal::fs::bounded::owner);
            if let Some(owner) = owner.filter(|owner| Some(*owner) != milepost::internal::trust::user_id()) {
                return StoreTrust::Foreign(ForeignReason::OtherOwner { path, owner });
            }
        }
        StoreTrust::New
    }
}

/// The folder under which the path to a store must not contain symbolic links.
fn base(url: &StoreUrl, paths: &ProjectPaths) -> PathBuf {
    let project = project(paths);
    if url.path().is_some_and(|path| path.starts_with(&project)) { project } else { paths.root.clone() }
}

/// The path that identifies a project: the git directory that its worktrees share, or its root outside git.
pub(crate) fn project(paths: &ProjectPaths) -> PathBuf {
    paths.database.parent().and_then(Path::parent).unwrap_or(&paths.root).to_owned()
}

/// The entry for a project in the record of a store.
pub(crate) fn trusted_entry(paths: &ProjectPaths, values: &Guarded) -> TrustedProject {
    TrustedProject {
        project: project(paths).to_string_lossy().into_owned(),
        root: paths.root.to_string_lossy().into_owned(),
        values: values.iter().map(|(key, value)| (accepted_key(paths, key), value.clone())).collect(),
        all_users: false,
    }
}

/// The key under which an accepted value is recorded. If the configuration file is under the project's root,
/// the key includes its folder, because relative paths are resolved against it.
fn accepted_key(paths: &ProjectPaths, key: &str) -> String {
    match paths.config_folder().to_string_lossy() {
        root if root.is_empty() => key.to_owned(),
        folder => format!("{folder}/{key}"),
    }
}

/// The guarded values that the record does not accept. The three pointer keys are accepted together or not at
/// all. If the project was moved, updates the record with its new path.
pub(super) fn untrusted(
    record: Option<&StoreRecord>,
    paths: &ProjectPaths,
    guarded: &Guarded,
    state: &Result<UserState, String>,
) -> Guarded {
    let project = trusted_entry(paths, &Guarded::new());
    let known = record.and_then(|record| record.project(&project.project, &project.root));
    let accepted = |key: &str, value: &String| {
        known.is_some_and(|known| known.values.get(&accepted_key(paths, key)) == Some(value))
    };
    let mut untrusted = guarded.clone();
    untrusted.retain(|key, value| !accepted(key, value));
    if untrusted.keys().any(|key| key.starts_with(POINTER_PREFIX)) {
        let pointer = guarded.iter().filter(|(key, _)| key.starts_with(POINTER_PREFIX));
        untrusted.extend(pointer.map(|(key, value)| (key.clone(), value.clone())));
    }
    if let (Some(record), Some(known), Ok(state)) = (record, known, state)
        && known.project != project.project
    {
        let mut moved = record.clone();
        let (values, all_users) = (known.values.clone(), known.all_users);
        moved.projects.retain(|entry| entry.project != known.project);
        moved.add_project(TrustedProject { values, all_users, ..project });
        // The values stay trusted even if the record cannot be written.
        let _ = state.write_record(&moved);
    }
    untrusted
}
