//! Alternative section names, for agents that follow the section order but choose their own headings. Takes a
//! heading in lower case and returns its section kind. The names are in `section_names.txt`: a `# SECTION`
//! line, then one line of names per language.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::SectionKind;

/// Names in lower case, separated by `; `. Names that could mean two sections are not listed.
const SECTION_NAMES: &str = include_str!("section_names.txt");

/// Finds the kind for an alternative name, given in lower case and without Markdown marks.
pub(super) fn find_section_kind(heading: &str) -> Option<SectionKind> {
    static NAMES: LazyLock<HashMap<&str, SectionKind>> = LazyLock::new(|| section_names().collect());
    NAMES.get(heading).copied()
}

fn section_names() -> impl Iterator<Item = (&'static str, SectionKind)> {
    SECTION_NAMES.split("# ").filter_map(|section| section.split_once('\n')).flat_map(|(title, lines)| {
        let kind = title.parse().unwrap_or(SectionKind::Other);
        let names = lines.lines().filter(|line| !line.is_empty()).flat_map(|line| line.split("; "));
        names.map(move |name| (name, kind))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_one_section() {
        let mut all: HashMap<&str, SectionKind> = HashMap::new();
        for (name, kind) in section_names() {
            assert_eq!(name, name.trim().to_lowercase(), "{name:?} is not normalised, so it is never found");
            assert_ne!(kind, SectionKind::Other, "{name:?} is listed under an unknown section");
            assert_eq!(all.insert(name, kind), None, "{name:?} is listed twice");
            assert_eq!(find_section_kind(name), Some(kind));
        }
        assert!(all.len() > 500, "{}", all.len());
    }
}
