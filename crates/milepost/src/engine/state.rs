//! State: the caller's own JSON back, exactly as it was given, to the caller or into a file.

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
    /// The checkpoint that holds it: the one asked for, or the nearest before it in its run.
    pub(crate) entry: CheckpointEntry,
    /// Its exact text.
    pub(crate) state: RawJson,
    /// JSON pointers inside the checkpoint where redaction replaced something in the state.
    pub(crate) redacted: Vec<String>,
    /// Newer checkpoints that are damaged.
    pub(crate) fell_back_from: Vec<Damage>,
}

options! {
    /// How a state is written into a file.
    #[derive(Debug, Clone, Default)]
    pub struct RestoreOptions {
        /// Overwrites a file that holds something else; its content is kept beside it.
        pub(crate) force: bool,
        /// The run the caller works in.
        pub(crate) current_run: Option<RunId>,
        /// Writes another run's state.
        pub(crate) allow_run_mismatch: bool,
    }
}

impl Milepost {
    /// Reads the state as of a checkpoint: its own, or the nearest one before it in its run.
    pub fn state(&self, reference: &Reference, run: Option<&RunId>) -> Result<CheckpointState, Error> {
        let shown = if *reference == Reference::Latest(0) && run.is_none() {
            // The last written run is meant, not whichever run last held a state.
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

    /// The newest state of a run, read into a type of the caller's; `None` if the run has none.
    pub fn state_of<T: DeserializeOwned>(&self, run: &RunId) -> Result<Option<T>, Error> {
        self.newest_state(run)?.as_ref().map(parse_state).transpose()
    }

    /// The newest state of a run as its exact text.
    pub(crate) fn newest_state(&self, run: &RunId) -> Result<Option<RawJson>, Error> {
        match self.state(&Reference::Latest(0), Some(run)) {
            Ok(state) => Ok(Some(state.state)),
            Err(Error::NoState { .. } | Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The checkpoint itself if it holds a state, or else the nearest one before it that does.
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

    /// Writes a state into a file, and nothing else anywhere. Gives the path that the file's earlier content went to.
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
            let why = format!("it is the state of run {run}, and the current run is {current}");
            return Err(refuse(why, "--allow-run-mismatch"));
        }
        let written = |source| Error::File { path: to.to_owned(), what: "written", source };
        // A link is followed, so that the file it names is replaced and the link stays.
        let target = fs::canonicalize(to).unwrap_or_else(|_| to.to_owned());
        let before = match fs::read(&target) {
            Ok(bytes) if bytes == state.state.get().as_bytes() => return Ok(None),
            Ok(bytes) => Some(bytes),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(written(e)),
        };
        let kept = match before {
            Some(_) if !how.force => {
                return Err(refuse("it holds something else".into(), "--force"));
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

/// Reads a state into a type of the caller's.
pub(crate) fn parse_state<T: DeserializeOwned>(state: &RawJson) -> Result<T, Error> {
    serde_json::from_str(state.get())
        .map_err(|e| crate::model::ValidationError { path: "/state".into(), message: e.to_string() }.into())
}

/// The state that a document holds.
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

/// A name beside `path` that nothing has yet.
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
