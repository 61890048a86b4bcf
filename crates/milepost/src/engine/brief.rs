//! Brief: the Markdown of a checkpoint. Returns the saved brief if the checkpoint has one. Otherwise
//! composes one from facts, on top of the newest earlier brief of the run.

use super::lookup::PAGE;
use super::{Milepost, Reference, RunAssessment};
use crate::Error;
use crate::brief::{Brief, BriefFacts, compose, compose_update};
use crate::model::{Body, FileRef, Manifest, RunId};
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
    /// The brief of a checkpoint, as saved or composed from facts.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn brief(
        &self,
        reference: &Reference,
        run: Option<&RunId>,
        manifests: &[Manifest],
    ) -> Result<CheckpointBrief, Error> {
        let shown = self.show(reference, run)?;
        let mut body = self.body_of(&shown.entry, &shown.verified)?;
        let saved = body.brief.take();
        let composed = saved.is_none();
        let (markdown, carried_from) = match saved {
            Some(markdown) => (markdown, None),
            None => {
                let before = self.brief_before(&shown.entry)?;
                self.compose_brief(body.snapshot_id.to_string(), body.created_at, &body, before, manifests)?
            }
        };
        let fell_back_from = shown.fell_back_from;
        Ok(CheckpointBrief { entry: shown.entry, markdown, composed, carried_from, fell_back_from })
    }

    /// The current brief of a run: its newest intact checkpoint, with the items recorded since.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn current_brief(
        &self,
        from: &RunAssessment,
        manifests: &[Manifest],
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
        if let (Some(own), true) = (&saved.brief, body == saved) {
            return Ok(own.clone());
        }
        let before = match body.brief.take() {
            Some(own) => Some((shown.entry.clone(), own)),
            None => self.brief_before(&shown.entry)?,
        };
        let id = body.snapshot_id.to_string();
        Ok(self.compose_brief(id, body.created_at, &body, before, manifests)?.0)
    }

    /// Creates a brief that continues a checkpoint, under a new id: the checkpoint's own brief carried
    /// forward, or one composed from facts.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn new_brief(
        &self,
        reference: &Reference,
        run: Option<&RunId>,
        manifests: &[Manifest],
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
                self.compose_brief(new_id, now, &body, before, manifests)?
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
        manifests: &[Manifest],
    ) -> Result<(String, Option<CheckpointEntry>), Error> {
        let record = self.record_of(&body.run_id)?;
        let is_own = id == body.snapshot_id.as_str();
        let parent = if is_own { body.parent.as_ref() } else { Some(&body.snapshot_id) };
        let mut facts = BriefFacts {
            id,
            created,
            parent: parent.map(ToString::to_string),
            body: Some(body),
            record: record.as_deref(),
            manifests,
            previous: None,
        };
        let Some((entry, markdown)) = before else { return Ok((compose(&facts), None)) };
        let previous = Brief::parse(markdown);
        if let Some(id) = previous.id() {
            facts.parent = Some(id.to_owned());
        }
        facts.previous = Some(&previous);
        let update = Brief::parse(compose_update(&facts));
        Ok((previous.merge(&update).brief.markdown(), Some(entry)))
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

/// Creates an id for a brief that has not been saved yet.
pub fn fresh_id(now: jiff::Timestamp) -> String {
    format!("chk-{}", now.strftime("%Y%m%dT%H%M%S%3fZ"))
}
