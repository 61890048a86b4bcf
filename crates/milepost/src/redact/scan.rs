//! Finds all secrets in a text in one pass. A table of first and second bytes decides which detectors run at
//! each position. Must not backtrack: the time is linear in the length of the text for any input.

use super::keyword_values::{self, ValueHint};
use super::structures::SecretMatch;
use super::text::Text;
use super::{AllowList, commands, infix_shapes, shapes, structures};

/// The range of a secret and its rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SecretSpan {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) rule: &'static str,
}

/// The second bytes that may follow each first byte of a secret: one bit per byte, one set per detector.
/// Built at compile time.
static SECOND_BYTES_BY_DETECTOR: [[u128; 4]; 128] = {
    let mut table = [[0; 4]; 128];
    let mut first = 0;
    while first < 128 {
        let byte = first as u8;
        let structures = structures::second_bytes(byte) | infix_shapes::second_bytes(byte);
        table[first] = [
            shapes::second_bytes(byte),
            structures,
            commands::second_bytes(byte),
            keyword_values::second_bytes(byte),
        ];
        first += 1;
    }
    table
};

/// The union of these sets over all detectors, in two halves. It rules out nearly every position of ordinary
/// text.
static ANY_SECOND_BYTE: [[u64; 4]; 256] = {
    let mut table = [[0; 4]; 256];
    let mut first = 0;
    while first < 128 {
        let kinds = SECOND_BYTES_BY_DETECTOR[first];
        let all = kinds[0] | kinds[1] | kinds[2] | kinds[3];
        table[first] = [all as u64, (all >> 64) as u64, 0, 0];
        first += 1;
    }
    table
};

/// The detectors that may match at a position, given the two bytes there.
#[derive(Clone, Copy)]
struct Candidates {
    shape: bool,
    structure: bool,
    command: bool,
    keyword: bool,
}

impl Candidates {
    /// Returns `None` if no detector can match.
    fn at(first: u8, second: u8) -> Option<Self> {
        if ANY_SECOND_BYTE[usize::from(first)][usize::from(second >> 6)] >> (second & 63) & 1 == 0 {
            return None;
        }
        let kinds = SECOND_BYTES_BY_DETECTOR.get(usize::from(first))?;
        let [shape, structure, command, keyword] = kinds.map(|set| set >> (second & 127) & 1 == 1);
        Some(Self { shape, structure, command, keyword })
    }
}

/// Whether a JSON text may contain a secret; `false` is certain. Strings without escapes need no decoding, so
/// most documents are not parsed at all.
pub(super) fn may_contain_secret(json: &str) -> bool {
    if json.contains('\\') {
        return true;
    }
    let text = Text::new(json);
    text.bytes.windows(2).enumerate().any(|(at, pair)| {
        Candidates::at(pair[0], pair[1]).is_some_and(|may| {
            may.shape && shapes::match_shape(&text, at, pair[0]).is_some()
                || may.structure && structures::may_start_secret(&text, at, pair[0])
                || may.command && commands::starts_program_name(&text, at)
                || may.keyword && keyword_values::starts_keyword(&text, at)
        })
    })
}

/// Finds all secrets in a text that are not on the allow list, in order and without overlaps.
pub(super) fn find_secrets(text: &str, hint: Option<ValueHint>, allow: &AllowList) -> Vec<SecretSpan> {
    let is_allowed = |hit: &SecretMatch| allow.allows(&text[hit.0..hit.1]);
    let whole = hint.and_then(|hint| hint.find_secret(text)).filter(|hit| !is_allowed(hit));
    let mut found: Vec<SecretSpan> = Vec::new();
    let text = Text::new(text);
    for (at, pair) in text.bytes.windows(2).enumerate() {
        let first = pair[0];
        let Some(may) = Candidates::at(first, pair[1]) else { continue };
        // Skip the rest of a secret that is already found.
        if found.last().is_some_and(|last| at < last.end) {
            continue;
        }
        if may.command {
            commands::scan_command(&text, at);
        }
        let shape = || shapes::match_shape(&text, at, first).map(|(end, rule)| (at, end, rule));
        let structure = || {
            let (start, end, rule) = structures::match_structure(&text, at, first)?;
            let known = if start > at { find_specific_rule(&text, start, end) } else { None };
            Some((start, end, known.unwrap_or(rule)))
        };
        let keyword = || {
            let (start, end, rule) = keyword_values::match_keyword_value(&text, at)?;
            Some((start, end, find_specific_rule(&text, start, end).unwrap_or(rule)))
        };
        let hit = may.shape.then(shape).flatten();
        let hit = hit.or_else(|| may.structure.then(structure).flatten());
        let hit = hit.or_else(|| may.keyword.then(keyword).flatten());
        if let Some((start, end, rule)) = hit.filter(|hit| !is_allowed(hit)) {
            add_span(&mut found, SecretSpan { start, end, rule });
        }
    }
    let in_commands = text.command_secrets.take();
    if !in_commands.is_empty() {
        let more = in_commands.into_iter().filter(|hit| !is_allowed(hit));
        let mut all = std::mem::take(&mut found);
        all.extend(more.map(|(start, end, rule)| SecretSpan { start, end, rule }));
        // The sort is stable: a secret found twice keeps the rule from the scan above, not the command's.
        all.sort_by_key(|one| one.start);
        all.into_iter().for_each(|one| add_span(&mut found, one));
    }
    if let Some((start, end, rule)) = whole {
        // A specific rule takes precedence over the keyword's rule.
        match found.as_slice() {
            [one] if one.start <= start && one.end >= end => {}
            _ => {
                found.retain(|one| one.end <= start || one.start >= end);
                found.push(SecretSpan { start, end, rule });
                found.sort_unstable_by_key(|one| one.start);
            }
        }
    }
    found
}

/// The rule of a shape or structure that covers the whole value. It is more specific than the keyword's rule.
fn find_specific_rule(text: &Text<'_>, start: usize, end: usize) -> Option<&'static str> {
    let byte = text.byte_at(start)?;
    let (found, rule) = shapes::match_shape(text, start, byte).or_else(|| {
        structures::match_structure(text, start, byte).filter(|hit| hit.0 == start).map(|hit| (hit.1, hit.2))
    })?;
    (found >= end).then_some(rule)
}

/// Adds a secret and merges it with those it overlaps.
fn add_span(found: &mut Vec<SecretSpan>, mut new: SecretSpan) {
    while let Some(last) = found.last().copied().filter(|last| last.end > new.start) {
        new = SecretSpan { start: last.start.min(new.start), end: last.end.max(new.end), rule: last.rule };
        found.pop();
    }
    if new.end > new.start {
        found.push(new);
    }
}
