//! Outbox: a folder where saves wait, fsynced, while the store cannot be written, until a command delivers
//! them. The folder is inside the project, where a commit or an archive can add files to it. Every entry
//! therefore carries a signature that only a holder of the user's key can compute. Unsigned entries are
//! never delivered automatically.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Milepost, RunOptions, Save, Saved, Settings};
use crate::Error;
use crate::capture::{CaptureLimits, WorkspaceCapture};
use crate::clock::Clock;
use crate::fs::{atomic, bounded, if_exists};
use crate::model::{Change, CheckpointId, Draft, RawJson, RawObject, RunId};
use crate::redact::Redaction;
use crate::store::{StoreUrl, identity};
use crate::trust::Key;

/// Maximum size of an entry, in bytes.
const ENTRY_LIMIT: u64 = 16 << 20;
/// Bytes that each entry counts for in addition to its size.
const ENTRY_COST: u64 = 16 << 10;
/// Maximum bytes of entries that one command reads. The remaining entries wait for the next command.
const TOTAL_LIMIT: u64 = 64 << 20;

/// A folder of waiting saves.
#[derive(Debug, Clone)]
pub struct Outbox {
    folder: PathBuf,
    /// The user's key. Without it, entries are not signed and none is delivered automatically.
    key: Option<Key>,
    /// Identifiers of the store: its id, if it has one, and its address.
    store: Vec<String>,
}

/// A save that was queued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedSave {
    /// The id that the checkpoint will have.
    pub snapshot_id: CheckpointId,
    /// The file in the outbox.
    pub file: PathBuf,
    /// Whether it is signed with the user's key. An unsigned save waits until the user accepts it.
    pub signed: bool,
}

/// A waiting entry. Contains what could be read of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingSave {
    /// The file in the outbox.
    pub file: PathBuf,
    /// Whether the entry can be delivered.
    pub state: PendingState,
}

/// Whether an entry can be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PendingState {
    /// This user signed it for this store.
    Ready,
    /// It is not signed, so any program could have created it.
    Unsigned {
        /// The run that it is for.
        run_id: RunId,
        /// The task summary.
        summary: Option<String>,
        /// Size of the brief in bytes, size of the state in bytes, and number of changes.
        sizes: [usize; 3],
        /// The checksum by which the user accepts the content.
        checksum: String,
    },
    /// It is damaged, is for another store, or was signed with another key; the text gives the reason.
    Refused(String),
}

/// The result of a delivery.
#[derive(Debug, Default)]
pub struct DeliveryReport {
    /// Checkpoints that are now in the store.
    pub saved: Vec<Saved>,
    /// Files that stay in the outbox, and why.
    pub refused: Vec<(PathBuf, String)>,
    /// Files that stay in the outbox until the user accepts them.
    pub unsigned: Vec<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct Waiting {
    run_id: RunId,
    snapshot_id: CheckpointId,
    created_at: Timestamp,
    run_options: RunOptions,
    pin: bool,
    tags: Vec<String>,
    last_of_session: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    changes: Vec<Change>,
    /// Whether the draft's workspace is a capture, which has to be joined with the run's earlier captures.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    seen: bool,
    /// Whether secrets were replaced when the save was queued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    redaction: Option<Redaction>,
    draft: RawObject,
}

#[derive(Serialize, Deserialize)]
struct Envelope {
    checksum: String,
    /// The store that the entry is for, as identified by the writer's outbox.
    #[serde(default)]
    store: String,
    /// The user's signature over the store and the save; missing if the key could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    save: RawJson,
}

impl Envelope {
    /// The text to sign. The save includes the run id and the checkpoint id.
    fn signed_text(store: &str, save: &str) -> Vec<u8> {
        format!("milepost outbox 1\n{}\n{store}\n{save}", store.len()).into_bytes()
    }
}

impl Outbox {
    /// Creates an outbox for a store. The folder is created when the first save is queued.
    pub fn new(folder: PathBuf, store: &StoreUrl, key: Option<Key>) -> Self {
        let id = identity::read_id(store).ok().flatten().map(|id| id.to_string());
        Self { folder, key, store: id.into_iter().chain([store.resolved().to_string()]).collect() }
    }

    /// The outbox folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Queues a save until the store can be written.
    pub fn enqueue(
        &self,
        run: &RunId,
        mut save: Save,
        settings: &Settings,
        clock: &dyn Clock,
    ) -> Result<QueuedSave, Error> {
        let capture = save.capture.take();
        if let Some(capture) = &capture {
            save.draft.workspace = Some(capture.to_workspace(&[], None, &CaptureLimits::default()));
        }
        let redaction = save.redaction.unwrap_or(settings.redaction);
        if redaction == Redaction::On {
            super::check_run_name(run, &settings.redaction_allow)?;
            save.redact(&settings.redaction_allow)?;
        }
        if let Some(profile) = save.run_options.profile.or(settings.profile) {
            save.draft = save.draft_for(profile).into_owned();
        }
        let limits = &settings.limits;
        super::compose::check_limits(&save.draft, limits)?;
        // A change that no run accepts would wait forever.
        super::change::check(&save.changes, limits)?;
        save.tags.iter().try_for_each(|tag| super::mark::check_tag(tag))?;
        let now = clock.now();
        let snapshot_id = self.next_id(now);
        let waiting = Waiting {
            run_id: run.clone(),
            snapshot_id: snapshot_id.clone(),
            created_at: now,
            run_options: save.run_options,
            pin: save.pin,
            tags: save.tags,
            last_of_session: save.last_of_session,
            changes: save.changes,
            seen: capture.is_some(),
            redaction: Some(redaction),
            draft: save.draft.to_object()?,
        };
        let raw = RawJson::of(&waiting)?;
        // A store that does not exist yet has no id, so its address is signed instead.
        let store = self.store.first().cloned().unwrap_or_default();
        let text = Envelope::signed_text(&store, raw.get());
        let signature = self.key.as_ref().map(|key| key.checksum(&text));
        let signed = signature.is_some();
        let envelope = RawJson::of(&Envelope { checksum: checksum(raw.get()), store, signature, save: raw })?;
        let file = self.folder.join(format!("{snapshot_id}.json"));
        let write = || -> io::Result<()> {
            if envelope.get().len() as u64 > ENTRY_LIMIT {
                let why = format!("it is larger than {ENTRY_LIMIT} bytes, the limit for an outbox entry");
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
            }
            self.check_links()?;
            atomic::create_folder(&self.folder)?;
            // Waiting saves must not be committed to a repository.
            let ignore = self.folder.with_file_name(".gitignore");
            if !ignore.exists() {
                atomic::write(&ignore, b"*\n", atomic::Mode::Private)?;
            }
            atomic::write(&file, envelope.get().as_bytes(), atomic::Mode::Private)
        };
        write().map_err(Error::file(&file, "written"))?;
        Ok(QueuedSave { snapshot_id, file, signed })
    }

    /// Refuses folders that are symbolic links, because entries would be written elsewhere.
    fn check_links(&self) -> io::Result<()> {
        let base = self.folder.parent().and_then(Path::parent).unwrap_or(&self.folder);
        identity::refuse_links(base, &self.folder)
    }

    /// Generates an id that sorts after all waiting ones, even within one millisecond or after the clock
    /// went back. Entries are delivered in the order of their ids, and a step must not end before it
    /// begins.
    fn next_id(&self, now: Timestamp) -> CheckpointId {
        let id = CheckpointId::generate(now);
        let waiting = self.waiting().unwrap_or_default();
        let last = waiting.last().and_then(|file| file.file_stem()?.to_str());
        // Ignore entries dated far in the future: this user did not create them.
        let tomorrow = now.saturating_add(jiff::Span::new().hours(24)).unwrap_or(now);
        match last.filter(|last| *last >= id.as_str()).and_then(time_of).filter(|at| *at < tomorrow) {
            Some(last) => {
                CheckpointId::generate(last.saturating_add(jiff::Span::new().milliseconds(1)).unwrap_or(now))
            }
            None => id,
        }
    }

    /// The waiting files, oldest first.
    pub fn waiting(&self) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        if self.check_links().is_err() {
            return Ok(found);
        }
        let Some(entries) = if_exists(fs::read_dir(&self.folder))? else { return Ok(found) };
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if name.starts_with("cp_") && name.ends_with(".json") {
                found.push(path);
            }
        }
        // Ids begin with the time, so this sorts by age.
        found.sort();
        Ok(found)
    }

    /// The waiting entries, oldest first, and whether each can be delivered.
    pub fn pending(&self) -> io::Result<Vec<PendingSave>> {
        let files = self.waiting()?;
        let mut left = TOTAL_LIMIT;
        let mut state = |file: &Path| match self.read(file, &mut left) {
            Ok(Entry { signed: true, .. }) => PendingState::Ready,
            Ok(Entry { run, save, checksum, .. }) => {
                let brief = save.draft.brief.as_ref().map_or(0, String::len);
                let state = save.draft.state.as_ref().map_or(0, |state| state.get().len());
                PendingState::Unsigned {
                    run_id: run,
                    summary: save.draft.task_summary.clone(),
                    sizes: [brief, state, save.changes.len()],
                    checksum,
                }
            }
            Err(why) => PendingState::Refused(why),
        };
        Ok(files.into_iter().map(|file| PendingSave { state: state(&file), file }).collect())
    }

    /// Whether an entry is waiting that this user signed for this store.
    pub fn is_ready(&self) -> bool {
        let files = self.waiting().unwrap_or_default();
        let mut left = TOTAL_LIMIT;
        files.iter().any(|file| self.read(file, &mut left).is_ok_and(|entry| entry.signed))
    }

    /// Saves the entries that this user signed for this store. A file is removed only after its checkpoint
    /// is in the store; all other files stay.
    pub fn deliver(&self, engine: &Milepost) -> Result<DeliveryReport, Error> {
        self.deliver_accepting(engine, &[])
    }

    /// Like `deliver`, but also saves unsigned entries that the user has reviewed and accepted, identified
    /// by their checksums.
    pub fn deliver_accepting(&self, engine: &Milepost, accepted: &[String]) -> Result<DeliveryReport, Error> {
        let mut report = DeliveryReport::default();
        let waiting = self.waiting().map_err(Error::file(&self.folder, "read"))?;
        let mut left = TOTAL_LIMIT;
        for file in waiting {
            let entry = match self.read(&file, &mut left) {
                Ok(entry) => entry,
                Err(why) => {
                    report.refused.push((file, why));
                    continue;
                }
            };
            if !entry.signed && !accepted.contains(&entry.checksum) {
                report.unsigned.push(file);
                continue;
            }
            match engine.save(&entry.run, entry.save) {
                Ok(saved) => {
                    report.saved.push(saved);
                    // If the file outlives this call, the next delivery finds its id in the store and does
                    // not save it twice.
                    let _ = fs::remove_file(&file);
                }
                Err(
                    e @ (Error::Schema(_) | Error::Id(_) | Error::Value { .. } | Error::StepNotBegun { .. }),
                ) => report.refused.push((file, e.to_string())),
                Err(e) => return Err(e),
            }
        }
        if self.check_links().is_ok() {
            let _ = fs::remove_dir(&self.folder);
        }
        Ok(report)
    }
}

/// The time at the start of a generated id.
fn time_of(id: &str) -> Option<Timestamp> {
    let (time, _) = id.rsplit_once('_')?;
    let time = jiff::civil::DateTime::strptime("cp_%Y%m%dT%H%M%S%fZ", time).ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

/// An entry that was read.
struct Entry {
    run: RunId,
    save: Save,
    /// Whether this user signed it for this store.
    signed: bool,
    checksum: String,
}

impl Outbox {
    /// Reads an entry, within the remaining byte budget `left`.
    fn read(&self, file: &Path, left: &mut u64) -> Result<Entry, String> {
        self.check_links().map_err(|e| e.to_string())?;
        // The fixed cost per entry also limits their number.
        *left = left.saturating_sub(ENTRY_COST);
        if *left < ENTRY_LIMIT {
            return Err("the outbox contains more than one command can read".into());
        }
        let (bytes, about) = bounded::read_with_metadata(file, ENTRY_LIMIT).map_err(|e| e.to_string())?;
        *left -= bytes.len() as u64;
        if bounded::owner(&about) != crate::trust::user_id() {
            return Err("it belongs to another user".into());
        }
        let envelope: Envelope = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
        if checksum(envelope.save.get()) != envelope.checksum {
            return Err("checksum mismatch".into());
        }
        let signed = match (&envelope.signature, &self.key) {
            (None, _) => false,
            (Some(_), None) => {
                return Err("its signature cannot be verified because your key cannot be read".into());
            }
            (Some(signature), Some(key)) => {
                let text = Envelope::signed_text(&envelope.store, envelope.save.get());
                if !key.verifies(&text, signature) {
                    return Err("its signature is not yours".into());
                }
                if !self.store.contains(&envelope.store) {
                    return Err("it was made for another store".into());
                }
                true
            }
        };
        let (run, save) = waiting(envelope.save.get())?;
        Ok(Entry { run, save, signed, checksum: envelope.checksum })
    }
}

fn waiting(text: &str) -> Result<(RunId, Save), String> {
    let waiting: Waiting = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let mut draft = Draft::from_object(waiting.draft).map_err(|e| e.to_string())?;
    let seen = draft.workspace.take_if(|_| waiting.seen);
    let save = Save {
        draft,
        run_options: waiting.run_options,
        pin: waiting.pin,
        tags: waiting.tags,
        last_of_session: waiting.last_of_session,
        changes: waiting.changes,
        capture: seen.map(|seen| Box::new(WorkspaceCapture::from(seen))),
        redaction: waiting.redaction,
        promised: Some((waiting.snapshot_id, waiting.created_at)),
        ..Save::default()
    };
    Ok((waiting.run_id, save))
}

fn checksum(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}
