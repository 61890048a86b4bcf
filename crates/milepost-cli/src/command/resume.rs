//! `resume`: what stopped, why, and what is needed to go on. Plain `resume` only reads.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error_advice::Exit;
use milepost::internal::capture::distance::Distance;
use milepost::model::{CheckpointId, InterruptionKind, Phase, RunId};
use milepost::{Error, Milepost, ReasonCode};
use milepost::{ResumeCandidate, RunAssessment, StartOptions};
use serde::Serialize;

use super::rerun;
use crate::agents::{Agent, agent_names, find_agent};
use crate::context::Context;
use crate::error::CommandError;
use crate::handover::{self, Overview};
use crate::input;
use crate::present::format::{self, bold};
use crate::present::{damage, resume as page};

/// Tokens of a brief unless said otherwise.
const BUDGET: u64 = 2000;

/// Show what stopped here, why, and the brief to go on with
///
/// Without RUN: the run that was interrupted last in this worktree. Only reads, unless told to start something. Exit 4
/// where there is nothing to resume, 3 where the newest checkpoint is damaged and an older one is used.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:\n  milepost resume\n  milepost resume --budget 800 > brief.md\n  \
                        milepost resume --check && echo there is work to go on with\n  \
                        milepost resume --with claude-code\n  milepost resume nightly --rerun\n  \
                        milepost resume --from brief.md --budget 500")]
pub(crate) struct ResumeArgs {
    /// The run; unless given, the one that was interrupted last in this worktree
    #[arg(value_name = "RUN", conflicts_with = "from")]
    pub(super) target: Option<String>,
    /// Tokens of the brief at most [default: 2000]
    #[arg(long, value_name = "N")]
    pub(super) budget: Option<u64>,
    /// Only say whether it may be continued: exit 0 for yes, 4 for no
    #[arg(long, conflicts_with_all = ["start", "with", "rerun", "dismiss", "from"])]
    pub(super) check: bool,
    /// md prints the brief alone, json everything
    #[arg(long, value_name = "FORMAT", value_parser = ["md", "json"])]
    pub(super) format: Option<String>,
    /// Open a run that continues it, and print that run's id
    #[arg(long, group = "act")]
    pub(super) start: bool,
    #[arg(help = format!("Go to its worktree and start this agent with the brief: {}", agent_names()), long, value_name = "AGENT", group = "act")]
    pub(super) with: Option<String>,
    /// Start the command that was recorded again, under the same run
    #[arg(long, group = "act")]
    pub(super) rerun: bool,
    /// No longer offer it
    #[arg(long, group = "act")]
    pub(super) dismiss: bool,
    /// Also where its owner lives, but waits or is silent
    #[arg(long)]
    pub(super) take_over: bool,
    /// Work from a brief in a file, or - for stdin; needs no store
    #[arg(long, value_name = "FILE", conflicts_with_all = ["act", "take_over"])]
    pub(super) from: Option<PathBuf>,
    /// Whether the run is shown because the caller's own run continues it, as a person has decided.
    #[arg(skip)]
    pub(super) continued: bool,
}

/// A resume as programs see it.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    decision: Decided<'a>,
    brief: Option<&'a str>,
    tokens: u64,
    omitted: &'a [milepost::brief::Omitted],
    /// What stands above the brief that an agent is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    lead: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    about: Option<&'a Overview>,
    #[serde(skip_serializing_if = "Option::is_none")]
    continued_by: Option<&'a RunId>,
    /// How far what is checked out is from the commit that it stood on.
    #[serde(skip_serializing_if = "Option::is_none")]
    distance: Option<String>,
}

#[derive(Serialize)]
struct Decided<'a> {
    reason_code: ReasonCode,
    class: InterruptionKind,
    eligible: bool,
    run_id: Option<&'a RunId>,
    snapshot_id: Option<&'a CheckpointId>,
    phase: Option<&'a Phase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fell_back_from: Option<Vec<String>>,
    next_actions: &'a [String],
}

#[derive(Serialize)]
struct Dismissed<'a> {
    schema: &'static str,
    dismissed: &'a RunId,
}

pub(crate) fn run(args: &ResumeArgs, context: &Context<'_>) -> Result<(), CommandError> {
    if let Some(file) = &args.from {
        return from_brief(file, input::read(file)?, args, context);
    }
    let changes = args.start || args.rerun || args.dismiss || args.with.is_some();
    let mp = if changes { context.open_existing()? } else { context.open_read_only()? };
    let named = args.target.as_deref().map(str::parse::<RunId>).transpose()?.or(context.config.run.clone());
    let (run, others) = match named {
        Some(run) => {
            if !args.continued {
                context.ensure_visible(&mp, &run)?;
            }
            (run, 0)
        }
        None => match choose(&mp, context)? {
            Some(chosen) => chosen,
            None => return nothing(context),
        },
    };
    if args.dismiss {
        mp.dismiss(&run)?;
        context.output.record_change(format!("run {run} was dismissed"));
        if context.output.json {
            return context.output.document(&Dismissed { schema: "milepost.resume/1", dismissed: &run });
        }
        context
            .output
            .message(&format!("{run} is no longer offered; `milepost resume {run}` still shows it"));
        return Ok(());
    }
    let from = mp.assess(&run, args.take_over)?;
    if args.rerun {
        return rerun::run(&from, &run, context);
    }
    if let Some(agent) = &args.with {
        return with(&mp, &from, agent, args, context);
    }
    if args.start {
        return start(&mp, &run, args, context);
    }
    show(&mp, &from, others, args, context)
}

/// The run that was interrupted last here, or anywhere; and how many others there are.
fn choose(mp: &Milepost, context: &Context<'_>) -> Result<Option<(RunId, usize)>, CommandError> {
    let here = context.here();
    let mut stopped: Vec<ResumeCandidate> = mp
        .candidates()?
        .into_iter()
        .filter(|candidate| candidate.decision.eligible && candidate.decision.run_state.is_stopped())
        .collect();
    // What came from elsewhere is never chosen for an agent, and for a person only if there is nothing else.
    let is_own =
        |candidate: &ResumeCandidate| candidate.summary.intact().is_some_and(|record| !record.is_foreign());
    let hidden = context.hidden_runs(mp)?;
    stopped.retain(|candidate| !hidden.contains(&candidate.summary.run_id));
    let is_here = |candidate: &&ResumeCandidate| {
        let record = candidate.summary.intact();
        record.is_some_and(|record| record.place() == Some(&here) && !record.is_foreign())
    };
    let own = stopped.iter().find(|candidate| is_own(candidate));
    let chosen = stopped.iter().find(is_here).or(own).or(stopped.first());
    Ok(chosen.map(|candidate| (candidate.summary.run_id.clone(), stopped.len() - 1)))
}

fn nothing(context: &Context<'_>) -> Result<(), CommandError> {
    if context.output.json {
        context.output.document(&Document {
            schema: "milepost.resume/1",
            decision: Decided {
                reason_code: ReasonCode::ResumeMissingCheckpoint,
                class: InterruptionKind::CleanStop,
                eligible: false,
                run_id: None,
                snapshot_id: None,
                phase: None,
                fell_back_from: None,
                next_actions: &[],
            },
            brief: None,
            tokens: 0,
            omitted: &[],
            lead: None,
            about: None,
            continued_by: None,
            distance: None,
        })?;
        return Err(CommandError::ExitOnly(Exit::Nothing));
    }
    Err(CommandError::new(
        ReasonCode::ResumeMissingCheckpoint,
        "nothing to resume: no run here was interrupted",
    )
    .with_exit(Exit::Nothing)
    .with_hint("`milepost status` shows all runs; `milepost resume RUN` looks at one"))
}

fn show(
    mp: &Milepost,
    from: &RunAssessment,
    others: usize,
    args: &ResumeArgs,
    context: &Context<'_>,
) -> Result<(), CommandError> {
    let lead = Overview::of(mp, from);
    let root = handover::root(from, context);
    let brief = match (&from.shown, args.check) {
        (Some(_), false) => {
            Some(handover::brief(mp, from, context, args.budget.unwrap_or(BUDGET), usize::MAX)?)
        }
        _ => None,
    };
    let fell_back = from.shown.as_ref().map_or(&[][..], |shown| &shown.fell_back_from);
    let output = context.output;
    if output.json || args.format.as_deref() == Some("json") {
        let names = damage::names(fell_back);
        output.document(&Document {
            schema: "milepost.resume/1",
            decision: Decided {
                reason_code: from.decision.reason_code,
                class: from.decision.class,
                eligible: from.decision.eligible,
                run_id: Some(&lead.run_id),
                snapshot_id: lead.snapshot_id.as_ref(),
                phase: lead.phase.as_ref(),
                fell_back_from: (!fell_back.is_empty()).then_some(names),
                next_actions: &lead.next_actions,
            },
            brief: brief.as_ref().map(|brief| brief.markdown.as_str()),
            tokens: brief.as_ref().map_or(0, |brief| brief.tokens),
            omitted: brief.as_ref().map_or(&[][..], |brief| &brief.omitted),
            lead: Some(match from.decision.eligible {
                true => lead.for_an_agent(),
                false => page::verdict(&lead, from),
            }),
            about: Some(&lead),
            continued_by: from.claimed_by.as_ref(),
            distance: handover::distance(from, &root).map(|distance| distance.to_string()),
        })?;
    } else if args.check {
        output.text(&page::verdict(&lead, from))?;
    } else {
        // A person sees what it is about first; a program that reads the output wants the brief.
        if args.format.is_none() && output.is_terminal() {
            output.text(&page::page(&lead, from, handover::workspace(from, &root), others))?;
        } else if !from.decision.eligible {
            output.message(page::verdict(&lead, from).trim_end());
        }
        if !output.is_terminal()
            && let Some(distance) = handover::distance(from, &root).filter(|d| *d != Distance::Same)
        {
            output.message(&format!("seen from the commit it stood on, here is: {distance}"));
        }
        if let Some(brief) = &brief {
            output.plain(&brief.markdown)?;
        }
    }
    if let Some(shown) = &from.shown {
        damage::fell_back(output, &shown.fell_back_from, &shown.entry.header.snapshot_id)?;
    }
    if from.decision.eligible { Ok(()) } else { Err(CommandError::ExitOnly(Exit::Nothing)) }
}

/// What a continuing run is opened with; kept by hand, it has no owner.
fn continuing(context: &Context<'_>) -> StartOptions {
    StartOptions {
        run_id: None,
        session_id: context.config.session.clone(),
        run_options: context.run_options(),
        ..StartOptions::default()
    }
}

#[derive(Serialize)]
struct Begun<'a> {
    schema: &'static str,
    run_id: &'a RunId,
    parent: Option<&'a CheckpointId>,
    continues: &'a RunId,
    status: milepost::Status,
}

fn start(mp: &Milepost, run: &RunId, args: &ResumeArgs, context: &Context<'_>) -> Result<(), CommandError> {
    let foreign = mp.run_detail(run)?.summary.intact().is_some_and(|record| record.is_foreign());
    if foreign && context.is_for_agent() {
        let message = format!("run {run} came from elsewhere: an agent cannot decide to continue it");
        return Err(CommandError::new(ReasonCode::ConfirmationNeeded, message)
            .with_hint(format!("ask the user to run `milepost resume {run} --start`")));
    }
    let continued = mp.continue_run(run, continuing(context), args.take_over)?;
    let record = &continued.started.record;
    context.output.record_change(format!("run {} was started and continues {run}", record.run_id));
    if context.output.json {
        return context.output.document(&Begun {
            schema: "milepost.resume/1",
            run_id: &record.run_id,
            parent: record.parent.as_ref(),
            continues: run,
            status: record.status,
        });
    }
    context.output.message(&format!("continues {run}; `milepost resume {run}` prints the brief"));
    context.output.text(&format!("{}\n", record.run_id))
}

/// Sets the working directory of a program to where the run worked.
pub(super) fn go_to(command: &mut Command, folder: Option<&Path>) -> Result<(), CommandError> {
    let Some(folder) = folder else { return Ok(()) };
    if !folder.is_dir() {
        return Err(CommandError::usage(format!("{}, where the run worked, is not there", folder.display()))
            .with_hint("go to where the work is now, and start it there"));
    }
    command.current_dir(folder);
    Ok(())
}

pub(super) fn cannot_start(name: &str, e: &std::io::Error) -> CommandError {
    let exit = if e.kind() == std::io::ErrorKind::NotFound { Exit::NoProgram } else { Exit::NotExecutable };
    CommandError::new(ReasonCode::Usage, format!("{name} cannot be started: {e}")).with_exit(exit)
}

pub(super) fn allowed(from: &RunAssessment) -> Result<(), CommandError> {
    if from.decision.eligible { Ok(()) } else { Err(from.refusal().into()) }
}

/// Starts an agent in the run's worktree, with the brief as its first message.
fn with(
    mp: &Milepost,
    from: &RunAssessment,
    name: &str,
    args: &ResumeArgs,
    context: &Context<'_>,
) -> Result<(), CommandError> {
    let Some(agent) = find_agent(name) else {
        let names = agent_names();
        return Err(CommandError::usage(format!("no agent \"{name}\"; known are {names}")));
    };
    context.check_writable()?;
    let lead = Overview::of(mp, from);
    allowed(from)?;
    let record = from.detail.summary.intact();
    if let (Some(own), true) =
        (way_back(record, agent), record.is_some_and(|r| r.agent.as_deref() == Some(name)))
    {
        context.output.message(&format!("{name} can also go back to its own conversation: {own}"));
    }
    let brief = handover::brief(mp, from, context, args.budget.unwrap_or(BUDGET), usize::MAX)?;
    let record = handover::wrapped(
        &format!("{}\n{}", lead.facts(), brief.markdown),
        handover::RecordOrigin::of(handover::is_foreign(from)),
    );
    let message = format!("{}{record}", lead.introduction());
    let mut command = Command::new(agent.program);
    command.args(agent.prompt_arguments).arg(message);
    // Its first hook continues this run, and need not be told again.
    command.env("MILEPOST_RESUME", lead.run_id.as_str());
    let folder = match handover::is_foreign(from) {
        true => Some(handover::root(from, context)),
        false => lead.worktree.as_ref().map(PathBuf::from),
    };
    go_to(&mut command, folder.as_deref())?;
    Err(cannot_start(agent.program, &command.exec()))
}

/// The agent's own way back to its conversation.
fn way_back(record: Option<&milepost::model::RunRecord>, agent: Agent) -> Option<String> {
    let session = &record?.session.as_ref()?.id;
    Some(agent.resume_command.replace("{session}", session))
}

/// A brief in a file is all there is.
pub(super) fn from_brief(
    file: &Path,
    bytes: Vec<u8>,
    args: &ResumeArgs,
    context: &Context<'_>,
) -> Result<(), CommandError> {
    use milepost::brief::{Brief, Fit, HeuristicTokenizer, Overflow, TokenCounter};
    let brief = Brief::from_bytes(bytes).map_err(|e| {
        CommandError::new(ReasonCode::CheckpointSchemaInvalid, format!("{}: {e}", file.display()))
    })?;
    let how = Fit {
        budget: args.budget.unwrap_or(BUDGET),
        overflow: Overflow::Shrink,
        counter: TokenCounter::new(&HeuristicTokenizer),
        whole: (file != Path::new("-")).then(|| format!("cat {}", file.display())),
    };
    let fitted = brief.fit(&how).map_err(Error::from)?;
    let checked = brief.check();
    if !checked.valid() {
        let n = format::counted(checked.errors.len() as u64, "section");
        context
            .output
            .message(&format!("{n} missing or empty: `milepost brief check {}` names them", file.display()));
    }
    if context.output.json || args.format.as_deref() == Some("json") {
        return context.output.document(&Document {
            schema: "milepost.resume/1",
            decision: Decided {
                reason_code: ReasonCode::ResumeAllowed,
                class: InterruptionKind::Unknown,
                eligible: true,
                run_id: None,
                snapshot_id: None,
                phase: None,
                fell_back_from: None,
                next_actions: &[],
            },
            brief: Some(&fitted.markdown),
            tokens: fitted.tokens,
            omitted: &fitted.omitted,
            lead: None,
            about: None,
            continued_by: None,
            distance: None,
        });
    }
    if context.output.is_terminal() && args.format.is_none() {
        let file = format::clean(&file.to_string_lossy());
        context.output.text(&format!("{} {file}\n\n", bold("Resume from")))?;
    }
    context.output.plain(&fitted.markdown)
}
