//! Checks a brief against the format. Takes a parsed brief and returns errors and warnings. Must not change
//! it.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};

use super::blocks::{Block, item_text, split_entries};
use super::{Brief, REQUIRED_SECTIONS, Section, SectionKind, Warning};
use crate::model::CheckpointId;

/// An error or a warning.
pub type Finding = Warning;

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct CheckReport {
    /// Violations of the format.
    pub errors: Vec<Finding>,
    /// Problems that do not make the brief invalid.
    pub warnings: Vec<Finding>,
}

impl CheckReport {
    /// Whether the brief conforms to the format.
    pub fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }

    fn error(&mut self, section: Option<SectionKind>, message: impl Into<String>) {
        self.errors.push(Warning::new(section.map(SectionKind::as_str), message));
    }

    fn warn(&mut self, section: Option<SectionKind>, message: impl Into<String>) {
        self.warnings.push(Warning::new(section.map(SectionKind::as_str), message));
    }
}

pub(super) fn check(brief: &Brief) -> CheckReport {
    let mut check = CheckReport { errors: Vec::new(), warnings: brief.warnings().to_vec() };
    check_front_matter(brief, &mut check);
    for kind in REQUIRED_SECTIONS {
        check_section(brief, kind, &mut check);
    }
    if brief.sections_of_kind(SectionKind::Rules).any(|section| is_empty(brief.content(section))) {
        check.warn(Some(SectionKind::Rules), "is empty");
    }
    check_section_order(brief, &mut check);
    check_vague_sections(brief, &mut check);
    check
}

/// Checks the required fields of the front matter, and warns about duplicate keys.
fn check_front_matter(brief: &Brief, check: &mut CheckReport) {
    let Some(front) = brief.front_matter() else {
        return check.error(None, "the front matter is missing: `checkpoint` and `created` are required");
    };
    match brief.id().map(str::parse::<CheckpointId>) {
        None => check.error(None, "checkpoint: is missing from the front matter"),
        Some(Err(e)) => check.error(None, format!("checkpoint: {e}")),
        Some(Ok(_)) => {}
    }
    match brief.value("created").map(parse_created) {
        None => check.error(None, "created: is missing from the front matter"),
        Some(Err(wrong)) => check.error(None, format!("created: {wrong}")),
        Some(Ok((_, Some(odd)))) => check.warn(None, format!("created: {odd}")),
        Some(Ok((_, None))) => {}
    }
    for (i, field) in front.fields.iter().enumerate() {
        if front.fields.iter().take(i).any(|other| other.key.eq_ignore_ascii_case(&field.key)) {
            check.warn(None, format!("{}: appears more than once; only the first value is used", field.key));
        }
    }
}

/// Parses a time from the front matter or from a delta's heading. A time without an offset is taken as UTC, a
/// date as midnight UTC; both also return a warning.
pub(crate) fn parse_created(text: &str) -> Result<(Timestamp, Option<String>), String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok((at, None));
    }
    let utc = |at: DateTime| at.to_zoned(jiff::tz::TimeZone::UTC).map(|zoned| zoned.timestamp());
    let wrong = || format!("\"{text}\" is not an ISO 8601 time such as 2026-01-31T15:30:00Z");
    // A bare date is tried first, because it also parses as a `DateTime`.
    if let (false, Ok(date)) = (text.contains([':', 'T']), text.parse::<Date>()) {
        let at = utc(date.to_datetime(jiff::civil::Time::midnight())).map_err(|_| wrong())?;
        return Ok((at, Some(format!("\"{text}\" has no time of day: assuming midnight UTC"))));
    }
    let at = text.parse::<DateTime>().ok().and_then(|at| utc(at).ok()).ok_or_else(wrong)?;
    Ok((at, Some(format!("\"{text}\" has no UTC offset: assuming UTC"))))
}

fn check_section(brief: &Brief, kind: SectionKind, check: &mut CheckReport) {
    let found: Vec<&Section> =
        brief.sections_of_kind(kind).filter(|section| section.has_standard_name).collect();
    if found.is_empty() {
        let similar = brief.sections_of_kind(kind).next();
        let hint = similar.map(|other| format!("; rename \"{}\" if it is this section", other.heading));
        return check.error(Some(kind), format!("is missing{}", hint.unwrap_or_default()));
    }
    if found.iter().all(|section| is_unknown(brief.content(section))) {
        check.warn(Some(kind), "only says that it is unknown: fill it in");
    }
    if found.iter().all(|section| is_empty(brief.content(section))) {
        check.error(Some(kind), "is empty");
    }
    if found.len() > 1 {
        check.warn(Some(kind), format!("appears {} times", found.len()));
    }
    if let Some(section) = found.iter().find(|section| section.level != kind.level()) {
        let (found, usual) = (section.level, kind.level());
        check.warn(Some(kind), format!("has a level {found} heading; level {usual} is standard"));
    }
}

/// Whether content is empty: no text, or only comments and table headers.
pub(super) fn is_empty(content: &str) -> bool {
    !split_entries(content).any(|(block, source)| match block {
        Block::Item => !item_text(source).is_empty(),
        Block::TableRow => source.chars().any(char::is_alphanumeric),
        Block::Code => source.lines().count() > 2,
        Block::Paragraph => !is_only_comments(source),
        _ => false,
    })
}

/// Whether content only says that nothing is known, as composed briefs do for sections without facts.
pub(super) fn is_unknown(content: &str) -> bool {
    let mut unknown = false;
    for (block, source) in split_entries(content) {
        if block == Block::Paragraph && is_only_comments(source) {
            continue;
        }
        let text = item_text(source).trim();
        let word = text.split([':', '.']).next().unwrap_or_default();
        match (block, word) {
            (Block::Paragraph | Block::Item, "Unknown" | "None recorded") if text.lines().count() == 1 => {
                unknown = true;
            }
            (Block::Item, "Blocked") if text == "Blocked: None" => {}
            _ => return false,
        }
    }
    unknown
}

/// Whether text consists only of comments, including several on one line.
fn is_only_comments(text: &str) -> bool {
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("<!--") {
        if !before.trim().is_empty() {
            return false;
        }
        rest = after.split_once("-->").map_or("", |(_, after)| after);
    }
    rest.trim().is_empty()
}

/// Checks the order of sections, and warns about deltas and omission notices.
fn check_section_order(brief: &Brief, check: &mut CheckReport) {
    let standard = brief.sections().iter().filter(|s| !s.in_delta && s.has_standard_name).map(|s| s.kind);
    let kinds: Vec<_> = standard.filter(|kind| kind.position() < super::SECTION_ORDER.len()).collect();
    if let Some([first, second]) = kinds.array_windows().find(|[a, b]| a.position() > b.position()) {
        check.warn(Some(*second), format!("comes after {first}, but belongs before it"));
    }
    let deltas = brief.sections().iter().filter(|s| s.kind == SectionKind::Delta).count();
    if deltas > 0 {
        let message = format!("sections found: {deltas}; run `milepost brief merge` to fold them in");
        check.warn(Some(SectionKind::Delta), message);
    }
    if brief.sections_of_kind(SectionKind::LeftOut).next().is_some() {
        let message = "is present: this brief was fitted to a token budget and is incomplete";
        check.warn(Some(SectionKind::LeftOut), message);
    }
}

/// Warns about sections that are too vague to continue from.
fn check_vague_sections(brief: &Brief, check: &mut CheckReport) {
    let words = |section: &Section| -> usize {
        split_entries(brief.content(section)).map(|(_, source)| source.split_whitespace().count()).sum()
    };
    for kind in [SectionKind::Problem, SectionKind::Intent, SectionKind::State, SectionKind::Next] {
        let count = brief.sections_of_kind(kind).map(words).sum::<usize>();
        let wide = brief.sections_of_kind(kind).any(|section| !brief.content(section).is_ascii());
        if count > 0 && count < 4 && !wide {
            check.warn(Some(kind), "says very little");
        }
    }
    const VAGUE: [&str; 6] =
        ["good progress", "continue work", "continue working", "keep going", "things are working", "tbd"];
    for kind in [SectionKind::State, SectionKind::Next] {
        for section in brief.sections_of_kind(kind) {
            let content = brief.content(section).to_lowercase();
            if let Some(vague) = VAGUE.iter().find(|vague| content.contains(**vague)) {
                check.warn(Some(kind), format!("is too vague: \"{vague}\" names no fact or action"));
            }
        }
    }
}
