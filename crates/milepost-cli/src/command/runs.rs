//! `runs`: lists runs, last written first, or shows one run in full.

use jiff::Timestamp;
use milepost::RunsQuery;
use milepost::model::{RunId, Status};

use crate::completion::Values;
use crate::config::duration;
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::input::Argument;
use crate::present::runs::RunsDocument;

/// List runs, or show one in full
///
/// Runs of this worktree are marked with `*`.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:\n  milepost runs\n  milepost runs nightly\n  \
                        milepost runs --since 2d --status failed --json\n  \
                        milepost runs --project all --user alice")]
pub(crate) struct RunsArgs {
    /// Run to show in full
    #[arg(value_name = "RUN", add = Values::Run)]
    pub(super) run: Option<String>,
    /// Only runs written within this time: 30s, 5m, 12h, 14d or 2w
    #[arg(long, value_name = "DURATION")]
    pub(super) since: Option<String>,
    /// Only runs with this status: in_progress, failed, completed or paused
    #[arg(long, value_name = "STATUS", add = Values::Words(Status::NAMES))]
    pub(super) status: Option<Argument<Status>>,
    /// Project whose runs to list (all = every project), in a store on a server
    #[arg(long, value_name = "ID")]
    pub(super) project: Option<String>,
    /// Only runs that this machine worked on last, in a store on a server
    #[arg(long, value_name = "NAME")]
    pub(super) host: Option<String>,
    /// Only runs that this user wrote last, in a store on a server
    #[arg(long, value_name = "NAME")]
    pub(super) user: Option<String>,
    /// Maximum number to show (0 = no limit)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) limit: usize,
}

pub(crate) fn execute(args: RunsArgs, context: &Context<'_>) -> Result<RunsDocument> {
    let status = args.status.map(|s| s.choice("--status", "/status")).transpose()?;
    let since = args.since.as_deref().map(duration).transpose();
    let since = since.map_err(|why| {
        CommandError::usage(format!("--since: {why}")).with_hint("use a number and a unit: s, m, h, d or w")
    })?;
    let named = args.run.as_deref().map(str::parse::<RunId>).transpose()?;
    context.select_project(args.project.as_deref())?;
    let mp = context.open_existing()?;
    let now = mp.now();
    if let Some(run) = named {
        let run = context.visible_run(&mp, &run)?;
        let (detail, messages) = (mp.run_detail(&run)?, mp.conversation(&run)?);
        return Ok(RunsDocument::one(detail, messages, context.worktree(), now));
    }
    let since = since.map(|age| now.checked_sub(age).unwrap_or(Timestamp::MIN));
    let hidden = context.hidden_runs(&mp)?;
    // Hidden runs must not count towards the limit.
    let limit = if hidden.is_empty() { args.limit } else { 0 };
    let query = RunsQuery::default().status(status).since(since).limit(limit).host(args.host).user(args.user);
    let mut runs = mp.runs(&query)?;
    runs.retain(|run| !hidden.contains(run.run_id()));
    if args.limit > 0 {
        runs.truncate(args.limit);
    }
    Ok(RunsDocument::list(runs, context.worktree(), now))
}
