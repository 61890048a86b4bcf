//! `save`: saves one checkpoint from flags and an input document. It is durable when its id is printed.

use milepost::brief::Brief;
use milepost::internal::engine::SaveOptions;
use milepost::internal::model::{Draft, RawObject};
use milepost::internal::seal::strict;
use milepost::model::{Phase, RunId, Source, Status};
use milepost::{Error, Milepost, Redaction, Save};

use crate::completion::Values;
use crate::context::{Context, SaveResult, save_or_enqueue};
use crate::error::Result;
use crate::input::{Argument, Content};
use crate::present::saved::SavedDocument;

/// Save a checkpoint and print its id
///
/// Fields that are not given are taken from the run. Without --run, the checkpoint goes to the only open run
/// of this worktree, or to a new run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost save \"parser done, printer next\"\n  \
                        milepost save -m \"tests pass\" --tag before-refactoring\n  \
                        echo '{\"state\": {\"step\": 3}}' | milepost save --input -\n  \
                        milepost save --source timer --if-due")]
pub(crate) struct SaveArgs {
    /// Summary of the work, same as --message
    #[arg(value_name = "MESSAGE", conflicts_with = "summary")]
    pub(super) message: Option<String>,
    /// Summary of the work
    #[arg(
        short = 'm',
        long = "message",
        visible_alias = "summary",
        value_name = "MESSAGE",
        allow_hyphen_values = true
    )]
    pub(super) summary: Option<String>,
    /// Cause: step_boundary, error_boundary, timer or manual [default: manual]
    #[arg(long, value_name = "SOURCE", add = Values::Words(Source::NAMES))]
    pub(super) source: Option<Argument<Source>>,
    /// Reason, in addition to the source (repeatable)
    #[arg(long, value_name = "TEXT")]
    pub(super) reason: Vec<String>,
    /// Status: in_progress, failed, completed or paused [default: in_progress]
    #[arg(long, value_name = "STATUS", add = Values::Words(Status::NAMES))]
    pub(super) status: Option<Argument<Status>>,
    /// Name of the phase
    #[arg(long, value_name = "NAME")]
    pub(super) phase: Option<String>,
    /// Number of the phase, 0 or more
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) phase_number: Option<Argument<u64>>,
    /// JSON object with more fields of the checkpoint (- reads stdin)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(super) input: Option<Content>,
    /// Markdown brief to store unchanged; its id becomes a reference to the checkpoint and must be new
    /// (- reads stdin)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub(super) brief: Option<Content>,
    /// Do not record git, watched folders or memory
    #[arg(long)]
    pub(super) no_capture: bool,
    /// Do not redact keys, tokens and passwords
    #[arg(long)]
    pub(super) no_redact: bool,
    /// Save only if the profile's interval has passed
    #[arg(long)]
    pub(super) if_due: bool,
    /// Exempt the checkpoint from retention
    #[arg(long)]
    pub(super) pin: bool,
    /// Tag to add (repeatable)
    #[arg(long, value_name = "TAG")]
    pub(super) tag: Vec<String>,
}

const SCHEMA: &str = "milepost.save/1";

pub(crate) fn execute(args: SaveArgs, context: &Context<'_>) -> Result<SavedDocument> {
    let settings = context.settings();
    let mut save = Save::new()
        .redaction(args.no_redact.then_some(Redaction::Off))
        .run_options(context.run_options())
        .pin(args.pin)
        .complete_phase(args.phase.is_some() != args.phase_number.is_some());
    *save.draft_mut() = draft(&args, context)?;
    save = args.tag.iter().fold(save, Save::tag);
    let capture = !args.no_capture && save.draft().workspace.is_none();
    let options =
        SaveOptions { if_due: args.if_due, capture: context.owner_capture_options().filter(|_| capture) };
    let named_run = context.config.run.clone().or_else(|| save.draft().run_id.clone());
    // An invalid save must not create a store.
    save.check(named_run.as_ref(), &settings)?;
    let stored = context
        .open_or_create()
        .and_then(|mp| save_in_store(&mp, context, save.clone(), named_run.clone(), &options));
    let (source, status) = (save.draft().source, save.draft().status);
    let result = save_or_enqueue(stored, context.outbox().as_ref(), &settings, || {
        let run = named_run.unwrap_or_else(|| context.run_for_outbox());
        save.draft_mut().run_id = None;
        (run, if capture { save.capture(context.capture_without_store()) } else { save })
    })?;
    Ok(match result {
        SaveResult::Stored(document) => document,
        SaveResult::Queued(run, queued) => SavedDocument::queued(SCHEMA, &queued, &run)
            .with_work(source.unwrap_or(Source::Manual), status.unwrap_or(Status::InProgress)),
    })
}

/// Describes what a brief lacks, if anything.
fn brief_problem(text: &str) -> Option<String> {
    let errors = Brief::parse(text).check().errors;
    let first = errors.first()?;
    let name = first.section.as_deref().map_or(String::new(), |section| format!("{section} "));
    let more = if errors.len() > 1 { format!(", and {} more", errors.len() - 1) } else { String::new() };
    Some(format!("is incomplete: {name}{}{more}", first.message))
}

/// Saves to the store, if a save is due.
fn save_in_store(
    mp: &Milepost,
    context: &Context<'_>,
    save: Save,
    named_run: Option<RunId>,
    options: &SaveOptions,
) -> Result<SavedDocument, Error> {
    let run = match named_run {
        Some(run) => Context::expand_short_id(mp, run),
        None => context.run_to_write(mp)?,
    };
    let brief = save.draft().brief.clone();
    let Some(saved) = mp.save_with(&run, save, options)? else {
        return Ok(SavedDocument::not_due(SCHEMA, &run));
    };
    if let Some(problem) = brief.and_then(|text| brief_problem(&text)) {
        context
            .output
            .message(&format!("Warning: the brief {problem}; `milepost brief check FILE` shows details"));
    }
    Ok(SavedDocument::saved(SCHEMA, &saved))
}

fn phase_number(args: &SaveArgs) -> Result<Option<u64>, Error> {
    args.phase_number.clone().map(|n| n.number("--phase-number", "/phase/number")).transpose()
}

/// Builds a draft from the input document. Flags override its fields.
fn draft(args: &SaveArgs, context: &Context<'_>) -> Result<Draft> {
    let source = args.source.clone().map(|s| s.choice("--source", "/source")).transpose()?;
    let status = args.status.clone().map(|s| s.choice("--status", "/status")).transpose()?;
    let number = phase_number(args)?;
    let mut draft = match &args.input {
        Some(content) => draft_from_input(content)?,
        None => Draft::default(),
    };
    draft.source = source.or(draft.source);
    draft.status = status.or(draft.status);
    draft.reasons.extend(args.reason.iter().cloned());
    if args.phase.is_some() || number.is_some() {
        draft.phase =
            Some(Phase { name: args.phase.clone(), number: number.unwrap_or_default(), ..Phase::default() });
    }
    if let Some(summary) = args.message.as_ref().or(args.summary.as_ref()) {
        draft.task_summary = Some(summary.clone());
    }
    if let Some(content) = &args.brief {
        draft.brief = Some(content.text("/brief")?);
    }
    let unset = draft.session_id.as_deref().unwrap_or_default().is_empty();
    if unset {
        draft.session_id.clone_from(&context.config.session);
    }
    Ok(draft)
}

fn draft_from_input(content: &Content) -> Result<Draft> {
    let bytes = content.read()?;
    let text = strict::check(&bytes)?;
    Ok(Draft::from_object(RawObject::parse(text, &milepost::internal::model::JsonPath::Root)?)?)
}
