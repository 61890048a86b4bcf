//! Resume: finds stopped runs, decides by the rules in `resume` whether one may be continued, and continues
//! it in a new run. `candidates` and `assess` only read; `continue_run` claims the old run, then starts the
//! new one.

use serde_json::json;

use super::bookkeeping::event;
use super::snapshot::include_snapshot;
use super::start::age_of_work;
use super::{Milepost, Reference, RunDetail, RunSummary, ShownCheckpoint, StartOptions, StartedRun, change};
use crate::Error;
use crate::ReasonCode;
use crate::capture::TakenSnapshot;
use crate::model::{
    Change, CheckpointId, Claim, Event, EventType, Interruption, Outcome, Profile, RunId, RunRecord,
    WorkingState,
};
use crate::owner::Liveness;
use crate::resume::rank::ResumeRank;
use crate::resume::{ClaimState, ResumeDecision, ResumeInput, RunState};
use crate::store::{Commit, StoreError, StoredRun, WriteDecision};

/// How long a claim is in force while the claiming run does not exist.
const CLAIM_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(30);

/// A run and its resume decision, without its checkpoints.
#[derive(Debug, Clone)]
pub struct ResumeCandidate {
    /// The run's summary.
    pub summary: RunSummary,
    /// Whether it may be continued, judged by its record alone.
    pub decision: ResumeDecision,
    /// The run that continues it.
    pub claimed_by: Option<RunId>,
}

/// A run, its newest intact checkpoint, and whether it may be continued from there.
#[derive(Debug, Clone)]
pub struct RunAssessment {
    /// The run, including the items recorded since its newest checkpoint.
    pub detail: RunDetail,
    /// The newest intact checkpoint; `None` if there is none.
    pub shown: Option<ShownCheckpoint>,
    /// The outcomes in that checkpoint and among the pending items, oldest first.
    pub outcomes: Vec<Outcome>,
    /// Whether it may be continued.
    pub decision: ResumeDecision,
    /// The run that continues it.
    pub claimed_by: Option<RunId>,
}

/// What a continuing run takes over from the earlier run.
#[derive(Debug, Clone, PartialEq)]
pub struct ContinueOptions {
    /// The checkpoint that it continues from.
    pub parent: CheckpointId,
    /// The earlier run's working state.
    pub working: WorkingState,
    /// How often this work was continued without making progress.
    pub attempts: u64,
    /// The commit at which the work began, and the worktree that contains it.
    pub base: Option<(String, String)>,
}

/// A run that continues the work of another.
#[derive(Debug, Clone)]
pub struct ContinuedRun {
    /// The new run.
    pub started: StartedRun,
    /// The run that it continues.
    pub from: RunAssessment,
}

/// A granted claim on a run.
struct GrantedClaim {
    /// How often the run was claimed, including this claim.
    attempts: u64,
    /// Whether this call made the claim, not an earlier attempt.
    is_new: bool,
}

impl Milepost {
    /// Runs that stopped before their end and may be continued, in the order in which `milepost resume` offers
    /// them: those of the caller's worktree first, then by age and by why they stopped. Imported runs are
    /// excluded; a program has to name them. `RunBuilder::continuing` continues a run.
    pub fn resumable_runs(&self) -> Result<Vec<RunSummary>, Error> {
        let location = &self.location;
        let worktree = location.worktree.as_deref().or(location.project.as_deref());
        let offered = self.offered_runs(worktree, |record| !record.is_foreign())?;
        Ok(offered.into_iter().map(|candidate| candidate.summary).collect())
    }

    /// The runs that stopped and may be continued, in the order in which they are offered to a caller in this
    /// worktree. Runs that `may_show` rejects are left out.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn offered_runs(
        &self,
        worktree: Option<&str>,
        may_show: impl Fn(&RunRecord) -> bool,
    ) -> Result<Vec<ResumeCandidate>, Error> {
        let (now, host) = (self.now(), crate::owner::host_name());
        let mut offered = Vec::new();
        for candidate in self.candidates()? {
            let Some(record) = candidate.summary.intact().filter(|record| may_show(record)) else { continue };
            if candidate.decision.eligible && candidate.decision.run_state.is_stopped() {
                let rank = ResumeRank::of(record, &candidate.decision, (worktree, host.as_deref()), now);
                offered.push((rank, candidate));
            }
        }
        offered.sort_by_key(|(rank, _)| *rank);
        Ok(offered.into_iter().map(|(_, candidate)| candidate).collect())
    }

    /// All runs with an intact record and their resume decisions, most recently written first. Leaves out threads,
    /// because the program that keeps them continues them itself. Reads no documents.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn candidates(&self) -> Result<Vec<ResumeCandidate>, Error> {
        let mut found = Vec::new();
        for summary in self.runs(&super::RunsQuery::default())? {
            let Ok(record) = &summary.record else { continue };
            if record.profile == Profile::Thread {
                continue;
            }
            let (decision, claimed_by) = self.decide_by_record(&summary, record)?;
            found.push(ResumeCandidate { decision, claimed_by, summary });
        }
        Ok(found)
    }

    /// Decides by a run's record alone whether the run may be continued. Also returns the run that
    /// continues it.
    pub(super) fn decide_by_record(
        &self,
        summary: &RunSummary,
        record: &RunRecord,
    ) -> Result<(ResumeDecision, Option<RunId>), Error> {
        let claimed_by = self.claimed_by(record)?;
        let input = ResumeInput {
            record,
            outcomes: &[],
            owner: summary.owner,
            age: summary.age,
            has_checkpoint: summary.checkpoints > 0,
            claim: claim_state(claimed_by.as_ref()),
            now: self.now(),
        };
        let mut decision = input.decide(&self.settings.resume, false);
        decision.eligible &= !record.dismissed;
        Ok((decision, claimed_by))
    }

    /// Assesses one run: its newest intact checkpoint, and whether it may be continued from there.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn assess(&self, run: &RunId, take_over: bool) -> Result<RunAssessment, Error> {
        let detail = self.run_detail(run)?;
        let shown = match self.newest_intact(Some(run), |_| true) {
            Ok(shown) => Some(shown),
            Err(Error::NotFound { .. } | Error::Damaged(_)) => None,
            Err(e) => return Err(e),
        };
        let record = match &detail.summary.record {
            Ok(record) => (**record).clone(),
            Err(_) => self.record_from_checkpoints(run)?,
        };
        let body = shown.as_ref().and_then(|shown| shown.verified.body().ok());
        let mut outcomes = body.map(|body| body.command_outcomes).unwrap_or_default();
        outcomes.extend(detail.pending_outcomes.iter().cloned());
        let claimed_by = self.claimed_by(&record)?;
        let input = ResumeInput {
            record: &record,
            outcomes: &outcomes,
            owner: detail.summary.owner,
            age: detail.summary.age,
            has_checkpoint: shown.is_some(),
            claim: claim_state(claimed_by.as_ref()),
            now: self.now(),
        };
        let decision = input.decide(&self.settings.resume, take_over);
        Ok(RunAssessment { detail, shown, outcomes, decision, claimed_by })
    }

    /// Continues a run in a new one, which starts from the newest intact checkpoint. If several callers
    /// try, only one succeeds.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn continue_run(
        &self,
        run: &RunId,
        mut start: StartOptions,
        take_over: bool,
    ) -> Result<ContinuedRun, Error> {
        let now = self.now();
        let by_run = start.run_id.get_or_insert_with(|| RunId::generate(now)).clone();
        // The claim and its event store the new run's id in the old run.
        self.check_run_name(&by_run, self.settings.redaction)?;
        loop {
            let from = self.assess(run, take_over)?;
            let (true, Some(shown)) = (from.decision.eligible, &from.shown) else {
                let (kind, at) = (EventType::ResumeRefused, self.now());
                self.update_record(run, |record| {
                    Some(vec![resume_event(record, kind, &from.decision, &by_run, at)])
                })?;
                return Err(from.refusal());
            };
            let parent = shown.entry.header.snapshot_id.clone();
            let record = match &from.detail.summary.record {
                Ok(record) => (**record).clone(),
                Err(_) => self.record_from_checkpoints(run)?,
            };
            let Some(claim) = self.claim(run, &record, &by_run, &from.decision)? else { continue };
            // A continuing run that got past its first checkpoint made progress, so the attempts are
            // counted from 0 again.
            let checkpoints = record.session.as_ref().map_or(0, |session| session.checkpoints);
            start.continuing = Some(Box::new(ContinueOptions {
                parent,
                working: record.working.clone(),
                base: record
                    .captures
                    .base
                    .clone()
                    .zip(record.worktree.clone())
                    .filter(|_| !record.is_foreign()),
                attempts: if record.parent.is_some() && checkpoints <= 1 { claim.attempts } else { 0 },
            }));
            let run_options = &mut start.run_options;
            run_options.title = run_options.title.take().or(record.title);
            run_options.plan = run_options.plan.take().or(record.plan);
            run_options.profile = run_options.profile.or(Some(record.profile));
            return match self.start(start) {
                Ok(started) => Ok(ContinuedRun { started, from }),
                Err(e) => {
                    // Release the claim, so that the run can still be continued.
                    if claim.is_new {
                        self.release_claim(run, &by_run)?;
                    }
                    Err(e)
                }
            };
        }
    }

    /// Claims a run for the run that continues it; returns `None` if the record has changed since `before`
    /// was read.
    fn claim(
        &self,
        run: &RunId,
        before: &RunRecord,
        by_run: &RunId,
        decision: &ResumeDecision,
    ) -> Result<Option<GrantedClaim>, Error> {
        let now = self.now();
        let mut granted = None;
        self.update_record(run, |record| {
            granted = None;
            if record.claim.as_ref().is_some_and(|claim| claim.by_run == *by_run) {
                granted = Some(GrantedClaim { attempts: record.attempts, is_new: false });
                return None;
            }
            if record.claim != before.claim || record.owner != before.owner || record.status != before.status
            {
                return None;
            }
            // Replacing a claim whose run never began does not count as another attempt.
            record.attempts = record.attempts.saturating_add(u64::from(record.claim.is_none()));
            record.attempted_at = Some(now);
            record.claim = Some(Claim { by_run: by_run.clone(), at: now });
            granted = Some(GrantedClaim { attempts: record.attempts, is_new: true });
            Some(vec![resume_event(record, EventType::Resumed, decision, by_run, now)])
        })?;
        Ok(granted)
    }

    /// Removes the claim of a run that will not continue this one.
    fn release_claim(&self, run: &RunId, by_run: &RunId) -> Result<(), Error> {
        self.update_record(run, |record| {
            record.claim.take_if(|claim| claim.by_run == *by_run)?;
            record.attempts = record.attempts.saturating_sub(1);
            Some(Vec::new())
        })?;
        Ok(())
    }

    /// The run whose claim is in force: it has a checkpoint, or its owner may still save one.
    fn claimed_by(&self, record: &RunRecord) -> Result<Option<RunId>, Error> {
        let Some(claim) = &record.claim else { return Ok(None) };
        let Some(state) = self.store.run(&claim.by_run)? else {
            let in_time = crate::clock::age(claim.at, self.now()).is_none_or(|age| age < CLAIM_TIMEOUT);
            return Ok(in_time.then(|| claim.by_run.clone()));
        };
        let holds = match &state.row.record {
            _ if state.row.count > 0 => true,
            Ok(by) => {
                let liveness = || self.liveness(by, age_of_work(&state.row));
                by.is_open() && !matches!(liveness(), Some(Liveness::Dead | Liveness::PresumedDead))
            }
            Err(_) => false,
        };
        Ok(holds.then(|| claim.by_run.clone()))
    }

    /// Removes a run in which nothing happened, and its claim on the run that it continues. Returns whether
    /// it was removed.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn abandon(&self, run: &RunId) -> Result<bool, Error> {
        self.store.run(run)?.map_or(Ok(false), |state| self.abandon_if_empty(run, &state))
    }

    /// Like `abandon`, for a run that was already read.
    pub(super) fn abandon_if_empty(&self, run: &RunId, state: &StoredRun) -> Result<bool, Error> {
        if state.row.count > 0 || !state.items.is_empty() || !self.store.messages(run)?.is_empty() {
            return Ok(false);
        }
        if !self.store.attachments(run, None)?.is_empty() {
            return Ok(false);
        }
        let parent = state.row.record.as_ref().ok().and_then(|record| record.parent.clone());
        if !self.store.delete_run(run, Some(state.row.stamp))? {
            return Ok(false);
        }
        let from = parent.and_then(|id| self.find(&Reference::Name(id.to_string()), None).ok());
        if let Some(from) = from.map(|entry| entry.header.run_id) {
            self.release_claim(&from, run)?;
        }
        Ok(true)
    }

    /// Stops offering a run for resuming, until it is started again.
    pub fn dismiss(&self, run: &RunId) -> Result<(), Error> {
        self.change_record(run, EventType::Dismissed, &json!({}), |record| record.dismissed = true)
    }

    /// Records why a run was interrupted, and messages. The next recorded change or non-timer save clears the
    /// interruption.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn interrupt(
        &self,
        run: &RunId,
        interruption: &Interruption,
        said: &[Change],
        snapshot: Option<&TakenSnapshot>,
    ) -> Result<(), Error> {
        match self.interrupt_once(run, interruption, said, snapshot) {
            // A collection removed the contents before the commit.
            Err(Error::Store(StoreError::BlobsMissing(_))) => {
                snapshot.inspect(|taken| taken.forget());
                self.interrupt_once(run, interruption, said, None)
            }
            interrupted => interrupted,
        }
    }

    fn interrupt_once(
        &self,
        run: &RunId,
        interruption: &Interruption,
        said: &[Change],
        snapshot: Option<&TakenSnapshot>,
    ) -> Result<(), Error> {
        let interruption = self.redact(interruption.clone(), "interruption")?;
        let data = json!({ "class": interruption.class, "detail": interruption.detail });
        let said = self.redact(said.to_vec(), "changes")?;
        let now = self.now();
        let (mut found, mut refused) = (false, None);
        self.write(run, &mut |view| {
            (found, refused) = (view.record.is_some(), None);
            let Some(mut record) = view.record.clone() else { return WriteDecision::NoChange };
            let limits = &self.settings.limits;
            let messages = match change::resolve(&said, &record, &mut Vec::new(), now, limits) {
                Ok(messages) => messages,
                Err(e) => {
                    refused = Some(e);
                    return WriteDecision::NoChange;
                }
            };
            record.interruption = Some(interruption.clone());
            let mut commit = Commit::new(record);
            commit.messages = messages;
            if let Some(taken) = snapshot {
                include_snapshot(&mut commit, taken);
            }
            commit.events = vec![event(run, now, EventType::Interrupted, None, &data)];
            WriteDecision::Commit(Box::new(commit))
        })?;
        match refused {
            Some(e) => Err(e),
            None if found => Ok(()),
            None => Err(Error::NoRun(run.to_string())),
        }
    }

    fn change_record(
        &self,
        run: &RunId,
        kind: EventType,
        data: &serde_json::Value,
        change: impl Fn(&mut RunRecord),
    ) -> Result<(), Error> {
        let now = self.now();
        let found = self.update_record(run, |record| {
            change(record);
            Some(vec![event(run, now, kind, None, data)])
        })?;
        if found { Ok(()) } else { Err(Error::NoRun(run.to_string())) }
    }
}

impl RunAssessment {
    /// Why the run may not be continued, for people; empty if it may.
    pub fn refusal_reason(&self) -> String {
        let record = self.detail.summary.intact();
        let owner = record.and_then(|record| record.owner.as_ref());
        let owner = owner.map_or("its owner".to_owned(), |owner| {
            format!("{} (pid {})", owner.name.as_deref().unwrap_or("a process"), owner.pid)
        });
        match (self.decision.reason_code, self.decision.run_state) {
            (ReasonCode::ResumeAllowed, _) => String::new(),
            (ReasonCode::ResumeRunActive, RunState::Waiting) => format!("{owner} is alive and waiting"),
            (ReasonCode::ResumeRunActive, RunState::Stalled) => {
                format!("{owner} is alive but has been silent for a long time")
            }
            (ReasonCode::ResumeRunActive, _) => format!("{owner} is alive"),
            (ReasonCode::ResumeUnknownInterruptionClass, _) => match self.detail.summary.host() {
                Some(host) => format!("{owner} on {host} is not visible from this process"),
                None => format!("{owner} is not visible from this process"),
            },
            (ReasonCode::ResumeClaimed, _) => {
                format!(
                    "run {} already continues it",
                    self.claimed_by.as_ref().map_or("another", RunId::as_str)
                )
            }
            (_, RunState::Ended) => "it is completed, so there is no unfinished work to continue".into(),
            (ReasonCode::ResumeMissingCheckpoint, _) => "it has no intact checkpoint".into(),
            (ReasonCode::ResumeAttemptLimitReached, _) => {
                let attempts = record.map_or(0, |record| record.attempts);
                format!("it was continued {attempts} times without making progress")
            }
            (ReasonCode::ResumeBlockedCooldown, _) => "it was continued a moment ago".into(),
            _ => "the step in progress must not be run twice".into(),
        }
    }

    /// The error for a run that may not be continued.
    pub fn refusal(&self) -> Error {
        let run = self.detail.summary.run_id.clone();
        Error::NotResumable { run, reason: self.decision.reason_code, why: self.refusal_reason() }
    }
}

fn claim_state(by: Option<&RunId>) -> ClaimState {
    by.map_or(ClaimState::Unclaimed, |run| ClaimState::ClaimedBy(run.to_string()))
}

fn resume_event(
    record: &RunRecord,
    kind: EventType,
    decision: &ResumeDecision,
    by_run: &RunId,
    at: jiff::Timestamp,
) -> Event {
    let data = json!({
        "by_run": by_run,
        "class": decision.class,
        "reason_code": decision.reason_code,
        "attempts": record.attempts,
    });
    event(&record.run_id, at, kind, None, &data)
}
