//! Other names for the sections: what agents write where they keep to the order but not to the words. Input: a heading
//! in small letters. Output: its section. The names are in `section_names.txt`: `# SECTION`, then one line per language.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::SectionKind;

/// Names in small letters, separated by `; `. A name that could stand for two sections is not among them.
const SECTION_NAMES: &str = include_str!("section_names.txt");

/// The section that a heading names in other words, in small letters and without marks.
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
            assert_eq!(name, name.trim().to_lowercase(), "{name:?} could not be found");
            assert_ne!(kind, SectionKind::Other, "{name:?} stands below an unknown section");
            assert_eq!(all.insert(name, kind), None, "{name:?} is there twice");
            assert_eq!(find_section_kind(name), Some(kind));
        }
        assert!(all.len() > 500, "{}", all.len());
    }
}
