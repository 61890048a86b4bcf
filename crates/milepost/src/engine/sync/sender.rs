//! Sends runs from the local store to the server: decides where a run goes, reads what the server does not have yet,
//! writes it there, and records in the local store what the server has received.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use super::super::Milepost;
use super::super::bookkeeping::event;
use super::super::prune::{RunAfterCommit, drop_oldest};
use super::super::transfer::{CopyReport, portable};
use super::SyncReport;
use super::commit::{BatchCommit, Outgoing};
use crate::Error;
use crate::clock;
use crate::model::{BlobId, CheckpointId, EventType, Item, Marks, RunId, RunRecord, SyncState};
use crate::store::synced::{is_live, is_waiting, record_digest};
use crate::store::{
    Commit, Cursor, EventCursor, EventQuery, HeaderQuery, MESSAGES_PER_COMMIT, RunDetails, RunRow,
    StoreError, StoredRun, WriteDecision,
};

/// Maximum number of checkpoints in one commit.
const BATCH: usize = 64;
/// How often a run is sent again if it changes on the server in the meantime.
const TRIES: u32 = 5;
/// How long runs that were sent stay in the local store after their last write.
const KEEP_SENT: Duration = Duration::from_secs(14 * 24 * 3600);

/// Where a run is sent to, and what is already there.
struct Destination {
    run: RunId,
    /// What the server has received from this machine, or had when the run was copied to it.
    known: SyncState,
    /// Whether the run exists on the server.
    exists: bool,
    /// The checkpoint of another run that the run continues.
    parent: Option<CheckpointId>,
}

/// Sends runs from the local store to the server.
pub(super) struct Sender {
    pub(super) local: Milepost,
    pub(super) server: Milepost,
    /// The id of the local store.
    pub(super) from: String,
}

impl Sender {
    /// Sends one run.
    pub(super) fn send(&self, run: &RunId, report: &mut SyncReport) -> Result<(), Error> {
        for _ in 0..TRIES {
            let Some(state) = self.local.store.run(run)? else { return Ok(()) };
            let record = match &state.row.record {
                Ok(record) => (**record).clone(),
                Err(_) => {
                    self.local.rebuild_record(run)?;
                    continue;
                }
            };
            let to = self.destination(run, &record)?;
            let sent = if to.exists && to.known.stamp >= state.row.stamp {
                Some(to.known.clone())
            } else {
                let outgoing = self.read(state, &record, &to)?;
                if to.run != *run && !to.exists && outgoing.is_empty() {
                    // The server's run went on, and nothing happened here except changes to the record.
                    let to = Destination { run: run.clone(), ..to };
                    let known = SyncState { digest: String::new(), run: None, ..to.known.clone() };
                    return self.acknowledge(run, &record, known, &to);
                }
                self.transfer(&outgoing, &to, report)?
            };
            if let Some(sent) = sent {
                if to.run != *run && record.sync.as_ref().is_none_or(|sync| sync.run.is_none()) {
                    report.split.push((run.clone(), to.run.clone()));
                }
                return self.acknowledge(run, &record, sent, &to);
            }
        }
        Err(StoreError::Busy { location: self.server.store.info()?.url, waited: Duration::ZERO }.into())
    }

    /// Decides where a run is sent to.
    fn destination(&self, run: &RunId, record: &RunRecord) -> Result<Destination, Error> {
        let base = record.sync.clone();
        let name = base.as_ref().and_then(|base| base.run.clone()).unwrap_or_else(|| run.clone());
        let Some(there) = self.run_on_server(&name)? else {
            // The run is new, or was deleted on the server.
            let parent = record.parent.clone();
            return Ok(Destination { run: name, known: SyncState::default(), exists: false, parent });
        };
        let there_record = there.row.record.as_ref().ok();
        if let Some(known) = self.common(&there, base.as_ref()) {
            let parent = there_record.and_then(|record| record.parent.clone());
            return Ok(Destination { run: name, known, exists: true, parent });
        }
        let received = there_record.and_then(|record| record.sync.clone());
        let received = received.filter(|sync| sync.from == self.from);
        let common = received.into_iter().chain(base).max_by_key(|known| known.sequence);
        let key = format!("{}\n{name}\n{}", self.from, common.as_ref().map_or("", |common| &common.digest));
        let suffix = &blake3::hash(key.as_bytes()).to_hex()[..8];
        let end = name.as_str().len().min(100);
        let split: RunId = format!("{}-{suffix}", &name.as_str()[..end]).parse()?;
        let last_common = common.as_ref().map_or(0, |common| common.sequence);
        let last_common = HeaderQuery::default()
            .run(&name)
            .after(Cursor { sequence: last_common.saturating_add(1), stamp: 0 });
        let parent = match &common {
            Some(_) => {
                self.server.store.headers(&last_common.limit(1))?.into_iter().find_map(|row| row.intact())
            }
            None => there.row.latest.clone().and_then(|row| row.intact()),
        };
        let parent = parent.map(|entry| entry.header.snapshot_id);
        let start = SyncState { run: Some(split.clone()), ..common.unwrap_or_default() };
        match self.run_on_server(&split)? {
            None => Ok(Destination { run: split, known: start, exists: false, parent }),
            Some(there) => match self.common(&there, None) {
                Some(known) => Ok(Destination { run: split, known, exists: true, parent }),
                None => Err(Error::Conflict { reference: split.to_string() }),
            },
        }
    }

    fn run_on_server(&self, run: &RunId) -> Result<Option<StoredRun>, Error> {
        match self.server.store.run(run)? {
            Some(there) if there.row.record.is_err() => {
                self.server.rebuild_record(run)?;
                Ok(self.server.store.run(run)?)
            }
            found => Ok(found),
        }
    }

    /// What a run on the server has in common with this machine's; `None` if someone else continued it.
    fn common(&self, there: &StoredRun, base: Option<&SyncState>) -> Option<SyncState> {
        let record = there.row.record.as_ref().ok()?;
        let received = record.sync.as_ref().filter(|sync| sync.from == self.from);
        let last = there.row.latest.as_ref().map_or(0, |row| row.cursor().sequence);
        let digest = record_digest(record);
        let is_unchanged = |known: &&SyncState| known.digest == digest && last <= known.sequence;
        received.filter(is_unchanged).or_else(|| base.filter(is_unchanged)).cloned()
    }

    /// Reads what the server does not have yet.
    fn read(&self, state: StoredRun, record: &RunRecord, to: &Destination) -> Result<Outgoing, Error> {
        let run = &record.run_id;
        let mut checkpoints = Vec::new();
        let after = (to.known.sequence > 0).then_some(Cursor { sequence: to.known.sequence, stamp: 0 });
        for row in self.local.rows(HeaderQuery::default().run(run).oldest_first(true).after(after), BATCH) {
            // A damaged checkpoint stays here, and `verify` reports it.
            match self.local.read_row(row?) {
                Ok(read) => checkpoints.extend(read),
                Err(Error::Damaged(_)) => {}
                Err(e) => return Err(e),
            }
        }
        let messages = self.local.messages_of(run)?;
        let known = usize::try_from(to.known.messages).unwrap_or(usize::MAX);
        let cursor = to.known.events.clone().map(EventCursor::new);
        let page = self.local.store.events(&EventQuery::default().run(run).after(cursor.as_ref()))?;
        let last_event = page.events.last().map(|(cursor, _)| cursor.as_str().to_owned());
        Ok(Outgoing {
            record: record.clone(),
            stamp: state.row.stamp,
            items: state.items,
            checkpoints,
            messages: messages.get(known..).unwrap_or_default().to_vec(),
            events: page.events.into_iter().map(|(_, event)| event).collect(),
            last_event: last_event.or_else(|| to.known.events.clone()),
        })
    }

    /// Writes a run to the server in one or more commits. Returns the state after the last one, or `None` if
    /// someone else wrote to the run in the meantime.
    fn transfer(
        &self,
        outgoing: &Outgoing,
        to: &Destination,
        report: &mut SyncReport,
    ) -> Result<Option<SyncState>, Error> {
        let blobs = self.send_files(outgoing, report)?;
        if to.exists && outgoing.record.marks_changed != to.known.marks {
            self.send_marks(outgoing, to)?;
        }
        let mut record = portable(&outgoing.record);
        record.run_id.clone_from(&to.run);
        record.parent.clone_from(&to.parent);
        let digest = record_digest(&record);
        let mut known = to.known.clone();
        let mut expected = to.exists.then(|| known.clone());
        let message_batches = outgoing.messages.chunks(MESSAGES_PER_COMMIT);
        let mut message_batches = message_batches.peekable();
        let mut rest = &outgoing.checkpoints[..];
        loop {
            let (batch, after) = rest.split_at(rest.len().min(BATCH));
            let messages = message_batches.next().unwrap_or_default();
            let is_last = after.is_empty() && message_batches.peek().is_none();
            let next = SyncState {
                from: self.from.clone(),
                stamp: match batch.last() {
                    _ if is_last => outgoing.stamp,
                    Some((entry, _)) => entry.header.stamp,
                    None => known.stamp,
                },
                sequence: batch.last().map_or(known.sequence, |(entry, _)| entry.header.sequence),
                digest: digest.clone(),
                messages: known.messages + messages.len() as u64,
                events: if is_last { outgoing.last_event.clone() } else { known.events.clone() },
                marks: outgoing.record.marks_changed,
                run: None,
            };
            let commit = BatchCommit { outgoing, record: &record, batch, messages, is_last, blobs: &blobs };
            if !self.write_batch(&commit, expected.as_ref(), &next)? {
                return Ok(None);
            }
            report.checkpoints += batch.len() as u64;
            known = next;
            expected = Some(known.clone());
            if is_last {
                break;
            }
            rest = after;
        }
        self.server.prune_whole_run_after(&to.run, to.known.sequence, known.sequence);
        let attachments = self.local.attachments_of(&outgoing.record.run_id)?;
        if !attachments.is_empty() {
            for content in self.local.attached_blobs(&attachments)? {
                self.server.store.put_blobs(&[&content])?;
            }
            self.server.add_attachments(&to.run, attachments)?;
            // Adding them changes no field that the digest contains.
        }
        Ok(Some(known))
    }

    /// Writes one commit, unless someone else has written to the run. Returns whether it was written.
    fn write_batch(
        &self,
        commit: &BatchCommit<'_>,
        expected: Option<&SyncState>,
        next: &SyncState,
    ) -> Result<bool, Error> {
        let (mut written, mut failed) = (false, None);
        self.server.write(&commit.record.run_id, &mut |view| {
            (written, failed) = (false, None);
            match (&view.record, expected) {
                // An earlier try was committed, and its reply was lost.
                (Some(record), _) if record.sync.as_ref() == Some(next) => {
                    written = true;
                    return WriteDecision::NoChange;
                }
                (None, None) => {}
                (Some(record), Some(expected))
                    if record_digest(record) == expected.digest
                        && view.slot.sequence() <= expected.sequence.saturating_add(1) => {}
                _ => return WriteDecision::NoChange,
            }
            let Some(details) = &view.details else { return WriteDecision::NeedDetails };
            match commit.build(view.record.as_ref(), &view.slot, details.items.len(), next) {
                Ok(mut commit) => {
                    self.prune_oldest(&mut commit, view.count, details);
                    written = true;
                    WriteDecision::Commit(Box::new(commit))
                }
                Err(e) => {
                    failed = Some(e);
                    WriteDecision::NoChange
                }
            }
        })?;
        failed.map_or(Ok(written), Err)
    }

    /// Removes the oldest checkpoints of the run on the server as a save there would.
    fn prune_oldest(&self, commit: &mut Commit, count: u64, details: &RunDetails) {
        let Some(newest) = commit.puts.last().map(|sealed| sealed.header().sequence) else { return };
        let count = count + commit.puts.len() as u64;
        let after = RunAfterCommit { count, newest, at: self.server.now() };
        let mut removed = drop_oldest(commit, &details.oldest, &after, &self.server.settings);
        // The store on this machine usually removed the same checkpoints, and its events are sent, too.
        let pruned = commit.events.iter().filter(|event| event.kind == EventType::Pruned);
        let known: Vec<_> = pruned.map(|event| event.data.get()).collect();
        removed.retain(|id| !known.iter().any(|data| data.contains(id.as_str())));
        if !removed.is_empty() {
            let data = json!({ "removed": removed });
            let event = event(&commit.record.run_id, after.at, EventType::Pruned, None, &data);
            commit.events.push(event);
        }
    }

    /// Sends changed marks of checkpoints that the server already has.
    fn send_marks(&self, outgoing: &Outgoing, to: &Destination) -> Result<(), Error> {
        for row in self.local.rows(HeaderQuery::default().run(&outgoing.record.run_id), BATCH) {
            let Some(entry) = row?.intact() else { continue };
            if entry.header.sequence > to.known.sequence || entry.marks == Marks::default() {
                continue;
            }
            let there = self.server.row_at(&to.run, entry.header.sequence)?.and_then(|row| row.intact());
            if there.is_some_and(|there| entry.marks.revision > there.marks.revision) {
                let record = RunRecord { run_id: to.run.clone(), ..outgoing.record.clone() };
                self.server.mark_as(&record, entry.header.sequence, entry.marks)?;
            }
        }
        Ok(())
    }

    /// Sends the contents that the checkpoints and pending items refer to, except those with secrets. Returns the
    /// blobs that the server then has.
    fn send_files(&self, outgoing: &Outgoing, report: &mut SyncReport) -> Result<Vec<BlobId>, Error> {
        let (mut manifests, mut contents) = (BTreeSet::new(), BTreeSet::new());
        let mut roots: Vec<BlobId> =
            outgoing.checkpoints.iter().flat_map(|(entry, _)| entry.header.manifests.clone()).collect();
        roots.extend(outgoing.record.working.restore_points.iter().map(|point| point.manifest));
        for item in &outgoing.items {
            match item {
                Item::RestorePoint(point) => roots.push(point.manifest),
                Item::File(file) => contents.extend(file.blob),
                _ => {}
            }
        }
        for id in roots {
            self.local.add_references(id, &mut manifests, &mut contents)?;
        }
        let wanted: Vec<BlobId> = manifests.iter().chain(&contents).copied().collect();
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let missing: BTreeSet<BlobId> = self.server.store.missing_blobs(&wanted)?.into_iter().collect();
        let new_manifests = manifests.intersection(&missing).copied().collect();
        self.local.send_contents(&new_manifests, &mut |all| self.server.store.put_blobs(all), None)?;
        let new_contents = contents.intersection(&missing).copied().collect();
        let mut copied = CopyReport::default();
        let mut put = |all: &[&[u8]]| self.server.store.put_blobs(all);
        self.local.send_contents(&new_contents, &mut put, Some(&mut copied))?;
        report.files += copied.files;
        report.files_with_secrets += copied.files_with_secrets;
        let missing: BTreeSet<BlobId> = self.server.store.missing_blobs(&wanted)?.into_iter().collect();
        Ok(wanted.into_iter().filter(|id| !missing.contains(id)).collect())
    }

    /// Records in the local store what the server has received.
    fn acknowledge(
        &self,
        run: &RunId,
        sent: &RunRecord,
        state: SyncState,
        to: &Destination,
    ) -> Result<(), Error> {
        let plain = RunRecord { sync: None, ..sent.clone() };
        self.local.write(run, &mut |view| {
            let Some(mut record) = view.record.clone() else { return WriteDecision::NoChange };
            // If nothing was written since, nothing waits after this commit.
            let before = record.sync.take();
            let stamp = if record == plain { view.slot.stamp() } else { state.stamp };
            // Another process may have sent more in the meantime.
            let stamp = before.map_or(0, |before| before.stamp).max(stamp);
            let server_run = (to.run != *run).then(|| to.run.clone());
            record.sync = Some(SyncState { stamp, run: server_run, ..state.clone() });
            WriteDecision::Commit(Box::new(Commit::new(record)))
        })?;
        Ok(())
    }

    /// Removes runs that were sent long ago from the local store, with the contents that only they need.
    pub(super) fn remove_old(&self, rows: &[RunRow]) -> Result<(), Error> {
        let now = self.local.now();
        let is_old =
            |record: &RunRecord| clock::age(record.updated_at, now).is_some_and(|age| age > KEEP_SENT);
        let mut removed = false;
        for row in rows.iter().filter(|row| !is_waiting(row) && !is_live(row)) {
            if row.record.as_ref().is_ok_and(|record| is_old(record)) {
                removed |= self.local.store.delete_run(&row.run_id, Some(row.stamp))?;
            }
        }
        if removed {
            self.local.collect_files()?;
        }
        Ok(())
    }
}
