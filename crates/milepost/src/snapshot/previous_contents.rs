//! Determines what newly listed paths contained in the previous snapshot, which did not list them: most of it is
//! in the commit of that time. Part of listing a snapshot; contents go to the same sink.

use std::collections::BTreeMap;

use super::cache::CachedEntry;
use super::committed::{self, Wanted};
use super::entries::{EntryLister, PathFacts, is_not_checked_out};
use super::file;
use super::manifest::FileContent;
use super::take::SnapshotRequest;
use crate::model::PathText;

/// Why the earlier content of a path is not known that existed before it was listed.
const NOT_LISTED: &str = "it was not listed then";

impl EntryLister<'_, '_> {
    /// Whether an untracked file was created after the previous snapshot, as far as the file system knows. A file
    /// that is older was ignored or left out then.
    fn is_new(&self, path: &[u8]) -> bool {
        const SLACK: i64 = 50;
        let Some(before) = self.before.filter(|before| !before.left_out) else { return false };
        let about = std::fs::symlink_metadata(self.request.root.join(file::path_of(path)));
        let created = about.and_then(|about| about.created()).ok();
        let created = created.and_then(|time| jiff::Timestamp::try_from(time).ok());
        created.is_none_or(|time| time.as_millisecond() + SLACK >= before.taken_at)
    }

    /// Adds the contents that newly listed paths had before: in the commit of the previous snapshot.
    pub(super) fn add_previous_contents(
        &mut self,
        new: &[Vec<u8>],
        paths: &BTreeMap<&[u8], PathFacts<'_>>,
        entries: &mut BTreeMap<Vec<u8>, CachedEntry>,
    ) {
        let taken_at = self.before.map_or(0, |before| before.taken_at);
        let mut wanted = Vec::new();
        for path in new {
            let (Some(facts), Some(cached)) = (paths.get(&path[..]), entries.get_mut(path)) else { continue };
            let committed = match (facts.moved, facts.changed) {
                (Some(moved), _) => moved.before.as_ref(),
                (None, Some(changed)) => changed.committed.as_ref(),
                (None, None) => None,
            };
            let is_sparse = is_not_checked_out(&cached.entry.now);
            cached.entry.was = match committed {
                _ if is_sparse => cached.entry.now.clone(),
                Some(object) => {
                    wanted.push(Wanted { path: path.clone(), object: object.clone() });
                    continue;
                }
                // It did not change since the previous snapshot, so it was ignored until now.
                None if cached.signature.is_some_and(|signature| signature.changed_ms() < taken_at) => {
                    cached.entry.now.clone()
                }
                None if self.request.repository.is_some() && self.is_new(path) => FileContent::Absent,
                None if self.request.repository.is_some() => FileContent::omitted(NOT_LISTED, None),
                None if is_watched(self.request, path) => FileContent::Absent,
                None => continue,
            };
        }
        if wanted.is_empty() {
            return;
        }
        let contents = match self.git() {
            Ok(git) => committed::read(&git, &wanted, self.limits.file, self.deadline),
            Err(why) => {
                let omitted = FileContent::omitted(why, None);
                wanted.iter().map(|_| (omitted.clone(), Vec::new())).collect()
            }
        };
        for (file, (content, bytes)) in wanted.into_iter().zip(contents) {
            let content = match (&content, content.blob().is_some()) {
                (_, true) => self.add(bytes).err().unwrap_or(content),
                (_, false) => content,
            };
            if let Some(cached) = entries.get_mut(&file.path) {
                cached.entry.was = content;
            }
        }
    }
}

fn is_watched(request: &SnapshotRequest<'_>, path: &[u8]) -> bool {
    let is_path = |watched: &PathText| matches!(watched, PathText::Text(text) if text.as_bytes() == path);
    request.capture.watched.files.iter().any(is_path)
}
