//! Builds the workspace of a checkpoint. Takes a capture and the files that the run has touched, and returns
//! the workspace within its size limits, with notes on what was omitted. Does no I/O.

use std::collections::BTreeSet;

use super::{CaptureLimits, WorkspaceCapture};
use crate::model::{FileSnapshot, MemoryUsage, PathText, Workspace};

/// Size in bytes of a path in a JSON list.
pub(super) fn json_len(path: &PathText) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' => 2,
        0..0x20 => 6,
        _ => 1,
    };
    match path {
        PathText::Text(text) => text.bytes().map(escaped).sum::<usize>() + 3,
        PathText::Bytes { b64 } => b64.len() + 11,
    }
}

/// Number of bytes that remain for paths.
struct ByteBudget(usize);

impl ByteBudget {
    /// Truncates the list to the items that fit. Returns the number of removed items.
    fn truncate_to_fit<T>(&mut self, list: &mut Vec<T>, cost: impl Fn(&T) -> usize) -> usize {
        let fits = list.iter().take_while(|one| {
            let cost = cost(one);
            let fits = cost <= self.0;
            self.0 -= if fits { cost } else { 0 };
            fits
        });
        let kept = fits.count();
        let gone = list.len() - kept;
        list.truncate(kept);
        gone
    }
}

impl WorkspaceCapture {
    /// The workspace of a checkpoint: this capture, and every file touched since the run started. `before`
    /// lists the touched files of earlier captures, `peak` is the largest resident set measured in the run.
    pub fn to_workspace(&self, before: &[PathText], peak: Option<u64>, bounds: &CaptureLimits) -> Workspace {
        let (mut git, mut watched) = (self.git.clone(), self.watched.clone());
        let renamed = git.renamed.iter().flat_map(|renamed| [&renamed.from, &renamed.to]);
        let changed = git.modified.iter().chain(&git.staged).chain(&git.untracked).chain(renamed);
        let touched: BTreeSet<&PathText> = changed.chain(before).chain(&self.committed).collect();
        let mut files_modified: Vec<_> = touched.into_iter().cloned().collect();
        let mut skipped = self.skipped.clone();
        skipped.extend(self.snapshot.iter().flat_map(|taken| taken.notes.iter().cloned()));
        let mut left_out = |what: &str, n: usize| {
            if n > 0 {
                skipped.push(format!("{what}: {n} paths omitted: the size limit is reached"));
            }
        };
        let surplus = files_modified.len().saturating_sub(bounds.paths);
        files_modified.truncate(bounds.paths);
        let mut budget = ByteBudget(bounds.bytes);
        for (what, list) in
            [("modified", &mut git.modified), ("staged", &mut git.staged), ("untracked", &mut git.untracked)]
        {
            left_out(what, budget.truncate_to_fit(list, json_len));
        }
        left_out(
            "renamed",
            budget.truncate_to_fit(&mut git.renamed, |renamed| {
                json_len(&renamed.from) + json_len(&renamed.to) + 16
            }),
        );
        left_out("files_modified", surplus + budget.truncate_to_fit(&mut files_modified, json_len));
        left_out("watched", budget.truncate_to_fit(&mut watched.files, |path| 2 * json_len(path) + 12));
        if watched.files.len() < watched.sizes.len() {
            let listed: BTreeSet<String> = watched.files.iter().map(PathText::key).collect();
            watched.sizes.retain(|path, _| listed.contains(path));
        }
        let memory = match (&self.memory, peak) {
            (None, None) => None,
            (memory, peak) => {
                let memory = memory.clone().unwrap_or_default();
                Some(MemoryUsage { peak_rss: memory.peak_rss.max(peak), ..memory })
            }
        };
        let snapshot = self.snapshot.as_ref().map(|taken| FileSnapshot {
            manifest: taken.manifest,
            omitted: taken.omitted,
            paths: taken.paths,
            extra: Default::default(),
        });
        Workspace {
            files_modified,
            git: Some(git),
            memory,
            skipped,
            snapshot,
            watched: Some(watched),
            extra: Default::default(),
        }
    }
}
