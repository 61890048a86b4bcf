//! Two briefs, section by section.

use std::collections::HashMap;

use super::Change;
use crate::model::{Invalid, Raw};

/// Notes sections that are not the same. A section is named by its heading, and by its number where several have it.
pub(super) fn compare(
    before: Option<&str>,
    after: Option<&str>,
    changed: &mut Vec<Change>,
) -> Result<(), Invalid> {
    let (before, after) = (before.map(sections).unwrap_or_default(), after.map(sections).unwrap_or_default());
    let text = |sections: &[(String, &str)], name: &str| {
        let found = sections.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| Raw::of(text)).transpose()
    };
    let new = after.iter().filter(|(name, _)| !before.iter().any(|(known, _)| known == name));
    for (name, _) in before.iter().chain(new) {
        let (was, is) = (text(&before, name)?, text(&after, name)?);
        if was != is {
            let path = if name.is_empty() { "/brief".to_owned() } else { format!("/brief/{name}") };
            changed.push(Change { path, before: was, after: is });
        }
    }
    Ok(())
}

/// Splits Markdown at its `## ` headings, those inside fences left alone: each heading with all that follows it.
fn sections(markdown: &str) -> Vec<(String, &str)> {
    let mut starts: Vec<(&str, usize)> = vec![("", 0)];
    let (mut at, mut fence) = (0, None);
    for line in markdown.split_inclusive('\n') {
        let text = line.trim();
        match (fence, ["```", "~~~"].into_iter().find(|mark| text.starts_with(mark))) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        if let (None, Some(heading)) = (fence, line.strip_prefix("## ")) {
            starts.push((heading.trim(), at));
        }
        at += line.len();
    }
    let ends: Vec<_> = starts.iter().skip(1).map(|(_, at)| *at).chain([markdown.len()]).collect();
    let mut counts = HashMap::new();
    let named = |((name, start), end): ((&str, usize), usize)| {
        let count = counts.entry(name.to_owned()).and_modify(|n| *n += 1).or_insert(1);
        let name = if *count == 1 { name.to_owned() } else { format!("{name} #{count}") };
        (name, &markdown[start..end])
    };
    starts.into_iter().zip(ends).map(named).filter(|(_, text)| !text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_in_fences_are_text() {
        let markdown = "# T\n## A\none\n```\n## not\n```\n## B\ntwo\n## A\nagain\n";
        let names: Vec<_> = sections(markdown).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["", "A", "B", "A #2"]);
        let joined: String = sections(markdown).into_iter().map(|(_, text)| text).collect();
        assert_eq!(joined, markdown, "not a byte is lost");
    }
}
