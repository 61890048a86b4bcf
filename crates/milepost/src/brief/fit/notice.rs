//! What stands at the end of a page that does not hold everything: how much of which section is missing, and the command
//! that shows all of it.

use super::super::Kind;
use super::Omitted;

/// So many sections are named.
const NAMED: usize = 6;

/// In how many words it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Telling {
    /// What is gone and what is cut, of how much.
    Full,
    /// One number a section.
    Brief,
    /// One number, with the mark of what was shrunk.
    Shrunk,
}

/// The notice of some omissions, with the command that shows all of it.
pub(super) fn notice(omitted: &[Omitted], whole: Option<&str>, telling: Telling) -> String {
    let (mark, command) = whole.map_or(("", "see the original"), |whole| ("`", whole));
    if telling == Telling::Shrunk {
        let lines: u64 = omitted.iter().map(|o| o.left_out + o.cut_short).sum();
        return format!("# Left Out\nShrunk, {lines} lines: {mark}{command}{mark}\n");
    }
    let mut told = String::from("## Left Out\n");
    let named: Vec<_> = omitted.iter().take(NAMED).map(|o| section(o, telling)).collect();
    told += &named.join("; ");
    if omitted.len() > NAMED {
        told += &format!("; {} more sections", omitted.len() - NAMED);
    }
    told + &format!(": {mark}{command}{mark}\n")
}

/// How much of a section is missing.
fn section(omitted: &Omitted, telling: Telling) -> String {
    let Omitted { section, entries, left_out: gone, cut_short: cut } = omitted;
    let short = word(Kind::of(section).0).filter(|_| telling == Telling::Brief);
    let name: String = short.unwrap_or(section).chars().take(32).collect();
    match (telling, gone, cut) {
        (Telling::Full, 0, cut) => format!("{name} {cut} cut"),
        (Telling::Full, gone, 0) => format!("{name} {gone} of {entries}"),
        (Telling::Full, gone, cut) => format!("{name} {gone} of {entries}, {cut} cut"),
        (_, gone, cut) => format!("{name} {}", gone + cut),
    }
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
