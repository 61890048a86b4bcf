//! Copy: copies the contents of files and the values of threads to another store. Contents of files in which
//! secrets are found stay, unless the settings allow them to leave.

use std::collections::BTreeSet;

use super::Milepost;
use super::collect::chunks_of;
use super::lookup::PAGE;
use super::transfer::CopyReport;
use crate::Error;
use crate::model::{BlobId, RunId};
use crate::seal::Header;
use crate::snapshot::manifest;
use crate::store::{CheckpointEntry, Commit, HeaderQuery, RunQuery, Store, StoreError, WriteDecision};

/// Contents are passed on when this many bytes have been read.
const BATCH: usize = 8 << 20;

/// Passes contents on.
type SendContents<'a> = dyn FnMut(&[&[u8]]) -> Result<(), StoreError> + 'a;

impl Milepost {
    /// Copies the files of all checkpoints, and the newest snapshot of each worktree.
    pub(super) fn copy_files(&self, to: &Milepost, report: &mut CopyReport) -> Result<(), Error> {
        let runs = self.store.runs(&RunQuery::default())?;
        let roots = self.store.blob_roots()?;
        let mut manifests: BTreeSet<BlobId> = roots.iter().map(|(_, id)| *id).collect();
        let mut threads = Vec::new();
        for run in &runs {
            for row in self.rows(HeaderQuery::default().run(&run.run_id), PAGE) {
                let Some(entry) = row?.intact() else { continue };
                threads.extend(checkpoint_with_chunks(&entry.header));
                manifests.extend(entry.header.manifests);
            }
        }
        self.send_values(&threads, &mut |contents| to.store.put_blobs(contents), Some(&*to.store))?;
        if manifests.is_empty() {
            return Ok(());
        }
        let mut wanted = BTreeSet::new();
        let mut seen = BTreeSet::new();
        for id in manifests {
            self.add_references(id, &mut seen, &mut wanted)?;
        }
        self.send_contents(&seen, &mut |contents| to.store.put_blobs(contents), None)?;
        let missing = to.store.missing_blobs(&wanted.into_iter().collect::<Vec<_>>())?;
        self.send_contents(
            &missing.into_iter().collect(),
            &mut |contents| to.store.put_blobs(contents),
            Some(report),
        )?;
        // A root of the other store is newer than a copy.
        let known = to.store.blob_roots()?;
        let new: Vec<_> =
            roots.into_iter().filter(|(name, _)| !known.iter().any(|(known, _)| known == name)).collect();
        let Some(run) = runs.first().filter(|_| !new.is_empty()) else { return Ok(()) };
        to.write(&run.run_id, &mut |view| {
            let Some(record) = &view.record else { return WriteDecision::NoChange };
            let mut commit = Commit::new(record.clone());
            commit.roots.clone_from(&new);
            WriteDecision::Commit(Box::new(commit))
        })?;
        Ok(())
    }

    /// Passes the values of checkpoints of threads on, except for those that a store already has.
    fn send_values(
        &self,
        checkpoints: &[(RunId, u64)],
        send: &mut SendContents<'_>,
        known: Option<&dyn Store>,
    ) -> Result<(), Error> {
        let mut sent = BTreeSet::new();
        for batch in checkpoints.chunks(PAGE) {
            let mut wanted = BTreeSet::new();
            for (run, sequence) in batch {
                wanted.extend(chunks_of(&*self.store, run, *sequence)?);
            }
            wanted.retain(|id| sent.insert(*id));
            if let Some(known) = known {
                let missing = known.missing_blobs(&wanted.iter().copied().collect::<Vec<_>>())?;
                wanted = missing.into_iter().collect();
            }
            self.send_contents(&wanted, send, None)?;
        }
        Ok(())
    }

    /// Adds a manifest, those that it is based on, and the contents that they list.
    pub(super) fn add_references(
        &self,
        manifest: BlobId,
        manifests: &mut BTreeSet<BlobId>,
        contents: &mut BTreeSet<BlobId>,
    ) -> Result<(), Error> {
        let mut next = Some(manifest);
        while let Some(id) = next.take().filter(|id| !manifests.contains(id)) {
            let bytes = match self.store.blob(&id) {
                Ok(bytes) => bytes,
                // `verify` reports it.
                Err(StoreError::NoBlob(_) | StoreError::Damaged(_)) => break,
                Err(e) => return Err(e.into()),
            };
            let Ok(part) = manifest::parse(&bytes) else { break };
            manifests.insert(id);
            contents.extend(part.contents());
            next = part.header.base;
        }
        Ok(())
    }

    /// Reads contents and passes them on in batches. With a report, omits contents with secrets.
    pub(super) fn send_contents(
        &self,
        ids: &BTreeSet<BlobId>,
        send: &mut SendContents<'_>,
        mut report: Option<&mut CopyReport>,
    ) -> Result<(), Error> {
        let (mut batch, mut size) = (Vec::new(), 0);
        let mut flush = |batch: &mut Vec<Vec<u8>>| {
            let contents: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
            let sent = if contents.is_empty() { Ok(()) } else { send(&contents) };
            batch.clear();
            sent
        };
        for id in ids {
            let bytes = match self.store.blob(id) {
                Ok(bytes) => bytes,
                Err(StoreError::NoBlob(_) | StoreError::Damaged(_)) => continue,
                Err(e) => return Err(e.into()),
            };
            if let Some(report) = &mut report {
                if self.keeps_at_home(&bytes) {
                    report.files_with_secrets += 1;
                    continue;
                }
                report.files += 1;
            }
            size += bytes.len();
            batch.push(bytes);
            if size >= BATCH {
                flush(&mut batch)?;
                size = 0;
            }
        }
        Ok(flush(&mut batch)?)
    }

    /// Whether a content must not leave the store, because it contains secrets.
    pub(super) fn keeps_at_home(&self, bytes: &[u8]) -> bool {
        let text = String::from_utf8_lossy(bytes);
        !self.settings.files_with_secrets && self.settings.redaction_allow.redact_text(&text).is_some()
    }

    /// The manifests of a run or of one checkpoint, and the contents that they list.
    pub(super) fn files_of_run(
        &self,
        run: &RunId,
        only: Option<&CheckpointEntry>,
    ) -> Result<BundledFiles, Error> {
        let (mut manifests, mut listed) = (BTreeSet::new(), BTreeSet::new());
        let mut roots = Vec::new();
        self.each_header(run, only, &mut |header| roots.extend(&header.manifests))?;
        for id in roots {
            self.add_references(id, &mut manifests, &mut listed)?;
        }
        let mut report = CopyReport::default();
        let mut contents: Vec<Vec<u8>> = Vec::new();
        let mut keep = |batch: &[&[u8]]| {
            contents.extend(batch.iter().map(|bytes| bytes.to_vec()));
            Ok(())
        };
        self.send_contents(&manifests, &mut keep, None)?;
        self.send_contents(&listed, &mut keep, Some(&mut report))?;
        Ok(BundledFiles { contents, with_secrets: report.files_with_secrets })
    }

    /// The blobs that the values of a run or of one checkpoint refer to.
    pub(super) fn values_of_run(
        &self,
        run: &RunId,
        only: Option<&CheckpointEntry>,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let (mut threads, mut contents) = (Vec::new(), Vec::new());
        self.each_header(run, only, &mut |header| threads.extend(checkpoint_with_chunks(header)))?;
        let mut keep = |batch: &[&[u8]]| {
            contents.extend(batch.iter().map(|bytes| bytes.to_vec()));
            Ok(())
        };
        self.send_values(&threads, &mut keep, None)?;
        Ok(contents)
    }

    /// Passes the header of one checkpoint, or of all intact ones of a run.
    fn each_header(
        &self,
        run: &RunId,
        only: Option<&CheckpointEntry>,
        pass: &mut dyn FnMut(&Header),
    ) -> Result<(), Error> {
        if let Some(entry) = only {
            pass(&entry.header);
            return Ok(());
        }
        for row in self.rows(HeaderQuery::default().run(run), PAGE) {
            row?.intact().iter().for_each(|entry| pass(&entry.header));
        }
        Ok(())
    }
}

/// The run and the number of a checkpoint of a thread whose values refer to blobs.
fn checkpoint_with_chunks(header: &Header) -> Option<(RunId, u64)> {
    let position = header.thread.as_ref()?;
    (position.chunks > 0).then(|| (header.run_id.clone(), header.sequence))
}

/// The files of a run in a bundle.
pub(super) struct BundledFiles {
    pub(super) contents: Vec<Vec<u8>>,
    /// Number of contents that were left out because they contain secrets.
    pub(super) with_secrets: u64,
}
