//! The format of a run's `log.jsonl`: each checksummed line is one commit.
//! Encodes a change and the run's record as a line, and splits the bytes of a log into lines.
//! Every line repeats the change of the line before it, so a single damaged line loses nothing.
//! Reads and writes no files.

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::model::{Attachment, Event, Item, Marks, Message, RunId, RunRecord};
use crate::seal::Header;
use crate::store::Part;
use crate::store::check::checksum;

/// The start of every line.
const OPENING: &[u8] = b"{\"check\":\"";
const MIDDLE: &[u8] = b"\",\"commit\":";
/// Length of the opening and the checksum, which are enough to distinguish two lines.
pub(super) const HEAD: usize = OPENING.len() + 32;

/// The changes of one commit, except the record.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Change {
    /// Number of the line in its log. A gap in the numbers means that lines are lost.
    pub(super) n: u64,
    /// The last stamp that the commit uses.
    pub(super) stamp: u64,
    /// The last sequence number ever used in the run.
    pub(super) last: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) puts: Vec<Header>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) marks: Vec<(u64, Marks)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) drops: Vec<u64>,
    /// Number of items to remove from the front, before `push` is applied.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) consume: usize,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) push: Vec<Item>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) messages: Vec<Message>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) attachments: Vec<Attachment>,
    /// Names of checkpoints whose attachments are removed, before `attachments` are added.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) detach: Vec<String>,
    /// Events with their positions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) events: Vec<(u64, Event)>,
    /// Checksums of compressed files, by sequence number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) gz: Vec<(u64, String)>,
    /// What the run contains after the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) totals: Option<Totals>,
}

/// Counts that a save needs, so that it does not have to replay the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Totals {
    pub(super) checkpoints: u64,
    /// Number of pending items.
    pub(super) items: u64,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

#[derive(Serialize)]
struct Written<'a> {
    change: &'a Change,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<&'a RunRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    again: Option<&'a Change>,
}

/// A parsed commit. Members that are rarely needed stay unparsed.
#[derive(Deserialize)]
pub(super) struct Read<'a> {
    pub(super) change: Change,
    #[serde(borrow, default)]
    pub(super) record: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) again: Option<&'a RawValue>,
}

/// Encodes one line, including its newline. `again` is the change of the line before it.
pub(super) fn line(
    run: &RunId,
    change: &Change,
    record: Option<&RunRecord>,
    again: Option<&Change>,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut text = serde_json::to_vec(&Written { change, record, again })?;
    // JSON that a caller passed verbatim may contain line breaks, but never inside its strings.
    text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    let mut line = Vec::with_capacity(text.len() + HEAD + MIDDLE.len() + 2);
    line.extend_from_slice(OPENING);
    line.extend_from_slice(check(run, &text).as_bytes());
    line.extend_from_slice(MIDDLE);
    line.extend_from_slice(&text);
    line.extend_from_slice(b"}\n");
    Ok(line)
}

fn check(run: &RunId, text: &[u8]) -> String {
    HEXLOWER.encode(&checksum(Part::Log, &[run.as_str().as_bytes()], text))
}

/// The text of the commit in a line without its newline; `None` if the checksum does not match.
fn open<'a>(run: &RunId, line: &'a [u8]) -> Option<&'a [u8]> {
    let rest = line.strip_prefix(OPENING)?;
    let (found, rest) = rest.split_at_checked(32)?;
    let text = rest.strip_prefix(MIDDLE)?.strip_suffix(b"}")?;
    (check(run, text).as_bytes() == found).then_some(text)
}

/// One line of a log.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// The text of an intact commit.
    Good(&'a [u8]),
    /// A complete line that is damaged.
    Bad,
}

/// The lines in the bytes of a log.
#[derive(Debug, Default)]
pub(super) struct Pieces<'a> {
    pub(super) pieces: Vec<Piece<'a>>,
    /// Offset of the next line. Bytes after it belong to a commit that was never acknowledged.
    pub(super) end: usize,
    /// Whether the newline of the last line is missing.
    pub(super) open: bool,
    /// Offset of the last line.
    pub(super) last_start: usize,
}

/// Splits the bytes of a log into lines.
pub(super) fn pieces<'a>(run: &RunId, bytes: &'a [u8]) -> Pieces<'a> {
    let mut found = Pieces::default();
    let mut at = 0;
    while let Some(length) = memchr::memchr(b'\n', &bytes[at..]) {
        split(run, &bytes[at..at + length], &mut found.pieces);
        found.last_start = at;
        at += length + 1;
        found.end = at;
    }
    // If the last line has no newline, either the line was never acknowledged or its newline was damaged. In
    // both cases the line counts if it is intact.
    let tail = &bytes[at..];
    for cut in 0..=usize::from(!tail.is_empty()) {
        let line = &tail[..tail.len() - cut];
        if let Some(text) = open(run, line) {
            found.pieces.push(Piece::Good(text));
            found.last_start = at;
            found.end = at + line.len();
            found.open = true;
            break;
        }
    }
    found
}

/// Adds one line, or two lines that were joined because the newline between them was damaged.
fn split<'a>(run: &RunId, line: &'a [u8], pieces: &mut Vec<Piece<'a>>) {
    if let Some(text) = open(run, line) {
        pieces.push(Piece::Good(text));
        return;
    }
    let joints = line.windows(OPENING.len()).enumerate().skip(1).filter(|(_, w)| *w == OPENING);
    for (at, _) in joints {
        if let (Some(first), Some(second)) = (open(run, &line[..at - 1]), open(run, &line[at..])) {
            pieces.extend([Piece::Good(first), Piece::Good(second)]);
            return;
        }
    }
    pieces.push(Piece::Bad);
}
