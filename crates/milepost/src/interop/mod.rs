//! Formats of other tools, one file each. In: a path to read, or a run with its checkpoints. Out: runs as plain data and
//! what was skipped, or files as bytes and the fields that they cannot hold. Must not read beyond the given path, and
//! must not write a run to the store: the engine does that.

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
    /// A format that runs can come from or go to.
    pub enum Format {
        /// A folder of phase checkpoints, with `seed.json` and event logs.
        Pai = "pai",
        /// A SQLite file of checkpoints and build states.
        Nova26 = "nova26",
        /// A tree of snapshots with `latest.json` and `history/`.
        Snapshot = "snapshot",
        /// Numbered files of a state folder.
        Aiwg = "aiwg",
        /// Markdown briefs.
        Markdown = "markdown",
        /// One sealed document a line.
        Jsonl = "jsonl",
        /// One file with everything of a run, for another machine.
        Bundle = "bundle",
    }
}

/// Why something of a foreign format could not be read at all.
#[derive(Debug, thiserror::Error)]
pub enum InteropError {
    /// The file or folder could not be read.
    #[error("{} could not be read", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The database could not be read.
    #[error("{} could not be read as a database", path.display())]
    Database {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
    /// There is nothing of this format.
    #[error("{}: {why}", path.display())]
    Nothing {
        /// Where it was looked for.
        path: PathBuf,
        /// What was looked for.
        why: String,
    },
    /// A document in a bundle is not an intact checkpoint.
    #[error("{}, line {line}: the checkpoint is not valid", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// The line.
        line: u64,
        /// What is wrong with it.
        source: crate::seal::SealError,
    },
    /// The run cannot be written in this format.
    #[error("the run cannot be written as {format}: {why}")]
    Unfit {
        /// The format.
        format: Format,
        /// Why.
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

/// Tells how many files were read.
pub(crate) type Progress<'a> = dyn FnMut(u64) + 'a;

/// Reads what is at a path: the folder itself, or its parent. Bundles and lines of sealed documents are `sealed`'s.
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
            Err(InteropError::Unfit { format, why: "it holds sealed documents".into() })
        }
    }
}

/// Writes a run in a format of files.
pub(crate) fn write(format: Format, run: &ExportRun<'_>) -> Result<ExportedRun, InteropError> {
    match format {
        Format::Pai => Ok(pai::write(run)),
        Format::Snapshot => snapshot::write(run),
        Format::Aiwg => Ok(aiwg::write(run)),
        Format::Markdown => Ok(markdown::write(run)),
        Format::Nova26 | Format::Jsonl | Format::Bundle => {
            Err(InteropError::Unfit { format, why: "it is one file".into() })
        }
    }
}
