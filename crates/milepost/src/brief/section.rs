//! The section kinds, their order, and which of them fitting must keep. Takes the text of a heading and
//! returns its kind and whether it uses the standard name. Must not read section content.

use super::blocks::join_words;
use super::section_names;
use crate::model::closed_enum;

closed_enum! {
    /// The kind of a section; the value is its standard heading.
    pub enum SectionKind {
        /// The stable problem statement.
        Problem = "Problem",
        /// What the user wants to achieve.
        Intent = "Session Intent",
        /// A heading that only groups other sections.
        Container = "Essential Information",
        /// Choices that the agent must not reopen.
        Decisions = "Decisions",
        /// Stack, configuration, environment.
        Technical = "Technical Context",
        /// References for reconstructing the context.
        Breadcrumbs = "Breadcrumbs",
        /// Major actions and their outcomes.
        PlayByPlay = "Play-By-Play",
        /// Files touched.
        Artifacts = "Artifact Trail",
        /// What exists now.
        State = "Current State",
        /// What to do next.
        Next = "Next Actions",
        /// Constraints that the agent must follow.
        Rules = "User Rules",
        /// The heading of a delta: changes appended after the brief was written.
        Delta = "Delta",
        /// A delta's prose description.
        WhatChanged = "What Changed",
        /// A delta's table of status changes.
        Transitions = "Status Transitions",
        /// The notice of what fitting omitted.
        LeftOut = "Left Out",
        /// Any other section.
        Other = "",
    }
}

/// The sections that every valid brief has.
pub const REQUIRED_SECTIONS: [SectionKind; 8] = [
    SectionKind::Problem,
    SectionKind::Intent,
    SectionKind::Decisions,
    SectionKind::Technical,
    SectionKind::PlayByPlay,
    SectionKind::Artifacts,
    SectionKind::State,
    SectionKind::Next,
];

/// The standard sections, in the order they are written.
pub const SECTION_ORDER: [SectionKind; 11] = [
    SectionKind::Problem,
    SectionKind::Intent,
    SectionKind::Container,
    SectionKind::Decisions,
    SectionKind::Technical,
    SectionKind::Breadcrumbs,
    SectionKind::PlayByPlay,
    SectionKind::Artifacts,
    SectionKind::State,
    SectionKind::Next,
    SectionKind::Rules,
];

impl SectionKind {
    /// The kind that a heading names, and whether the heading is the standard name. The flag is also true for
    /// headings of no known kind.
    pub fn from_heading(heading: &str) -> (Self, bool) {
        let by_standard_name = |name: &str| {
            let all = SECTION_ORDER.iter().chain(&[Self::WhatChanged, Self::Transitions, Self::LeftOut]);
            all.copied().find(|kind| kind.as_str().eq_ignore_ascii_case(name))
        };
        if let Some(kind) = by_standard_name(heading) {
            return (kind, true);
        }
        let name = normalize_heading(heading);
        if name.is_empty() {
            return (Self::Other, true);
        }
        if let Some(kind) = by_standard_name(&name) {
            return (kind, true);
        }
        if name == "delta" || name.starts_with("delta:") || name.starts_with("delta ") {
            return (Self::Delta, true);
        }
        section_names::find_section_kind(&name).map_or((Self::Other, true), |kind| (kind, false))
    }

    /// Whether a section of this kind must be kept when a brief is fitted.
    pub fn must_keep(self) -> bool {
        matches!(
            self,
            Self::Problem | Self::Intent | Self::Decisions | Self::State | Self::Next | Self::Rules
        )
    }

    /// The level of its heading.
    pub fn level(self) -> u8 {
        match self {
            Self::Problem | Self::Intent | Self::Container | Self::Rules | Self::Delta | Self::LeftOut => 2,
            Self::Other => 2,
            _ => 3,
        }
    }

    /// Its position in `SECTION_ORDER`; kinds that are not listed there come last.
    pub fn position(self) -> usize {
        SECTION_ORDER.iter().position(|kind| *kind == self).unwrap_or(SECTION_ORDER.len())
    }
}

/// A heading's text in a comparable form: lower case, without Markdown marks, leading number and trailing
/// colon, and with ASCII apostrophes.
pub(super) fn normalize_heading(heading: &str) -> String {
    let bare = heading.chars().filter(|c| !matches!(c, '*' | '`' | '_' | '~'));
    let bare: String = bare.map(|c| if c == '’' { '\'' } else { c }).collect();
    let bare = bare.trim();
    let numbered = bare.trim_start_matches(|c: char| c.is_ascii_digit());
    let bare = match numbered.strip_prefix(['.', ')']) {
        Some(rest) if numbered.len() < bare.len() && rest.starts_with(' ') => rest,
        _ => bare,
    };
    let bare = bare.trim_start_matches(|c: char| !c.is_alphanumeric()).trim_end_matches([':', ' ', '：']);
    join_words(bare).to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_name_sections() {
        for (heading, kind, own) in [
            ("Problem", SectionKind::Problem, true),
            ("**Problem**:", SectionKind::Problem, true),
            ("PLAY-BY-PLAY", SectionKind::PlayByPlay, true),
            ("3. Next Actions", SectionKind::Next, true),
            ("🎯 Session Intent", SectionKind::Intent, true),
            ("Next Steps", SectionKind::Next, false),
            ("Nächste Schritte", SectionKind::Next, false),
            ("決定事項", SectionKind::Decisions, false),
            ("Delta: 2026-11-15T18:13:57Z", SectionKind::Delta, true),
            ("Règles de l’utilisateur", SectionKind::Rules, false),
            ("Чего хочет пользователь", SectionKind::Intent, false),
            ("Problem Solving", SectionKind::Other, true),
            ("Problems", SectionKind::Other, true),
            ("", SectionKind::Other, true),
        ] {
            assert_eq!(SectionKind::from_heading(heading), (kind, own), "{heading}");
        }
    }
}
