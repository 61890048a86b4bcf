//! What git prints and what its folders contain: parsers accept any bytes. The files of the input are written below a
//! folder, whose `.git` decides where a project begins, and whose manifests a capture reads.

use std::path::Path;

use milepost::internal::capture::project_facts;
use milepost::internal::git::{read_git_changes, read_git_status};
use milepost::internal::store::ProjectPaths;

use crate::scratch;

/// Maximum number of paths that a capture keeps.
const MOST_PATHS: usize = 8;

pub(super) fn run(data: &[u8]) {
    let (facts, changed) =
        read_git_status(data, Path::new("/project"), MOST_PATHS).expect("a slice can be read");
    let lists = [&facts.modified, &facts.staged, &facts.untracked];
    assert!(lists.iter().all(|list| list.len() <= MOST_PATHS) && changed.len() <= MOST_PATHS);
    if let Ok(text) = std::str::from_utf8(data) {
        read_git_changes(text);
    }
    let Some(files) = scratch::parse_files(data).filter(|files| !files.is_empty()) else { return };
    let folder = scratch::folder();
    let project = folder.path().join("project");
    if !scratch::write_files(&project, &files) {
        return;
    }
    let before = scratch::read_files(folder.path());
    if let Ok(paths) = ProjectPaths::find(&project)
        && let Some(repository) = &paths.repository
    {
        repository.head_commit();
        repository.origin_url();
    }
    // Git itself must not run: it would read the repository too, slowly.
    if !project.join(".git").exists() {
        project_facts(&project, None);
    }
    assert_eq!(scratch::read_files(folder.path()), before, "reading a project changed a file");
}
