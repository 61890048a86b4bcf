//! Import and export formats, one file per format. Reading takes a path and returns runs as plain data, with
//! a list of skipped files. Writing takes a run with its checkpoints and returns files, with the fields that
//! the format cannot represent. This module must not read outside the given path or write to a store; the
//! engine does that.

mod aiwg;
pub(crate) mod detect;
mod folder;
mod markdown;
pub(crate) mod nova26;
mod pai;
mod python;
pub(crate) mod sealed;
mod snapshot;
mod types;

use std::path::{Path, PathBuf};

pub(crate) use detect::detect;
pub(crate) use types::{
    ExportCheckpoint, ExportFile, ExportRun, ExportedRun, ForeignCheckpoint, ForeignData, ForeignRun,
    safe_file_name,
};
pub use types::{ImportNote, SkippedFile};

use crate::model::closed_enum;

closed_enum! {
    /// A format that runs can be imported from or exported to.
    pub enum Format {
        /// A folder of phase checkpoints, with `seed.json` and event logs.
        Pai = "pai",
        /// A SQLite file of checkpoints and build states.
        Nova26 = "nova26",
        /// A tree of snapshots with `latest.json` and `history/`.
        Snapshot = "snapshot",
        /// A folder of numbered checkpoint files.
        Aiwg = "aiwg",
        /// Markdown briefs.
        Markdown = "markdown",
        /// One sealed document per line.
        Jsonl = "jsonl",
        /// One file with all data of a run, to be moved to another machine.
        Bundle = "bundle",
    }
}

/// The reason why data could not be imported or exported.
#[derive(Debug, thiserror::Error)]
pub enum InteropError {
    /// The file or folder could not be read.
    #[error("{} could not be read", path.display())]
    Read {
        /// The path of the file or folder.
        path: PathBuf,
        /// The I/O error.
        source: std::io::Error,
    },
    /// The SQLite database could not be read or written.
    #[error("database error in {}", path.display())]
    Database {
        /// The path of the database file.
        path: PathBuf,
        /// The database error.
        source: rusqlite::Error,
    },
    /// The path contains no data in the expected format.
    #[error("{}: {why}", path.display())]
    Nothing {
        /// The file or folder that was searched.
        path: PathBuf,
        /// What is missing or wrong.
        why: String,
    },
    /// A document in a bundle is not an intact checkpoint.
    #[error("{}, line {line}: the checkpoint is not valid", path.display())]
    Document {
        /// The path of the bundle.
        path: PathBuf,
        /// The number of the line.
        line: u64,
        /// What is wrong with the checkpoint.
        source: crate::seal::SealError,
    },
    /// The run cannot be written in this format.
    #[error("the run cannot be written as {format}: {why}")]
    Unfit {
        /// The format.
        format: Format,
        /// Why it cannot be written.
        why: String,
    },
}

impl InteropError {
    fn read(path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        |source| Self::Read { path: path.to_owned(), source }
    }

    fn nothing(path: &Path, why: impl Into<String>) -> Self {
        Self::Nothing { path: path.to_owned(), why: why.into() }
    }
}

/// A callback that is called with the number of files, rows or lines read so far.
pub(crate) type Progress<'a> = dyn FnMut(u64) + 'a;

/// Reads the data at a path, which is the format's folder or its parent. `sealed` reads bundles and lines of
/// sealed documents.
pub(crate) fn read(
    format: Format,
    path: &Path,
    progress: &mut Progress<'_>,
) -> Result<ForeignData, InteropError> {
    match format {
        Format::Pai => pai::read(path, progress),
        Format::Nova26 => nova26::read(path, progress),
        Format::Snapshot => snapshot::read(path, progress),
        Format::Aiwg => aiwg::read(path, progress),
        Format::Markdown => markdown::read(path, progress),
        Format::Jsonl | Format::Bundle => {
            Err(InteropError::Unfit { format, why: "the format contains sealed documents".into() })
        }
    }
}

/// Writes a run in a format that consists of several files.
pub(crate) fn write(format: Format, run: &ExportRun<'_>) -> Result<ExportedRun, InteropError> {
    match format {
        Format::Pai => Ok(pai::write(run)),
        Format::Snapshot => snapshot::write(run),
        Format::Aiwg => Ok(aiwg::write(run)),
        Format::Markdown => Ok(markdown::write(run)),
        Format::Nova26 | Format::Jsonl | Format::Bundle => {
            Err(InteropError::Unfit { format, why: "the format is a single file".into() })
        }
    }
}
