//! Notices that a user gets once per project. A small file in the user's state folder records them.

use std::path::Path;

use milepost::internal::fs::atomic;
use milepost::internal::trust::UserState;

use crate::config;

/// Name of the file in the user's state folder. Each line is a JSON string: a project that got the notice.
const FILE: &str = "no-store-notices.jsonl";
/// Maximum size of the file. A larger file is replaced with a new one.
const SIZE_LIMIT: u64 = 256 * 1024;

/// Records that the notice was shown for a project without a store. Returns whether this is the first time.
/// Also returns `false` if it cannot be recorded, because otherwise the notice would appear in every session.
pub(super) fn is_first_without_store(project: &Path) -> bool {
    let Some(state) = config::state_folder().and_then(|folder| UserState::at(folder).ok()) else {
        return false;
    };
    let Ok(line) = serde_json::to_string(&project.to_string_lossy()) else { return false };
    let known = match state.read_file(FILE, SIZE_LIMIT) {
        Ok(known) => known,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(e) if e.kind() == std::io::ErrorKind::FileTooLarge => {
            return atomic::write(
                &state.folder().join(FILE),
                format!("{line}\n").as_bytes(),
                atomic::Mode::Private,
            )
            .is_ok();
        }
        Err(_) => return false,
    };
    let is_known = String::from_utf8_lossy(&known).lines().any(|known| known == line);
    !is_known && state.append(FILE, format!("{line}\n").as_bytes()).is_ok()
}
