//! Brief: the Markdown of a checkpoint. Returns the saved brief if the checkpoint has one. Otherwise
//! composes one from facts, on top of the newest earlier brief of the run.

use std::path::Path;

use super::lookup::PAGE;
use super::{Milepost, Reference, RunAssessment};
use crate::Error;
use crate::brief::{Brief, BriefFacts, BriefLimit, compose, compose_update, compose_within};
use crate::capture::project_facts;
use crate::failures;
use crate::model::{Body, FileChange, FileRef, Outcome, ProjectFacts, RunId, RunRecord};
use crate::store::{CheckpointEntry, Cursor, Damage, HeaderQuery, Row};

/// The brief of a checkpoint.
#[derive(Debug, Clone)]
pub struct CheckpointBrief {
    /// The checkpoint.
    pub entry: CheckpointEntry,
    /// The brief's Markdown.
    pub markdown: String,
    /// Whether the brief was composed, not saved with the checkpoint.
    pub composed: bool,
    /// The checkpoint whose brief was carried forward.
    pub carried_from: Option<CheckpointEntry>,
    /// Newer checkpoints that were skipped because they are damaged, newest first.
    pub fell_back_from: Vec<Damage>,
}

impl Milepost {
    /// The brief of a checkpoint, as saved or composed from facts. `root` is the project's folder, whose manifest
    /// files and commits are read.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn brief(
        &self,
        reference: &Reference,
        run: Option<&RunId>,
        root: Option<&Path>,
    ) -> Result<CheckpointBrief, Error> {
        let shown = self.show(reference, run)?;
        let mut body = self.body_of(&shown.entry, &shown.verified)?;
        let saved = body.brief.take();
        let composed = saved.is_none();
        let (markdown, carried_from) = match saved {
            Some(markdown) => (markdown, None),
            None => {
                let before = self.brief_before(&shown.entry)?;
                let (id, at) = (body.snapshot_id.to_string(), body.created_at);
                self.compose_brief(id, at, &body, before, root, None)?
            }
        };
        let fell_back_from = shown.fell_back_from;
        Ok(CheckpointBrief { entry: shown.entry, markdown, composed, carried_from, fell_back_from })
    }

    /// The current brief of a run: its newest intact checkpoint, with what was recorded since. With a limit,
    /// it has as many details as fit; a brief that people wrote may exceed the limit.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn current_brief(
        &self,
        from: &RunAssessment,
        root: Option<&Path>,
        limit: Option<&BriefLimit>,
    ) -> Result<String, Error> {
        let Some(shown) = &from.shown else { return Err(Error::NotFound { reference: "latest".into() }) };
        let mut body = self.body_of(&shown.entry, &shown.verified)?;
        let saved = body.clone();
        if let Some(record) = from.detail.summary.intact() {
            let working = record.working.clone();
            body.command_outcomes.clone_from(&from.outcomes);
            body.tasks = working.tasks;
            body.criteria = working.criteria;
            body.decisions = working.decisions;
            body.log = working.log;
            body.phase = working.phase;
            body.step_state = working.step_state;
            body.task_summary = working.task_summary;
            let named = |file: &FileRef| saved.files.iter().any(|known| known.path == file.path);
            body.files.extend(working.files.into_iter().filter(|file| !named(file)));
        }
        if let (Some(own), true) = (&saved.brief, body == saved)
            && self.conversation(&body.run_id)?.is_empty()
        {
            return Ok(own.clone());
        }
        let before = match body.brief.take() {
            Some(own) => Some((shown.entry.clone(), own)),
            None => self.brief_before(&shown.entry)?,
        };
        let id = body.snapshot_id.to_string();
        Ok(self.compose_brief(id, body.created_at, &body, before, root, limit)?.0)
    }

    /// Creates a brief that continues a checkpoint, under a new id: the checkpoint's own brief carried
    /// forward, or one composed from facts.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn new_brief(
        &self,
        reference: &Reference,
        run: Option<&RunId>,
        root: Option<&Path>,
    ) -> Result<CheckpointBrief, Error> {
        let shown = self.show(reference, run)?;
        let mut body = self.body_of(&shown.entry, &shown.verified)?;
        let now = self.clock.now();
        let new_id = fresh_id(now);
        let (markdown, carried_from) = match body.brief.take() {
            Some(own) => {
                let previous = Brief::parse(own);
                let id = &shown.entry.header.snapshot_id;
                let parent = previous.id().map_or_else(|| id.to_string(), str::to_owned);
                let facts =
                    BriefFacts { id: new_id, created: now, parent: Some(parent), ..BriefFacts::default() };
                let update = Brief::parse(compose_update(&facts));
                (previous.merge(&update).brief.markdown(), Some(shown.entry.clone()))
            }
            None => {
                let before = self.brief_before(&shown.entry)?;
                self.compose_brief(new_id, now, &body, before, root, None)?
            }
        };
        let fell_back_from = shown.fell_back_from;
        Ok(CheckpointBrief { entry: shown.entry, markdown, composed: true, carried_from, fell_back_from })
    }

    /// Composes a brief from facts, on top of the newest earlier one.
    fn compose_brief(
        &self,
        id: String,
        created: jiff::Timestamp,
        body: &Body,
        before: Option<(CheckpointEntry, String)>,
        root: Option<&Path>,
        limit: Option<&BriefLimit>,
    ) -> Result<(String, Option<CheckpointEntry>), Error> {
        let record = self.detail_if_exists(&body.run_id)?;
        let is_own = id == body.snapshot_id.as_str();
        let parent = if is_own { body.parent.as_ref() } else { Some(&body.snapshot_id) };
        let mut messages = self.conversation(&body.run_id)?;
        let failures = self.failures_at(body, record.as_deref());
        // A newer message is not part of an older checkpoint.
        let is_newest = record.as_ref().is_none_or(|record| self.is_newest(record, body));
        if !is_newest {
            messages.retain(|message| message.at() <= body.created_at);
        }
        // The files have changed since an older checkpoint.
        let base = record.as_ref().filter(|record| is_newest && !record.is_foreign());
        let base = base.and_then(|record| record.captures.base.as_deref());
        let mut project = root.map_or_else(ProjectFacts::default, |root| project_facts(root, base));
        if let (Some(root), true) = (root, is_newest) {
            project.changes.extend(deleted_files(root, &body.files, &project.changes));
        }
        let mut facts = BriefFacts {
            id,
            created,
            parent: parent.map(ToString::to_string),
            body: Some(body),
            record: record.as_deref(),
            messages: &messages,
            failures: &failures,
            project,
            previous: None,
        };
        let Some((entry, markdown)) = before else {
            let text = match limit {
                Some(limit) => compose_within(&facts, limit, |composed| composed.whole()),
                None => compose(&facts),
            };
            return Ok((text, None));
        };
        let previous = Brief::parse(markdown);
        if let Some(id) = previous.id() {
            facts.parent = Some(id.to_owned());
        }
        facts.previous = Some(&previous);
        let merge = |update: String| previous.merge(&Brief::parse(update)).brief.markdown();
        let text = match limit {
            Some(limit) => compose_within(&facts, limit, |composed| merge(composed.update())),
            None => merge(compose_update(&facts)),
        };
        Ok((text, Some(entry)))
    }

    /// The commands that were unfixed at a checkpoint. For an older checkpoint, only its own outcomes are
    /// known.
    fn failures_at(&self, body: &Body, record: Option<&RunRecord>) -> Vec<Outcome> {
        match record {
            Some(record) if self.is_newest(record, body) => record.working.failures.clone(),
            _ => {
                let mut unfixed = Vec::new();
                body.command_outcomes.iter().for_each(|one| failures::update(&mut unfixed, one));
                unfixed
            }
        }
    }

    /// Whether a body describes the newest state of its run.
    fn is_newest(&self, record: &RunRecord, body: &Body) -> bool {
        record.recent.iter().all(|commit| commit.sequence <= body.sequence)
    }

    /// The newest readable brief before a checkpoint in its run.
    fn brief_before(&self, entry: &CheckpointEntry) -> Result<Option<(CheckpointEntry, String)>, Error> {
        let after = Cursor { sequence: entry.header.sequence, stamp: entry.header.stamp };
        let query = HeaderQuery::default().run(&entry.header.run_id).after(after);
        for row in self.rows(query, PAGE) {
            let Row::Intact(earlier) = row? else { continue };
            if !earlier.header.holds_brief {
                continue;
            }
            match self.body_if_there(&earlier) {
                Ok(Some(Body { brief: Some(markdown), .. })) => return Ok(Some((earlier, markdown))),
                Ok(_) | Err(Error::Damaged(_) | Error::Newer { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }
}

/// Files that tools wrote and that no longer exist.
fn deleted_files(root: &Path, files: &[FileRef], known: &[FileChange]) -> Vec<FileChange> {
    let is_known = |path: &str| known.iter().any(|change| change.path == path);
    let is_gone = |file: &&FileRef| {
        let is_written = file.sha256.is_none() && file.size.is_none();
        is_written && !is_known(&file.path) && root.join(&file.path).symlink_metadata().is_err()
    };
    let change = |file: &FileRef| FileChange {
        path: file.path.clone(),
        status: "deleted",
        from: None,
        is_committed: None,
    };
    files.iter().filter(is_gone).map(change).collect()
}

/// Creates an id for a brief that has not been saved yet.
pub fn fresh_id(now: jiff::Timestamp) -> String {
    format!("chk-{}", now.strftime("%Y%m%dT%H%M%S%3fZ"))
}
