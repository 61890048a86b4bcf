//! Sealed documents as files: lines of JSON, one document each, and bundles, which hold all of a run in one file. In: a
//! run, or a file. Out: the file's bytes, or checkpoints whose seals were checked. Must not change a sealed document.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::types::{ExportRun, ForeignData};
use super::{Format, InteropError, Progress};
use crate::ReasonCode;
use crate::fs::bounded;
use crate::model::{Body, Event, Item, Marks, RunRecord};
use crate::seal::{self, SealError, Verified};

/// The version of the bundle's own form.
const VERSION: u64 = 1;
/// The longest line that is read: stores hold no larger document.
const LINE_LIMIT: u64 = 80 << 20;

/// What was not committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patch {
    /// The commit that it applies to.
    pub head: Option<String>,
    /// The difference, as git writes it.
    pub diff: String,
}

/// How a bundle begins.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BundleHeader {
    /// The version of its form.
    pub milepost_bundle: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// The commit that the work stood on.
    pub commit: Option<String>,
    /// The branch it was on.
    pub branch: Option<String>,
    /// How many checkpoints follow.
    pub checkpoints: u64,
    /// How many events follow.
    pub events: u64,
    /// The run's record.
    pub run: RunRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The document as text: what a caller gave verbatim may go over several lines.
    Checkpoint {
        document: String,
        marks: Box<Marks>,
    },
    Event(Event),
    Items(Vec<Item>),
    Patch(Patch),
    End {
        lines: u64,
        sha256: String,
    },
}

/// A checkpoint as it came in a file: its seal is right, and its content is a checkpoint.
#[derive(Debug)]
pub(crate) struct SealedCheckpoint {
    /// The number of its line in the file.
    pub line: u64,
    /// The document.
    pub document: Verified,
    /// Its content.
    pub body: Body,
    /// Its marks; none for plain lines.
    pub marks: Marks,
}

impl SealedCheckpoint {
    fn read(line: u64, bytes: Vec<u8>, marks: Marks) -> Result<Self, SealError> {
        let document = seal::verify(bytes)?;
        let body = document.body()?;
        Ok(Self { line, document, body, marks })
    }
}

/// A run as it came, every seal checked.
#[derive(Debug)]
pub(crate) struct SealedRun {
    /// How the bundle began; nothing for plain lines.
    pub head: Option<BundleHeader>,
    /// Its checkpoints, oldest first.
    pub checkpoints: Vec<SealedCheckpoint>,
    /// What happened.
    pub events: Vec<Event>,
    /// What waited for the next checkpoint.
    pub items: Vec<Item>,
    /// What was not committed.
    pub patch: Option<Patch>,
}

/// Lines of sealed documents or a bundle, by the first bytes.
pub(super) fn detect(path: &Path) -> Option<Format> {
    let mut head = Vec::new();
    open_regular(path).ok()?.take(64 * 1024).read_to_end(&mut head).ok()?;
    let first = head.split(|b| *b == b'\n').next()?;
    if first.starts_with(b"{\"milepost_bundle\":") {
        return Some(Format::Bundle);
    }
    let sealed = head.windows(12).any(|w| w == b"\"integrity\":") || first.starts_with(b"{\"brief\":");
    (first.starts_with(b"{") && sealed || first.starts_with(b"\"{\\\"brief")).then_some(Format::Jsonl)
}

/// Opens a regular file, whatever links lead to it: its path was given by a person.
fn open_regular(path: &Path) -> io::Result<fs::File> {
    bounded::open(&fs::canonicalize(path)?)
}

/// One sealed document a line; one that goes over several lines as a JSON string.
pub(crate) fn lines(run: &ExportRun<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    for held in run.checkpoints {
        if held.document.contains(&b'\n') {
            let text = String::from_utf8_lossy(&held.document);
            out.extend_from_slice(serde_json::to_string(&text).unwrap_or_default().as_bytes());
        } else {
            out.extend_from_slice(&held.document);
        }
        out.push(b'\n');
    }
    out
}

/// One file with everything.
pub(crate) fn bundle(
    run: &ExportRun<'_>,
    now: Timestamp,
    patch: Option<Patch>,
) -> Result<Vec<u8>, InteropError> {
    let unfit = |why: String| InteropError::Unfit { format: Format::Bundle, why };
    let git = run.checkpoints.iter().rev().find_map(|held| held.body.workspace.as_ref()?.git.clone());
    let head = BundleHeader {
        milepost_bundle: VERSION,
        created_at: now,
        commit: patch.as_ref().and_then(|p| p.head.clone()).or_else(|| git.as_ref()?.head.clone()),
        branch: git.and_then(|git| git.branch).or_else(|| run.record.branch.clone()),
        checkpoints: run.checkpoints.len() as u64,
        events: run.events.len() as u64,
        // Which commits were made means nothing elsewhere.
        run: RunRecord { recent: Vec::new(), maintenance: None, ..run.record.clone() },
    };
    let mut lines = Vec::new();
    for held in run.checkpoints {
        let document = String::from_utf8(held.document.clone()).map_err(|e| unfit(e.to_string()))?;
        lines.push(Line::Checkpoint { document, marks: Box::new(held.marks.clone()) });
    }
    lines.extend(run.events.iter().cloned().map(Line::Event));
    if !run.items.is_empty() {
        lines.push(Line::Items(run.items.to_vec()));
    }
    lines.extend(patch.map(Line::Patch));
    let to_line = |value: serde_json::Result<String>| Ok(value.map_err(|e| unfit(e.to_string()))? + "\n");
    let mut out = to_line(serde_json::to_string(&head))?;
    for line in &lines {
        out += &to_line(serde_json::to_string(line))?;
    }
    let sha256 = HEXLOWER.encode(&Sha256::digest(&out));
    let end = Line::End { lines: lines.len() as u64 + 1, sha256 };
    out += &to_line(serde_json::to_string(&end))?;
    Ok(out.into_bytes())
}

/// Reads to the end of a line, and keeps none of it.
fn skip_line(reader: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = reader.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let (n, done) = end.map_or((buffer.len(), buffer.is_empty()), |end| (end + 1, true));
        reader.consume(n);
        if done {
            return Ok(());
        }
    }
}

/// What a line stands for: itself, or the text of a string.
fn document(line: &[u8]) -> Vec<u8> {
    serde_json::from_slice::<String>(line).map_or_else(|_| line.to_vec(), String::into_bytes)
}

/// Reads a bundle or lines. A bundle that is torn or changed is refused as a whole; of lines, those that prove
/// themselves are taken.
pub(crate) fn read(
    format: Format,
    path: &Path,
    progress: &mut Progress<'_>,
) -> Result<(Vec<SealedRun>, ForeignData), InteropError> {
    let mut reader = BufReader::new(open_regular(path).map_err(InteropError::read(path))?.take(u64::MAX));
    let mut found = ForeignData::default();
    let mut sealed =
        SealedRun { head: None, checkpoints: Vec::new(), events: Vec::new(), items: Vec::new(), patch: None };
    let mut hasher = Sha256::new();
    let mut ended = format == Format::Jsonl;
    let mut bytes = Vec::new();
    for n in 1_u64.. {
        bytes.clear();
        reader.by_ref().take(LINE_LIMIT).read_until(b'\n', &mut bytes).map_err(InteropError::read(path))?;
        if bytes.is_empty() {
            break;
        }
        progress(n);
        let broken = |why: String| InteropError::nothing(path, format!("line {n}: {why}"));
        if bytes.len() as u64 == LINE_LIMIT && !bytes.ends_with(b"\n") {
            let why = format!("longer than {}", bounded::format_limit(LINE_LIMIT));
            if format == Format::Bundle {
                return Err(broken(why));
            }
            found.refuse(format!("line {n}"), ReasonCode::CheckpointSchemaInvalid, why);
            skip_line(&mut reader).map_err(InteropError::read(path))?;
            continue;
        }
        let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        match format {
            Format::Bundle if n == 1 => {
                let head: BundleHeader =
                    serde_json::from_slice(line).map_err(|e| broken(format!("not a bundle: {e}")))?;
                if head.milepost_bundle > VERSION {
                    return Err(broken(format!(
                        "a bundle of version {}, newer than {VERSION}",
                        head.milepost_bundle
                    )));
                }
                sealed.head = Some(head);
            }
            Format::Bundle => match serde_json::from_slice(line).map_err(|e| broken(e.to_string()))? {
                Line::Checkpoint { document, marks } => {
                    let read = SealedCheckpoint::read(n, document.into_bytes(), *marks);
                    let invalid = |source| InteropError::Document { path: path.to_owned(), line: n, source };
                    sealed.checkpoints.push(read.map_err(invalid)?);
                }
                Line::Event(event) => sealed.events.push(event),
                Line::Items(items) => sealed.items = items,
                Line::Patch(patch) => sealed.patch = Some(patch),
                Line::End { lines, sha256 } => {
                    let found = HEXLOWER.encode(&hasher.clone().finalize());
                    if lines != n - 1 || sha256 != found {
                        return Err(broken(format!("checksum mismatch: expected {sha256}, found {found}")));
                    }
                    ended = true;
                }
            },
            _ if line.iter().all(u8::is_ascii_whitespace) => {}
            _ => match SealedCheckpoint::read(n, document(line), Marks::default()) {
                Ok(read) => sealed.checkpoints.push(read),
                Err(e) => found.refuse(format!("line {n}"), e.reason(), e.to_string()),
            },
        }
        hasher.update(&bytes);
    }
    if !ended {
        return Err(InteropError::nothing(path, "it ends too early"));
    }
    Ok((vec![sealed], found))
}
