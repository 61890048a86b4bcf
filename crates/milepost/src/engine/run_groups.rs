//! Groups runs as live, open, stopped or ended. Takes the records of runs; returns each run with the
//! decision about resuming it. Reads no documents and changes nothing.

use std::time::Duration;

use super::{Milepost, RunSummary};
use crate::model::{RunId, Status};
use crate::resume::rank::ResumeRank;
use crate::resume::{ResumeDecision, RunState};
use crate::{Error, clock};

/// How long a failed run counts as stopped before it counts as ended.
const RECENT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A run, and whether it may be continued.
#[derive(Debug, Clone)]
pub struct AssessedRun {
    /// The run's summary.
    pub summary: RunSummary,
    /// Whether it may be continued, judged by its record alone; `None` for a damaged record.
    pub decision: Option<ResumeDecision>,
    /// The run that continues it.
    pub claimed_by: Option<RunId>,
}

impl AssessedRun {
    /// The state of the run, in a word or two.
    pub fn state_name(&self) -> &'static str {
        match self.decision.map(|decision| decision.run_state) {
            _ if self.claimed_by.is_some() => "continued",
            None => "damaged",
            Some(RunState::Active) => "live",
            Some(RunState::Waiting) => "waiting",
            Some(RunState::Stalled) => "stalled",
            Some(RunState::Unseen) => "unseen",
            Some(RunState::Stopped) => self.summary.state_name(),
            Some(RunState::Open) => "open",
            Some(RunState::Ended) => "completed",
        }
    }

    /// Why the run stopped or waits, or the run that continues it. Empty for any other run.
    pub fn why(&self) -> String {
        let Some(decision) = self.decision else { return String::new() };
        let noted = self.summary.intact().and_then(|record| record.interruption.as_ref());
        match (&self.claimed_by, decision.run_state) {
            (Some(run), _) => format!("by {run}"),
            (None, RunState::Active | RunState::Open | RunState::Ended | RunState::Unseen) => String::new(),
            (None, _) => match noted.and_then(|noted| noted.detail.as_deref()) {
                Some(detail) => format!("{}: {detail}", decision.class),
                None => decision.class.to_string(),
            },
        }
    }

    /// What the run is about: its title, the newest summary, or what its record says.
    pub fn about(&self) -> Option<String> {
        let record = self.summary.intact();
        let title = record.and_then(|record| record.title.clone());
        let summary = || self.summary.latest.as_ref()?.header.summary.clone();
        title.or_else(summary).or_else(|| record?.about())
    }
}

/// Runs in groups. Live and ended runs are listed with the most recently written one first.
#[derive(Debug, Clone, Default)]
pub struct RunGroups {
    /// Runs whose owner is alive, or is not visible from this process.
    pub live: Vec<AssessedRun>,
    /// Runs that have not ended and have no owner.
    pub open: Vec<AssessedRun>,
    /// Runs that were interrupted, or whose record is damaged.
    pub stopped: Vec<AssessedRun>,
    /// Runs that have ended, failed long ago, are continued by another run, or were dismissed.
    pub ended: Vec<AssessedRun>,
}

impl Milepost {
    /// Groups the runs that `shown` accepts. Stopped and open runs are in the order in which they are offered
    /// to a caller in this worktree.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn run_groups(
        &self,
        worktree: Option<&str>,
        shown: impl Fn(&RunId) -> bool,
    ) -> Result<RunGroups, Error> {
        let mut groups = RunGroups::default();
        for summary in self.runs(&super::RunsQuery::default())? {
            if !shown(&summary.run_id) {
                continue;
            }
            let run = self.assess_summary(summary)?;
            self.group_of(&mut groups, &run).push(run);
        }
        let now = self.now();
        let host = crate::owner::host_name();
        for group in [&mut groups.stopped, &mut groups.open] {
            // Damaged runs come first. Runs that may not be continued come after those that may.
            group.sort_by_key(|run| {
                let (record, decision) = (run.summary.intact()?, run.decision?);
                Some((
                    !decision.eligible,
                    ResumeRank::of(record, &decision, (worktree, host.as_deref()), now),
                ))
            });
        }
        Ok(groups)
    }

    /// One run, with what was recorded since its newest checkpoint, and whether it may be continued.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn assessed_run(&self, run: &RunId) -> Result<AssessedRun, Error> {
        self.assess_summary(self.run_detail(run)?.summary)
    }

    fn assess_summary(&self, summary: RunSummary) -> Result<AssessedRun, Error> {
        let (decision, claimed_by) = match &summary.record {
            Ok(record) => {
                let (decision, claimed_by) = self.decide_by_record(&summary, record)?;
                (Some(decision), claimed_by)
            }
            Err(_) => (None, None),
        };
        Ok(AssessedRun { summary, decision, claimed_by })
    }

    fn group_of<'g>(&self, groups: &'g mut RunGroups, run: &AssessedRun) -> &'g mut Vec<AssessedRun> {
        let record = run.summary.intact();
        let handled = run.claimed_by.is_some() || record.is_some_and(|record| record.dismissed);
        let long_ago = record.is_some_and(|record| {
            let age = clock::age(record.updated_at, self.now());
            record.status == Status::Failed && age.is_some_and(|age| age > RECENT)
        });
        match run.decision.map(|decision| decision.run_state) {
            None => &mut groups.stopped,
            Some(RunState::Active | RunState::Waiting | RunState::Stalled | RunState::Unseen) => {
                &mut groups.live
            }
            Some(RunState::Ended) => &mut groups.ended,
            Some(_) if handled || long_ago => &mut groups.ended,
            Some(RunState::Stopped) => &mut groups.stopped,
            Some(RunState::Open) => &mut groups.open,
        }
    }
}
