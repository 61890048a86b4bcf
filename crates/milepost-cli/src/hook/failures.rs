//! What went wrong in hooks, in a small file of the user's: the store may be what failed, and nobody reads a hook's stderr.

use jiff::Timestamp;
use milepost::internal::trust::UserState;
use serde::{Deserialize, Serialize};

use crate::agents::Agent;
use crate::agents::event::HookEvent;
use crate::config;
use crate::error::CommandError;

/// Bytes of the file at most; the newest lines are kept.
const LARGEST: usize = 64 * 1024;
/// Bytes that are read at most: a line may come on top.
const READ_LIMIT: u64 = 4 << 20;

/// One failure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Noted {
    pub(crate) at: Timestamp,
    pub(crate) agent: String,
    pub(crate) event: Option<String>,
    pub(crate) folder: Option<String>,
    pub(crate) message: String,
}

/// Name of the file in the user's state.
const FILE: &str = "hook-failures.jsonl";

fn state() -> Option<UserState> {
    UserState::at(config::state_folder()?).ok()
}

/// Writes one down. Where even that fails there is nobody left to tell.
pub(super) fn note(agent: Agent, event: Option<&HookEvent>, failure: &CommandError) {
    let mut message = failure.to_string();
    let mut cause = std::error::Error::source(failure);
    while let Some(error) = cause {
        message.push_str(&format!(": {error}"));
        cause = error.source();
    }
    let noted = Noted {
        at: milepost::Clock::now(&milepost::SystemClock),
        agent: agent.name.to_owned(),
        event: event.map(|event| event.name.clone()),
        folder: event.and_then(|event| Some(event.cwd.as_ref()?.to_string_lossy().into_owned())),
        message,
    };
    let _ = append(&noted);
}

fn append(noted: &Noted) -> std::io::Result<()> {
    let Some(state) = state() else { return Ok(()) };
    let Ok(line) = serde_json::to_string(noted) else { return Ok(()) };
    let before = state.read_file(FILE, READ_LIMIT).unwrap_or_default();
    if before.len() > LARGEST {
        let text = String::from_utf8_lossy(&before);
        let half = text.len() / 2;
        let rest = text.get(half..).unwrap_or_default().split_once('\n').map_or("", |(_, rest)| rest);
        let file = state.folder().join(FILE);
        milepost::internal::fs::atomic::write(
            &file,
            rest.as_bytes(),
            milepost::internal::fs::atomic::Mode::Private,
        )?;
    }
    state.append(FILE, format!("{line}\n").as_bytes())
}

/// What was written down, oldest first; lines that make no sense are left out.
pub(crate) fn read() -> Vec<Noted> {
    let bytes = state().and_then(|state| state.read_file(FILE, READ_LIMIT).ok()).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Forgets all of them, once somebody was told.
pub(crate) fn forget() {
    if let Some(state) = state() {
        let _ = std::fs::remove_file(state.folder().join(FILE));
    }
}
