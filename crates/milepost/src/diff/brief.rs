//! Compares two briefs. Takes their Markdown and returns the sections that differ.

use std::collections::HashMap;

use super::FieldChange;
#[cfg(feature = "brief")]
use crate::brief::split_sections;
use crate::model::{RawJson, ValidationError};

/// Adds a change for each section that differs. A section is named by its heading, with a number if several
/// share it.
pub(super) fn compare(
    before: Option<&str>,
    after: Option<&str>,
    changed: &mut Vec<FieldChange>,
) -> Result<(), ValidationError> {
    let (before, after) = (before.map(sections).unwrap_or_default(), after.map(sections).unwrap_or_default());
    let text = |sections: &[(String, &str)], name: &str| {
        let found = sections.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| RawJson::of(text)).transpose()
    };
    let new = after.iter().filter(|(name, _)| !before.iter().any(|(known, _)| known == name));
    for (name, _) in before.iter().chain(new) {
        let (was, is) = (text(&before, name)?, text(&after, name)?);
        if was != is {
            let path = if name.is_empty() { "/brief".to_owned() } else { format!("/brief/{name}") };
            changed.push(FieldChange { path, before: was, after: is });
        }
    }
    Ok(())
}

/// The sections of a brief by heading. If several share a heading, the later ones get a number.
fn sections(markdown: &str) -> Vec<(String, &str)> {
    let mut counts = HashMap::new();
    let mut found = split_sections(markdown);
    for (name, _) in &mut found {
        let count = counts.entry(name.clone()).and_modify(|n| *n += 1).or_insert(1);
        if *count > 1 {
            *name = format!("{name} #{count}");
        }
    }
    found.retain(|(_, text)| !text.is_empty());
    found
}

/// Without the brief parser, a brief is a single section.
#[cfg(not(feature = "brief"))]
fn split_sections(markdown: &str) -> Vec<(String, &str)> {
    vec![(String::new(), markdown)]
}

#[cfg(all(test, feature = "brief"))]
mod tests {
    use super::*;

    #[test]
    fn headings_in_fences_are_text() {
        let markdown = "x\n## A\none\n```\n## not\n```\n## B\ntwo\n## A\nagain\n";
        let names: Vec<_> = sections(markdown).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["", "A", "B", "A #2"]);
        let joined: String = sections(markdown).into_iter().map(|(_, text)| text).collect();
        assert_eq!(joined, markdown, "no byte is lost");
    }
}
