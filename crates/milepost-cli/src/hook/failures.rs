//! What went wrong in hooks, in a small file of the user's: the store may be what failed, and nobody reads a hook's stderr.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::event::HookEvent;
use crate::agents::Agent;
use crate::config;
use crate::failure::Failure;

/// Bytes of the file at most; the newest lines are kept.
const LARGEST: u64 = 64 * 1024;

/// One failure.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Noted {
    pub(crate) at: Timestamp,
    pub(crate) agent: String,
    pub(crate) event: Option<String>,
    pub(crate) folder: Option<String>,
    pub(crate) message: String,
}

fn file() -> Option<PathBuf> {
    config::state_folder().map(|folder| folder.join("hook-failures.jsonl"))
}

/// Writes one down. Where even that fails there is nobody left to tell.
pub(super) fn note(agent: Agent, event: Option<&HookEvent>, failure: &Failure) {
    let mut message = failure.to_string();
    let mut cause = std::error::Error::source(failure);
    while let Some(error) = cause {
        message.push_str(&format!(": {error}"));
        cause = error.source();
    }
    let noted = Noted {
        at: milepost::clock::Clock::now(&milepost::clock::SystemClock),
        agent: agent.name().to_owned(),
        event: event.map(|event| event.name.clone()),
        folder: event.and_then(|event| Some(event.cwd.as_ref()?.to_string_lossy().into_owned())),
        message,
    };
    let _ = append(&noted);
}

fn append(noted: &Noted) -> std::io::Result<()> {
    let Some(file) = file() else { return Ok(()) };
    let Ok(line) = serde_json::to_string(noted) else { return Ok(()) };
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    if fs::metadata(&file).is_ok_and(|meta| meta.len() > LARGEST) {
        let text = fs::read_to_string(&file)?;
        let half = text.len() / 2;
        let rest = text.get(half..).unwrap_or_default().split_once('\n').map_or("", |(_, rest)| rest);
        milepost::atomic::write(&file, rest.as_bytes(), milepost::atomic::Mode::Private)?;
    }
    let mut open = fs::OpenOptions::new().create(true).append(true).open(&file)?;
    open.write_all(format!("{line}\n").as_bytes())
}

/// What was written down, oldest first; lines that make no sense are left out.
pub(crate) fn read() -> Vec<Noted> {
    let text = file().and_then(|file| fs::read_to_string(file).ok()).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Forgets all of them, once somebody was told.
pub(crate) fn forget() {
    if let Some(file) = file() {
        let _ = fs::remove_file(file);
    }
}
