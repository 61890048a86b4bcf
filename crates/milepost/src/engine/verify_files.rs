//! Verify: reads the contents of files and the values of threads and compares them with their hashes. Names each
//! damaged or missing content, and the files and checkpoints that have it. Changes nothing.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::Milepost;
use super::collect::chunks_of;
use super::lookup::PAGE;
use super::verify::{DamagedFile, VerifyReport};
use crate::Error;
use crate::model::{BlobId, RunId};
use crate::snapshot::{FileContent, Manifest};
use crate::store::{CheckpointEntry, HeaderQuery, Row, RunQuery, StoreError};

/// Maximum number of affected files to name per content.
const NAMED: usize = 20;
/// Number of contents to list at a time.
const LISTED: usize = 1000;

impl Milepost {
    /// Verifies the contents of these checkpoints, or of the whole store.
    pub(super) fn verify_files(
        &self,
        entries: Option<Vec<CheckpointEntry>>,
        report: &mut VerifyReport,
    ) -> Result<(), Error> {
        let is_store = entries.is_none();
        let entries = match entries {
            Some(entries) => entries,
            None => self.all_entries()?,
        };
        let mut problems: BTreeMap<BlobId, String> = BTreeMap::new();
        let evicted =
            if is_store { self.verify_all_contents(&mut problems)? } else { self.evicted_contents()? };
        let mut checked = HashSet::new();
        let mut values_checked = HashMap::new();
        let mut affected: BTreeMap<BlobId, Vec<(String, String)>> = BTreeMap::new();
        for entry in &entries {
            if entry.header.manifests.is_empty() && entry.header.thread.is_none() {
                continue;
            }
            let name = format!("{}@{}", entry.header.run_id, entry.header.sequence);
            if entry.header.thread.is_some() {
                for (blob, problem) in self.verify_values(entry, &mut values_checked)? {
                    problems.insert(blob, problem);
                    affected.entry(blob).or_default().push((name.clone(), "a value".to_owned()));
                }
            }
            let is_foreign = self.is_foreign(&entry.header.run_id)?;
            for id in &entry.header.manifests {
                let manifest = match self.manifest(id) {
                    Ok(manifest) => manifest,
                    Err(Error::Store(StoreError::NoBlob(_))) if is_foreign => continue,
                    Err(Error::Store(e @ (StoreError::Damaged(_) | StoreError::NoBlob(_)))) => {
                        problems.entry(*id).or_insert_with(|| e.to_string());
                        affected.entry(*id).or_default().push((name.clone(), "all files".to_owned()));
                        continue;
                    }
                    Err(e) => return Err(e),
                };
                if !is_store {
                    self.verify_contents(&manifest, &mut checked, &mut problems, report)?;
                }
                for (path, content) in contents(&manifest) {
                    let is_missing = || !is_foreign && !evicted.contains(&content);
                    if let Some(problem) =
                        self.missing(&content, &mut checked, is_store)?.filter(|_| is_missing())
                    {
                        problems.entry(content).or_insert(problem);
                    }
                    if problems.contains_key(&content) {
                        let path = String::from_utf8_lossy(path).into_owned();
                        affected.entry(content).or_default().push((name.clone(), path));
                    }
                }
            }
        }
        if is_store {
            report.files_checked = checked.iter().filter(|id| !evicted.contains(id)).count() as u64;
        }
        for (blob, problem) in problems {
            let mut affected = affected.remove(&blob).unwrap_or_default();
            affected.sort();
            affected.dedup();
            let affected_count = affected.len() as u64;
            affected.truncate(NAMED);
            report.damaged_files.push(DamagedFile { blob, problem, affected, affected_count });
        }
        Ok(())
    }

    /// Reads every content of the store. Returns the evicted ones.
    fn verify_all_contents(&self, problems: &mut BTreeMap<BlobId, String>) -> Result<HashSet<BlobId>, Error> {
        let mut evicted = HashSet::new();
        let mut after = None;
        loop {
            let page = self.store.blobs(after.as_ref(), LISTED)?;
            after = page.last().map(|blob| blob.id);
            for blob in &page {
                if blob.evicted {
                    evicted.insert(blob.id);
                    continue;
                }
                match self.store.blob(&blob.id) {
                    // It may have been collected since it was listed.
                    Ok(_) | Err(StoreError::NoBlob(_)) => {}
                    Err(e @ StoreError::Damaged(_)) => drop(problems.insert(blob.id, e.to_string())),
                    Err(e) => return Err(e.into()),
                }
            }
            if page.len() < LISTED {
                return Ok(evicted);
            }
        }
    }

    fn evicted_contents(&self) -> Result<HashSet<BlobId>, Error> {
        let blobs = self.store.blobs(None, 0)?;
        Ok(blobs.into_iter().filter(|blob| blob.evicted).map(|blob| blob.id).collect())
    }

    /// Reads the contents of one manifest.
    fn verify_contents(
        &self,
        manifest: &Manifest,
        checked: &mut HashSet<BlobId>,
        problems: &mut BTreeMap<BlobId, String>,
        report: &mut VerifyReport,
    ) -> Result<(), Error> {
        for (_, content) in contents(manifest) {
            if !checked.insert(content) {
                continue;
            }
            match self.store.blob(&content) {
                Ok(_) => report.files_checked += 1,
                Err(StoreError::NoBlob(_)) => drop(checked.remove(&content)),
                Err(e @ StoreError::Damaged(_)) => drop(problems.insert(content, e.to_string())),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Verifies the values of one checkpoint of a thread. Returns the damaged and missing blobs. Each one is read once.
    fn verify_values(
        &self,
        entry: &CheckpointEntry,
        checked: &mut HashMap<BlobId, Option<String>>,
    ) -> Result<Vec<(BlobId, String)>, Error> {
        let mut problems = Vec::new();
        // A damaged document is reported by itself.
        let chunks = chunks_of(&*self.store, &entry.header.run_id, entry.header.sequence)?;
        for chunk in chunks {
            let problem = match checked.get(&chunk) {
                Some(problem) => problem.clone(),
                None => {
                    let problem = match self.store.blob(&chunk) {
                        Ok(_) => None,
                        Err(e @ (StoreError::NoBlob(_) | StoreError::Damaged(_))) => Some(e.to_string()),
                        Err(e) => return Err(e.into()),
                    };
                    checked.insert(chunk, problem.clone());
                    problem
                }
            };
            problems.extend(problem.map(|problem| (chunk, problem)));
        }
        Ok(problems)
    }

    /// Says that a content is missing, if it is. Checks each content once.
    fn missing(
        &self,
        content: &BlobId,
        checked: &mut HashSet<BlobId>,
        is_store: bool,
    ) -> Result<Option<String>, Error> {
        if is_store && !checked.insert(*content) || !is_store && checked.contains(content) {
            return Ok(None);
        }
        let is_missing = !self.store.missing_blobs(&[*content])?.is_empty();
        Ok(is_missing.then(|| StoreError::NoBlob(*content).to_string()))
    }

    fn is_foreign(&self, run: &RunId) -> Result<bool, Error> {
        Ok(self.record_of(run)?.is_some_and(|record| record.is_foreign()))
    }

    fn all_entries(&self) -> Result<Vec<CheckpointEntry>, Error> {
        let mut entries = Vec::new();
        for run in self.store.runs(&RunQuery::default())? {
            let rows = self.rows(HeaderQuery::default().run(&run.run_id), PAGE);
            entries.extend(rows.filter_map(|row| row.ok().and_then(Row::intact)));
        }
        Ok(entries)
    }
}

/// The paths of a manifest and their contents.
fn contents(manifest: &Manifest) -> impl Iterator<Item = (&Vec<u8>, BlobId)> {
    manifest.entries.iter().flat_map(|(path, entry)| {
        let contents = [&entry.now, &entry.was].into_iter().filter_map(FileContent::blob);
        contents.map(move |content| (path, content))
    })
}
