//! Collect: removes the contents of files and the values of threads that no checkpoint, pending item or newest
//! snapshot refers to, and evicts the contents of the oldest snapshots if all of them together exceed a limit.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;

use super::Milepost;
use super::lookup::PAGE;
use super::restore::UNDO_POINTS;
use crate::Error;
use crate::model::{BlobId, CheckpointId, FileRef, Item, RunId, RunRecord};
use crate::seal::{self, Header, SealError};
use crate::snapshot::manifest::{self, ManifestHeader, SeriesId, UNDO_PREFIX};
use crate::store::{CollectReport, Damage, HeaderQuery, LiveBlobs, Part, Row, RunQuery, Store, StoreError};
use crate::threads::table;

/// One manifest: its base, its series, and the contents of each path that it lists.
pub(super) struct Parsed {
    base: Option<BlobId>,
    series: SeriesId,
    pub(super) paths: Vec<(Vec<u8>, [Option<BlobId>; 2])>,
}

/// The blobs that manifests and checkpoints of threads refer to, each of them parsed once.
#[derive(Default)]
pub(super) struct References {
    parsed: HashMap<BlobId, Parsed>,
    /// The checkpoints of threads that were read, and all chunks of their values.
    threads: HashSet<CheckpointId>,
    chunks: HashSet<BlobId>,
}

impl References {
    /// Parses a manifest; returns `None` if it is missing or damaged.
    pub(super) fn of(&mut self, store: &dyn Store, id: &BlobId) -> Result<Option<&Parsed>, StoreError> {
        if !self.parsed.contains_key(id) {
            let bytes = match store.blob(id) {
                Ok(bytes) => bytes,
                Err(StoreError::NoBlob(_) | StoreError::Damaged(_)) => return Ok(None),
                Err(e) => return Err(e),
            };
            // A newer program may have written it. Without knowing what it refers to, nothing can be removed.
            let part = manifest::parse(&bytes).map_err(|why| {
                StoreError::from(Damage::integrity(Part::Blob, "a manifest", format!("{id}: {why}")))
            })?;
            let paths = part.entries.into_iter();
            let paths = paths.map(|(path, entry)| (path, [entry.now.blob(), entry.was.blob()])).collect();
            let ManifestHeader { base, series, .. } = part.header;
            self.parsed.insert(*id, Parsed { base, series, paths });
        }
        Ok(self.parsed.get(id))
    }

    /// Adds the chunks of the values of threads. Skips checkpoints that were removed or are damaged.
    fn add_threads(
        &mut self,
        store: &dyn Store,
        checkpoints: &[(CheckpointId, RunId, u64)],
    ) -> Result<(), StoreError> {
        for (id, run, sequence) in checkpoints {
            if !self.threads.contains(id) {
                self.chunks.extend(chunks_of(store, run, *sequence)?);
                self.threads.insert(id.clone());
            }
        }
        Ok(())
    }

    /// The series of a manifest.
    fn series(&mut self, store: &dyn Store, id: &BlobId) -> Result<Option<SeriesId>, StoreError> {
        Ok(self.of(store, id)?.map(|parsed| parsed.series.clone()))
    }

    /// Every manifest that something refers to, and those that they are based on.
    pub(super) fn all(&mut self, store: &dyn Store, roots: &Roots) -> Result<HashSet<BlobId>, StoreError> {
        let named = roots.checkpoints.iter().map(|(_, id)| id);
        let named = named.chain(roots.pending.iter().map(|(_, id)| id));
        let named = named.chain(roots.series.iter().map(|(_, id)| id));
        let mut all = HashSet::new();
        for id in named {
            let mut next = Some(*id);
            while let Some(id) = next.filter(|id| all.insert(*id)) {
                next = self.of(store, &id)?.and_then(|parsed| parsed.base);
            }
        }
        Ok(all)
    }

    /// Adds a manifest, those that it is based on, and the contents that it lists. `live` are manifests that
    /// are added by themselves: what they list need not be added again.
    fn add(
        &mut self,
        store: &dyn Store,
        id: &BlobId,
        live: &HashSet<BlobId>,
        manifests: &mut HashSet<BlobId>,
        contents: &mut HashSet<BlobId>,
    ) -> Result<(), StoreError> {
        let mut seen: HashSet<Vec<u8>> = HashSet::new();
        let mut next = Some(*id);
        let mut is_base = false;
        while let Some(id) = next {
            manifests.insert(id);
            if is_base && live.contains(&id) {
                break;
            }
            let Some(parsed) = self.of(store, &id)? else { break };
            next = parsed.base;
            for (path, blobs) in &parsed.paths {
                // A manifest replaces what its base says about a path.
                if (next.is_none() && !is_base) || seen.insert(path.clone()) {
                    contents.extend(blobs.iter().flatten());
                }
            }
            is_base = true;
        }
        Ok(())
    }
}

/// What keeps blobs: the manifests of checkpoints in the order of their stamps, and everything else.
#[derive(Default)]
pub(super) struct Roots {
    /// The manifests of checkpoints, with their stamps.
    checkpoints: Vec<(u64, BlobId)>,
    /// Manifests of restore points that no checkpoint contains yet, with their times.
    pending: Vec<(Timestamp, BlobId)>,
    /// Contents that pending items refer to, with the paths of their files.
    pub(super) contents: Vec<(String, BlobId)>,
    /// Values of attachments, which are never evicted.
    pub(super) attached: Vec<BlobId>,
    /// The checkpoints of threads whose values refer to blobs, which are never evicted.
    threads: Vec<(CheckpointId, RunId, u64)>,
    /// The newest manifest of each series, and what undo points need.
    series: Vec<(String, BlobId)>,
}

impl Roots {
    pub(super) fn read(store: &dyn Store) -> Result<Self, StoreError> {
        let mut roots = Self { series: store.blob_roots()?, ..Self::default() };
        for row in store.runs(&RunQuery::default())? {
            let Some(stored) = store.run(&row.run_id)? else { continue };
            for item in &stored.items {
                match item {
                    Item::File(file) => roots.contents.extend(content_of(file)),
                    Item::RestorePoint(point) => roots.pending.push((point.at, point.manifest)),
                    _ => {}
                }
            }
            if let Ok(record) = &stored.row.record {
                roots.add_record(record);
            }
            let attached = store.attachments(&row.run_id, None)?;
            roots.attached.extend(attached.iter().flatten().filter_map(|one| one.blob()));
            let mut after = None;
            loop {
                let query = HeaderQuery { after, ..HeaderQuery::default().run(&row.run_id).limit(PAGE) };
                let page = store.headers(&query)?;
                after = page.last().map(Row::cursor);
                let is_last = page.len() < PAGE;
                for listed in page {
                    let entry = match listed {
                        Row::Intact(entry) => entry,
                        // What a damaged row refers to is not known, so nothing can be removed.
                        Row::Damaged { damage, .. } => return Err(damage.into()),
                    };
                    let stamp = entry.header.stamp;
                    roots.checkpoints.extend(entry.header.manifests.iter().map(|id| (stamp, *id)));
                    let Header { snapshot_id, sequence, thread, .. } = entry.header;
                    if thread.is_some_and(|position| position.chunks > 0) {
                        roots.threads.push((snapshot_id, row.run_id.clone(), sequence));
                    }
                }
                if is_last {
                    break;
                }
            }
        }
        roots.checkpoints.sort_unstable();
        roots.pending.sort_unstable();
        Ok(roots)
    }

    /// The blobs in use that no manifest lists.
    fn unlisted(&self) -> impl Iterator<Item = BlobId> {
        self.contents.iter().map(|(_, id)| *id).chain(self.attached.iter().copied())
    }

    fn add_record(&mut self, record: &RunRecord) {
        self.contents.extend(record.working.files.iter().filter_map(content_of));
        self.pending.extend(record.working.restore_points.iter().map(|point| (point.at, point.manifest)));
    }
}

/// The blobs that the values of a thread's checkpoint refer to; none if the checkpoint was removed or is damaged.
pub(super) fn chunks_of(store: &dyn Store, run: &RunId, sequence: u64) -> Result<Vec<BlobId>, StoreError> {
    let document = match store.body(run, sequence) {
        Ok(document) => document,
        Err(StoreError::NoRun(_) | StoreError::NoCheckpoint(..) | StoreError::Damaged(_)) => {
            return Ok(Vec::new());
        }
        Err(e) => return Err(e),
    };
    let body = match seal::verify(document).and_then(|verified| verified.body()) {
        Ok(body) => body,
        // Without knowing what a newer document refers to, nothing can be removed.
        Err(e @ SealError::Newer { .. }) => {
            let damage = Damage::integrity(Part::Body, "a checkpoint of a thread", e.to_string());
            return Err(damage.at(Some(run), Some(sequence)).into());
        }
        Err(_) => return Ok(Vec::new()),
    };
    let Some(values) = body.values else { return Ok(Vec::new()) };
    table::chunks_of(values.get()).map_err(|why| {
        let damage = Damage::integrity(Part::Body, "the values of a thread", why);
        damage.at(Some(run), Some(sequence)).into()
    })
}

/// The path and the stored content of a reported file.
fn content_of(file: &FileRef) -> Option<(String, BlobId)> {
    Some((file.path.clone(), file.blob?))
}

impl Milepost {
    /// Removes the contents that nothing refers to.
    pub(crate) fn collect_files(&self) -> Result<CollectReport, Error> {
        self.collect_and_evict(None)
    }

    /// Removes the contents that nothing refers to, and evicts those of the oldest snapshots if the rest exceeds
    /// the limit.
    pub(super) fn collect_files_within_limit(&self) -> Result<CollectReport, Error> {
        let limit = self.settings.store_limits.max_file_bytes;
        let mut report = self.collect_files()?;
        if limit > 0 && self.store.blob_bytes()? > limit {
            let evicted = self.evict_files(limit)?;
            report.removed += evicted.removed;
            report.bytes_freed += evicted.bytes_freed;
        }
        Ok(report)
    }

    /// Evicts the contents of the oldest snapshots until all contents take at most this number of bytes. The
    /// newest snapshot of each worktree keeps its contents.
    pub(super) fn evict_files(&self, most: u64) -> Result<CollectReport, Error> {
        self.collect_and_evict(Some(most))
    }

    fn collect_and_evict(&self, most: Option<u64>) -> Result<CollectReport, Error> {
        let store = &*self.store;
        if store.blobs(None, 1)?.is_empty() && store.blob_roots()?.is_empty() {
            return Ok(CollectReport::default());
        }
        let mut references = References::default();
        // Parse the manifests before the store is locked, so that it stays locked only briefly.
        find_live(store, &Roots::read(store)?, &mut references, most)?;
        Ok(store.collect_blobs(&mut || find_live(store, &Roots::read(store)?, &mut references, most))?)
    }
}

/// Decides which contents a collection keeps, and which ones it evicts if there is a limit.
pub(super) fn find_live(
    store: &dyn Store,
    roots: &Roots,
    references: &mut References,
    most: Option<u64>,
) -> Result<LiveBlobs, StoreError> {
    let (mut manifests, mut contents) = (HashSet::new(), HashSet::new());
    let mut live_series = HashSet::new();
    let mut listed: HashSet<BlobId> = roots.checkpoints.iter().map(|(_, id)| *id).collect();
    listed.extend(roots.pending.iter().map(|(_, id)| *id));
    for id in &listed {
        live_series.extend(references.series(store, id)?.map(|series| series.root()));
    }
    // The newest manifest of a series says what the files of its older snapshots were. It is needed as long
    // as one of these exists, and so are the series that follow it.
    let mut live = LiveBlobs::default();
    let is_live = |root: &str| live_series.contains(root) || live_series.iter().any(|of| precedes(of, root));
    let old_undo_points = old_undo_points(&roots.series);
    for (root, id) in &roots.series {
        let is_undo = root.starts_with(UNDO_PREFIX);
        if is_undo && !old_undo_points.contains(root) || !is_undo && is_live(root) {
            listed.insert(*id);
        } else {
            live.drop_roots.push(root.clone());
        }
    }
    for id in &listed {
        references.add(store, id, &listed, &mut manifests, &mut contents)?;
    }
    references.add_threads(store, &roots.threads)?;
    contents.extend(roots.unlisted().chain(references.chunks.iter().copied()));
    if let Some(most) = most {
        live.evict = evicted(store, roots, references, &contents, most)?;
    }
    live.keep = manifests;
    live.keep.extend(contents);
    Ok(live)
}

/// The roots of undo points beyond the number that each worktree keeps.
fn old_undo_points(roots: &[(String, BlobId)]) -> HashSet<String> {
    let mut of_worktree: HashMap<&str, Vec<&String>> = HashMap::new();
    for (root, _) in roots {
        if let Some((worktree, _)) = root.strip_prefix(UNDO_PREFIX).and_then(|rest| rest.split_once('/')) {
            of_worktree.entry(worktree).or_default().push(root);
        }
    }
    // Ids start with the time.
    let old = of_worktree.into_values().flat_map(|mut roots| {
        roots.sort_unstable_by(|a, b| b.cmp(a));
        roots.into_iter().skip(UNDO_POINTS)
    });
    old.cloned().collect()
}

/// Whether a series precedes another one of the same worktree.
fn precedes(earlier: &str, later: &str) -> bool {
    let (earlier, later) = (SeriesId::of_root(earlier), SeriesId::of_root(later));
    earlier.zip(later).is_some_and(|(a, b)| a.worktree == b.worktree && a.number < b.number)
}

/// The contents to evict: those that only the oldest snapshots refer to, until the rest fits.
fn evicted(
    store: &dyn Store,
    roots: &Roots,
    references: &mut References,
    live: &HashSet<BlobId>,
    most: u64,
) -> Result<HashSet<BlobId>, StoreError> {
    let sizes: HashMap<BlobId, u64> =
        store.blobs(None, 0)?.iter().map(|blob| (blob.id, blob.bytes)).collect();
    let size = |id: &BlobId| sizes.get(id).copied().unwrap_or(0);
    let (mut manifests, mut kept) = (HashSet::new(), HashSet::new());
    let none = HashSet::new();
    for (_, id) in &roots.series {
        references.add(store, id, &none, &mut manifests, &mut kept)?;
    }
    kept.extend(roots.unlisted().chain(references.chunks.iter().copied()));
    // The limit is about the contents of files.
    let is_value = |id: &&BlobId| references.chunks.contains(*id);
    let values: u64 = kept.iter().filter(is_value).map(size).sum();
    let mut used: u64 = kept.iter().chain(&manifests).map(size).sum::<u64>().saturating_sub(values);
    // Newest first: keep the contents of each snapshot while they fit. A restore point that no checkpoint contains
    // yet belongs to work in progress, so it counts as newer than all checkpoints.
    let pending = roots.pending.iter().rev().map(|(_, id)| id);
    for id in pending.chain(roots.checkpoints.iter().rev().map(|(_, id)| id)) {
        let mut contents = HashSet::new();
        references.add(store, id, &none, &mut manifests, &mut contents)?;
        let new: Vec<_> = contents.into_iter().filter(|id| !kept.contains(id)).collect();
        let added: u64 = new.iter().map(size).sum();
        if used.saturating_add(added) > most {
            break;
        }
        used += added;
        kept.extend(new);
    }
    Ok(live.difference(&kept).copied().collect())
}
