//! `show`: verifies a checkpoint and shows it.

use milepost::Reference;

use crate::completion::Values;
use crate::context::Context;
use crate::error::Result;
use crate::present::checkpoint::ShowDocument;

/// Maximum number of messages in the document for an agent, whose context is limited.
const MESSAGES_FOR_AGENTS: usize = 20;

/// Show a checkpoint
///
/// REF is an id, a short id or the start of one, `latest`, `latest~2`, `RUN@12`, a tag, or an id from an
/// import. If the newest checkpoint is damaged, plain `latest` shows the newest intact one and exits with 3.
/// For the newest checkpoint of a run, also shows what was recorded since.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost show\n  milepost show nightly@12\n  milepost show latest~1 --json"
)]
pub(crate) struct ShowArgs {
    /// Checkpoint to show
    #[arg(value_name = "REF", default_value = "latest", add = Values::Reference)]
    pub(super) reference: String,
}

pub(crate) fn execute(args: ShowArgs, context: &Context<'_>) -> Result<ShowDocument> {
    let reference: Reference = args.reference.parse()?;
    let mp = context.open_existing()?;
    let run = context.run_of_reference(&mp, &reference)?;
    let shown = mp.show(&reference, run.as_ref())?;
    context.ensure_visible(&mp, shown.entry().header.run_id())?;
    let header = &shown.entry().header;
    let mut messages = mp.conversation(header.run_id())?;
    messages.retain(|message| message.is_before(header.created_at()));
    if context.is_for_agent() {
        messages.drain(..messages.len().saturating_sub(MESSAGES_FOR_AGENTS));
    }
    let recent = mp.changes_since(&shown)?;
    ShowDocument::new(shown, messages, recent, mp.now())
}
