//! `show`: verifies a checkpoint and shows it.

use milepost::Reference;

use crate::completion::Values;
use crate::context::Context;
use crate::error::Result;
use crate::present::checkpoint::ShowDocument;

/// Show a checkpoint
///
/// REF is an id, a short id or the start of one, `latest`, `latest~2`, `RUN@12`, a tag, or an id from an
/// import. If the newest checkpoint is damaged, plain `latest` shows the newest intact one and exits with 3.
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
    ShowDocument::new(shown, mp.now())
}
