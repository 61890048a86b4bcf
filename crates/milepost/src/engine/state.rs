//! State: returns the caller's JSON exactly as it was saved, or writes it into a file.

use derive_getters::Getters;
use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use super::Milepost;
use super::document::newer;
use super::lookup::PAGE;
use super::reference::Reference;
use crate::Error;
use crate::fs::atomic;
use crate::model::{RawJson, RunId};
use crate::seal::Verified;
use crate::store::{CheckpointEntry, Cursor, Damage, HeaderQuery, Row};

/// The state of a run as of a checkpoint.
#[derive(Getters, Debug, Clone)]
pub struct CheckpointState {
    /// The checkpoint that contains it: the requested one, or the nearest earlier one in its run.
    pub(crate) entry: CheckpointEntry,
    /// The exact text of the state.
    pub(crate) state: RawJson,
    /// JSON pointers into the checkpoint to the parts of the state that redaction replaced.
    pub(crate) redacted: Vec<String>,
    /// Newer checkpoints that were skipped because they are damaged.
    pub(crate) fell_back_from: Vec<Damage>,
}

options! {
    /// Options for writing a state into a file.
    #[derive(Debug, Clone, Default)]
    pub struct RestoreOptions {
        /// Overwrites a file with different content; the previous content is saved next to it.
        pub(crate) force: bool,
        /// The run that the caller works in.
        pub(crate) current_run: Option<RunId>,
        /// Allows writing the state of a run other than `current_run`.
        pub(crate) allow_run_mismatch: bool,
    }
}

impl Milepost {
    /// Reads the state as of a checkpoint: its own, or the nearest earlier one in its run.
    pub fn state(&self, reference: &Reference, run: Option<&RunId>) -> Result<CheckpointState, Error> {
        let shown = if *reference == Reference::Latest(0) && run.is_none() {
            // Use the most recently written run, not the run that most recently saved a state.
            let newest = self.locate(reference, None)?;
            let of = match newest {
                Row::Intact(entry) => Some(entry.header.run_id),
                Row::Damaged { damage, .. } => damage.run_id,
            };
            self.newest_intact(of.as_ref(), |entry| entry.header.holds_state)
        } else if *reference == Reference::Latest(0) {
            self.newest_intact(run, |entry| entry.header.holds_state)
        } else {
            let (entry, verified) = self.retry_if_removed(|| {
                let entry = self.holder(self.find(reference, run)?)?;
                let verified = self.read(&entry)?;
                Ok((entry, verified))
            })?;
            return state_in(entry, &verified, Vec::new());
        };
        match shown {
            Ok(shown) => state_in(shown.entry, &shown.verified, shown.fell_back_from),
            Err(Error::NotFound { reference }) => Err(Error::NoState { reference }),
            Err(e) => Err(e),
        }
    }

    /// The newest state of a run, deserialised into the caller's type; `None` if the run has none.
    pub fn state_of<T: DeserializeOwned>(&self, run: &RunId) -> Result<Option<T>, Error> {
        self.newest_state(run)?.as_ref().map(parse_state).transpose()
    }

    /// The exact text of the newest state of a run.
    pub(crate) fn newest_state(&self, run: &RunId) -> Result<Option<RawJson>, Error> {
        match self.state(&Reference::Latest(0), Some(run)) {
            Ok(state) => Ok(Some(state.state)),
            Err(Error::NoState { .. } | Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The checkpoint itself if it has a state, otherwise the nearest earlier one that has.
    fn holder(&self, entry: CheckpointEntry) -> Result<CheckpointEntry, Error> {
        let through = Cursor { sequence: entry.header.sequence.saturating_add(1), stamp: u64::MAX };
        let query = HeaderQuery::default().run(&entry.header.run_id).after(through);
        for row in self.rows(query, PAGE) {
            if let Row::Intact(found) = row?
                && found.header.holds_state
            {
                return Ok(found);
            }
        }
        Err(Error::NoState { reference: entry.header.snapshot_id.to_string() })
    }

    /// Writes a state into a file and changes nothing else. Returns the path where the previous content was
    /// saved.
    pub fn restore(
        &self,
        state: &CheckpointState,
        to: &Path,
        how: &RestoreOptions,
    ) -> Result<Option<PathBuf>, Error> {
        let refuse = |why: String, flag| Error::RestoreRefused { path: to.to_owned(), why, flag };
        let run = &state.entry.header.run_id;
        if let Some(current) = how.current_run.as_ref().filter(|current| *current != run)
            && !how.allow_run_mismatch
        {
            let why = format!("the state belongs to run {run}, but the current run is {current}");
            return Err(refuse(why, "--allow-run-mismatch"));
        }
        let written = |source| Error::File { path: to.to_owned(), what: "written", source };
        // Follow a symbolic link, so that its target is replaced and the link stays.
        let target = crate::fs::canonicalize(to).unwrap_or_else(|_| to.to_owned());
        let before = match fs::read(&target) {
            Ok(bytes) if bytes == state.state.get().as_bytes() => return Ok(None),
            Ok(bytes) => Some(bytes),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(written(e)),
        };
        let kept = match before {
            Some(_) if !how.force => {
                return Err(refuse("it has different content".into(), "--force"));
            }
            Some(bytes) => {
                let kept = beside(&target, self.now());
                atomic::write(&kept, &bytes, atomic::Mode::Private).map_err(written)?;
                Some(kept)
            }
            None => None,
        };
        let mode = fs::metadata(&target).map(|m| m.permissions()).ok();
        atomic::write(&target, state.state.get().as_bytes(), atomic::Mode::Private).map_err(written)?;
        if let Some(mode) = mode {
            fs::set_permissions(&target, mode).map_err(written)?;
        }
        Ok(kept)
    }
}

/// Deserialises a state into the caller's type.
pub(crate) fn parse_state<T: DeserializeOwned>(state: &RawJson) -> Result<T, Error> {
    serde_json::from_str(state.get())
        .map_err(|e| crate::model::ValidationError { path: "/state".into(), message: e.to_string() }.into())
}

/// The state in a document.
fn state_in(
    entry: CheckpointEntry,
    verified: &Verified,
    fell_back_from: Vec<Damage>,
) -> Result<CheckpointState, Error> {
    let mut fields = verified.fields().map_err(|e| newer(&entry.header, e))?;
    let body = verified.body().map_err(|e| newer(&entry.header, e))?;
    let redacted = body.redacted.unwrap_or_default().pointers;
    Ok(CheckpointState {
        state: fields.take("state").unwrap_or_default(),
        redacted: redacted.into_iter().filter(|p| p == "/state" || p.starts_with("/state/")).collect(),
        fell_back_from,
        entry,
    })
}

/// An unused file name next to `path`.
fn beside(path: &Path, now: jiff::Timestamp) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let time = now.strftime("%Y%m%dT%H%M%S%3fZ");
    (0..)
        .map(|n| {
            let suffix = if n == 0 { String::new() } else { format!(".{n}") };
            path.with_file_name(format!("{name}.before-{time}{suffix}"))
        })
        .find(|candidate| !candidate.exists())
        .unwrap_or_else(|| path.with_extension("before"))
}
