//! `copy`: copies everything from one store to another, with bytes and seals unchanged.

use milepost::internal::model::RunOrigin;
use milepost::internal::store::identity::StoreTrust;
use milepost::store::StoreUrl;

use crate::completion::Values;
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::transfer::CopyDocument;

/// Copy all runs from one store to another
///
/// Copies runs, checkpoints with their seals, marks, events and file contents unchanged. Skips what the target
/// already has, so an interrupted copy can be repeated. Files in which secrets are found are copied only with
/// --with-secrets.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost copy --from sqlite:milepost.db --to files:/backup/runs --verify\n  \
                        milepost copy --from files:/backup/runs --to sqlite:restored.db\n  \
                        milepost copy --from sqlite:milepost.db --to postgres://db/team\n\n\
                        Exit codes: 3 if damaged checkpoints were skipped, 5 if --verify finds a difference."
)]
pub(crate) struct CopyArgs {
    /// Store to read: sqlite:PATH, files:DIR or postgres://…
    #[arg(long, value_name = "URL", add = Values::Store)]
    from: String,
    /// Store to write, created if it does not exist: sqlite:PATH, files:DIR or postgres://…
    #[arg(long, value_name = "URL", add = Values::Store)]
    to: String,
    /// Compare the stores afterwards, document by document
    #[arg(long)]
    verify: bool,
    /// Copy file contents that contain secrets too
    #[arg(long)]
    with_secrets: bool,
}

pub(crate) fn execute(args: CopyArgs, context: &Context<'_>) -> Result<CopyDocument> {
    let (from, to): (StoreUrl, StoreUrl) = (args.from.parse()?, args.to.parse()?);
    if from == to {
        return Err(CommandError::usage("--from and --to name the same store").with_hint("name two stores"));
    }
    // The user named both stores, so both may be used. Runs from a foreign store stay foreign.
    let foreign = |url: &StoreUrl| match context.config.trust.evaluate(url, &context.config.paths).0 {
        // Of a server, the runs of other users are foreign.
        StoreTrust::Foreign(why) => url.path().map(|_| why),
        StoreTrust::Trusted | StoreTrust::New => None,
    };
    let origin = foreign(&from).map(|_| RunOrigin {
        kind: "copy".to_owned(),
        from: from.resolved().to_string(),
        at: milepost::Clock::now(&milepost::internal::clock::SystemClock),
    });
    let options = context.open_options(false);
    let source = context
        .open_named(&from, &options.clone().foreign(foreign(&from)))?
        .with_settings(context.settings().files_with_secrets(args.with_secrets));
    let target = context.open_named(&to, &options.create(true).foreign(None))?;
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
