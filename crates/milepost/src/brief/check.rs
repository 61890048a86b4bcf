//! Checks a brief against the format. Input: a parsed brief. Output: errors and warnings. Must not change the brief.

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};

use super::blocks::{Block, Granularity, item_text, split_blocks};
use super::{Brief, REQUIRED_SECTIONS, Section, SectionKind, Warning};
use crate::model::CheckpointId;

/// One thing that is wrong.
pub type Finding = Warning;

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Violations of the format.
    pub errors: Vec<Finding>,
    /// What could be better.
    pub warnings: Vec<Finding>,
}

impl CheckReport {
    /// Whether the brief conforms to the format.
    pub fn is_valid(&self) -> bool {
        self.errors.is_empty()
    }
}

pub(super) fn check(brief: &Brief) -> CheckReport {
    let mut check = CheckReport { errors: Vec::new(), warnings: brief.warnings().to_vec() };
    check_front_matter(brief, &mut check);
    for kind in REQUIRED_SECTIONS {
        check_section(brief, kind, &mut check);
    }
    if brief.sections_of_kind(SectionKind::Rules).any(|section| is_empty(brief.content(section))) {
        check.warnings.push(Warning::new(Some(SectionKind::Rules.as_str()), "is empty"));
    }
    check_section_order(brief, &mut check);
    check_vague_sections(brief, &mut check);
    check
}

/// The required fields of the front matter.
fn check_front_matter(brief: &Brief, check: &mut CheckReport) {
    if brief.front_matter().is_none() {
        check
            .errors
            .push(Warning::new(None, "there is no front matter: `checkpoint` and `created` are required"));
        return;
    }
    match brief.id() {
        None => check.errors.push(Warning::new(None, "checkpoint: is missing from the front matter")),
        Some(id) => {
            if let Err(e) = id.parse::<CheckpointId>() {
                check.errors.push(Warning::new(None, format!("checkpoint: {e}")));
            }
        }
    }
    match brief.value("created") {
        None => check.errors.push(Warning::new(None, "created: is missing from the front matter")),
        Some(text) => match parse_created(text) {
            Ok((_, None)) => {}
            Ok((_, Some(odd))) => check.warnings.push(Warning::new(None, format!("created: {odd}"))),
            Err(wrong) => check.errors.push(Warning::new(None, format!("created: {wrong}"))),
        },
    }
    let known = brief.front_matter().map(|front| front.fields.as_slice()).unwrap_or_default();
    for (i, field) in known.iter().enumerate() {
        if known.iter().take(i).any(|other| other.key.eq_ignore_ascii_case(&field.key)) {
            let message = format!("{}: is given twice, and the first one counts", field.key);
            check.warnings.push(Warning::new(None, message));
        }
    }
}

/// A time of the front matter or of a delta's heading, and what is odd about it. A time without an offset is UTC; a date
/// is midnight UTC.
pub(crate) fn parse_created(text: &str) -> Result<(Timestamp, Option<String>), String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok((at, None));
    }
    let utc = |at: DateTime| at.to_zoned(jiff::tz::TimeZone::UTC).map(|zoned| zoned.timestamp());
    let wrong = || format!("\"{text}\" is no ISO-8601 time, such as 2026-01-31T15:30:00Z");
    // A date without a time has no hour of its own to be wrong about, so it is tried first.
    if let (false, Ok(date)) = (text.contains([':', 'T']), text.parse::<Date>()) {
        let at = utc(date.to_datetime(jiff::civil::Time::midnight())).map_err(|_| wrong())?;
        return Ok((at, Some(format!("\"{text}\" has no time of day: midnight UTC is meant"))));
    }
    let at = text.parse::<DateTime>().ok().and_then(|at| utc(at).ok()).ok_or_else(wrong)?;
    Ok((at, Some(format!("\"{text}\" has no offset: UTC is meant"))))
}

fn check_section(brief: &Brief, kind: SectionKind, check: &mut CheckReport) {
    let name = Some(kind.as_str());
    let own: Vec<&Section> =
        brief.sections_of_kind(kind).filter(|section| section.has_standard_name).collect();
    if !own.is_empty() && own.iter().all(|section| is_unknown(brief.content(section))) {
        check.warnings.push(Warning::new(name, "says only that it is unknown: fill it in"));
    }
    if own.is_empty() {
        let hint = match brief.sections_of_kind(kind).next() {
            Some(other) => format!("; \"{}\" reads like it: call it so", other.heading),
            None => String::new(),
        };
        check.errors.push(Warning::new(name, format!("is missing{hint}")));
        return;
    }
    if own.iter().all(|section| is_empty(brief.content(section))) {
        check.errors.push(Warning::new(name, "is empty"));
    }
    if own.len() > 1 {
        check.warnings.push(Warning::new(name, format!("stands there {} times", own.len())));
    }
    if let Some(section) = own.iter().find(|section| section.level != kind.level()) {
        let (found, usual) = (section.level, kind.level());
        let message = format!("has a heading of level {found}; level {usual} is usual");
        check.warnings.push(Warning::new(name, message));
    }
}

/// Whether content is empty: no text, or only comments and the head of a table.
pub(super) fn is_empty(content: &str) -> bool {
    !split_blocks(content, Granularity::Items).into_iter().any(|(block, range)| {
        let source = content.get(range).unwrap_or_default();
        match block {
            Block::Item => !item_text(source).is_empty(),
            Block::TableRow => source.chars().any(char::is_alphanumeric),
            Block::Code => source.lines().count() > 2,
            Block::Paragraph => !is_only_comments(source),
            _ => false,
        }
    })
}

/// Whether content says only that nothing is known, as composed briefs do for sections without facts.
pub(super) fn is_unknown(content: &str) -> bool {
    let mut unknown = false;
    for (block, range) in split_blocks(content, Granularity::Items) {
        let source = content.get(range).unwrap_or_default();
        if !block.has_content() || block == Block::Paragraph && is_only_comments(source) {
            continue;
        }
        let text = item_text(source).trim();
        let word = text.split([':', '.']).next().unwrap_or_default();
        match (block, word) {
            (Block::Paragraph | Block::Item, "Unknown") if text.lines().count() == 1 => unknown = true,
            (Block::Item, "Blocked") if text == "Blocked: None" => {}
            _ => return false,
        }
    }
    unknown
}

/// Whether text is nothing but comments, as where one stands in the middle of a line.
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

/// Checks the order of sections, and for deltas and notices.
fn check_section_order(brief: &Brief, check: &mut CheckReport) {
    let places = brief.sections().iter().filter(|s| !s.in_delta && s.has_standard_name);
    let places: Vec<_> = places.filter(|s| s.kind.position() < super::SECTION_ORDER.len()).collect();
    if let Some(pair) = places.windows(2).find(|pair| pair[0].kind.position() > pair[1].kind.position()) {
        let message = format!("stands after {}", pair[0].kind);
        check.warnings.push(Warning::new(Some(pair[1].kind.as_str()), message));
    }
    let deltas = brief.sections().iter().filter(|s| s.kind == SectionKind::Delta).count();
    if deltas > 0 {
        let message = format!("{deltas} appended: `milepost brief merge` folds them in");
        check.warnings.push(Warning::new(Some(SectionKind::Delta.as_str()), message));
    }
    if brief.sections_of_kind(SectionKind::LeftOut).next().is_some() {
        check.warnings.push(Warning::new(
            Some(SectionKind::LeftOut.as_str()),
            "this brief was fitted to a budget and is not the whole one",
        ));
    }
}

/// Finds sections that say too little to continue with.
fn check_vague_sections(brief: &Brief, check: &mut CheckReport) {
    let words = |section: &Section| {
        let content = brief.content(section);
        let with_content =
            split_blocks(content, Granularity::Items).into_iter().filter(|(block, _)| block.has_content());
        with_content
            .map(|(_, r)| content.get(r).unwrap_or_default().split_whitespace().count())
            .sum::<usize>()
    };
    for kind in [SectionKind::Problem, SectionKind::Intent, SectionKind::State, SectionKind::Next] {
        let few = brief.sections_of_kind(kind).map(words).sum::<usize>();
        let wide = brief.sections_of_kind(kind).any(|section| !brief.content(section).is_ascii());
        if few > 0 && few < 4 && !wide {
            check.warnings.push(Warning::new(Some(kind.as_str()), "says very little"));
        }
    }
    const VAGUE: [&str; 6] =
        ["good progress", "continue work", "continue working", "keep going", "things are working", "tbd"];
    for kind in [SectionKind::State, SectionKind::Next] {
        for section in brief.sections_of_kind(kind) {
            let content = brief.content(section).to_lowercase();
            if let Some(vague) = VAGUE.iter().find(|vague| content.contains(**vague)) {
                let message = format!("\"{vague}\" does not say what exists or what to do");
                check.warnings.push(Warning::new(Some(kind.as_str()), message));
            }
        }
    }
}
