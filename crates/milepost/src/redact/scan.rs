//! One pass over a text: a table of first bytes decides where anything is looked for at all. No backtracking: the time is
//! linear in the text, whatever it holds.

use super::keyword_values::{self, Beside};
use super::structures::Hit;
use super::text::Text;
use super::{AllowList, anchored, commands, shapes, structures};

/// A secret: from where to where, and its rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) rule: &'static str,
}

/// For each byte the bytes that may follow it where something secret begins, one bit each, by what is looked for there;
/// made when the program is compiled.
static KINDS: [[u128; 4]; 128] = {
    let mut table = [[0; 4]; 128];
    let mut first = 0;
    while first < 128 {
        let byte = first as u8;
        let structures = structures::follows(byte) | anchored::follows(byte);
        table[first] =
            [shapes::follows(byte), structures, commands::follows(byte), keyword_values::follows(byte)];
        first += 1;
    }
    table
};

/// The same for all kinds at once, in two halves. Nearly all of an ordinary text is passed over by it.
static GATE: [[u64; 4]; 256] = {
    let mut table = [[0; 4]; 256];
    let mut first = 0;
    while first < 128 {
        let kinds = KINDS[first];
        let all = kinds[0] | kinds[1] | kinds[2] | kinds[3];
        table[first] = [all as u64, (all >> 64) as u64, 0, 0];
        first += 1;
    }
    table
};

/// What may begin at two bytes.
#[derive(Clone, Copy)]
struct Candidates {
    shape: bool,
    structure: bool,
    command: bool,
    keyword: bool,
}

impl Candidates {
    /// `None` where nothing can begin.
    fn at(first: u8, second: u8) -> Option<Self> {
        if GATE[usize::from(first)][usize::from(second >> 6)] >> (second & 63) & 1 == 0 {
            return None;
        }
        let kinds = KINDS.get(usize::from(first))?;
        let [shape, structure, command, keyword] = kinds.map(|set| set >> (second & 127) & 1 == 1);
        Some(Self { shape, structure, command, keyword })
    }
}

/// Whether a JSON text may hold a secret: `false` is certain. Written strings that have no escapes are what they stand
/// for, so that most documents need not be taken apart at all.
pub(super) fn may_hold(json: &str) -> bool {
    if json.contains('\\') {
        return true;
    }
    let text = Text::new(json);
    text.bytes.windows(2).enumerate().any(|(at, pair)| {
        Candidates::at(pair[0], pair[1]).is_some_and(|may| {
            may.shape && shapes::find(&text, at, pair[0]).is_some()
                || may.structure && structures::may_begin(&text, at, pair[0])
                || may.command && commands::may_begin(&text, at)
                || may.keyword && keyword_values::is_keyword(&text, at)
        })
    })
}

/// Everything secret in a text that is not allowed, in order, without overlaps.
pub(super) fn scan(text: &str, beside: Option<Beside>, allow: &AllowList) -> Vec<Found> {
    let is_allowed = |hit: &Hit| allow.allows(&text[hit.0..hit.1]);
    let whole = beside.and_then(|beside| beside.find(text)).filter(|hit| !is_allowed(hit));
    let mut found: Vec<Found> = Vec::new();
    let text = Text::new(text);
    for (at, pair) in text.bytes.windows(2).enumerate() {
        let first = pair[0];
        let Some(may) = Candidates::at(first, pair[1]) else { continue };
        // Inside of what is replaced anyhow there is nothing more to find.
        if found.last().is_some_and(|last| at < last.end) {
            continue;
        }
        if may.command {
            commands::note(&text, at);
        }
        let shape = || shapes::find(&text, at, first).map(|(end, rule)| (at, end, rule));
        let structure = || {
            let (start, end, rule) = structures::find(&text, at, first)?;
            let known = if start > at { named(&text, start, end) } else { None };
            Some((start, end, known.unwrap_or(rule)))
        };
        let keyword = || {
            let (start, end, rule) = keyword_values::find(&text, at)?;
            Some((start, end, named(&text, start, end).unwrap_or(rule)))
        };
        let hit = may.shape.then(shape).flatten();
        let hit = hit.or_else(|| may.structure.then(structure).flatten());
        let hit = hit.or_else(|| may.keyword.then(keyword).flatten());
        if let Some((start, end, rule)) = hit.filter(|hit| !is_allowed(hit)) {
            add(&mut found, Found { start, end, rule });
        }
    }
    let in_commands = text.commands.take();
    if !in_commands.is_empty() {
        let more = in_commands.into_iter().filter(|hit| !is_allowed(hit));
        let mut all = std::mem::take(&mut found);
        all.extend(more.map(|(start, end, rule)| Found { start, end, rule }));
        // What is found in both ways keeps the rule that knows what it is.
        all.sort_by_key(|one| one.start);
        all.into_iter().for_each(|one| add(&mut found, one));
    }
    if let Some((start, end, rule)) = whole {
        // A rule that knows what it is says more than the name it stands beside.
        match found.as_slice() {
            [one] if one.start <= start && one.end >= end => {}
            _ => {
                found.retain(|one| one.end <= start || one.start >= end);
                found.push(Found { start, end, rule });
                found.sort_unstable_by_key(|one| one.start);
            }
        }
    }
    found
}

/// The rule that knows what stands there, where it is more than something beside a word.
fn named(text: &Text<'_>, start: usize, end: usize) -> Option<&'static str> {
    let byte = text.at(start)?;
    let (found, rule) = shapes::find(text, start, byte).or_else(|| {
        structures::find(text, start, byte).filter(|hit| hit.0 == start).map(|hit| (hit.1, hit.2))
    })?;
    (found >= end).then_some(rule)
}

/// Adds a secret; those it touches become one with it.
fn add(found: &mut Vec<Found>, mut new: Found) {
    while let Some(last) = found.last().copied().filter(|last| last.end > new.start) {
        new = Found { start: last.start.min(new.start), end: last.end.max(new.end), rule: last.rule };
        found.pop();
    }
    if new.end > new.start {
        found.push(new);
    }
}
