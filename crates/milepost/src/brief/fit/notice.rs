//! What stands at the end of a page that does not hold everything: how much of which section is missing, and the command
//! that shows all of it.

use super::super::Kind;
use super::Omitted;

/// So many sections are named.
const NAMED: usize = 6;
/// Letters of a section's name.
const LONGEST: usize = 32;

/// In how many words it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Telling {
    /// What is gone and what is cut, of how much.
    Full,
    /// One number a section.
    Brief,
    /// The same, with the mark of what was shrunk.
    Marked,
    /// The mark and one number.
    Shrunk,
}

/// The notice of some omissions, with the command that shows all of it.
pub(super) fn notice(omitted: &[Omitted], whole: Option<&str>, telling: Telling) -> String {
    let (mark, command) = whole.map_or(("", "see the original"), |whole| ("`", whole));
    if telling == Telling::Shrunk {
        let lines: u64 = omitted.iter().map(|o| o.left_out + o.cut_short).sum();
        let s = if lines == 1 { "" } else { "s" };
        return format!("# Left Out\nShrunk, {lines} line{s}: {mark}{command}{mark}\n");
    }
    let mut told =
        String::from(if telling == Telling::Marked { "# Left Out\nShrunk: " } else { "## Left Out\n" });
    for (n, o) in omitted.iter().take(NAMED).enumerate() {
        let short = word(o.kind).filter(|_| telling != Telling::Full);
        told += if n > 0 { "; " } else { "" };
        let name = short.unwrap_or(&o.section);
        let end = name.char_indices().nth(LONGEST).map_or(name.len(), |(end, _)| end);
        told += name.get(..end).unwrap_or(name).trim_end();
        told += &match (telling, o.left_out, o.cut_short) {
            (Telling::Full, 0, cut) => format!(" {cut} cut"),
            (Telling::Full, gone, 0) => format!(" {gone} of {}", o.entries),
            (Telling::Full, gone, cut) => format!(" {gone} of {}, {cut} cut", o.entries),
            (_, gone, cut) => format!(" {}", gone + cut),
        };
    }
    if omitted.len() > NAMED {
        told += &format!("; {} more sections", omitted.len() - NAMED);
    }
    let colon = if omitted.is_empty() { "" } else { ": " };
    told + &format!("{colon}{mark}{command}{mark}\n")
}

/// The one word by which a section is called where words are short; it is read as the same section.
pub(super) fn word(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Problem => "Problem",
        Kind::Intent => "Intent",
        Kind::Decisions => "Decisions",
        Kind::Technical => "Technical",
        Kind::Play => "History",
        Kind::Artifacts => "Files",
        Kind::State => "State",
        Kind::Next => "Next",
        Kind::Rules => "Rules",
        _ => return None,
    })
}
