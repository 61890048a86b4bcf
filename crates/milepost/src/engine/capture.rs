//! Capture: captures the workspace for a run and joins the result with the run's earlier captures. Reads
//! only the run's record and its newest capture, so the cost does not grow with the number of checkpoints.

use super::{Due, Milepost, Save, Saved};
use crate::capture::{self, CaptureBaseline, CaptureOptions, Process, WorkspaceCapture};
use crate::model::{
    CaptureHistory, CaptureWhen, PathText, Profile, RunId, RunRecord, Source, Status, Workspace,
};
use crate::owner::Liveness;
use crate::redact::{AllowList, Redaction};
use crate::store::{StoreError, StoredRun};
use crate::{Error, seal, trigger};

/// The earlier captures that a new capture is joined with. A save that finds a newer one in the run starts
/// over.
#[derive(Debug, Clone)]
pub(super) struct EarlierCaptures {
    /// The sequence number of the newest capture, or 0 if there is none.
    pub(super) latest: u64,
    /// The files touched up to that capture.
    files: Vec<PathText>,
    peak_rss: Option<u64>,
}

/// The files touched up to a capture.
pub(super) struct TouchedFiles {
    run: RunId,
    sequence: u64,
    files: Vec<PathText>,
}

/// Options of a save that depend on the state of its run.
#[derive(Debug, Clone, Default)]
pub struct SaveOptions {
    /// Save only if the interval of the run's profile has passed since its newest checkpoint. A timer save
    /// without a status is also skipped if the run has ended or is paused.
    pub if_due: bool,
    /// How to capture the workspace, if the run's profile requires a capture for this source.
    pub capture: Option<CaptureOptions>,
}

impl Milepost {
    /// Saves a checkpoint with options that depend on its run; returns `None` if no checkpoint is due.
    /// Reads the run at most once before the write.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn save_with(
        &self,
        run: &RunId,
        mut save: Save,
        options: &SaveOptions,
    ) -> Result<Option<Saved>, Error> {
        if options.if_due || options.capture.is_some() {
            let stored = self.store.run(run)?;
            let (source, profile) = (save.draft.source, save.run_options.profile);
            let by_timer = source == Some(Source::Timer) && save.draft.status.is_none();
            if options.if_due
                && (by_timer && is_idle(stored.as_ref()) || self.due_for(stored.as_ref(), profile) == Due::No)
            {
                return Ok(None);
            }
            if let Some(options) = &options.capture {
                let source = source.unwrap_or(Source::Manual);
                let capture = self.capture_if_wanted(run, stored, options, source, profile);
                save.capture = capture.map(Box::new);
            }
        }
        self.save(run, save).map(Some)
    }

    /// Captures the workspace for a checkpoint of this source, if the run's profile requires it. `profile`
    /// applies to a run that does not exist yet. Pass the result to the save.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn capture_if_due(
        &self,
        run: &RunId,
        options: &CaptureOptions,
        source: Source,
        profile: Option<Profile>,
    ) -> Result<Option<WorkspaceCapture>, Error> {
        Ok(self.capture_if_wanted(run, self.store.run(run)?, options, source, profile))
    }

    /// The default options to capture the folder that a run works in.
    pub(crate) fn capture_options(&self, run: &RunId) -> Result<CaptureOptions, Error> {
        let record = self.record_of(run)?;
        let folder = record.as_ref().and_then(|record| record.folder());
        let folder = folder.or(self.location.worktree.as_ref()).or(self.location.project.as_ref());
        let root = folder.map_or_else(|| ".".into(), std::path::PathBuf::from);
        Ok(CaptureOptions { store: self.address.parse().ok(), ..CaptureOptions::at(root) })
    }

    /// Captures the workspace for a run, regardless of its profile.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn capture_workspace(
        &self,
        run: &RunId,
        options: &CaptureOptions,
    ) -> Result<WorkspaceCapture, Error> {
        Ok(self.capture_for(run, self.store.run(run)?, options))
    }

    fn capture_if_wanted(
        &self,
        run: &RunId,
        stored: Option<StoredRun>,
        options: &CaptureOptions,
        source: Source,
        profile: Option<Profile>,
    ) -> Option<WorkspaceCapture> {
        let record = stored.as_ref().and_then(|stored| stored.row.record.as_ref().ok());
        let profile = record.as_ref().map(|record| record.profile).or(profile).or(self.settings.profile);
        let wanted = match profile.unwrap_or(Profile::Run).capture() {
            CaptureWhen::Never => false,
            CaptureWhen::Boundaries => source != Source::Timer,
            CaptureWhen::BoundariesAndEvery(interval) => {
                let due = |at| trigger::is_due(at, interval, self.now());
                let last = record.as_ref().filter(|record| !record.is_foreign());
                source != Source::Timer || last.and_then(|record| record.captures.at).is_none_or(due)
            }
            CaptureWhen::Always => true,
        };
        wanted.then(|| self.capture_for(run, stored, options))
    }

    fn capture_for(
        &self,
        run: &RunId,
        stored: Option<StoredRun>,
        options: &CaptureOptions,
    ) -> WorkspaceCapture {
        let mut options = options.clone();
        let record = stored.as_ref().and_then(|stored| stored.row.record.as_ref().ok());
        if matches!(options.process, Process::Owner) {
            options.process = record.as_ref().map_or(Process::None, |record| self.process_of(record));
        }
        let after = record.as_ref().map(|record| record.captures.clone()).unwrap_or_default();
        // A foreign run must not determine which folders are watched here or which commits are compared.
        let is_local = record.is_none_or(|record| !record.is_foreign());
        let known = if is_local { after.clone() } else { CaptureHistory::default() };
        for folder in &known.watch {
            if !options.watch_in_run.iter().any(|other| other.as_os_str() == folder.as_str()) {
                options.watch_in_run.push(folder.into());
            }
        }
        let since = CaptureBaseline { base: known.base, head: known.head };
        let mut capture = capture::capture_workspace(&options, &since);
        capture.after = Some(after);
        self.add_snapshot(run, stored.as_ref(), &options, &mut capture);
        capture
    }

    /// The processes that work on a run whose owner is alive: for `run`, the command's process tree;
    /// otherwise the owner and its descendants.
    fn process_of(&self, record: &RunRecord) -> Process {
        let alive = self.liveness_by_process(record, None) == Some(Liveness::Alive);
        match record.owner.as_ref().filter(|_| alive) {
            Some(owner) => Process::Tree { pid: owner.pid, with_root: record.command.is_none() },
            None => Process::None,
        }
    }

    /// The earlier captures that the next capture of a run is joined with. `known` is the run's capture
    /// history, if it has already been read.
    pub(super) fn earlier_captures(
        &self,
        run: &RunId,
        known: Option<CaptureHistory>,
    ) -> Result<EarlierCaptures, Error> {
        let CaptureHistory { latest, peak_rss, .. } = match known {
            Some(known) => known,
            None => self.record_of(run)?.map(|record| record.captures).unwrap_or_default(),
        };
        let touched = self.touched.lock().unwrap_or_else(|e| e.into_inner());
        let files = match touched.as_ref().filter(|known| known.run == *run && known.sequence == latest) {
            Some(known) => known.files.clone(),
            None if latest > 0 => self.touched_files(run, latest)?,
            None => Vec::new(),
        };
        Ok(EarlierCaptures { latest, files, peak_rss })
    }

    /// The files touched up to a checkpoint; none if the checkpoint is gone or damaged. The first capture
    /// after the next commit then lists all committed files again.
    fn touched_files(&self, run: &RunId, sequence: u64) -> Result<Vec<PathText>, Error> {
        let bytes = match self.store.body(run, sequence) {
            Ok(bytes) => bytes,
            Err(StoreError::NoCheckpoint(..) | StoreError::Damaged(_)) => return Ok(Vec::new()),
            Err(e) => return Err(e.into()),
        };
        let body = seal::verify(bytes).and_then(|verified| verified.body()).ok();
        let body = body.filter(|body| body.run_id == *run && body.sequence == sequence);
        Ok(body.and_then(|body| body.workspace).map(|workspace| workspace.files_modified).unwrap_or_default())
    }

    /// Caches the touched files for the run's next capture.
    pub(super) fn remember_touched(&self, run: &RunId, sequence: u64, workspace: Option<Workspace>) {
        let files = workspace.map(|workspace| workspace.files_modified).unwrap_or_default();
        let mut touched = self.touched.lock().unwrap_or_else(|e| e.into_inner());
        *touched = Some(TouchedFiles { run: run.clone(), sequence, files });
    }
}

/// Whether a run has ended or is paused.
fn is_idle(stored: Option<&StoredRun>) -> bool {
    let record = stored.and_then(|stored| stored.row.record.as_ref().ok());
    record.is_some_and(|record| record.status != Status::InProgress)
}

impl EarlierCaptures {
    /// The workspace to store in the next checkpoint.
    pub(super) fn join(&self, capture: &WorkspaceCapture) -> Workspace {
        capture.to_workspace(&self.files, self.peak_rss, &capture::CaptureLimits::default())
    }
}

/// Adds a capture to the run's capture history. A folder whose name contains a secret is not recorded,
/// because the secret cannot be replaced in a path.
pub(super) fn remember_capture(
    captures: &mut CaptureHistory,
    capture: &WorkspaceCapture,
    redaction: Redaction,
    allow: &AllowList,
    now: jiff::Timestamp,
) {
    let may_stay = |folder: &str| redaction == Redaction::Off || allow.redact_text(folder).is_none();
    captures.at = Some(now);
    let peak = capture.memory.as_ref().and_then(|memory| memory.peak_rss.max(memory.rss));
    captures.peak_rss = captures.peak_rss.max(peak);
    for folder in &capture.watch {
        if !captures.watch.contains(folder) && may_stay(folder) {
            captures.watch.push(folder.clone());
        }
    }
    if capture.git.error.is_none() {
        let head = capture.git.head.clone();
        captures.base.get_or_insert_with(|| head.clone().unwrap_or_default());
        if capture.committed_known {
            captures.head = head;
        }
    }
}
