//! Reads the files of a folder that another tool wrote. Takes the path of the folder and returns the text and
//! JSON of its files, and records a reason for each file that is skipped. It must not follow a symbolic link
//! out of the folder or read more than the size limit.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::types::{ForeignCheckpoint, ForeignData};
use super::{Format, InteropError, Progress};
use crate::fs::bounded;
use crate::model::{JsonPath, RawObject, ValidationError};
use crate::seal::strict;

/// The maximum size of a file in bytes, before and after decompression.
pub(super) const FILE_LIMIT: u64 = 64 << 20;

/// A folder that is being read, and the data and messages collected from it.
pub(super) struct SourceFolder<'p, 'q> {
    pub(super) root: PathBuf,
    /// `root` with symbolic links resolved.
    real: PathBuf,
    pub(super) data: ForeignData,
    progress: &'p mut Progress<'q>,
    done: u64,
}

impl<'p, 'q> SourceFolder<'p, 'q> {
    pub(super) fn open(root: &Path, progress: &'p mut Progress<'q>) -> Result<Self, InteropError> {
        let real = crate::fs::canonicalize(root).map_err(InteropError::read(root))?;
        Ok(Self { root: root.to_owned(), real, data: ForeignData::default(), progress, done: 0 })
    }

    /// Returns the path relative to the folder, for messages.
    pub(super) fn relative_name(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).to_string_lossy().into_owned()
    }

    /// Returns the files in `folder` whose names satisfy `wanted`, sorted by name. An unreadable folder is
    /// recorded as skipped.
    pub(super) fn files(&mut self, folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
        self.entries(folder, false).into_iter().filter(|path| wanted(&file_name(path))).collect()
    }

    /// Returns the folders in `folder`, sorted by name.
    pub(super) fn folders(&mut self, folder: &Path) -> Vec<PathBuf> {
        self.entries(folder, true)
    }

    fn entries(&mut self, folder: &Path, folders: bool) -> Vec<PathBuf> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(e) => {
                self.skip(folder, format!("the folder could not be read: {e}"));
                return Vec::new();
            }
        };
        let mut all: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| !file_name(path).starts_with('.'))
            .filter(|path| path.is_dir() == folders)
            .collect();
        all.sort();
        all
    }

    /// Reads a whole file as text. If that fails, records the file as skipped and returns `None`.
    pub(super) fn read_text(&mut self, path: &Path) -> Option<String> {
        self.done += 1;
        (self.progress)(self.done);
        self.decode_text(path).map_err(|why| self.skip(path, why)).ok()
    }

    pub(super) fn skip(&mut self, path: &Path, why: impl Into<String>) {
        let name = self.relative_name(path);
        self.data.skip(name, why);
    }

    fn decode_text(&self, path: &Path) -> Result<String, String> {
        String::from_utf8(self.read_bytes(path)?)
            .map_err(|e| format!("invalid UTF-8 at byte {}", e.utf8_error().valid_up_to()))
    }

    pub(super) fn read_bytes(&self, path: &Path) -> Result<Vec<u8>, String> {
        let real = crate::fs::canonicalize(path).map_err(|e| match fs::symlink_metadata(path) {
            Ok(meta) if meta.is_symlink() => format!("a broken link: {e}"),
            _ => e.to_string(),
        })?;
        if !real.starts_with(&self.real) {
            return Err("a symbolic link that leads out of the folder".into());
        }
        let too_large =
            || format!("larger than {}, the limit for one file", bounded::format_limit(FILE_LIMIT));
        let mut bytes = bounded::read(&real, FILE_LIMIT).map_err(|e| match e.kind() {
            io::ErrorKind::FileTooLarge => too_large(),
            _ => e.to_string(),
        })?;
        if path.extension().is_some_and(|e| e == "gz") {
            let mut plain = Vec::new();
            let packed = flate2::read::MultiGzDecoder::new(&bytes[..]);
            packed.take(FILE_LIMIT + 1).read_to_end(&mut plain).map_err(|e| format!("not gzip: {e}"))?;
            bytes = plain;
        }
        if bytes.len() as u64 > FILE_LIMIT { Err(too_large()) } else { Ok(bytes) }
    }

    /// Reads a file that contains one JSON object. Returns the object and its text.
    pub(super) fn read_object(&mut self, path: &Path) -> Option<(RawObject, String)> {
        let text = self.read_text(path)?;
        let bare = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let read = strict::check(bare.as_bytes()).and_then(|bare| RawObject::parse(bare, &JsonPath::Root));
        match read {
            Ok(fields) => Some((fields, bare.to_owned())),
            Err(e) => {
                let name = self.relative_name(path);
                self.data.skip_invalid(name, &e);
                None
            }
        }
    }

    /// Reads one checkpoint from each file and adds it to its run. `parse` returns the id of the run and the
    /// checkpoint. Invalid files are skipped.
    pub(super) fn read_checkpoints(
        &mut self,
        format: Format,
        files: &[PathBuf],
        parse: impl Fn(RawObject, &str, &mut ForeignData) -> Result<(String, ForeignCheckpoint), ValidationError>,
    ) {
        for file in files {
            let Some((fields, _)) = self.read_object(file) else { continue };
            let name = self.relative_name(file);
            match parse(fields, &name, &mut self.data) {
                Ok((run, checkpoint)) => self.data.run_mut(format, &run).checkpoints.push(checkpoint),
                Err(e) => self.data.skip_invalid(name, &e),
            }
        }
    }
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the subfolder `name` if it exists, otherwise the folder itself.
pub(super) fn subfolder_or_self(path: &Path, name: &str) -> PathBuf {
    let below = path.join(name);
    if below.is_dir() { below } else { path.to_owned() }
}
