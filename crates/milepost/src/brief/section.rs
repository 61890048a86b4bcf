//! Which sections there are, in which order they stand, what each is worth under pressure, and how headings name them.
//! In: the text of a heading. Out: a kind. Headings in other words and languages are read, and known to be other words.

use super::section_names;
use crate::model::closed_enum;

closed_enum! {
    /// What a section is, by the name that the format gives it.
    pub enum Kind {
        /// The stable problem statement.
        Problem = "Problem",
        /// What the user wants to achieve.
        Intent = "Session Intent",
        /// A heading that only holds others.
        Container = "Essential Information",
        /// Choices that are not asked again.
        Decisions = "Decisions",
        /// Stack, configuration, environment.
        Technical = "Technical Context",
        /// References for reconstruction.
        Breadcrumbs = "Breadcrumbs",
        /// Major actions and their outcomes.
        Play = "Play-By-Play",
        /// Files touched.
        Artifacts = "Artifact Trail",
        /// What exists now.
        State = "Current State",
        /// What comes next.
        Next = "Next Actions",
        /// Constraints that the agent must follow.
        Rules = "User Rules",
        /// The heading of a delta, which holds what changed after the brief was written.
        Delta = "Delta",
        /// A delta's prose.
        Changed = "What Changed",
        /// A delta's table of what went from where to where.
        Transitions = "Status Transitions",
        /// What fitting left out.
        LeftOut = "Left Out",
        /// Any other section.
        Other = "",
    }
}

/// The sections that every brief has.
pub const REQUIRED: [Kind; 8] = [
    Kind::Problem,
    Kind::Intent,
    Kind::Decisions,
    Kind::Technical,
    Kind::Play,
    Kind::Artifacts,
    Kind::State,
    Kind::Next,
];

/// All sections in the order they are written in.
pub const ORDER: [Kind; 11] = [
    Kind::Problem,
    Kind::Intent,
    Kind::Container,
    Kind::Decisions,
    Kind::Technical,
    Kind::Breadcrumbs,
    Kind::Play,
    Kind::Artifacts,
    Kind::State,
    Kind::Next,
    Kind::Rules,
];

impl Kind {
    /// The kind that a heading names, and whether it does so in the format's own words.
    pub fn of(heading: &str) -> (Self, bool) {
        let own = |name: &str| {
            let all = ORDER.iter().chain(&[Self::Changed, Self::Transitions, Self::LeftOut]);
            all.copied().find(|kind| kind.as_str().eq_ignore_ascii_case(name))
        };
        if let Some(kind) = own(heading) {
            return (kind, true);
        }
        let name = plain(heading);
        if name.is_empty() {
            return (Self::Other, true);
        }
        if let Some(kind) = own(&name) {
            return (kind, true);
        }
        if name == "delta" || name.starts_with("delta:") || name.starts_with("delta ") {
            return (Self::Delta, true);
        }
        section_names::named(&name).map_or((Self::Other, true), |kind| (kind, false))
    }

    /// Whether nothing of it may be lost under pressure.
    pub fn must_keep(self) -> bool {
        matches!(
            self,
            Self::Problem | Self::Intent | Self::Decisions | Self::State | Self::Next | Self::Rules
        )
    }

    /// How deep its heading is written.
    pub fn level(self) -> u8 {
        match self {
            Self::Problem | Self::Intent | Self::Container | Self::Rules | Self::Delta | Self::LeftOut => 2,
            Self::Other => 2,
            _ => 3,
        }
    }

    /// Its place in the order of writing; what is not in it comes last.
    pub fn place(self) -> usize {
        ORDER.iter().position(|kind| *kind == self).unwrap_or(ORDER.len())
    }
}

/// A heading's text without marks, numbers in front and a colon behind, in small letters, with one kind of apostrophe.
pub(super) fn plain(heading: &str) -> String {
    let bare = heading.chars().filter(|c| !matches!(c, '*' | '`' | '_' | '~'));
    let bare: String = bare.map(|c| if c == '’' { '\'' } else { c }).collect();
    let bare = bare.trim();
    let numbered = bare.trim_start_matches(|c: char| c.is_ascii_digit());
    let bare = match numbered.strip_prefix(['.', ')']) {
        Some(rest) if numbered.len() < bare.len() && rest.starts_with(' ') => rest,
        _ => bare,
    };
    let bare = bare.trim_start_matches(|c: char| !c.is_alphanumeric()).trim_end_matches([':', ' ', '：']);
    bare.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_name_sections() {
        for (heading, kind, own) in [
            ("Problem", Kind::Problem, true),
            ("**Problem**:", Kind::Problem, true),
            ("PLAY-BY-PLAY", Kind::Play, true),
            ("3. Next Actions", Kind::Next, true),
            ("🎯 Session Intent", Kind::Intent, true),
            ("Next Steps", Kind::Next, false),
            ("Nächste Schritte", Kind::Next, false),
            ("決定事項", Kind::Decisions, false),
            ("Delta: 2026-11-15T18:13:57Z", Kind::Delta, true),
            ("Règles de l’utilisateur", Kind::Rules, false),
            ("Чего хочет пользователь", Kind::Intent, false),
            ("Problem Solving", Kind::Other, true),
            ("Problems", Kind::Other, true),
            ("", Kind::Other, true),
        ] {
            assert_eq!(Kind::of(heading), (kind, own), "{heading}");
        }
    }
}
