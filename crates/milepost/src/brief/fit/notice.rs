//! Formats the notice at the end of a fitted page: how much of each section is missing, and which command
//! shows the full brief.

use super::super::SectionKind;
use super::Omitted;

const MAX_SECTIONS: usize = 6;
const MAX_NAME_CHARS: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoticeDetail {
    /// The removed, shortened and total number of entries of each section.
    Full,
    /// One number per section, under short section names.
    Brief,
    /// Like `Brief`, marked as shrunk.
    BriefShrunk,
    /// Only the mark and the total number of affected lines.
    Minimal,
}

/// Formats the notice; without a command, it refers to the original.
pub(super) fn format_notice(omitted: &[Omitted], full_command: Option<&str>, detail: NoticeDetail) -> String {
    let (mark, command) = full_command.map_or(("", "see the original"), |full_command| ("`", full_command));
    if detail == NoticeDetail::Minimal {
        let lines: u64 = omitted.iter().map(|o| o.left_out + o.cut_short).sum();
        let s = if lines == 1 { "" } else { "s" };
        return format!("# Left Out\nShrunk, {lines} line{s}: {mark}{command}{mark}\n");
    }
    let mut text = String::from(if detail == NoticeDetail::BriefShrunk {
        "# Left Out\nShrunk: "
    } else {
        "## Left Out\n"
    });
    for (n, o) in omitted.iter().take(MAX_SECTIONS).enumerate() {
        let short = short_section_name(o.kind).filter(|_| detail != NoticeDetail::Full);
        text += if n > 0 { "; " } else { "" };
        let name = short.unwrap_or(&o.section);
        let end = name.char_indices().nth(MAX_NAME_CHARS).map_or(name.len(), |(end, _)| end);
        text += name.get(..end).unwrap_or(name).trim_end();
        text += &match (detail, o.left_out, o.cut_short) {
            (NoticeDetail::Full, 0, cut) => format!(" {cut} cut"),
            (NoticeDetail::Full, gone, 0) => format!(" {gone} of {}", o.entries),
            (NoticeDetail::Full, gone, cut) => format!(" {gone} of {}, {cut} cut", o.entries),
            (_, gone, cut) => format!(" {}", gone + cut),
        };
    }
    if omitted.len() > MAX_SECTIONS {
        text += &format!("; {} more sections", omitted.len() - MAX_SECTIONS);
    }
    let colon = if omitted.is_empty() { "" } else { ": " };
    text + &format!("{colon}{mark}{command}{mark}\n")
}

/// A one-word heading that parses as the same section.
pub(super) fn short_section_name(kind: SectionKind) -> Option<&'static str> {
    Some(match kind {
        SectionKind::Problem => "Problem",
        SectionKind::Intent => "Intent",
        SectionKind::Decisions => "Decisions",
        SectionKind::Technical => "Technical",
        SectionKind::PlayByPlay => "History",
        SectionKind::Artifacts => "Files",
        SectionKind::State => "State",
        SectionKind::Next => "Next",
        SectionKind::Rules => "Rules",
        _ => return None,
    })
}
