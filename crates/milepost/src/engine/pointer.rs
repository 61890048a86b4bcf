//! Pointer: also stores the current checkpoint's id in a JSON file of the user, at a given key, and changes
//! nothing else in that file. The new value is decided from the store while the file is locked, so that the
//! last of several saves writes the newest id. Edits by programs that do not use the lock are preserved.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::ops::Range;
use std::path::{Component, PathBuf};
use std::time::{Duration, Instant};

use serde_json::value::RawValue;

use super::Milepost;
use crate::fs::{atomic, bounded, if_exists};
use crate::git::{self, Git};
use crate::model::{CheckpointId, RunId, Status};
use crate::seal::strict;
use crate::store::project_paths::ProjectPaths;
use crate::store::{CheckpointFilter, HeaderQuery, Row, RunRow, StoreError};

/// How long to wait for another process that edits the same file.
const WAIT: Duration = Duration::from_secs(5);
/// Maximum number of attempts at an edit while another program keeps changing the file.
const TRIES: usize = 50;
/// Maximum duration of a commit.
const COMMIT_TIME: Duration = Duration::from_secs(30);
/// Maximum size of the file to edit, in bytes.
const LARGEST: u64 = 1 << 20;
/// Maximum bytes of git output to read.
const PRINTED: u64 = 64 << 10;

/// The location of the id, and whether to commit it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer {
    /// The JSON file.
    pub file: PathBuf,
    /// The member names that lead to the value.
    pub key: Vec<String>,
    /// Whether to commit the file, and only this file, to the project's repository.
    pub commit: bool,
    /// The project that the file belongs to.
    pub project: ProjectPaths,
}

/// The change to make to a pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PointerUpdate {
    /// Leave the value unchanged.
    Keep,
    /// Set the value to this checkpoint's id.
    Name(CheckpointId),
    /// Set the value to `null`.
    Clear,
}

impl Milepost {
    /// Sets the pointer, if one is configured, to the newest checkpoint of a run after a save. Returns the
    /// reason if this fails. A completed run has no current checkpoint, so its save clears the pointer. A
    /// pointer to another run's checkpoint that is newer than this save, whose stamp is `stamp`, stays.
    pub(super) fn update_pointer_after_save(&self, run: &RunId, stamp: u64) -> Option<String> {
        self.change_pointer(|named| {
            // The run was deleted; `delete` updates the pointer itself.
            let Some(state) = self.store.run(run)? else { return Ok(PointerUpdate::Keep) };
            let Some(Row::Intact(latest)) = state.row.latest.clone() else { return Ok(PointerUpdate::Keep) };
            let named = named.map(|id| self.row_of(id)).transpose()?.flatten();
            if let Some(Row::Intact(named)) = named
                && named.header.stamp > latest.header.stamp.max(stamp)
            {
                return Ok(PointerUpdate::Keep);
            }
            Ok(match is_completed(&state.row) {
                true => PointerUpdate::Clear,
                false => PointerUpdate::Name(latest.header.snapshot_id),
            })
        })
    }

    /// Clears the pointer if it names a checkpoint of this run and the run is still completed. Called after
    /// the run was completed.
    pub(super) fn clear_pointer_to_run(&self, run: &RunId) {
        self.change_pointer(|named| match named.map(|id| self.row_of(id)).transpose()?.flatten() {
            Some(Row::Intact(named)) if named.header.run_id == *run => {
                let completed = self.store.run(run)?.is_some_and(|state| is_completed(&state.row));
                Ok(if completed { PointerUpdate::Clear } else { PointerUpdate::Keep })
            }
            _ => Ok(PointerUpdate::Keep),
        });
    }

    /// Clears the pointer if it names a checkpoint that does not exist.
    pub(super) fn clear_dangling_pointer(&self) {
        self.change_pointer(|named| match named {
            Some(id) if self.row_of(id)?.is_none() => Ok(PointerUpdate::Clear),
            _ => Ok(PointerUpdate::Keep),
        });
    }

    fn change_pointer(
        &self,
        decide: impl Fn(Option<&CheckpointId>) -> Result<PointerUpdate, StoreError>,
    ) -> Option<String> {
        let pointer = self.settings.pointer.as_ref()?;
        let decide = |named: Option<&CheckpointId>| decide(named).map_err(|e| e.to_string());
        pointer.update(&decide).err().map(|why| format!("{}: {why}", pointer.file.display()))
    }

    /// The id in the pointer file.
    pub(super) fn pointed_id(&self) -> Option<CheckpointId> {
        let pointer = self.settings.pointer.as_ref()?;
        pointer.check_folder().ok()?;
        let text = String::from_utf8(bounded::read(&pointer.file, LARGEST).ok()?).ok()?;
        id_in(&text, &pointer.key)
    }

    /// Whether the pointer names a checkpoint of this run.
    pub(super) fn points_into(&self, run: &RunId) -> bool {
        self.pointed_id().is_some_and(|id| self.sequence_of(&id, run).is_some())
    }

    /// The sequence number of a checkpoint within a run, if it exists there.
    pub(super) fn sequence_of(&self, id: &CheckpointId, run: &RunId) -> Option<u64> {
        let query = HeaderQuery::default().run(run).find(CheckpointFilter::Id(id.as_str()));
        let rows = self.store.headers(&query).ok()?;
        rows.into_iter().find_map(Row::intact).map(|entry| entry.header.sequence)
    }
}

fn is_completed(run: &RunRow) -> bool {
    run.record.as_ref().is_ok_and(|record| record.status == Status::Completed)
}

/// Decides how to change a pointer, given the id that it contains.
pub(crate) type Decide<'a> = dyn Fn(Option<&CheckpointId>) -> Result<PointerUpdate, String> + 'a;

impl Pointer {
    /// Changes the value as `decide` returns; `decide` is called while the lock is held. Every other byte
    /// of the file stays, including concurrent changes by other programs.
    pub fn update(&self, decide: &Decide<'_>) -> Result<(), String> {
        self.check_folder()?;
        let _lock = self.lock()?;
        for _ in 0..TRIES {
            let found = if_exists(bounded::read(&self.file, LARGEST)).map_err(|e| e.to_string())?;
            let found = found.map(String::from_utf8).transpose().map_err(|_| "it is not UTF-8")?;
            let text = found.as_deref().unwrap_or("{}\n");
            let id = match decide(id_in(text, &self.key).as_ref())? {
                PointerUpdate::Keep => return Ok(()),
                PointerUpdate::Clear if found.is_none() => return Ok(()),
                PointerUpdate::Clear => None,
                PointerUpdate::Name(id) => Some(id),
            };
            let value = id.as_ref().map_or("null".to_owned(), |id| format!("\"{id}\""));
            let edited = edit(text, &self.key, &value)?;
            if edited == text {
                return Ok(());
            }
            let before = found.as_deref().map(str::as_bytes);
            if atomic::replace(&self.file, before, edited.as_bytes()).map_err(|e| e.to_string())? {
                return if self.commit { self.commit_file(id.as_ref()) } else { Ok(()) };
            }
        }
        Err("another program keeps changing it".to_owned())
    }

    /// Refuses a file under the project root whose folder is reached through a symbolic link that leads out
    /// of the project.
    fn check_folder(&self) -> Result<(), String> {
        let folder = atomic::folder_of(&self.file);
        let is_below = folder.starts_with(&self.project.root)
            && !folder.components().any(|part| part == Component::ParentDir);
        let real = crate::fs::canonicalize(folder).map_err(|e| e.to_string())?;
        // The folder is opened for its lock, and opening a pipe would block.
        if !real.is_dir() {
            return Err(format!("{} is not a folder", real.display()));
        }
        if is_below && !real.starts_with(&self.project.root) {
            return Err("a symbolic link leads out of the project".to_owned());
        }
        Ok(())
    }

    /// Locks the file's folder, which needs no lock file.
    fn lock(&self) -> Result<File, String> {
        let folder = File::open(atomic::folder_of(&self.file)).map_err(|e| e.to_string())?;
        let start = Instant::now();
        // The holder may be running a commit.
        let wait = if self.commit { COMMIT_TIME } else { WAIT };
        while folder.try_lock().is_err() {
            if start.elapsed() > wait {
                return Err("another process holds the lock on its folder".into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(folder)
    }

    /// Commits the file to the project's repository, and never to another one that its folder appears to
    /// belong to.
    fn commit_file(&self, id: Option<&CheckpointId>) -> Result<(), String> {
        let Some(repository) = &self.project.repository else {
            return Err("not committed: the project is not in a git repository".to_owned());
        };
        let folder = crate::fs::canonicalize(atomic::folder_of(&self.file)).map_err(|e| e.to_string())?;
        let file = folder.join(self.file.file_name().unwrap_or_default());
        let Ok(path) = file.strip_prefix(repository.worktree()) else {
            let worktree = repository.worktree().display();
            return Err(format!("not committed: the file is not in the worktree {worktree}"));
        };
        let message = match id {
            Some(id) => format!("milepost: checkpoint {id}"),
            None => "milepost: no current checkpoint".to_owned(),
        };
        let deadline = git::deadline_in(COMMIT_TIME);
        let failed = |e: git::GitError| format!("not committed: {e}");
        let git = Git::new(repository, deadline).map_err(failed)?;
        git.check_writable().map_err(failed)?;
        let add = ["add", "--"];
        let commit = ["commit", "--quiet", "--only", "--no-verify", "--no-gpg-sign", "-m", &message, "--"];
        for args in [&add[..], &commit[..]] {
            let args_and_path = args.iter().map(OsStr::new).chain([path.as_os_str()]);
            let done = git.output(args_and_path, deadline, PRINTED).map_err(failed)?;
            if !done.status.success() {
                let why = done.stderr.unwrap_or_else(|| done.status.to_string());
                return Err(format!("not committed: git {} failed: {why}", args[0]));
            }
        }
        Ok(())
    }
}

/// Where a value is, or where to insert it.
enum Spot {
    /// The value exists.
    Value(Range<usize>),
    /// The value is missing: where to insert it, whether the object there has members, and how many names
    /// of the key are missing.
    Absent { at: usize, members: bool, missing: usize },
}

/// The id in the text of a pointer file.
fn id_in(text: &str, key: &[String]) -> Option<CheckpointId> {
    let Ok(Spot::Value(range)) = locate(text, key) else { return None };
    serde_json::from_str(&text[range]).ok()
}

fn locate(text: &str, key: &[String]) -> Result<Spot, String> {
    strict::check(text.as_bytes()).map_err(|e| e.to_string())?;
    let offset = |part: &str| part.as_ptr() as usize - text.as_ptr() as usize;
    let mut object = text;
    for (depth, name) in key.iter().enumerate() {
        let members: BTreeMap<String, &RawValue> = serde_json::from_str(object)
            .map_err(|_| format!("{} is not an object", key[..depth].join(".")))?;
        let Some(value) = members.get(name) else {
            let ends = members.values().map(|value| offset(value.get()) + value.get().len());
            let (at, filled) = match ends.max() {
                Some(end) => (end, true),
                None => (offset(object) + object.find('{').unwrap_or(0) + 1, false),
            };
            return Ok(Spot::Absent { at, members: filled, missing: key.len() - depth });
        };
        object = value.get();
    }
    Ok(Spot::Value(offset(object)..offset(object) + object.len()))
}

fn edit(text: &str, key: &[String], value: &str) -> Result<String, String> {
    if key.is_empty() {
        return Err("no key was given".into());
    }
    let mut edited = text.to_owned();
    match locate(text, key)? {
        Spot::Value(range) => edited.replace_range(range, value),
        Spot::Absent { at, members, missing } => {
            let names = &key[key.len() - missing..];
            let quoted = |name: &String| serde_json::to_string(name).map_err(|e| e.to_string());
            let mut member = value.to_owned();
            for (i, name) in names.iter().enumerate().rev() {
                member = format!("{}: {member}", quoted(name)?);
                if i > 0 {
                    member = format!("{{{member}}}");
                }
            }
            edited.insert_str(at, &if members { format!(", {member}") } else { member });
        }
    }
    Ok(edited)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn key(path: &str) -> Vec<String> {
        path.split('.').map(str::to_owned).collect()
    }

    #[rstest::rstest]
    #[case(
        "{ \"a\" : 1.0,\n  \"state\": {\"checkpointRef\" : null , \"x\":9007199254740993} }",
        "{ \"a\" : 1.0,\n  \"state\": {\"checkpointRef\" : \"cp\" , \"x\":9007199254740993} }"
    )]
    #[case("{\"state\": {\"x\": 1}}", "{\"state\": {\"x\": 1, \"checkpointRef\": \"cp\"}}")]
    #[case("{\"state\": { }}", "{\"state\": {\"checkpointRef\": \"cp\" }}")]
    #[case("{}", "{\"state\": {\"checkpointRef\": \"cp\"}}")]
    #[case("{\"a\":1}\n", "{\"a\":1, \"state\": {\"checkpointRef\": \"cp\"}}\n")]
    fn edits_one_value_and_no_other_byte(#[case] before: &str, #[case] after: &str) {
        let edited = edit(before, &key("state.checkpointRef"), "\"cp\"").unwrap();
        assert_eq!(edited, after);
        strict::check(edited.as_bytes()).unwrap();
    }

    #[test]
    fn leaves_what_it_cannot_edit() {
        assert!(edit("{\"state\": 3}", &key("state.checkpointRef"), "null").is_err());
        assert!(edit("not json", &key("a"), "null").is_err());
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seed.json");
        let project = ProjectPaths::find(dir.path()).unwrap();
        let pointer = Pointer { file: file.clone(), key: key("ref"), commit: false, project };
        pointer.update(&|_| Ok(PointerUpdate::Clear)).unwrap();
        assert!(!file.exists(), "clearing creates no file");
        pointer.update(&|_| Ok(PointerUpdate::Name("cp_1".parse().unwrap()))).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "{\"ref\": \"cp_1\"}\n");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no other file remains");
    }

    #[test]
    fn an_edit_between_reading_and_writing_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("seed.json");
        let project = ProjectPaths::find(dir.path()).unwrap();
        let pointer = Pointer { file: file.clone(), key: key("ref"), commit: false, project };
        let edits = std::cell::Cell::new(0);
        let put = |text: &str| atomic::write(&file, text.as_bytes(), atomic::Mode::Shared).unwrap();
        put("{\"edits\": 0}");
        let decide = |_: Option<&CheckpointId>| {
            if edits.get() < 3 {
                edits.set(edits.get() + 1);
                put(&format!("{{\"edits\": {}}}", edits.get()));
            }
            Ok(PointerUpdate::Name("cp_1".parse().unwrap()))
        };
        pointer.update(&decide).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "{\"edits\": 3, \"ref\": \"cp_1\"}");
        let restless = |_: Option<&CheckpointId>| {
            edits.set(edits.get() + 1);
            put(&format!("{{\"edits\": {}}}", edits.get()));
            Ok(PointerUpdate::Name("cp_2".parse().unwrap()))
        };
        assert_eq!(pointer.update(&restless).unwrap_err(), "another program keeps changing it");
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("{{\"edits\": {}}}", edits.get()));
    }
}
