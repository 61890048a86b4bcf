//! Reads the files and stdin that a command gets as input, completely but up to a size limit. Refuses devices
//! and named pipes, so that a read neither has side effects nor blocks on a pipe without a writer.

use std::ffi::OsString;
use std::fs::{File, FileType, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use milepost::Error;
use milepost::model::ValidationError;

use crate::error::Result;

/// Maximum size of an input, in bytes.
const MOST: u64 = 64 << 20;

/// The content that a flag refers to: a file, stdin for `-`, or text that the MCP server passes directly.
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
    /// Reads the whole content.
    pub(crate) fn read(&self) -> Result<Vec<u8>> {
        match self {
            Self::File(path) => read(path),
            #[cfg(feature = "mcp")]
            Self::Given(text) => Ok(text.clone().into_bytes()),
        }
    }

    /// Reads the whole content as text. The error for invalid UTF-8 names `member`, the field that the text
    /// is for.
    pub(crate) fn text(&self, member: &str) -> Result<String> {
        match self {
            Self::File(path) => read_text(path, member),
            #[cfg(feature = "mcp")]
            Self::Given(text) => Ok(text.clone()),
        }
    }
}

/// The value of a flag: text from the command line, or a typed value from the MCP server.
#[derive(Debug, Clone)]
pub(crate) enum Argument<T> {
    Text(String),
    #[cfg_attr(not(feature = "mcp"), allow(dead_code, reason = "only the MCP server passes values"))]
    Value(T),
}

impl<T> From<String> for Argument<T> {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: std::str::FromStr<Err = ValidationError>> Argument<T> {
    /// Parses one of a closed set of words. `path` is the value's location in a checkpoint.
    pub(crate) fn choice(self, flag: &str, path: &str) -> Result<T, Error> {
        match self {
            Self::Text(text) => crate::config::parse_choice(&text, flag, path),
            Self::Value(value) => Ok(value),
        }
    }
}

impl Argument<u64> {
    /// Parses a whole number. `path` is the value's location in a checkpoint.
    pub(crate) fn number(self, flag: &str, path: &str) -> Result<u64, Error> {
        match self {
            Self::Text(text) => text.parse().map_err(|_| Error::Value {
                name: flag.to_owned(),
                source: ValidationError {
                    path: path.to_owned(),
                    message: format!("\"{text}\" is not a whole number, 0 or more"),
                },
            }),
            Self::Value(value) => Ok(value),
        }
    }
}

/// Reads a regular file, a process substitution of the shell (`<(…)`), or stdin for `-`.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |source| Error::File { path: path.to_owned(), what: "read", source };
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(MOST + 1).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        open(path).and_then(|file| file.take(MOST + 1).read_to_end(&mut bytes)).map_err(failed)?;
    }
    if bytes.len() as u64 > MOST {
        let message = format!("{} is larger than {MOST} bytes, the limit for one input", path.display());
        return Err(ValidationError::document(message).into());
    }
    Ok(bytes)
}

/// Opens a file that can be read to its end: never a device, and a pipe only if the shell created it, because
/// then it has a writer. Checks the type before opening, because opening a device can have side effects, and
/// again on the open file.
fn open(path: &Path) -> io::Result<File> {
    let is_of_a_shell = ["/dev/fd", "/dev/stdin", "/proc"].iter().any(|folder| path.starts_with(folder));
    let check = |about: Metadata| match about.file_type() {
        kind if kind.is_file() || is_pipe(kind) && is_of_a_shell => Ok(()),
        kind if is_pipe(kind) => Err(io::Error::other("it is a pipe, not a regular file")),
        kind if kind.is_dir() => Err(io::Error::other("it is a directory, not a regular file")),
        _ => Err(io::Error::other("it is not a regular file")),
    };
    check(std::fs::metadata(path)?)?;
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        use std::os::unix::fs::OpenOptionsExt as _;
        // Do not block if a pipe has replaced the file since the check.
        let flags = if is_of_a_shell { OFlags::empty() } else { OFlags::NONBLOCK };
        options.custom_flags((flags | OFlags::NOCTTY | OFlags::CLOEXEC).bits().cast_signed());
    }
    let file = options.open(path)?;
    check(file.metadata()?)?;
    Ok(file)
}

/// Whether a file is a named pipe. On Windows, those are not among the files.
#[cfg_attr(not(unix), allow(unused_variables, reason = "the kind is not needed"))]
fn is_pipe(kind: FileType) -> bool {
    #[cfg(unix)]
    return std::os::unix::fs::FileTypeExt::is_fifo(&kind);
    #[cfg(not(unix))]
    return false;
}

/// Reads a file as text. The error for invalid UTF-8 names `member`, the field that the text is for.
pub(crate) fn read_text(path: &Path, member: &str) -> Result<String> {
    String::from_utf8(read(path)?).map_err(|e| {
        let message = format!("invalid UTF-8 at byte {}", e.utf8_error().valid_up_to());
        ValidationError { path: member.to_owned(), message }.into()
    })
}
