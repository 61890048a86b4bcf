//! Settings files of agents: an install changes nothing a second time, and an uninstall restores the text, except white
//! space in empty objects and lists.

use milepost_cli::internal::{agent_names, edit_settings};

pub(super) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for agent in agent_names() {
        for edited in edit_settings(agent, text) {
            assert_eq!(
                edited.installed_again, edited.installed,
                "{agent}: a second install changes the file"
            );
            let (before, after) = (normalize(text), normalize(&edited.uninstalled));
            let is_empty = |text: &str| matches!(text.trim_start_matches('\u{feff}').trim(), "" | "{}");
            let is_same = after == before || is_empty(&before) && is_empty(&after);
            assert!(edited.had_parts || is_same, "{agent}: {:?} remains of {text:?}", edited.uninstalled);
        }
    }
}

/// Removes white space from empty objects and lists, which an uninstall may remove as well.
fn normalize(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '}' | ']') {
            let before = kept.trim_end();
            if before.ends_with(['{', '[']) {
                kept.truncate(before.len());
            }
        }
        kept.push(c);
    }
    kept
}
