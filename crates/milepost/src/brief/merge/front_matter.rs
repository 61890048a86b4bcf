//! Merges the front matter of two briefs. Keeps the keys of both, prefers the values of the update, and sets
//! `parent` to the id of the previous brief.

use super::super::{Brief, FrontMatter};
use crate::front_matter::{Field, written};

/// Returns `head`, the text before the first section, with the merged front matter.
pub(super) fn merge_front_matter(previous: &Brief, update: &Brief, head: &str, end: &str) -> String {
    let Some(new) = update.front_matter() else { return head.to_owned() };
    let line = |key: &str, value: &str| format!("{key}: {}{end}", written(value));
    let source = |field: &Field| {
        let raw = update.slice(field.lines.clone()).trim_end();
        match raw.contains('\n') {
            true => format!("{}{end}", raw.replace("\r\n", "\n").replace('\n', end)),
            false => line(&field.key, &field.value),
        }
    };
    let parent = match (previous.id(), update.id()) {
        (Some(old), Some(id)) if old != id && update.value("parent").is_none() => Some(old),
        _ => None,
    };
    let Some(old) = previous.front_matter() else {
        let fields: String = new.fields.iter().map(source).collect();
        let parent = parent.map_or(String::new(), |id| line("parent", id));
        let mark = if head.starts_with('\u{feff}') { "\u{feff}" } else { "" };
        let rest = head.strip_prefix('\u{feff}').unwrap_or(head);
        return format!("{mark}---{end}{fields}{parent}---{end}{end}{rest}");
    };
    let find =
        |front: &FrontMatter, key: &str| front.fields.iter().position(|f| f.key.eq_ignore_ascii_case(key));
    let mut lines = String::new();
    let mut changed = false;
    let first = old.fields.first().map_or(old.inside.end, |field| field.lines.start);
    lines.push_str(previous.slice(old.inside.start..first));
    for (i, field) in old.fields.iter().enumerate() {
        let raw = previous.slice(field.lines.clone());
        let given = find(new, &field.key).and_then(|at| new.fields.get(at));
        let is_first = find(old, &field.key) == Some(i);
        let value = match given {
            Some(given) if is_first && !given.value.is_empty() => Some((given.value.clone(), source(given))),
            _ if is_first && field.key.eq_ignore_ascii_case("parent") => {
                parent.map(|id| (id.to_owned(), line(&field.key, id)))
            }
            _ => None,
        };
        match value {
            Some((value, source)) if value != field.value => {
                changed = true;
                lines.push_str(&source);
            }
            _ => lines.push_str(raw),
        }
    }
    for field in new.fields.iter().filter(|field| find(old, &field.key).is_none()) {
        changed = true;
        lines.push_str(&source(field));
    }
    if let (Some(id), None) = (parent, find(old, "parent")) {
        changed = true;
        lines.push_str(&line("parent", id));
    }
    if !changed {
        return head.to_owned();
    }
    let before = previous.slice(0..old.inside.start);
    let after = previous.slice(old.inside.end..head.len());
    format!("{before}{lines}{after}")
}
