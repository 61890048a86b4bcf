//! Show: reads one checkpoint and verifies it. `latest` falls back to the newest intact checkpoint and
//! reports the damaged ones that it skipped.

use super::Milepost;
use super::list::is_completed;
use super::lookup::PAGE;
use super::reference::Reference;
use crate::Error;
use crate::model::{Body, RunId};
use crate::seal::{SealError, Verified};
use crate::store::{CheckpointEntry, Damage, HeaderQuery, Row};
use derive_getters::Getters;

/// A verified checkpoint.
#[derive(Getters, Debug, Clone)]
pub struct ShownCheckpoint {
    /// The header and the marks.
    pub(crate) entry: CheckpointEntry,
    /// Whether the checkpoint is completed.
    pub(crate) completed: bool,
    /// The verified document.
    #[getter(skip)]
    pub(crate) verified: Verified,
    /// Newer checkpoints that were skipped because they are damaged, newest first.
    pub(crate) fell_back_from: Vec<Damage>,
}

impl ShownCheckpoint {
    /// The checkpoint's content. Fails for a document of a newer format.
    pub fn body(&self) -> Result<Body, SealError> {
        self.verified.body()
    }

    /// The sealed document, byte for byte.
    pub fn bytes(&self) -> &[u8] {
        self.verified.bytes()
    }

    /// The checksum of its seal.
    pub fn checksum(&self) -> &str {
        self.verified.checksum()
    }
}

impl Milepost {
    /// Reads a checkpoint. Only `latest` and the name of a run fall back to an older intact checkpoint; any
    /// other reference means exactly that checkpoint.
    pub fn show(&self, reference: &Reference, run: Option<&RunId>) -> Result<ShownCheckpoint, Error> {
        if *reference == Reference::Latest(0) {
            return self.newest_intact(run, |_| true);
        }
        if let Some(run) = self.run_of_latest(reference, run)? {
            return self.newest_intact(Some(&run), |_| true);
        }
        let (entry, verified) = self.retry_if_removed(|| {
            let entry = self.find(reference, run)?;
            let verified = self.read(&entry)?;
            Ok((entry, verified))
        })?;
        self.shown(entry, verified, Vec::new())
    }

    /// The newest intact checkpoint that `wanted` accepts. If a listed checkpoint is removed before it is
    /// read, lists again, because newer checkpoints may exist by then.
    pub(super) fn newest_intact(
        &self,
        run: Option<&RunId>,
        wanted: impl Fn(&CheckpointEntry) -> bool,
    ) -> Result<ShownCheckpoint, Error> {
        let (entry, verified, damaged) = self.retry_if_removed(|| self.newest_listed(run, &wanted))?;
        self.shown(entry, verified, damaged)
    }

    /// Returns the newest intact checkpoint that `wanted` accepts, and the newer ones that are damaged. Does
    /// not retry if a checkpoint is removed before it is read.
    fn newest_listed(
        &self,
        run: Option<&RunId>,
        wanted: &dyn Fn(&CheckpointEntry) -> bool,
    ) -> Result<(CheckpointEntry, Verified, Vec<Damage>), Error> {
        let mut damaged = Vec::new();
        // The first row is almost always intact.
        for row in self.rows(HeaderQuery::default().run(run).limit(1), PAGE) {
            match row? {
                Row::Damaged { damage, .. } => damaged.push(damage),
                Row::Intact(entry) if !wanted(&entry) => {}
                Row::Intact(entry) => match self.read(&entry) {
                    Ok(verified) => return Ok((entry, verified, damaged)),
                    Err(Error::Damaged(damage)) => damaged.push(*damage),
                    Err(e) => return Err(e),
                },
            }
        }
        Err(match damaged.into_iter().next() {
            Some(damage) => Error::Damaged(Box::new(damage)),
            None => Error::NotFound { reference: "latest".into() },
        })
    }

    fn shown(
        &self,
        entry: CheckpointEntry,
        verified: Verified,
        fell_back_from: Vec<Damage>,
    ) -> Result<ShownCheckpoint, Error> {
        let record = self.record_of(&entry.header.run_id)?;
        let completed = is_completed(record.as_deref(), &entry);
        Ok(ShownCheckpoint { entry, completed, verified, fell_back_from })
    }
}

/// All sources of a checkpoint in order, then its reasons: those in the body and those that were folded in.
pub fn source_details(entry: &CheckpointEntry) -> Vec<String> {
    let sources = crate::model::Source::NAMES;
    let (mut all, reasons): (Vec<_>, Vec<_>) =
        entry.header.source_details.iter().cloned().partition(|text| sources.contains(&text.as_str()));
    all.extend(entry.marks.sources.iter().cloned());
    all.extend(reasons);
    all.extend(entry.marks.reasons.iter().filter(|r| !entry.header.source_details.contains(r)).cloned());
    all
}
