//! `copy`: everything from one store to another, bytes and seals unchanged.

use milepost::Milepost;
use milepost::internal::model::RunOrigin;
use milepost::internal::store::identity::StoreTrust;
use milepost::store::StoreUrl;

use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::transfer::CopyDocument;

/// Copy every run, checkpoint, mark and event from one store to another
///
/// Documents and their seals are copied as they are. What is there already is left alone, so that a copy that was
/// interrupted can be taken up by running it again.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost copy --from sqlite:.milepost/milepost.db --to files:/backup/checkpoints --verify\n\n\
                        Exit: 3 if damaged checkpoints were left out, 5 if --verify finds a difference."
)]
pub(crate) struct CopyArgs {
    /// The store to read
    #[arg(long, value_name = "URL")]
    from: String,
    /// The store to write; it is made if it is not there
    #[arg(long, value_name = "URL")]
    to: String,
    /// Compare the two afterwards, document by document
    #[arg(long)]
    verify: bool,
}

pub(crate) fn execute(args: CopyArgs, context: &Context<'_>) -> Result<CopyDocument> {
    let (from, to): (StoreUrl, StoreUrl) = (args.from.parse()?, args.to.parse()?);
    if from == to {
        return Err(CommandError::usage("--from and --to name the same store"));
    }
    // Both were named by the user, so both may be used; but runs from a store that is not theirs stay foreign.
    let foreign = |url: &StoreUrl| match context.config.trust.evaluate(url, &context.config.paths).0 {
        StoreTrust::Foreign(why) => Some(why),
        StoreTrust::Trusted | StoreTrust::New => None,
    };
    let origin = foreign(&from).map(|_| RunOrigin {
        kind: "copy".to_owned(),
        from: from.resolved().to_string(),
        at: milepost::Clock::now(&milepost::internal::clock::SystemClock),
    });
    let options = context.open_options(false);
    let source = Milepost::at(&from, &options.clone().foreign(foreign(&from)))?;
    let target = Milepost::at(&to, &options.create(true).foreign(None))?;
    let total: u64 = source.store().runs(&Default::default())?.iter().map(|row| row.count).sum();
    let mut progress = context.output.progress();
    let copied = source
        .copy_with_origin(&target, origin.as_ref(), &mut |n| progress.of("checkpoints copied", n, total))?;
    let compared = if args.verify {
        Some(source.compare_with(&target, &mut |n| progress.of("checkpoints compared", n, total))?)
    } else {
        None
    };
    drop(progress);
    Ok(CopyDocument::new(copied, compared))
}
