//! `resume`: shows which run was interrupted, why, and the brief to continue with. Without flags, it only
//! reads.

use std::path::{Path, PathBuf};
use std::process::Command;

use milepost::internal::brief::BriefLimit;
use milepost::internal::engine::{RunAssessment, StartOptions};
use milepost::model::{RunId, RunRecord};
use milepost::{Error, Milepost, ReasonCode};

use super::agents::unknown_agent;
use super::rerun;
use crate::agents::{AGENTS, agent_names, find_agent};
use crate::completion::Values;
use crate::config::AgentEnvironment;
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;
use crate::handover::{self, Overview};
use crate::input;
use crate::present::damage::Fallback;
use crate::present::format;
use crate::present::resume::{
    DecisionDocument, DismissedDocument, Examination, ResumeDocument, ResumeFormat, StartedDocument,
};
use crate::supervise;

/// The default token budget of a brief.
const BUDGET: u64 = 2000;

/// Show what was interrupted, why, and the brief to continue with
///
/// Without RUN, uses the run of this worktree to continue first: one whose process died, then one that an
/// error or a limit stopped, then one that you interrupted or paused. Changes nothing unless a flag asks for it. Exits with 4 if there is nothing to resume, and with 3 if the newest checkpoint is damaged and an
/// older one is used.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:\n  milepost resume\n  milepost resume --budget 800 > brief.md\n  \
                        milepost resume --check && echo there is work to continue\n  \
                        milepost resume --with claude-code\n  milepost resume nightly --rerun\n  \
                        milepost resume --from brief.md --budget 500")]
pub(crate) struct ResumeArgs {
    /// Run to resume [default: the first one that `status` lists as stopped]
    #[arg(value_name = "RUN", conflicts_with = "from", add = Values::Run)]
    pub(super) target: Option<String>,
    /// Maximum length of the brief, in tokens [default: 2000]
    #[arg(long, value_name = "N")]
    pub(super) budget: Option<u64>,
    /// Only test whether the run can be continued: exit 0 if so, 4 if not
    #[arg(long, conflicts_with_all = ["start", "with", "rerun", "dismiss", "from"])]
    pub(super) check: bool,
    /// Output: md prints only the brief, json everything
    #[arg(long, value_name = "FORMAT")]
    pub(super) format: Option<ResumeFormat>,
    /// Open a new run that continues the interrupted one, and print the new run's id
    #[arg(long, group = "act")]
    pub(super) start: bool,
    #[arg(
        help = format!("Start an agent with the brief, in the worktree of the run: {}", agent_names()),
        long,
        value_name = "AGENT",
        group = "act",
        add = Values::Agent
    )]
    pub(super) with: Option<String>,
    /// Start the recorded command again, in the same run
    #[arg(long, group = "act")]
    pub(super) rerun: bool,
    /// Stop offering the run
    #[arg(long, group = "act")]
    pub(super) dismiss: bool,
    /// Also continue a run whose owner is alive but waiting or silent
    #[arg(long)]
    pub(super) take_over: bool,
    /// Resume from a brief in a file, without a store (- reads stdin)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, conflicts_with_all = ["act", "take_over"])]
    pub(super) from: Option<PathBuf>,
}

impl ResumeArgs {
    fn limit(&self) -> BriefLimit {
        BriefLimit { tokens: Some(self.budget.unwrap_or(BUDGET)), ..BriefLimit::default() }
    }
}

pub(crate) fn execute(args: ResumeArgs, context: &Context<'_>) -> Result<ResumeDocument> {
    if let Some(file) = &args.from {
        let document = from_brief(file, input::read(file)?, &args, context)?;
        return Ok(ResumeDocument::Decision(Box::new(document)));
    }
    let changes = args.start || args.rerun || args.dismiss || args.with.is_some();
    let mp = if changes { context.open_existing()? } else { context.open_read_only()? };
    let Some((run, others)) = find_run(&mp, args.target.as_deref(), context)? else {
        return Ok(ResumeDocument::Decision(Box::new(DecisionDocument::nothing())));
    };
    if args.dismiss {
        return dismiss(&mp, run).map(ResumeDocument::Dismissed);
    }
    let from = mp.assess(&run, args.take_over)?;
    if args.rerun {
        return Err(rerun::run(&from, &run, context)?);
    }
    if let Some(agent) = &args.with {
        return Err(start_agent(&mp, &from, agent, &args, context)?);
    }
    if args.start {
        return start(&mp, &run, args.take_over, context).map(ResumeDocument::Started);
    }
    describe(&mp, from, others, &args, context).map(|document| ResumeDocument::Decision(Box::new(document)))
}

/// The named run, or the one to continue first, with the number of other runs that can be resumed.
pub(super) fn find_run(
    mp: &Milepost,
    target: Option<&str>,
    context: &Context<'_>,
) -> Result<Option<(RunId, usize)>> {
    let named = target.map(str::parse::<RunId>).transpose()?.or(context.config.run.clone());
    let Some(run) = named else { return first_to_resume(mp, context) };
    Ok(Some((context.visible_run(mp, &run)?, 0)))
}

pub(super) fn dismiss(mp: &Milepost, run: RunId) -> Result<DismissedDocument> {
    mp.dismiss(&run)?;
    Ok(DismissedDocument { dismissed: run })
}

/// The run to continue first, with the number of other candidates.
fn first_to_resume(mp: &Milepost, context: &Context<'_>) -> Result<Option<(RunId, usize)>> {
    let hidden = context.hidden_runs(mp)?;
    let offered = mp.offered_runs(Some(&context.worktree()), |record| !hidden.contains(record.run_id()))?;
    let first = offered.first().map(|run| run.summary.run_id().clone());
    Ok(first.map(|run| (run, offered.len() - 1)))
}

/// Describes whether a run may be continued, with the brief to continue from.
pub(super) fn describe(
    mp: &Milepost,
    from: RunAssessment,
    others: usize,
    args: &ResumeArgs,
    context: &Context<'_>,
) -> Result<DecisionDocument> {
    let root = handover::root(&from, context);
    let brief = match (&from.shown, args.check) {
        (Some(_), false) => Some(handover::brief(mp, &from, context, &args.limit())?),
        _ => None,
    };
    let fallback = from.shown.as_ref().map_or_else(Fallback::default, |shown| {
        let damaged = shown.fell_back_from().clone();
        Fallback::new(damaged, shown.entry().header.snapshot_id())
    });
    let mut overview = Overview::of(mp, &from);
    // Session ids and paths that came from elsewhere mean nothing on this machine.
    let is_own = context.foreign().is_none() && !handover::is_foreign(&from);
    if let Some(record) = from.detail.summary().intact().filter(|_| is_own) {
        overview.agent_resume = agent_resume_command(record);
        overview.transcript = record.transcript().filter(|path| Path::new(path).is_file()).map(str::to_owned);
    }
    let examination = Examination {
        workspace: context.output.is_terminal().then(|| handover::workspace(&from, &root)).flatten(),
        distance: handover::distance(&from, &root),
        from,
        others,
        check: args.check,
        agent: if context.output.is_terminal() { find_installed_agent(&overview) } else { None },
        overview,
    };
    Ok(DecisionDocument::new(examination, brief, fallback, args.format))
}

/// The agent that worked on the run if its program is installed, otherwise any installed agent.
fn find_installed_agent(overview: &Overview) -> Option<&'static str> {
    let environment = AgentEnvironment::read();
    let own = overview.agent.as_deref().and_then(find_agent);
    let mut agents = own.into_iter().chain(AGENTS.iter().copied());
    agents.find(|agent| environment.program(agent.program).is_some()).map(|agent| agent.name)
}

/// The options of a run that continues another; it has no owner process.
fn start_options(context: &Context<'_>) -> StartOptions {
    StartOptions {
        session_id: context.config.session.clone(),
        run_options: context.run_options(),
        ..StartOptions::default()
    }
}

/// Opens a run that continues another.
pub(super) fn start(
    mp: &Milepost,
    run: &RunId,
    take_over: bool,
    context: &Context<'_>,
) -> Result<StartedDocument> {
    let foreign = mp.run_detail(run)?.summary().intact().is_some_and(|record| record.is_foreign());
    if foreign && context.is_for_agent() {
        let message = format!("run {run} came from elsewhere: only the user can decide to continue it");
        return Err(CommandError::new(ReasonCode::ConfirmationNeeded, message)
            .with_hint(format!("ask the user to run `milepost resume {run} --start`")));
    }
    let record = mp.continue_run(run, start_options(context), take_over)?.started.record;
    Ok(StartedDocument {
        run_id: record.run_id().clone(),
        parent: record.parent().clone(),
        continues: run.clone(),
        status: record.status(),
    })
}

/// Sets the working directory of a program to the run's folder.
pub(super) fn set_working_directory(command: &mut Command, folder: Option<&Path>) -> Result<()> {
    let Some(folder) = folder else { return Ok(()) };
    if !folder.is_dir() {
        return Err(CommandError::usage(format!(
            "{}, where the run worked, does not exist",
            folder.display()
        ))
        .with_hint("change to the folder that contains the work now, and start it there"));
    }
    command.current_dir(folder);
    Ok(())
}

/// Starts a program that takes over from this process. Returns only if that fails, or with the program's exit code where
/// the platform cannot replace a process.
pub(super) fn replace_process(name: &str, command: Command) -> CommandError {
    match supervise::replace_process(command) {
        Ok(ended) => CommandError::ChildExit(ended.code()),
        Err(e) => cannot_start(name, &e),
    }
}

fn cannot_start(name: &str, e: &std::io::Error) -> CommandError {
    let exit = if e.kind() == std::io::ErrorKind::NotFound { Exit::NoProgram } else { Exit::NotExecutable };
    CommandError::new(ReasonCode::Usage, format!("cannot start {name}: {e}"))
        .with_exit(exit)
        .with_hint(format!("check that {name} is installed and on PATH"))
}

pub(super) fn ensure_eligible(from: &RunAssessment) -> Result<()> {
    if from.decision.eligible { Ok(()) } else { Err(from.refusal().into()) }
}

/// Starts an agent in the run's worktree, with the brief as its first message. The agent replaces this
/// process; the function returns only on failure.
fn start_agent(
    mp: &Milepost,
    from: &RunAssessment,
    name: &str,
    args: &ResumeArgs,
    context: &Context<'_>,
) -> Result<CommandError> {
    let Some(agent) = find_agent(name) else {
        return Err(unknown_agent(name));
    };
    context.check_writable()?;
    let overview = Overview::of(mp, from);
    ensure_eligible(from)?;
    let record = from.detail.summary().intact().filter(|record| record.agent().as_deref() == Some(name));
    if let Some(own) = record.and_then(agent_resume_command) {
        context.output.message(&format!("{name} can also resume its own conversation: {own}"));
    }
    let limit = match args.budget {
        Some(tokens) => BriefLimit { tokens: Some(tokens), ..agent.text_limit },
        None => agent.text_limit,
    };
    let message = handover::text_for_agent(mp, from, &overview, context, &limit)?;
    let mut command = Command::new(agent.program);
    command.args(agent.prompt_arguments).arg(message);
    // The agent's first hook continues this run and does not repeat the brief.
    command.env("MILEPOST_RESUME", overview.run_id.as_str());
    let folder = match handover::is_foreign(from) {
        true => Some(handover::root(from, context)),
        false => overview.worktree.as_ref().map(PathBuf::from),
    };
    set_working_directory(&mut command, folder.as_deref())?;
    Ok(replace_process(agent.program, command))
}

/// The command with which the run's agent resumes its own conversation.
fn agent_resume_command(record: &RunRecord) -> Option<String> {
    let agent = find_agent(record.agent().as_deref()?)?;
    let session = record.session_id()?;
    // The session must be the agent's own, and a shell must read its id as one word.
    let is_own = RunId::for_session(agent.name, session) == *record.run_id();
    let is_plain = session.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    (is_own && is_plain).then(|| agent.resume_command.replace("{session}", session))
}

/// Resumes from a brief in a file, without a store.
pub(super) fn from_brief(
    file: &Path,
    bytes: Vec<u8>,
    args: &ResumeArgs,
    context: &Context<'_>,
) -> Result<DecisionDocument> {
    use milepost::brief::{Brief, FitOptions, Overflow};
    let brief = Brief::from_bytes(bytes).map_err(|e| {
        CommandError::new(ReasonCode::CheckpointSchemaInvalid, format!("{}: {e}", file.display()))
    })?;
    let how = FitOptions::default()
        .budget(args.budget.unwrap_or(BUDGET))
        .overflow(Overflow::Shrink)
        .full_command((file != Path::new("-")).then(|| format!("cat {}", file.display())));
    let fitted = brief.fit(&how).map_err(Error::from)?;
    let checked = brief.check();
    if !checked.is_valid() {
        let n = format::counted(checked.errors.len() as u64, "section");
        context
            .output
            .message(&format!("{n} missing or empty: `milepost brief check {}` lists them", file.display()));
    }
    Ok(DecisionDocument::of_file(file, fitted, args.format))
}
