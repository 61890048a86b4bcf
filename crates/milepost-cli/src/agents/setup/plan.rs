//! Plans an install or uninstall: the text of each file before and after. Takes an agent, folders and the
//! records of earlier installs, and returns a plan. Writes nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use super::super::{Agent, Roots, Scope};
use super::content::{Content, InstallState, Part, Refusal, Remainder};
use super::install_state::inspect;
use super::plugin::{find_plugin, plugin_as_well, plugin_instead};
use super::record::{Record, Records, digest};
use super::{Target, targets};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    Install,
    Uninstall,
}

/// The changes for one agent in one scope.
#[derive(Debug, Serialize)]
pub(crate) struct Plan {
    pub(crate) agent: Agent,
    pub(crate) scope: Scope,
    pub(crate) action: Action,
    /// The project's root, in the project scope.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "optional_path")]
    pub(crate) project: Option<PathBuf>,
    /// Empty if an install is refused, because an install needs all files.
    #[serde(rename = "files")]
    pub(crate) changes: Vec<FileChange>,
    pub(crate) refused: Vec<RefusedFile>,
    /// Further information for the user.
    pub(crate) notes: Vec<String>,
    /// What the user has to do after the install.
    pub(crate) to_do: Vec<&'static str>,
}

/// A file that is not changed, and why.
#[derive(Debug, Serialize)]
pub(crate) struct RefusedFile {
    #[serde(serialize_with = "path")]
    pub(crate) path: PathBuf,
    #[serde(rename = "message")]
    pub(crate) why: String,
}

/// The change to one file.
#[derive(Debug, Serialize)]
pub(crate) struct FileChange {
    #[serde(serialize_with = "path")]
    pub(crate) path: PathBuf,
    pub(crate) parts: Vec<Part>,
    /// `unchanged`, `made`, `removed` or `changed`.
    #[serde(rename = "change")]
    pub(crate) name: &'static str,
    /// The backup, once it exists.
    #[serde(serialize_with = "optional_path")]
    pub(crate) backup: Option<PathBuf>,
    /// The change as a diff, if the plan is only shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) diff: Option<String>,
    /// The file that is written, with symbolic links resolved.
    #[serde(skip)]
    pub(super) real: PathBuf,
    /// Its text, if it exists.
    #[serde(skip)]
    pub(crate) before: Option<String>,
    /// Its new text; `None` removes it.
    #[serde(skip)]
    pub(crate) after: Option<String>,
    /// The file's record: the new one for an install, the existing one for an uninstall.
    #[serde(skip)]
    pub(super) record: Option<Record>,
    #[serde(skip)]
    pub(super) needs_backup: bool,
}

fn path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

fn optional_path<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.display().to_string()).serialize(serializer)
}

/// The name of a change to a file.
fn change_name(before: Option<&str>, after: Option<&str>) -> &'static str {
    match (before, after) {
        (before, after) if before == after => "unchanged",
        (None, _) => "made",
        (_, None) => "removed",
        _ => "changed",
    }
}

impl FileChange {
    pub(crate) fn has_effect(&self) -> bool {
        self.before != self.after
    }
}

impl Plan {
    fn new(action: Action, agent: Agent, scope: Scope, roots: &Roots) -> Self {
        let project = (scope == Scope::Project).then(|| roots.project.clone());
        let (changes, refused, notes, to_do) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { action, agent, scope, project, changes, refused, notes, to_do }
    }

    /// Whether it can be executed. An install needs all files; an uninstall does what it can.
    pub(crate) fn is_possible(&self) -> bool {
        self.action == Action::Uninstall || self.refused.is_empty()
    }

    pub(crate) fn has_changes(&self) -> bool {
        self.is_possible() && self.changes.iter().any(FileChange::has_effect)
    }
}

pub(crate) fn plan_install(agent: Agent, scope: Scope, roots: &Roots, records: &Records) -> Plan {
    let mut plan = Plan::new(Action::Install, agent, scope, roots);
    if let Some(file) = find_plugin(agent, roots).filter(|_| scope == Scope::User) {
        if !inspect(agent, scope, roots).is_installed() {
            plan.notes.push(plugin_instead(agent, &file));
            return plan;
        }
        plan.notes.push(plugin_as_well(agent, &file));
    }
    for target in targets(agent, roots, scope) {
        match plan_file_install(&plan, &target, records) {
            Ok(change) => {
                let foreign = target
                    .content
                    .install_state(change.after.as_deref(), &target.program)
                    .unwrap_or_default();
                plan.notes.extend(foreign.into_iter().filter_map(|(part, state)| match state {
                    InstallState::Foreign(what) => {
                        Some(format!("{}: {what}; {} not set up", target.path.display(), part.name()))
                    }
                    _ => None,
                }));
                plan.changes.push(change);
            }
            Err(Refusal(why)) => plan.refused.push(RefusedFile { path: target.path, why }),
        }
    }
    if agent.runs_hooks_twice && inspect(agent, scope.other(), roots).has(Part::Hooks) {
        plan.notes.push(duplicate_hooks(agent, scope.other()));
    }
    match plan.is_possible() {
        true => plan.to_do.extend((agent.user_step)(scope)),
        false => plan.changes.clear(),
    }
    plan
}

/// The note for an agent that runs the hooks of both scopes.
pub(super) fn duplicate_hooks(agent: Agent, other: Scope) -> String {
    let flag = if other == Scope::Project { " --project" } else { "" };
    format!(
        "{} runs the hooks of both the user and the project, so each event is recorded twice; \
         run `milepost agents uninstall {agent}{flag}` to remove the other ones",
        agent.display_name
    )
}

/// Maximum size of an agent's file.
const SETTINGS_LIMIT: u64 = 64 << 20;

/// Resolves symbolic links. A project's links must not lead out of it, because someone else may have created
/// them.
fn resolve_within(path: &Path, project: Option<&PathBuf>) -> Result<PathBuf, Refusal> {
    let real = resolve_links(path)?;
    let outside = |project: &PathBuf| {
        let root = milepost::internal::fs::canonicalize(project).unwrap_or_else(|_| project.clone());
        !real.starts_with(root)
    };
    match project.is_some_and(outside) {
        true => Err(Refusal::new("it is a symbolic link that leads out of the project")),
        false => Ok(real),
    }
}

fn plan_file_install(plan: &Plan, target: &Target, records: &Records) -> Result<FileChange, Refusal> {
    let real = resolve_within(&target.path, plan.project.as_ref())?;
    let before = read_text(&real)?;
    let known = records.get(&real);
    let mut prior = known.map(|known| known.prior.clone()).unwrap_or_default();
    let after = target.content.install(before.as_deref(), &mut prior, &target.program)?;
    let now = before.as_deref().map(|text| digest(text.as_bytes()));
    // If the file is unchanged since the last install, an uninstall restores the original text.
    let same = known.filter(|known| Some(&known.digest_after) == now.as_ref());
    let clean = match &before {
        Some(text) => target.content.uninstall(text, &prior).is_ok_and(|(left, _)| left == *text),
        None => true,
    };
    let record = Record {
        path: real.clone(),
        agent: plan.agent.name.to_owned(),
        scope: plan.scope,
        project: plan.project.clone(),
        existed: before.is_some() && known.is_none_or(|known| known.existed),
        digest_after: digest(after.as_bytes()),
        digest_before: match same {
            Some(known) => known.digest_before.clone(),
            None => now.filter(|_| clean),
        },
        backups: known.map(|known| known.backups.clone()).unwrap_or_default(),
        prior,
        folders: known.map(|known| known.folders.clone()).unwrap_or_default(),
    };
    Ok(FileChange {
        path: target.path.clone(),
        needs_backup: before.is_some() && same.is_none(),
        record: (before.as_deref() != Some(&after)).then_some(record),
        real,
        parts: target.content.parts(),
        name: change_name(before.as_deref(), Some(&after)),
        before,
        after: Some(after),
        backup: None,
        diff: None,
    })
}

pub(crate) fn plan_uninstall(agent: Agent, scope: Scope, roots: &Roots, records: &Records) -> Plan {
    let mut plan = Plan::new(Action::Uninstall, agent, scope, roots);
    let mut targets = targets(agent, roots, scope);
    // Add files that an earlier install set up under another name or in another folder.
    let is_own = |record: &&Record| {
        record.agent == agent.name && record.scope == scope && record.project == plan.project
    };
    for record in records.all().iter().filter(is_own) {
        let known =
            targets.iter().any(|target| resolve_links(&target.path).is_ok_and(|path| path == record.path));
        if let (false, Some(content)) = (known, content_by_name(&targets, &record.path)) {
            targets.push(Target::new(record.path.clone(), content));
        }
    }
    for target in targets {
        match plan_file_uninstall(&plan, &target, records) {
            Ok(Some(change)) => plan.changes.push(change),
            Ok(None) => {}
            Err(Refusal(why)) => plan.refused.push(RefusedFile { path: target.path, why }),
        }
    }
    plan
}

/// Finds what is set up in a recorded file, by its file stem.
fn content_by_name(targets: &[Target], path: &Path) -> Option<Content> {
    let stem = path.file_stem()?;
    targets.iter().find(|target| target.path.file_stem() == Some(stem)).map(|target| target.content)
}

fn plan_file_uninstall(
    plan: &Plan,
    target: &Target,
    records: &Records,
) -> Result<Option<FileChange>, Refusal> {
    let real = resolve_within(&target.path, plan.project.as_ref())?;
    let known = records.get(&real);
    let Some(before) = read_text(&real)? else { return Ok(None) };
    let untouched = known.filter(|known| known.digest_after == digest(before.as_bytes()));
    let after = match untouched.map(|known| (known, original_text(known))) {
        Some((known, _)) if !known.existed => None,
        Some((_, Some(text))) => Some(text),
        _ => {
            let prior = known.map(|known| known.prior.clone()).unwrap_or_default();
            let (left, rest) = target.content.uninstall(&before, &prior)?;
            let stays = matches!(target.content, Content::Settings { .. } | Content::TomlServer)
                && known.is_some_and(|known| known.existed);
            if rest == Remainder::Blank && !stays { None } else { Some(left) }
        }
    };
    // Back up a file of ours that was edited.
    let edited = matches!(target.content, Content::OwnFile { text, .. } if after.is_none() && text != before);
    Ok(Some(FileChange {
        path: target.path.clone(),
        needs_backup: edited && untouched.is_none(),
        record: known.cloned(),
        real,
        parts: target.content.parts(),
        name: change_name(Some(&before), after.as_deref()),
        before: Some(before),
        after,
        backup: None,
        diff: None,
    }))
}

/// The text of a file before the first install, if a backup has it.
fn original_text(known: &Record) -> Option<String> {
    let wanted = known.digest_before.as_ref()?;
    let texts = known.backups.iter().filter_map(|path| fs::read_to_string(path).ok());
    texts.into_iter().find(|text| digest(text.as_bytes()) == *wanted)
}

/// Reads a file's text. Returns `None` if the file does not exist.
pub(super) fn read_text(path: &Path) -> Result<Option<String>, Refusal> {
    match milepost::internal::fs::bounded::read(path, SETTINGS_LIMIT) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| Refusal::new("it is not UTF-8 text")),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(Refusal::new(&format!("it could not be read: {e}"))),
    }
}

/// Resolves symbolic links, including those in the path of a file that does not exist yet.
pub(super) fn resolve_links(path: &Path) -> Result<PathBuf, Refusal> {
    if let Ok(real) = milepost::internal::fs::canonicalize(path) {
        return Ok(real);
    }
    if fs::symlink_metadata(path).is_ok_and(|kind| kind.is_symlink()) {
        return Err(Refusal::new("it is a symbolic link to a file that does not exist"));
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !parent.as_os_str().is_empty() => Ok(resolve_links(parent)?.join(name)),
        _ => Ok(path.to_owned()),
    }
}
