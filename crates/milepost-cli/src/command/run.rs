//! `run`: supervises any command: first checkpoint, periodic ones, a last one with its end. The command goes before
//! everything: where Milepost cannot save, it runs all the same, unless that was forbidden.

use std::ffi::OsString;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use milepost::Error;
use milepost::engine::Save;
use milepost::model::{Outcome, Profile, RunId, Source, Status};
use milepost::trigger::Timer;

use crate::config::duration;
use crate::context::Context;
use crate::failure::Failure;
use crate::present::supervised::{self, Summary};
use crate::recorder::{Kept, Recorder};
use crate::supervise::{self, Attempt, Ending};

/// Run a command and keep checkpoints of it
///
/// A first checkpoint, one every interval, and a last one with the command's end. The command's streams, signals and exit
/// code are its own; MILEPOST_RUN and MILEPOST_SESSION tell it, and milepost commands inside it, which run it is.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost run -- make all\n  \
                        milepost run --rejoin --run nightly --every 10m --title \"nightly build\" -- ./nightly.sh\n\n\
                        Exit: the command's own code, 128 and the signal's number for a signal, 125 for a failure of \
                        milepost itself, 126 for a command that cannot be executed, 127 for one that is not there.")]
pub(crate) struct RunArgs {
    /// Go on with the run that --run or MILEPOST_RUN names, if it is there
    #[arg(long)]
    rejoin: bool,
    /// How often to save: 30s, 10m, 2h [default: by profile, 30m]
    #[arg(long, value_name = "D", allow_hyphen_values = true)]
    every: Option<String>,
    /// What people call it
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    title: Option<String>,
    /// The plan it follows
    #[arg(long, value_name = "FILE")]
    plan: Option<String>,
    /// Do not start the command, or exit 125, if milepost cannot save
    #[arg(long)]
    strict: bool,
    /// The command
    #[arg(value_name = "CMD", last = true, required = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(args: RunArgs, context: &Context<'_>) -> Result<(), Failure> {
    let every = args.every.as_deref().map(interval).transpose()?;
    let attempt = Attempt::new(&args.command);
    let (mut recorder, session) = recorder(&args, context)?;
    let run = recorder.run().clone();
    let first = recorder.save(Save::new().reason("session_start"));
    let first = told(first, &args, context, "the command runs without it")?;
    if first.is_some() {
        supervised::tell(context.screen, &run, first.as_ref(), None);
    }
    let every = every.unwrap_or_else(|| recorder.interval());
    let recorder = Arc::new(Mutex::new(recorder));
    let timer = ticking(&recorder, every, context)?;
    let mut command = attempt.command();
    command.envs(context.for_a_child(&run)).env("MILEPOST_SESSION", &session);
    let ended = supervise::run(command);
    timer.stop();
    let outcome = attempt.outcome(&ended, String::new());
    let mut recorder = recorder.lock().unwrap_or_else(|e| e.into_inner());
    let standing = recorder.standing();
    let last = recorder.save(last(&ended, standing, outcome.clone()));
    let last = told(last, &args, context, "the command had ended by then");
    let summary = Summary::of(&outcome, ended.as_ref().ok(), recorder.checkpoints());
    // The command's own failure to start says more than what could be saved of it.
    let ending = ended.map_err(|e| attempt.failure(&e))?;
    let newest = last.as_ref().ok().and_then(Option::as_ref).or(first.as_ref());
    supervised::tell(context.screen, &run, newest, Some(&summary));
    last?;
    ending.pass_through()
}

/// How often, and never without a pause.
fn interval(text: &str) -> Result<Duration, Failure> {
    match duration(text) {
        Ok(every) if every > Duration::ZERO => Ok(every),
        Ok(_) => Err(Failure::usage(format!("--every: {text:?} is no interval: it must be longer than 0"))),
        Err(why) => Err(Failure::usage(format!("--every: {why}"))),
    }
    .map_err(|failure| failure.hint("give an interval such as 30s, 10m or 2h"))
}

fn recorder(args: &RunArgs, context: &Context<'_>) -> Result<(Recorder, String), Failure> {
    let config = &context.config;
    // Inside another `run`, the environment names that one: a new run is meant unless somebody says otherwise.
    let named = config.run.clone().filter(|_| config.run_by_flag || args.rejoin);
    if args.rejoin && named.is_none() {
        let message = "--rejoin needs a run: --run ID or MILEPOST_RUN";
        return Err(Failure::usage(message).hint("`milepost runs` lists them; a new id opens a new run"));
    }
    let now = milepost::clock::Clock::now(&milepost::clock::SystemClock);
    let run = named.unwrap_or_else(|| RunId::fresh(now));
    let session = format!("session_{}_{}", now.strftime("%Y%m%dT%H%M%SZ"), std::process::id());
    let mut opening = context.opening();
    opening.title.clone_from(&args.title);
    opening.plan.clone_from(&args.plan);
    let words = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    opening.command = Some(words);
    let mut settings = context.settings();
    settings.profile.get_or_insert(Profile::Session);
    let recorder = Recorder::new(context, settings, run, session.clone(), opening, args.rejoin);
    Ok((recorder, session))
}

/// What could not be saved is said in one line, unless the command depends on it.
fn told(
    kept: Result<Option<Kept>, Error>,
    args: &RunArgs,
    context: &Context<'_>,
    comfort: &str,
) -> Result<Option<Kept>, Failure> {
    match kept {
        Ok(kept) => Ok(kept),
        // Two of them on one run, or a wrong name, would do harm.
        Err(e @ (Error::OwnerAlive { .. } | Error::RunExists(_) | Error::Id(_) | Error::Value { .. })) => {
            Err(e.into())
        }
        Err(e) if args.strict => Err(e.into()),
        Err(e) => {
            context
                .screen
                .talk(&format!("Warning: milepost cannot save ({}): {comfort}", supervised::in_full(&e)));
            Ok(None)
        }
    }
}

fn ticking(
    recorder: &Arc<Mutex<Recorder>>,
    every: Duration,
    context: &Context<'_>,
) -> Result<Timer, Failure> {
    let recorder = recorder.clone();
    let screen = context.screen.clone();
    let mut failing = false;
    let tick = move || {
        let mut recorder = recorder.lock().unwrap_or_else(|e| e.into_inner());
        match recorder.tick() {
            Ok(kept) => {
                if kept.is_some() {
                    supervised::tell(&screen, recorder.run(), kept.as_ref(), None);
                }
                failing = false;
            }
            Err(e) => {
                if !failing {
                    let why = supervised::in_full(&e);
                    screen.talk(&format!("Warning: milepost cannot save ({why}): it will try again"));
                }
                failing = true;
            }
        }
    };
    Ok(Timer::every(every, tick).map_err(Error::from)?)
}

/// The last checkpoint: how the command ended. One that ended well and had paused or ended the run itself has the word.
fn last(ended: &std::io::Result<Ending>, standing: Option<Status>, outcome: Outcome) -> Save {
    let status = match (ended.as_ref().is_ok_and(Ending::passed), standing) {
        (false, _) => Status::Failed,
        (true, Some(own)) if own != Status::InProgress => own,
        (true, _) => Status::Completed,
    };
    let source = if status == Status::Failed { Source::ErrorBoundary } else { Source::Manual };
    let mut save = Save::new().source(source).status(status).reason("child_exit");
    save.draft.command_outcomes.push(outcome);
    save.last_of_session = true;
    save
}
