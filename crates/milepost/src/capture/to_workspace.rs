//! Makes the workspace of a checkpoint. In: a capture, and the files that the run is known to have touched. Out: the
//! workspace within its size limits, with a note on what was left out. Pure.

use std::collections::BTreeSet;

use super::{CaptureLimits, WorkspaceCapture};
use crate::model::{MemoryUsage, PathText, Workspace};

/// Bytes of a path in a list of JSON.
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

/// How many bytes are left for paths.
struct ByteBudget(usize);

impl ByteBudget {
    /// Keeps what fits, and says how many do not.
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
    /// The workspace of a checkpoint: what was seen, and every file touched since the run began. `before` is what the run
    /// knew of those, `peak` the largest resident set it has seen.
    pub fn to_workspace(&self, before: &[PathText], peak: Option<u64>, bounds: &CaptureLimits) -> Workspace {
        let (mut git, mut watched) = (self.git.clone(), self.watched.clone());
        let renamed = git.renamed.iter().flat_map(|renamed| [&renamed.from, &renamed.to]);
        let changed = git.modified.iter().chain(&git.staged).chain(&git.untracked).chain(renamed);
        let touched: BTreeSet<&PathText> = changed.chain(before).chain(&self.committed).collect();
        let mut files_modified: Vec<_> = touched.into_iter().cloned().collect();
        let mut skipped = self.skipped.clone();
        let mut left_out = |what: &str, n: usize| {
            if n > 0 {
                skipped.push(format!("{what}: {n} more paths than there is room for"));
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
        Workspace {
            files_modified,
            git: Some(git),
            memory,
            skipped,
            watched: Some(watched),
            extra: Default::default(),
        }
    }
}
