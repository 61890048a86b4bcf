//! The formats that contain sealed documents: JSON lines with one document per line, and bundles, which
//! contain all data of a run in one file. Writes a run as bytes; reads a file into checkpoints whose seals
//! are verified. It must not change a sealed document.

use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use data_encoding::{BASE64, HEXLOWER};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::types::{ExportRun, ForeignData};
use super::{Format, InteropError, Progress};
use crate::ReasonCode;
use crate::fs::bounded;
use crate::model::{Attachment, Body, Event, Item, Marks, Message, RunRecord};
use crate::seal::{self, SealError, Verified};

/// The version of the bundle format.
const VERSION: u64 = 1;
/// The maximum length of a line in bytes. No store accepts a larger document.
const LINE_LIMIT: u64 = 80 << 20;

/// The uncommitted changes of the workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patch {
    /// The commit that the patch applies to.
    pub head: Option<String>,
    /// The patch, in git's diff format.
    pub diff: String,
}

/// The first line of a bundle.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BundleHeader {
    /// The version of the bundle format.
    pub milepost_bundle: u64,
    /// When the bundle was created.
    pub created_at: Timestamp,
    /// The current commit of the work.
    pub commit: Option<String>,
    /// The current branch of the work.
    pub branch: Option<String>,
    /// The number of checkpoints that follow.
    pub checkpoints: u64,
    /// The number of events that follow.
    pub events: u64,
    /// The record of the run.
    pub run: RunRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The document is stored as a string, because verbatim values in it can contain line breaks.
    Checkpoint {
        document: String,
        marks: Box<Marks>,
    },
    Event(Event),
    Message(Message),
    Attachment(Attachment),
    /// The content of a blob that an attachment refers to, as base64.
    Blob(String),
    Items(Vec<Item>),
    Patch(Patch),
    End {
        lines: u64,
        sha256: String,
    },
}

/// A checkpoint from a file, with a verified seal and valid content.
#[derive(Debug)]
pub(crate) struct SealedCheckpoint {
    /// The number of its line in the file.
    pub line: u64,
    pub document: Verified,
    pub body: Body,
    /// The marks; empty for JSON lines.
    pub marks: Marks,
}

impl SealedCheckpoint {
    fn read(line: u64, bytes: Vec<u8>, marks: Marks) -> Result<Self, SealError> {
        let document = seal::verify(bytes)?;
        let body = document.body()?;
        Ok(Self { line, document, body, marks })
    }
}

/// A run from a file, with every seal verified.
#[derive(Debug)]
pub(crate) struct SealedRun {
    /// The header of the bundle; `None` for JSON lines.
    pub head: Option<BundleHeader>,
    /// The checkpoints, in the order of the file.
    pub checkpoints: Vec<SealedCheckpoint>,
    /// The events of the run.
    pub events: Vec<Event>,
    /// The messages of the run.
    pub messages: Vec<Message>,
    /// The attachments of the run.
    pub attachments: Vec<Attachment>,
    /// The contents of the blobs that the attachments refer to.
    pub blobs: Vec<Vec<u8>>,
    /// The pending items.
    pub items: Vec<Item>,
    /// The uncommitted changes of the workspace.
    pub patch: Option<Patch>,
}

/// Detects a bundle or JSON lines by the first bytes of the file.
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

/// Opens a regular file. Symbolic links are followed, because the user gave the path.
fn open_regular(path: &Path) -> io::Result<fs::File> {
    bounded::open(&crate::fs::canonicalize(path)?)
}

/// Writes one sealed document per line. A document that contains a line break is written as a JSON string.
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

/// Writes a bundle.
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
        // Commit tokens and maintenance stamps are meaningless in another store.
        run: RunRecord { recent: Vec::new(), maintenance: None, ..run.record.clone() },
    };
    let mut lines = Vec::new();
    for held in run.checkpoints {
        let document = String::from_utf8(held.document.clone()).map_err(|e| unfit(e.to_string()))?;
        lines.push(Line::Checkpoint { document, marks: Box::new(held.marks.clone()) });
    }
    lines.extend(run.events.iter().cloned().map(Line::Event));
    lines.extend(run.messages.iter().cloned().map(Line::Message));
    lines.extend(run.blobs.iter().map(|content| Line::Blob(BASE64.encode(content))));
    lines.extend(run.attachments.iter().cloned().map(Line::Attachment));
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

/// Skips the rest of a line without storing it.
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

/// Returns the document of a line: the decoded text if the line is a JSON string, otherwise the line itself.
fn document(line: &[u8]) -> Vec<u8> {
    serde_json::from_slice::<String>(line).map_or_else(|_| line.to_vec(), String::into_bytes)
}

/// Reads a bundle or JSON lines. A truncated or modified bundle is refused as a whole. For JSON lines, valid
/// lines are imported and invalid ones are skipped.
pub(crate) fn read(
    format: Format,
    path: &Path,
    progress: &mut Progress<'_>,
) -> Result<(Vec<SealedRun>, ForeignData), InteropError> {
    let mut reader = BufReader::new(open_regular(path).map_err(InteropError::read(path))?.take(u64::MAX));
    let mut found = ForeignData::default();
    let mut sealed = SealedRun {
        head: None,
        checkpoints: Vec::new(),
        events: Vec::new(),
        messages: Vec::new(),
        attachments: Vec::new(),
        blobs: Vec::new(),
        items: Vec::new(),
        patch: None,
    };
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
                        "bundle version {} is newer than {VERSION}, the newest this program reads",
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
                Line::Message(message) => sealed.messages.push(message),
                Line::Attachment(attachment) => sealed.attachments.push(attachment),
                Line::Blob(text) => {
                    let content = BASE64.decode(text.as_bytes()).map_err(|e| broken(e.to_string()))?;
                    sealed.blobs.push(content);
                }
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
        return Err(InteropError::nothing(path, "the bundle is truncated"));
    }
    Ok((vec![sealed], found))
}
