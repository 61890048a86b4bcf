//! Settings files of agents: an install changes nothing a second time, and an uninstall restores the text byte for byte.

use milepost_cli::internal::{agent_names, edit_settings};

pub(super) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for agent in agent_names() {
        for edited in edit_settings(agent, text) {
            assert_eq!(edited.installed_again, edited.installed, "{agent}: a second install changes the file");
            let is_blank = |text: &str| matches!(text.trim_start_matches('\u{feff}').trim(), "" | "{}");
            let same = edited.uninstalled == text || is_blank(text) && is_blank(&edited.uninstalled);
            assert!(edited.had_parts || same, "{agent}: {:?} remains of {text:?}", edited.uninstalled);
        }
    }
}
