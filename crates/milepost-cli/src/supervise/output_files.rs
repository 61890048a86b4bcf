//! Keeps the end of a program's output if it goes to files: regular files that stdout and stderr of this
//! process are redirected to, or a log file. Reads only what was written since the program started, and only
//! a limited part of it. Never reads from a terminal, a pipe or a device.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use milepost::AllowList;

/// Maximum size of the end that is kept, in bytes. Less than the limit of an outcome's summary, because a
/// placeholder may be longer than the secret that it replaces.
const BYTES: usize = 1900;
/// How many of these bytes stderr may use if stdout goes to a separate file.
const STDERR_BYTES: usize = 1300;
/// Number of bytes to search for secrets. More than is kept, because a truncated secret is not recognised.
const SEEN: u64 = 16 * 1024;
/// The start of the lines that `run --json` itself writes to stderr.
const OWN_LINE: &str = r#"{"schema":"milepost."#;

/// The files that receive a program's output.
#[derive(Debug, Default)]
pub(crate) struct OutputFiles {
    /// The files of stdout and stderr, in this order. A file that receives both is listed once.
    files: Vec<OutputFile>,
    /// The path of the log file, if there is one.
    log: Option<PathBuf>,
}

#[derive(Debug)]
pub(super) struct OutputFile {
    pub(super) file: File,
    /// The size of the file when the program started.
    pub(super) start: u64,
}

impl OutputFiles {
    /// The regular files that stdout and stderr of this process are redirected to. None on Windows, where a redirected
    /// stream cannot be read.
    pub(crate) fn redirected() -> Self {
        #[cfg(unix)]
        return Self { files: super::redirected::files(), log: None };
        #[cfg(not(unix))]
        return Self::default();
    }

    /// A log file, which is created if it does not exist. Refuses anything but a regular file.
    pub(crate) fn log(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600).custom_flags(super::redirected::FLAGS);
        }
        let file = options.open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let path = milepost::internal::fs::canonicalize(path)?;
        Ok(Self { files: vec![OutputFile { file, start: metadata.len() }], log: Some(path) })
    }

    /// The path of the log file, without symbolic links.
    pub(crate) fn log_path(&self) -> Option<&Path> {
        self.log.as_deref()
    }

    /// Whether the end of the output can be kept.
    pub(crate) fn can_keep(&self) -> bool {
        !self.files.is_empty()
    }

    /// Sends the output of a command to the log file, if there is one.
    pub(crate) fn attach(&self, command: &mut Command) -> io::Result<()> {
        if let (Some(_), Some(log)) = (&self.log, self.files.first()) {
            command.stdout(Stdio::from(log.file.try_clone()?)).stderr(Stdio::from(log.file.try_clone()?));
        }
        Ok(())
    }

    /// The last lines of the output so far, without secrets. With two files, the lines of stderr are last.
    pub(crate) fn end(&self, allow: &AllowList) -> String {
        let mut parts = Vec::new();
        let mut room = BYTES;
        for (i, file) in self.files.iter().enumerate().rev() {
            let part = last_lines(&file.read_end(), allow, if i > 0 { STDERR_BYTES } else { room });
            room = room.saturating_sub(part.len() + 1);
            parts.extend(Some(part).filter(|part| !part.is_empty()));
        }
        parts.reverse();
        parts.join("\n")
    }
}

impl OutputFile {
    /// The last `SEEN` bytes that were written since the start; empty if the file cannot be read.
    fn read_end(&self) -> Vec<u8> {
        let Ok(size) = self.file.metadata().map(|metadata| metadata.len()) else { return Vec::new() };
        // A file that became smaller was truncated, so all of it is new.
        let start = if size < self.start { 0 } else { self.start };
        let from = start.max(size.saturating_sub(SEEN));
        let mut bytes = vec![0; usize::try_from(size - from).unwrap_or_default()];
        let mut filled = 0;
        while filled < bytes.len() {
            match read_at(&self.file, &mut bytes[filled..], from + filled as u64) {
                Ok(n @ 1..) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => break,
            }
        }
        bytes.truncate(filled);
        // The first line is incomplete.
        if from > start
            && let Some(newline) = bytes.iter().position(|byte| *byte == b'\n')
        {
            bytes.drain(..=newline);
        }
        bytes
    }
}

fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::read_at(file, bytes, offset);
    #[cfg(windows)]
    return std::os::windows::fs::FileExt::seek_read(file, bytes, offset);
}

/// The last whole lines of some output, without secrets, in at most `limit` bytes. If even the last line
/// is longer, only its end.
fn last_lines(bytes: &[u8], allow: &AllowList, limit: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    // A progress bar overwrites its line after each carriage return. A file that was truncated while a
    // program wrote to it contains zeros.
    let visible = |line: &str| {
        let line = line.trim_end_matches('\r');
        line.rsplit('\r').next().unwrap_or(line).replace('\0', "")
    };
    let lines = text.lines().filter(|line| !line.starts_with(OWN_LINE)).map(visible);
    let text = lines.collect::<Vec<_>>().join("\n");
    let clean = allow.redact_text(&text);
    let text = clean.as_deref().unwrap_or(&text).trim_end();
    if text.len() <= limit {
        return text.trim_start_matches('\n').to_owned();
    }
    let end = &text[text.ceil_char_boundary(text.len() - limit)..];
    // The cut is within a line, unless it is right after a line break.
    let whole = match end.find('\n') {
        _ if text[..text.len() - end.len()].ends_with('\n') => end,
        Some(newline) => &end[newline + 1..],
        None => end,
    };
    whole.trim_start_matches('\n').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_of(bytes: &[u8], limit: usize) -> String {
        last_lines(bytes, &AllowList::default(), limit)
    }

    #[test]
    fn whole_lines_of_text_are_kept() {
        assert_eq!(end_of(b"one\ntwo\nthree\n\n", 100), "one\ntwo\nthree");
        assert_eq!(end_of(b"one\ntwo\nthree\n", 9), "two\nthree");
        assert_eq!(end_of(b"one\ntwo\nthree\n", 8), "three");
        assert_eq!(end_of(b"one\na long last line", 9), "last line");
        assert_eq!(end_of(b"10%\r20%\r100%\r\ndone\r\n", 100), "100%\ndone");
        assert_eq!(end_of(b"\0\0\xffbad\n{\"schema\":\"milepost.run/1\"}\n", 100), "\u{fffd}bad");
        assert_eq!(end_of("ä\u{1F600}".as_bytes(), 5), "\u{1F600}");
    }

    #[test]
    fn secrets_are_replaced_before_lines_are_cut() {
        let line = format!("token ghp_{}\n", "a1B2".repeat(9));
        let kept = end_of(format!("{line}last\n").as_bytes(), 40);
        assert!(!kept.contains("a1B2") && kept.ends_with("last"), "{kept}");
    }

    #[test]
    fn a_log_is_read_from_its_start_and_must_be_a_file() {
        use std::io::Write as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        File::create(&path).unwrap().write_all(b"earlier\n").unwrap();
        let log = OutputFiles::log(&path).unwrap();
        assert_eq!(log.end(&AllowList::default()), "");
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"now\n").unwrap();
        assert_eq!(log.end(&AllowList::default()), "now");
        for _ in 0..5000 {
            file.write_all(b"a line\n").unwrap();
        }
        let end = log.end(&AllowList::default());
        assert!(end.len() <= BYTES && end.lines().all(|line| line == "a line"), "{end}");
        file.set_len(0).unwrap();
        file.write_all(b"new\n").unwrap();
        assert_eq!(log.end(&AllowList::default()), "new");
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
        assert_eq!(OutputFiles::log(&pipe).unwrap_err().to_string(), "not a regular file");
        assert!(OutputFiles::log(dir.path()).is_err());
    }
}
