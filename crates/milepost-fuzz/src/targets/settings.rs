//! Settings files of agents: an install changes nothing a second time, and an uninstall restores the text byte for byte.

use milepost_cli::internal::{agent_names, edit_settings};

pub(super) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for agent in agent_names() {
        for edited in edit_settings(agent, text) {
            assert_eq!(
                edited.installed_again, edited.installed,
                "{agent}: a second install changes the file"
            );
            // White space in an empty object may be lost.
            let is_empty = |text: &str| {
                let rest: String = text.chars().filter(|c| !c.is_whitespace() && *c != '\u{feff}').collect();
                matches!(rest.as_str(), "" | "{}")
            };
            let is_same = edited.uninstalled == text || is_empty(text) && is_empty(&edited.uninstalled);
            assert!(edited.had_parts || is_same, "{agent}: {:?} remains of {text:?}", edited.uninstalled);
        }
    }
}
