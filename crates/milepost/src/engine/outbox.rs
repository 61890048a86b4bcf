//! Outbox: where saves wait, fsynced, while the store cannot be written, until a command that can takes them in.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Milepost, Opening, Save, Saved};
use crate::capture::{Bounds, Sighting};
use crate::clock::Clock;
use crate::model::{Change, CheckpointId, Draft, Fields, Raw, RunId};
use crate::redact::Redaction;
use crate::{Error, atomic};

/// A folder of waiting saves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbox {
    folder: PathBuf,
}

/// A save that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// The id it will have.
    pub snapshot_id: CheckpointId,
    /// The file it waits in.
    pub file: PathBuf,
}

/// What was taken in.
#[derive(Debug, Default)]
pub struct Intake {
    /// Checkpoints that are in the store now.
    pub saved: Vec<Saved>,
    /// Files that stay, and why.
    pub refused: Vec<(PathBuf, String)>,
}

#[derive(Serialize, Deserialize)]
struct Waiting {
    run_id: RunId,
    snapshot_id: CheckpointId,
    created_at: Timestamp,
    opening: Opening,
    pin: bool,
    tags: Vec<String>,
    last_of_session: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    changes: Vec<Change>,
    /// Whether the draft's workspace is what was seen, to be joined with what the run knows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    seen: bool,
    /// Whether secrets were replaced, as it was asked when it was posted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    redaction: Option<Redaction>,
    draft: Fields,
}

#[derive(Serialize, Deserialize)]
struct Envelope {
    checksum: String,
    save: Raw,
}

impl Outbox {
    /// Names the folder; it is made when something is posted.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps a save until the store can be written.
    pub fn post(
        &self,
        run: &RunId,
        mut save: Save,
        redaction: Redaction,
        limits: &crate::model::Limits,
        clock: &dyn Clock,
    ) -> Result<Queued, Error> {
        let sighting = save.sighting.take();
        if let Some(sighting) = &sighting {
            save.draft.workspace = Some(sighting.joined(&[], None, &Bounds::default()));
        }
        let redaction = save.redaction.unwrap_or(redaction);
        if redaction == Redaction::On {
            super::check_run_name(run)?;
            save.redact()?;
        }
        super::compose::check_limits(&save.draft, limits)?;
        // What no run could take would wait for ever.
        super::change::check(&save.changes, limits)?;
        save.tags.iter().try_for_each(|tag| super::mark::check_tag(tag))?;
        let now = clock.now();
        let snapshot_id = self.next_id(now);
        let waiting = Waiting {
            run_id: run.clone(),
            snapshot_id: snapshot_id.clone(),
            created_at: now,
            opening: save.opening,
            pin: save.pin,
            tags: save.tags,
            last_of_session: save.last_of_session,
            changes: save.changes,
            seen: sighting.is_some(),
            redaction: Some(redaction),
            draft: save.draft.to_fields()?,
        };
        let raw = Raw::of(&waiting)?;
        let envelope = Raw::of(&Envelope { checksum: checksum(raw.get()), save: raw })?;
        let file = self.folder.join(format!("{snapshot_id}.json"));
        let write = || -> io::Result<()> {
            atomic::create_folder(&self.folder)?;
            // In a repository, what waits is nobody's to commit.
            let ignore = self.folder.with_file_name(".gitignore");
            if !ignore.exists() {
                atomic::write(&ignore, b"*\n", atomic::Mode::Private)?;
            }
            atomic::write(&file, envelope.get().as_bytes(), atomic::Mode::Private)
        };
        write().map_err(|source| Error::File { path: file.clone(), what: "written", source })?;
        Ok(Queued { snapshot_id, file })
    }

    /// An id that comes after those that wait, also within a millisecond and after a clock that went back: what waits is
    /// taken in by the order of ids, and a step must not end before it begins.
    fn next_id(&self, now: Timestamp) -> CheckpointId {
        let id = CheckpointId::fresh(now);
        let waiting = self.waiting().unwrap_or_default();
        let last = waiting.last().and_then(|file| file.file_stem()?.to_str());
        match last.filter(|last| *last >= id.as_str()).and_then(time_of) {
            Some(last) => {
                CheckpointId::fresh(last.saturating_add(jiff::Span::new().milliseconds(1)).unwrap_or(now))
            }
            None => id,
        }
    }

    /// The files that wait, oldest first.
    pub fn waiting(&self) -> io::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        match fs::read_dir(&self.folder) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(found),
            Err(e) => return Err(e),
            Ok(entries) => {
                for entry in entries {
                    let path = entry?.path();
                    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    if name.starts_with("cp_") && name.ends_with(".json") {
                        found.push(path);
                    }
                }
            }
        }
        // Ids begin with the time.
        found.sort();
        Ok(found)
    }

    /// Saves what waits. A file goes only once its checkpoint is in the store; one that cannot be read stays.
    pub fn take_in(&self, engine: &Milepost) -> Result<Intake, Error> {
        let mut intake = Intake::default();
        let waiting = self.waiting().map_err(|source| Error::File {
            path: self.folder.clone(),
            what: "read",
            source,
        })?;
        for file in waiting {
            let (run, save) = match read(&file) {
                Ok(read) => read,
                Err(why) => {
                    intake.refused.push((file, why));
                    continue;
                }
            };
            match engine.save(&run, save) {
                Ok(saved) => intake.saved.push(saved),
                Err(
                    e @ (Error::Schema(_) | Error::Id(_) | Error::Value { .. } | Error::StepNotBegun { .. }),
                ) => {
                    intake.refused.push((file, e.to_string()));
                    continue;
                }
                Err(e) => return Err(e),
            }
            // Removed too late is saved under an id that is known already, and so once.
            let _ = fs::remove_file(&file);
        }
        let _ = fs::remove_dir(&self.folder);
        Ok(intake)
    }
}

/// The time that a fresh id begins with.
fn time_of(id: &str) -> Option<Timestamp> {
    let (time, _) = id.rsplit_once('_')?;
    let time = jiff::civil::DateTime::strptime("cp_%Y%m%dT%H%M%S%fZ", time).ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

fn read(file: &Path) -> Result<(RunId, Save), String> {
    let bytes = fs::read(file).map_err(|e| e.to_string())?;
    let envelope: Envelope = serde_json::from_slice(&bytes).map_err(|e| e.to_string())?;
    if checksum(envelope.save.get()) != envelope.checksum {
        return Err("its checksum does not fit".into());
    }
    let waiting: Waiting = serde_json::from_str(envelope.save.get()).map_err(|e| e.to_string())?;
    let mut draft = Draft::from_fields(waiting.draft).map_err(|e| e.to_string())?;
    let seen = draft.workspace.take_if(|_| waiting.seen);
    let save = Save {
        draft,
        opening: waiting.opening,
        pin: waiting.pin,
        tags: waiting.tags,
        last_of_session: waiting.last_of_session,
        changes: waiting.changes,
        interruption: None,
        sighting: seen.map(|seen| Box::new(Sighting::from(seen))),
        redaction: waiting.redaction,
        only_new: false,
        only_while: None,
        promised: Some((waiting.snapshot_id, waiting.created_at)),
    };
    Ok((waiting.run_id, save))
}

fn checksum(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}
