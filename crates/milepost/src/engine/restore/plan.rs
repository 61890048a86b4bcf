//! Plans a restore: decides for each file that differs whether it may change. Takes the files of a checkpoint and
//! the present ones. Changes nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use derive_getters::Getters;
use jiff::Timestamp;
use serde::Serialize;

use super::super::files::{Files, Worktree};
use super::super::snapshot::inside_root;
use super::{content_of, state_of_content};
use crate::Error;
use crate::model::{PathText, RunId, closed_enum};
use crate::restore::{Before, FileChange, Fingerprint};
use crate::snapshot::{FileContent, Manifest, ignored_paths};

options! {
    /// Which files to restore.
    #[derive(Debug, Clone, Default)]
    pub struct RestoreScope {
        /// Files and folders to restore, relative to the root. If empty, all files that the run changed.
        pub(crate) paths: Vec<PathBuf>,
        /// Restores every file that differs, even if the run did not change it.
        pub(crate) all: bool,
        /// Replaces files that someone else changed. Their present content is kept for `undo`.
        pub(crate) force: bool,
        /// The run that the caller works in, which does not count as another live run.
        pub(crate) current_run: Option<RunId>,
    }
}

closed_enum! {
    /// What a restore does with a file.
    pub enum RestoreAction {
        /// Replaces its content.
        Restore = "restore",
        /// Creates it again.
        Recreate = "recreate",
        /// Deletes it, because it did not exist.
        Delete = "delete",
        /// Leaves it, because it must not be touched.
        Keep = "keep",
        /// Leaves it, because someone else changed it.
        Conflict = "conflict",
        /// Leaves it, because its earlier content is not available.
        Unavailable = "unavailable",
    }
}

/// A file in a plan.
#[derive(Getters, Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedFile {
    /// The path, relative to the root.
    pub(crate) path: PathText,
    /// What happens to it.
    #[getter(copy)]
    pub(crate) action: RestoreAction,
    /// Why it is left, or what is special about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// The size of the restored content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<u64>,
}

/// What a restore would do.
#[derive(Getters, Debug, Clone, Serialize)]
pub struct RestorePlan {
    /// The reference that the user gave.
    pub(crate) reference: String,
    /// The run whose files are restored.
    pub(crate) run_id: RunId,
    /// When the restored snapshot was taken.
    #[getter(copy)]
    pub(crate) taken_at: Timestamp,
    /// The files, sorted by path. Files that do not differ are not listed.
    pub(crate) files: Vec<PlannedFile>,
    /// Number of files that differ, but that this run did not change.
    pub(crate) left_alone: u64,
    /// Identifies this plan. A restore with the token of another plan is refused.
    pub(crate) token: String,
    #[serde(skip)]
    #[getter(skip)]
    pub(super) changes: Vec<FileChange>,
}

impl RestorePlan {
    /// Number of files with this action.
    pub fn count(&self, action: RestoreAction) -> usize {
        self.files.iter().filter(|file| file.action == action).count()
    }

    /// Number of files that the restore changes.
    pub fn changes(&self) -> usize {
        self.changes.len()
    }
}

impl Worktree<'_> {
    /// Decides what happens to each file.
    pub(super) fn plan(
        &self,
        target: &Files<'_>,
        present: &Manifest,
        scope: &RestoreScope,
    ) -> Result<RestorePlan, Error> {
        let run = target.run.clone().ok_or_else(|| Error::NoFiles { reference: target.name.clone() })?;
        let named = self.named_paths(scope)?;
        let family = self.milepost.run_and_continuations(&run)?;
        let mut paths = target.changed_paths();
        paths.extend(present.entries.keys().cloned());
        let mut plan = RestorePlan {
            reference: target.name.clone(),
            run_id: run,
            taken_at: target.taken_at,
            files: Vec::new(),
            left_alone: 0,
            token: String::new(),
            changes: Vec::new(),
        };
        let is_same_series = target.is_of_here && target.manifest.series == present.series;
        let mut candidates = Vec::new();
        for path in paths {
            let is_named = named.iter().any(|named| is_at_or_below(&path, named));
            if !named.is_empty() && !is_named {
                continue;
            }
            let entry = present.entries.get(&path);
            let now = content_now(target, present, &path);
            let change = entry.map(|entry| &entry.change);
            let is_own =
                change.is_some_and(|change| change.by.as_ref().is_some_and(|by| family.contains(by)));
            let is_touched = change.is_some_and(|change| change.authors().any(|run| family.contains(run)));
            let is_wanted = is_touched || scope.all || is_named;
            let earlier = target.listed(&path).or_else(|| match is_same_series {
                // A path that only the present snapshot lists has changed after all others.
                true => entry.map(|entry| entry.was.clone()),
                false => is_wanted.then(|| target.content(&path)),
            });
            let Some(earlier) = earlier.filter(|earlier| *earlier != now) else { continue };
            if !is_wanted {
                plan.left_alone += 1;
                continue;
            }
            let others_until = change.map_or(0, |change| change.others_until);
            let conflict = if !is_own {
                let since = if is_touched { "changed it since" } else { "changed it" };
                Some(format!("someone else {since}, or it was changed outside of this run's tools"))
            } else if others_until > target.taken_at.as_millisecond() {
                Some("someone else also changed it since".to_owned())
            } else {
                None
            };
            candidates.push((path, now, earlier, conflict));
        }
        let ignored = match &self.repository {
            Some(repository) => ignored_paths(repository, candidates.iter().map(|(path, ..)| &path[..])),
            None => BTreeSet::new(),
        };
        let ids: Vec<_> = candidates.iter().filter_map(|(_, _, earlier, _)| earlier.blob()).collect();
        let missing = self.milepost.store.missing_blobs(&ids)?;
        for (path, now, earlier, conflict) in candidates {
            let earlier = match earlier {
                FileContent::Omitted { .. } => target.content(&path),
                earlier if earlier.blob().is_some_and(|id| missing.contains(&id)) => {
                    target.available(&path, earlier)
                }
                earlier => earlier,
            };
            if earlier == now {
                continue;
            }
            let is_ignored = ignored.contains(&path);
            let fingerprint = || self.fingerprint(&path);
            let (action, reason, change) =
                decide(&path, now, &earlier, conflict, is_ignored, scope.force, &fingerprint);
            let size = match &earlier {
                FileContent::File { size, .. } if change.is_some() => Some(*size),
                _ => None,
            };
            plan.files.push(PlannedFile { path: PathText::of(&path), action, reason, size });
            plan.changes.extend(change);
        }
        plan.token = token_of(&plan, scope.force);
        Ok(plan)
    }

    /// Stores contents that were found only in git, so that the restore can read them.
    pub(super) fn store_missing_contents(
        &self,
        target: &Files<'_>,
        changes: &[FileChange],
    ) -> Result<(), Error> {
        let store = &self.milepost.store;
        let wanted: Vec<_> = changes.iter().filter_map(|change| content_of(&change.after)).collect();
        let ids: Vec<_> = wanted.iter().filter_map(FileContent::blob).collect();
        let missing = store.missing_blobs(&ids)?;
        for content in wanted.iter().filter(|content| content.blob().is_some_and(|id| missing.contains(&id)))
        {
            if let Ok(bytes) = target.read(content) {
                store.put_blobs(&[&bytes])?;
            }
        }
        Ok(())
    }

    /// The paths of the scope, relative to the root.
    fn named_paths(&self, scope: &RestoreScope) -> Result<Vec<Vec<u8>>, Error> {
        let inside = |path: &PathBuf| {
            if path.as_path() == Path::new(".") || *path == self.root {
                return Ok(Vec::new());
            }
            inside_root(&self.root, path).ok_or_else(|| Error::FileUnavailable {
                path: path.display().to_string(),
                reference: "the worktree".into(),
                why: "it is outside of the worktree, or one of Milepost's or git's own files".into(),
            })
        };
        scope.paths.iter().map(inside).collect()
    }
}

/// The content of a path now. A path that the newest series does not list has not changed since it began.
fn content_now(target: &Files<'_>, present: &Manifest, path: &[u8]) -> FileContent {
    match present.entries.get(path) {
        Some(entry) => entry.now.clone(),
        None => target.newest(path).unwrap_or(FileContent::Absent),
    }
}

fn is_at_or_below(path: &[u8], named: &[u8]) -> bool {
    let rest = path.strip_prefix(named);
    named.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// What happens to one file that differs.
fn decide(
    path: &[u8],
    now: FileContent,
    earlier: &FileContent,
    conflict: Option<String>,
    is_ignored: bool,
    force: bool,
    fingerprint: &dyn Fn() -> Option<Fingerprint>,
) -> (RestoreAction, Option<String>, Option<FileChange>) {
    use RestoreAction as A;
    if let Err(e) = crate::restore::check_path(&PathText::of(path)) {
        return (A::Keep, Some(e.to_string()), None);
    }
    if is_ignored {
        return (A::Keep, Some("git ignores it".into()), None);
    }
    if matches!(now, FileContent::Submodule { .. }) || matches!(earlier, FileContent::Submodule { .. }) {
        return (A::Keep, Some("it is a submodule".into()), None);
    }
    if let FileContent::Omitted { reason, .. } = earlier {
        return (A::Unavailable, Some(reason.clone()), None);
    }
    let action = match (&now, earlier) {
        (_, FileContent::Absent) => A::Delete,
        (FileContent::Absent, _) => A::Recreate,
        _ => A::Restore,
    };
    let reason = match (conflict, force) {
        (Some(why), false) => return (A::Conflict, Some(why), None),
        (Some(why), true) => Some(why),
        (None, _) => None,
    };
    let before = match &now {
        FileContent::Omitted { reason, .. } => match fingerprint() {
            Some(fingerprint) => Before::Unsaved { fingerprint },
            None => return (A::Conflict, Some(reason.clone()), None),
        },
        content => state_of_content(content).map_or(Before::ABSENT, Before::saved),
    };
    let Some(after) = state_of_content(earlier) else {
        return (A::Unavailable, reason, None);
    };
    let is_unsaved = matches!(before, Before::Unsaved { .. });
    let reason = reason.or_else(|| is_unsaved.then(|| "its present content is moved aside".to_owned()));
    (action, reason, Some(FileChange { path: PathText::of(path), before, after }))
}

/// Identifies a plan by everything that it would do. A plan without `force` never approves a restore with it.
fn token_of(plan: &RestorePlan, force: bool) -> String {
    let mut hasher = blake3::Hasher::new();
    for change in &plan.changes {
        // Serialising these plain values does not fail.
        hasher.update(&serde_json::to_vec(change).unwrap_or_default());
    }
    hasher.update(plan.run_id.as_str().as_bytes());
    hasher.update(&[0, u8::from(force)]);
    hasher.update(plan.reference.as_bytes());
    hasher.finalize().to_hex()[..16].to_owned()
}
