//! What setting an agent up, or taking it back, would change: each file's text before and after, and nothing written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::content::{Content, Part, Refusal, Rest, Standing};
use super::record::{Record, Records, digest};
use super::standing::look;
use super::{Agent, Roots, Scope, Target};

/// What is done with an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Action {
    Install,
    Uninstall,
}

/// What would change for one agent in one scope.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) action: Action,
    pub(crate) agent: Agent,
    pub(crate) scope: Scope,
    /// The project's root, in that scope.
    pub(crate) project: Option<PathBuf>,
    pub(crate) changes: Vec<Change>,
    /// Files that are left as they are, and why.
    pub(crate) refused: Vec<(PathBuf, String)>,
    /// What the person should know besides.
    pub(crate) notes: Vec<String>,
}

/// One file.
#[derive(Debug)]
pub(crate) struct Change {
    /// The file as it is named; the one that is written may lie behind a link.
    pub(crate) path: PathBuf,
    pub(super) real: PathBuf,
    pub(crate) parts: Vec<Part>,
    /// Its text, if it is there.
    pub(crate) before: Option<String>,
    /// The text that it should have, if it should be there.
    pub(crate) after: Option<String>,
    /// What is known about it afterwards.
    pub(super) record: Option<Record>,
    /// Whether what is there now is kept beside it.
    pub(super) keep: bool,
    /// The backup that was made, once it is.
    pub(crate) backup: Option<PathBuf>,
}

impl Change {
    /// Whether there is anything to do.
    pub(crate) fn is_one(&self) -> bool {
        self.before != self.after
    }
}

impl Plan {
    fn new(action: Action, agent: Agent, scope: Scope, roots: &Roots) -> Self {
        let project = (scope == Scope::Project).then(|| roots.project.clone());
        Self { action, agent, scope, project, changes: Vec::new(), refused: Vec::new(), notes: Vec::new() }
    }

    /// Whether it can be carried out. An agent is not set up by halves; what can be taken back is.
    pub(crate) fn is_possible(&self) -> bool {
        self.action == Action::Uninstall || self.refused.is_empty()
    }

    /// Whether something would change.
    pub(crate) fn changes_something(&self) -> bool {
        self.is_possible() && self.changes.iter().any(Change::is_one)
    }
}

/// What setting an agent up would change.
pub(crate) fn install(agent: Agent, scope: Scope, roots: &Roots, records: &Records) -> Plan {
    let mut plan = Plan::new(Action::Install, agent, scope, roots);
    for target in agent.targets(roots, scope) {
        match installing(&plan, &target, records) {
            Ok(change) => {
                let foreign = target.content.standing(change.after.as_deref()).unwrap_or_default();
                plan.notes.extend(foreign.into_iter().filter_map(|(part, standing)| match standing {
                    Standing::Foreign(what) => {
                        Some(format!("{}: {what}; no {} set up", target.path.display(), part.word()))
                    }
                    _ => None,
                }));
                plan.changes.push(change);
            }
            Err(Refusal(why)) => plan.refused.push((target.path, why)),
        }
    }
    let other = if scope == Scope::User { Scope::Project } else { Scope::User };
    if runs_twice(agent, other, roots) {
        plan.notes.push(twice(other));
    }
    plan
}

/// Whether an agent that runs the same hook as often as it finds it has one in this scope. The others run it once.
pub(super) fn runs_twice(agent: Agent, scope: Scope, roots: &Roots) -> bool {
    let known = scope == Scope::Project || roots.user.codex.is_absolute();
    agent == Agent::Codex && known && look(agent, scope, roots).has(Part::Hooks)
}

/// What to say about it.
pub(super) fn twice(other: Scope) -> String {
    let flag = if other == Scope::Project { " --project" } else { "" };
    format!(
        "Codex runs hooks of the user and of the project, so that each event is recorded twice: \
         `milepost agents uninstall codex{flag}` takes the others back"
    )
}

/// Maximum size of a file of an agent's.
const SETTINGS_LIMIT: u64 = 64 << 20;

/// The file behind links; for a project, only within it: its links may be a stranger's.
fn real_within(path: &Path, project: Option<&PathBuf>) -> Result<PathBuf, Refusal> {
    let real = real(path)?;
    let outside = |project: &PathBuf| {
        let root = fs::canonicalize(project).unwrap_or_else(|_| project.clone());
        !real.starts_with(root)
    };
    match project.is_some_and(outside) {
        true => Err(Refusal::shape("it is a link that leads out of the project")),
        false => Ok(real),
    }
}

fn installing(plan: &Plan, target: &Target, records: &Records) -> Result<Change, Refusal> {
    let real = real_within(&target.path, plan.project.as_ref())?;
    let before = read(&real)?;
    let known = records.of(&real);
    let mut traces = known.map(|known| known.traces.clone()).unwrap_or_default();
    let after = target.content.install(before.as_deref(), &mut traces)?;
    let now = before.as_deref().map(|text| digest(text.as_bytes()));
    // Nobody else has changed it since: what stood there first is what it becomes again.
    let same = known.filter(|known| Some(&known.after) == now.as_ref());
    let clean = match &before {
        Some(text) => target.content.uninstall(text, &traces).is_ok_and(|(left, _)| left == *text),
        None => true,
    };
    let record = Record {
        path: real.clone(),
        agent: plan.agent,
        scope: plan.scope,
        project: plan.project.clone(),
        existed: before.is_some() && known.is_none_or(|known| known.existed),
        after: digest(after.as_bytes()),
        before: match same {
            Some(known) => known.before.clone(),
            None => now.filter(|_| clean),
        },
        backups: known.map(|known| known.backups.clone()).unwrap_or_default(),
        traces,
        folders: known.map(|known| known.folders.clone()).unwrap_or_default(),
    };
    Ok(Change {
        path: target.path.clone(),
        keep: before.is_some() && same.is_none(),
        record: (before.as_deref() != Some(&after)).then_some(record),
        real,
        parts: target.content.parts(),
        before,
        after: Some(after),
        backup: None,
    })
}

/// What taking an agent back would change.
pub(crate) fn uninstall(agent: Agent, scope: Scope, roots: &Roots, records: &Records) -> Plan {
    let mut plan = Plan::new(Action::Uninstall, agent, scope, roots);
    let mut targets = agent.targets(roots, scope);
    // Files that were set up under another name or in another folder than today's.
    let here =
        |record: &&Record| record.agent == agent && record.scope == scope && record.project == plan.project;
    for record in records.all().iter().filter(here) {
        let known = targets.iter().any(|target| real(&target.path).is_ok_and(|path| path == record.path));
        if let (false, Some(content)) = (known, content_of(&targets, &record.path)) {
            targets.push(Target::new(record.path.clone(), content));
        }
    }
    for target in targets {
        match uninstalling(&plan, &target, records) {
            Ok(Some(change)) => plan.changes.push(change),
            Ok(None) => {}
            Err(Refusal(why)) => plan.refused.push((target.path, why)),
        }
    }
    plan
}

/// What is set up in a file, by its name.
fn content_of(targets: &[Target], path: &Path) -> Option<Content> {
    let stem = path.file_stem()?;
    targets.iter().find(|target| target.path.file_stem() == Some(stem)).map(|target| target.content)
}

fn uninstalling(plan: &Plan, target: &Target, records: &Records) -> Result<Option<Change>, Refusal> {
    let real = real_within(&target.path, plan.project.as_ref())?;
    let known = records.of(&real);
    let Some(before) = read(&real)? else { return Ok(None) };
    let untouched = known.filter(|known| known.after == digest(before.as_bytes()));
    let after = match untouched.map(|known| (known, restored(known))) {
        Some((known, _)) if !known.existed => None,
        Some((_, Some(text))) => Some(text),
        _ => {
            let traces = known.map(|known| known.traces.clone()).unwrap_or_default();
            let (left, rest) = target.content.uninstall(&before, &traces)?;
            let stays = matches!(target.content, Content::Settings { .. } | Content::Table)
                && known.is_some_and(|known| known.existed);
            if rest == Rest::Nothing && !stays { None } else { Some(left) }
        }
    };
    // A file of ours that somebody has changed is kept beside its place.
    let edited = matches!(target.content, Content::Whole { text, .. } if after.is_none() && text != before);
    Ok(Some(Change {
        path: target.path.clone(),
        keep: edited && untouched.is_none(),
        record: known.cloned(),
        real,
        parts: target.content.parts(),
        before: Some(before),
        after,
        backup: None,
    }))
}

/// What stood in a file before anything was installed, if it is still known.
fn restored(known: &Record) -> Option<String> {
    let wanted = known.before.as_ref()?;
    let texts = known.backups.iter().filter_map(|path| fs::read_to_string(path).ok());
    texts.into_iter().find(|text| digest(text.as_bytes()) == *wanted)
}

/// A file's text; `None` if it is not there.
pub(super) fn read(path: &Path) -> Result<Option<String>, Refusal> {
    match milepost::fs::bounded::read(path, SETTINGS_LIMIT) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| Refusal::shape("it is not UTF-8 text")),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(e) => Err(Refusal::shape(&format!("it could not be read: {e}"))),
    }
}

/// The file behind links. What is not there yet lies in the folder behind links.
pub(super) fn real(path: &Path) -> Result<PathBuf, Refusal> {
    if let Ok(real) = fs::canonicalize(path) {
        return Ok(real);
    }
    if fs::symlink_metadata(path).is_ok_and(|kind| kind.is_symlink()) {
        return Err(Refusal::shape("it is a link to a file that is not there"));
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !parent.as_os_str().is_empty() => Ok(real(parent)?.join(name)),
        _ => Ok(path.to_owned()),
    }
}
