//! Files and stdin that a command is given: read whole, but not without end, and never waiting for a pipe that nobody
//! writes to.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};

use milepost::Error;
use milepost::model::Invalid;

use crate::failure::Failure;

/// The largest input that is read.
const MOST: u64 = 64 << 20;

/// What a flag gives: a file, stdin for `-`, or the content itself where no command line was typed.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    File(PathBuf),
    #[cfg(feature = "mcp")]
    Given(String),
}

impl From<OsString> for Content {
    fn from(path: OsString) -> Self {
        Self::File(path.into())
    }
}

impl Content {
    /// All of it.
    pub(crate) fn read(&self) -> Result<Vec<u8>, Failure> {
        match self {
            Self::File(path) => read(path),
            #[cfg(feature = "mcp")]
            Self::Given(text) => Ok(text.clone().into_bytes()),
        }
    }

    /// All of it as text; what is no UTF-8 is refused under the name of the member it is meant for.
    pub(crate) fn text(&self, member: &str) -> Result<String, Failure> {
        match self {
            Self::File(path) => read_text(path, member),
            #[cfg(feature = "mcp")]
            Self::Given(text) => Ok(text.clone()),
        }
    }
}

/// Reads a file, or stdin for `-`.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |source| Error::File { path: path.to_owned(), what: "read", source };
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(MOST + 1).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        if is_lonely_pipe(path) {
            return Err(failed(std::io::Error::other("it is a pipe, not a file")).into());
        }
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(MOST + 1).read_to_end(&mut bytes).map_err(failed)?;
    }
    if bytes.len() as u64 > MOST {
        let message = format!("{} holds more than {MOST} bytes, the limit of one input", path.display());
        return Err(Invalid { path: String::new(), message }.into());
    }
    Ok(bytes)
}

/// Reads a text; what is no UTF-8 is refused under the name of the member it is meant for.
pub(crate) fn read_text(path: &Path, member: &str) -> Result<String, Failure> {
    String::from_utf8(read(path)?).map_err(|e| {
        let message = format!("invalid UTF-8 at byte {}", e.utf8_error().valid_up_to());
        Invalid { path: member.to_owned(), message }.into()
    })
}

/// A pipe in a folder; those of the shell (`<(…)`) are under `/dev` and have a writer.
fn is_lonely_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_pipe = std::fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo());
    is_pipe && !path.starts_with("/dev") && !path.starts_with("/proc")
}
