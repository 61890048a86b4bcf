//! Attributes the last change of a path to a run or to someone else. Takes what a snapshot found at the path and
//! the times during which tools ran. Reads only the metadata of files that are gone.

use std::path::Path;

use super::cache::{CachedEntry, ToolWindow};
use super::entries::NO_TIME;
use super::file::{self, Signature};
use super::inspect::CurrentContent;
use super::manifest::{FileContent, LastChange};
use super::take::SnapshotRequest;
use crate::model::{BlobId, RunId};

/// The last change of a path, and who made it. `old` is the entry of the previous snapshot.
pub(super) fn last_change(
    request: &SnapshotRequest<'_>,
    windows: &[ToolWindow],
    path: &[u8],
    content: &CurrentContent,
    old: Option<&CachedEntry>,
) -> LastChange {
    let now = &content.now;
    let is_unread = matches!(now, FileContent::Omitted { reason, .. } if reason == NO_TIME);
    if let Some(old) = old.filter(|old| old.entry.now == *now || is_unread) {
        let change = &old.entry.change;
        return match change.by.is_none() && !is_unread {
            // Another snapshot may have seen the change before the tool that made it ended.
            true => by_tool(windows, content).map_or_else(|| change.clone(), |run| change.attributed_to(run)),
            false => change.clone(),
        };
    }
    let by = author(request, windows, path, content);
    LastChange::after(old.map(|old| &old.entry.change), request.now, by)
}

/// The run whose tool changed a path: it reported this content, or the path changed while its tool ran.
fn author(
    request: &SnapshotRequest<'_>,
    windows: &[ToolWindow],
    path: &[u8],
    content: &CurrentContent,
) -> Option<RunId> {
    let is_reported = |(reported, blob): &(Vec<u8>, Option<BlobId>)| {
        reported == path && (blob.is_some() && *blob == content.now.blob())
    };
    if let (Some(run), true) = (request.run, request.reported.iter().any(is_reported)) {
        return Some(run.clone());
    }
    let changed_at = changed_at(content)
        .or_else(|| changed_on_disk(&request.root.join(file::path_of(path)), request.root))?;
    tool_at(windows, changed_at)
}

/// The run whose tool changed a file that exists.
fn by_tool(windows: &[ToolWindow], content: &CurrentContent) -> Option<RunId> {
    tool_at(windows, changed_at(content)?)
}

fn changed_at(content: &CurrentContent) -> Option<i64> {
    content.changed_at.or_else(|| content.signature.as_ref().map(Signature::changed_ms))
}

/// The run whose tool ran at this time.
fn tool_at(windows: &[ToolWindow], changed_at: i64) -> Option<RunId> {
    // A file system's clock may be coarser than the system's.
    const SLACK: i64 = 20;
    let during = |window: &&ToolWindow| {
        (window.from.saturating_sub(SLACK)..=window.to.saturating_add(SLACK)).contains(&changed_at)
    };
    windows.iter().rev().find(during).map(|window| window.run.clone())
}

/// When a path, or the folder that it was deleted from, last changed.
fn changed_on_disk(path: &Path, root: &Path) -> Option<i64> {
    let inside = path.ancestors().take_while(|at| at.starts_with(root));
    let about = inside.into_iter().find_map(|at| std::fs::symlink_metadata(at).ok())?;
    Some(Signature::of(&about).changed_ms())
}
