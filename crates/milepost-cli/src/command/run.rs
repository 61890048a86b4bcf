//! `run`: runs a command and saves a checkpoint at its start, at each interval and at its end. The command
//! has priority: if Milepost cannot save, the command runs anyway, unless `--strict` is set.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use milepost::internal::capture::PeakWatch;
use milepost::internal::error_chain;
use milepost::internal::trigger::Timer;
use milepost::model::{Interruption, InterruptionKind, Outcome, Profile, RawJson, RunId, Source, Status};
use milepost::{Error, ReasonCode, Save};

use crate::config::duration;
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::supervised::{Reporter, Summary};
use crate::recorder::{LateCapture, RecordedSave, Recorder};
use crate::supervise::{OutputFiles, ProgramExit, SupervisedCommand};

/// Run a command and save checkpoints while it runs
///
/// Saves a first checkpoint, one per interval, and a last one when the command ends, each with the state of
/// the workspace: git, watched folders, memory, and every file touched so far. The command keeps its own
/// streams, signals and exit code. If its output goes to a file, by a redirection or with --log, checkpoints
/// contain the end of it. MILEPOST_RUN, MILEPOST_STORE and MILEPOST_SESSION tell milepost commands
/// inside it which run to use.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost run -- make all\n  \
                        milepost run --watch docs --events events.jsonl -- ./agent.sh\n  \
                        milepost run --log build.log -- make all\n  \
                        milepost run --rejoin --run nightly --every 10m -- ./nightly.sh\n\n\
                        Intervals that work well: 10 to 15 minutes for work of less than an hour, 15 to 20 minutes up \
                        to 3 hours, 20 to 30 minutes up to 6 hours, then 30 minutes.\n\n\
                        Exit codes: the command's own, 128 plus the signal number if a signal ended it, 125 if milepost \
                        itself fails, 126 if the command cannot be executed, 127 if it does not exist.")]
pub(crate) struct RunArgs {
    /// Continue the run that --run or MILEPOST_RUN names, if it exists; start a new round if it is completed
    #[arg(long)]
    rejoin: bool,
    /// With --rejoin: do not run the command if the run is already completed
    #[arg(long, requires = "rejoin")]
    once: bool,
    /// Interval between checkpoints: 30s, 10m or 2h [default: by profile, 30m]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    every: Option<String>,
    /// Title of the run
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    title: Option<String>,
    /// Plan file that the run follows
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    plan: Option<String>,
    /// Folder whose files and sizes to record (repeatable) [default: .aiwg if it exists]
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    watch: Vec<PathBuf>,
    /// Append one line of JSON per checkpoint to this file
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    events: Option<PathBuf>,
    /// Send the command's output to this file, and keep its end with each checkpoint
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    log: Option<PathBuf>,
    /// Do not record git, watched folders or memory
    #[arg(long)]
    no_capture: bool,
    /// Do not start the command if the first save fails, and exit with 125 if a later one fails
    #[arg(long)]
    strict: bool,
    /// Command to run
    #[arg(value_name = "CMD", last = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(args: RunArgs, context: &Context<'_>) -> Result<()> {
    supervise(&args, context).map_err(CommandError::into_supervisor)
}

fn supervise(args: &RunArgs, context: &Context<'_>) -> Result<()> {
    let every = args.every.as_deref().map(interval).transpose()?;
    let log = log(args, context)?;
    let (mut recorder, session) = recorder(args, context, log.as_ref())?;
    let run = recorder.id.clone();
    let reporter = Arc::new(Reporter::new(context.output, &run, events(args, context)?));
    if args.once && is_completed(&run, context) {
        reporter.already_completed();
        return Ok(());
    }
    for folder in args.watch.iter().filter(|folder| !folder.is_dir()) {
        reporter.warn(&format!(
            "--watch {}: no such folder; it will be watched once it exists",
            folder.display()
        ));
    }
    let (first, late) = recorder.save_first(Save::new().reason("session_start"), FIRST_LOOK);
    let first = warn_unless_strict(first, args, &reporter, "the command runs without a checkpoint")?;
    if let Some(saved) = &first {
        reporter.checkpoint(saved);
    }
    let every = every.or(context.config.capture.interval).unwrap_or_else(|| recorder.interval());
    let memory = recorder.memory.clone();
    let saver =
        Arc::new(PeriodicSaver { recorder: Mutex::new(recorder), reporter, failed: AtomicBool::new(false) });
    if let Some(late) = late {
        saver.save_when_captured(late);
    }
    let command_line = SupervisedCommand::new(&args.command, &context.config.redact_allow);
    let mut command = command_line.command();
    command.envs(context.child_environment(&run)).env("MILEPOST_SESSION", &session);
    let output = Arc::new(log.unwrap_or_else(OutputFiles::redirected));
    output.attach(&mut command).map_err(|e| command_line.start_error(&e))?;
    if output.can_keep() {
        saver.lock().output_so_far = Some(Box::new(command_line.output_so_far(output.clone())));
    }
    let mut timer = None;
    // The memory watch and the timer run in the background; the command does not wait for them.
    let ended = crate::supervise::run(command, |pid| {
        drop(memory.set(PeakWatch::start(pid)));
        timer = context.config.capture.session.then(|| saver.start_timer(every)).flatten();
    });
    if let Some(timer) = timer {
        timer.stop();
    }
    if let Err(e) = &ended
        && saver.lock().discard()
    {
        return Err(command_line.start_error(e));
    }
    let peak = memory.get().map(|watch| {
        watch.stop();
        watch.peak()
    });
    let peak = peak.filter(|peak| *peak > 0);
    let mut outcome = command_line.outcome(&ended, output.end(&context.config.redact_allow));
    if let Some(raw) = peak.and_then(|peak| RawJson::of(&peak).ok()) {
        outcome.extra.set("peak_rss", raw);
    }
    let mut recorder = saver.lock();
    let recorded_status = recorder.recorded_status();
    let last = recorder.save(last_save(&ended, recorded_status, outcome.clone()));
    let last = warn_unless_strict(last, args, &saver.reporter, "the command had already ended");
    let mut summary = Summary::of(&outcome, ended.as_ref().ok(), recorder.checkpoints);
    summary.session_checkpoints = recorder.session_checkpoints();
    (summary.files_modified, summary.peak_rss) = (recorder.touched, peak);
    summary.log.clone_from(&args.log);
    summary.output_kept = output.can_keep();
    // If the command did not start, that error takes precedence over a failed save.
    let ending = ended.map_err(|e| command_line.start_error(&e))?;
    let newest = last.as_ref().ok().and_then(Option::as_ref).or(first.as_ref());
    saver.reporter.ended(newest, &summary);
    last?;
    if args.strict && saver.failed.load(Ordering::Relaxed) {
        let message = "a checkpoint could not be saved while the command ran";
        return Err(CommandError::new(ReasonCode::CheckpointAtomicWriteFailed, message).with_hint(
            "the last checkpoint was saved; without --strict the command's own exit code is passed through",
        ));
    }
    ending.pass_through()
}

/// Whether a run is completed. A store that cannot be read is reported by the first save.
fn is_completed(run: &RunId, context: &Context<'_>) -> bool {
    let state = context.open_read_only().ok().and_then(|mp| mp.store().run(run).ok()?);
    state.and_then(|state| state.row.record.ok()).is_some_and(|record| record.status() == Status::Completed)
}

/// How long the command waits for the first capture of the workspace.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// Opens the file that `--events` names. This happens before the command starts, while an error can still
/// stop it.
fn events(args: &RunArgs, context: &Context<'_>) -> Result<Option<File>> {
    let Some(path) = &args.events else { return Ok(None) };
    super::refuse_link(path, context)?;
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    Ok(Some(options.open(path).map_err(Error::file(path, "written"))?))
}

/// Opens the file that `--log` names, for the same reason.
fn log(args: &RunArgs, context: &Context<'_>) -> Result<Option<OutputFiles>> {
    let Some(path) = &args.log else { return Ok(None) };
    super::refuse_link(path, context)?;
    Ok(Some(OutputFiles::log(path).map_err(Error::file(path, "written"))?))
}

/// Parses the interval of `--every`, which must be longer than 0.
fn interval(text: &str) -> Result<Duration> {
    match duration(text) {
        Ok(every) if every > Duration::ZERO => Ok(every),
        Ok(_) => {
            Err(CommandError::usage(format!("--every: \"{text}\" is too short: it must be longer than 0")))
        }
        Err(why) => Err(CommandError::usage(format!("--every: {why}"))),
    }
    .map_err(|failure| failure.with_hint("use an interval such as 30s, 10m or 2h"))
}

fn recorder(args: &RunArgs, context: &Context<'_>, log: Option<&OutputFiles>) -> Result<(Recorder, String)> {
    let config = &context.config;
    // Inside another `run`, the environment names the outer run. It counts only with `--rejoin`.
    let named = config.run.clone().filter(|_| config.run_by_flag || args.rejoin);
    if args.rejoin && named.is_none() {
        let message = "--rejoin needs a run: --run ID or MILEPOST_RUN";
        return Err(
            CommandError::usage(message).with_hint("`milepost runs` lists them; a new id opens a new run")
        );
    }
    let now = milepost::Clock::now(&milepost::internal::clock::SystemClock);
    let run = match (named, args.rejoin.then(|| context.open_read_only())) {
        (Some(run), Some(Ok(mp))) => Context::expand_short_id(&mp, run),
        (Some(run), _) => run,
        (None, _) => RunId::generate(now),
    };
    let session = format!("session_{}_{}", now.strftime("%Y%m%dT%H%M%SZ"), std::process::id());
    let mut run_options = context.run_options();
    run_options.title.clone_from(&args.title);
    run_options.plan.clone_from(&args.plan);
    let arguments = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    run_options.command = Some(arguments);
    let settings = context.settings().profile(context.config.profile.unwrap_or(Profile::Session));
    // A folder on the command line is relative to the current folder.
    let absolute = |folder: &PathBuf| std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
    let scope = context.capture_options().filter(|_| !args.no_capture).map(|mut scope| {
        scope.watch_in_run.extend(args.watch.iter().map(absolute));
        scope.exclude.extend(log.and_then(OutputFiles::log_path).map(Path::to_owned));
        scope
    });
    let recorder = Recorder::new(context, settings, run, session.clone(), run_options, args.rejoin, scope);
    Ok((recorder, session))
}

/// Turns a failed save into a warning. With `--strict`, and for errors that make a run unusable, returns the
/// error.
fn warn_unless_strict(
    saved: Result<Option<RecordedSave>, Error>,
    args: &RunArgs,
    reporter: &Reporter,
    consequence: &str,
) -> Result<Option<RecordedSave>> {
    match saved {
        Ok(saved) => Ok(saved),
        // Two commands in one run, or an invalid id or value, must stop the command.
        Err(e @ (Error::OwnerAlive { .. } | Error::RunExists(_) | Error::Id(_) | Error::Value { .. })) => {
            Err(e.into())
        }
        Err(e) if args.strict => Err(e.into()),
        Err(e) => {
            reporter.warn(&format!("milepost cannot save ({}): {consequence}", error_chain(&e)));
            Ok(None)
        }
    }
}

/// Saves checkpoints while the command runs.
struct PeriodicSaver {
    recorder: Mutex<Recorder>,
    reporter: Arc<Reporter>,
    /// Whether a checkpoint could not be saved.
    failed: AtomicBool,
}

impl PeriodicSaver {
    fn lock(&self) -> MutexGuard<'_, Recorder> {
        self.recorder.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Saves at each interval. If the timer cannot start, only warns, because the command is already running.
    fn start_timer(self: &Arc<Self>, every: Duration) -> Option<Timer> {
        let saver = self.clone();
        let mut failing = false;
        let tick = move || {
            let saved = saver.lock().tick();
            let fails = saved.is_err();
            saver.report(saved, !failing);
            failing = fails;
        };
        let timer = Timer::every(every, tick);
        timer
            .map_err(|e| {
                self.failed.store(true, Ordering::Relaxed);
                let e = Error::from(e);
                self.reporter.warn(&format!("there will be no checkpoints until the command ends: {e}"));
            })
            .ok()
    }

    /// Saves the first capture of the workspace once it is complete.
    fn save_when_captured(self: &Arc<Self>, late: LateCapture) {
        let saver = self.clone();
        let wait = move || {
            if let Ok(Some(capture)) = late.recv() {
                let saved = saver.lock().save_late(capture);
                saver.report(saved, true);
            }
        };
        // If the thread cannot start, the next tick captures the workspace again.
        let _ = std::thread::Builder::new().name("milepost-late".into()).spawn(wait);
    }

    fn report(&self, saved: Result<Option<RecordedSave>, Error>, warn: bool) {
        match saved {
            Ok(Some(saved)) => self.reporter.checkpoint(&saved),
            Ok(None) => {}
            Err(e) => {
                self.failed.store(true, Ordering::Relaxed);
                if warn {
                    let why = error_chain(&e);
                    self.reporter.warn(&format!("milepost cannot save ({why}): it will try again"));
                }
            }
        }
    }
}

/// The last checkpoint, with the outcome of the command. If the command succeeded after pausing or ending the
/// run itself, the run keeps that status. If the command was killed or interrupted, its work is unfinished:
/// the run keeps its status, its owner is dead, and it can be resumed.
fn last_save(
    ended: &std::io::Result<ProgramExit>,
    recorded_status: Option<Status>,
    outcome: Outcome,
) -> Save {
    let ending = ended.as_ref().ok();
    let stopped = ending.and_then(interruption);
    let status = match (ending.is_some_and(ProgramExit::passed), recorded_status) {
        (false, recorded_status) if stopped.is_some() => recorded_status.unwrap_or(Status::InProgress),
        (false, _) => Status::Failed,
        (true, Some(own)) if own != Status::InProgress => own,
        (true, _) => Status::Completed,
    };
    let bad = stopped.is_some() || status == Status::Failed;
    let source = if bad { Source::ErrorBoundary } else { Source::Manual };
    let mut save = Save::new().source(source).status(status).reason("child_exit");
    save.draft_mut().command_outcomes.push(outcome);
    save.interruption(stopped.filter(|_| !status.is_terminal())).last_of_session()
}

/// Why the work of a command stopped, if it was interrupted by the user or ended by a signal.
fn interruption(ending: &ProgramExit) -> Option<Interruption> {
    let at = milepost::Clock::now(&milepost::internal::clock::SystemClock);
    if ending.interrupted() {
        return Some(Interruption { class: InterruptionKind::Interrupted, at, detail: None });
    }
    let detail = Some(ending.signal_name()?);
    Some(Interruption { class: InterruptionKind::ProcessCrash, at, detail })
}
