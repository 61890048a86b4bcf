//! Records failed hooks in a small file in the user's state folder, because the store itself may have failed
//! and users rarely see a hook's stderr. Each failure belongs to a project and is shown only there.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use milepost::internal::error_chain;
use milepost::internal::fs::atomic;
use milepost::internal::trust::UserState;
use serde::{Deserialize, Serialize};

use crate::agents::Agent;
use crate::config;
use crate::error::CommandError;

/// Size above which the older half of the file is dropped.
const SIZE_LIMIT: usize = 64 * 1024;
/// Maximum number of bytes to read. It is larger than `SIZE_LIMIT`, because a single line may exceed that.
const READ_LIMIT: u64 = 4 << 20;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HookFailure {
    pub(crate) at: Timestamp,
    pub(crate) agent: String,
    pub(crate) event: Option<String>,
    pub(crate) folder: Option<String>,
    /// What identifies the project; `None` in entries of earlier versions.
    #[serde(default)]
    pub(crate) project: Option<String>,
    pub(crate) message: String,
}

/// Name of the file in the user's state folder.
const FILE: &str = "hook-failures.jsonl";

fn state() -> Option<UserState> {
    UserState::at(config::state_folder()?).ok()
}

/// What is known about an event that could not be handled.
#[derive(Debug, Default)]
pub(super) struct EventOrigin {
    pub(super) name: Option<String>,
    pub(super) cwd: Option<PathBuf>,
}

/// Records a failure. Errors are ignored, because there is no other place to report them.
pub(super) fn record(agent: Agent, origin: EventOrigin, error: &CommandError) {
    let failure = HookFailure {
        at: milepost::Clock::now(&milepost::internal::clock::SystemClock),
        agent: agent.name.to_owned(),
        event: origin.name,
        folder: origin.cwd.map(|folder| folder.to_string_lossy().into_owned()),
        // The hook has changed to the event's folder, or was started in the project.
        project: config::current_project().map(|project| project.to_string_lossy().into_owned()),
        message: error_chain(error),
    };
    let _ = append(&failure);
}

fn append(failure: &HookFailure) -> std::io::Result<()> {
    let Some(state) = state() else { return Ok(()) };
    let Ok(line) = serde_json::to_string(failure) else { return Ok(()) };
    let before = state.read_file(FILE, READ_LIMIT).unwrap_or_default();
    if before.len() > SIZE_LIMIT {
        let text = String::from_utf8_lossy(&before);
        let half = text.len() / 2;
        let rest = text.get(half..).unwrap_or_default().split_once('\n').map_or("", |(_, rest)| rest);
        atomic::write(&state.folder().join(FILE), rest.as_bytes(), atomic::Mode::Private)?;
    }
    state.append(FILE, format!("{line}\n").as_bytes())
}

/// The recorded failures of a project, oldest first; lines that cannot be parsed are skipped.
pub(crate) fn read(project: &Path) -> Vec<HookFailure> {
    let mut failures = read_all();
    failures.retain(|failure| failure.is_of(project));
    failures
}

fn read_all() -> Vec<HookFailure> {
    let bytes = state().and_then(|state| state.read_file(FILE, READ_LIMIT).ok()).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Removes the record of a project's failures.
pub(crate) fn clear(project: &Path) {
    let Some(state) = state() else { return };
    let others = read_all().into_iter().filter(|failure| !failure.is_of(project));
    let lines: Vec<_> = others.filter_map(|failure| serde_json::to_string(&failure).ok()).collect();
    let path = state.folder().join(FILE);
    // If this fails, the failures are shown again.
    let _ = match lines.is_empty() {
        true => std::fs::remove_file(path),
        false => {
            let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
            atomic::write(&path, text.as_bytes(), atomic::Mode::Private)
        }
    };
}

impl HookFailure {
    fn is_of(&self, project: &Path) -> bool {
        match (&self.project, &self.folder) {
            (Some(own), _) => Path::new(own) == project,
            // `project` is a git directory, or the project's own folder.
            (None, Some(folder)) => {
                let root =
                    if project.ends_with(".git") { project.parent().unwrap_or(project) } else { project };
                Path::new(folder).starts_with(root)
            }
            (None, None) => false,
        }
    }
}
