//! Finishes a snapshot of the files in the background, if hooks did not have enough time for it twice in a row.
//! Takes a run, takes one snapshot, adds it to the run, and exits. Only one such process per worktree does this at
//! a time; others exit at once.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use milepost::internal::snapshot::restore_folder;
use milepost::model::RunId;

use crate::agents::Agent;
use crate::cli::Global;
use crate::config::Config;
use crate::context::{Audience, Context};
use crate::error::Result;
use crate::present::Output;

/// Maximum time for the snapshot.
const TIME: Duration = Duration::from_secs(300);

/// Starts the process. If that fails, the next hook tries again.
pub(super) fn start(agent: Agent, run: &RunId, context: &Context<'_>) {
    start_detached(context, &["--run", run.as_str(), "hook", agent.name, "--finish-snapshot"]);
}

/// Starts a process that sends what waits to the store's server, if the store is on one.
pub(super) fn start_sync(context: &Context<'_>) {
    if context.config.server.is_some() {
        start_detached(context, &["sync", "--quiet"]);
    }
}

/// Starts Milepost in this project, without a terminal. If that fails, a later hook or command does the work.
fn start_detached(context: &Context<'_>, arguments: &[&str]) {
    // On Windows, the process would keep the pipes of the agent open, and the agent would wait for it.
    if cfg!(windows) {
        return;
    }
    let Ok(program) = std::env::current_exe() else { return };
    let mut command = Command::new(program);
    command.arg("-C").arg(&context.config.paths.root);
    match &context.config.server {
        // In the environment, because arguments are visible to other users, and the address may have a password.
        Some(_) => drop(command.envs(context.store_environment())),
        None => drop(command.args(["--store", &context.url().absolute().to_string()])),
    }
    command.args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt as _;
        // The agent may end the process group of its hook.
        command.process_group(0);
    }
    let _ = command.spawn();
}

/// Takes the snapshot.
pub(crate) fn run(global: &Global, output: &Output) -> Result<()> {
    crate::command::change_directory(global)?;
    let context = Context::for_audience(Config::load(global)?, output, Audience::Hook);
    let mp = context.open_or_create()?;
    let (Some(run), Some(mut options)) = (context.named_run(&mp)?, context.capture_options()) else {
        return Ok(());
    };
    // Another process may be at it. The lock ends with this process.
    let paths = &context.config.paths;
    let store = context.config.local_url().absolute().to_string();
    let folder = restore_folder(&paths.root, paths.repository.as_ref(), &store);
    let lock = folder.with_file_name("worker.lock");
    let lock = std::fs::File::options().create(true).truncate(false).write(true).open(lock);
    if !lock.as_ref().is_ok_and(|lock| lock.try_lock().is_ok()) {
        return Ok(());
    }
    options.limits.time = TIME;
    if let Some(files) = &mut options.files {
        files.deadline = Some(Instant::now() + TIME);
    }
    let capture = mp.capture_workspace(&run, &options)?;
    if let Some(taken) = &capture.snapshot {
        mp.keep_snapshot(&run, taken)?;
    }
    Ok(())
}
