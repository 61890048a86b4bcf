//! `sync`: sends what waits on this machine to the store's server.

use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::sync::SyncDocument;

/// Send what waits on this machine to the store's server
///
/// Hooks write on this machine and do not wait for the server. Other commands do so if the server cannot be
/// reached. Ends of turns and later commands send what waits; this command sends it now.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost sync\n  milepost sync --with-secrets\n  milepost sync --json")]
pub(crate) struct SyncArgs {
    /// Also send contents of files in which secrets were found
    #[arg(long)]
    with_secrets: bool,
}

pub(crate) fn execute(args: SyncArgs, context: &Context<'_>) -> Result<SyncDocument> {
    if context.config.server.is_none() {
        return Err(CommandError::usage(format!(
            "{} is not on a server, so nothing has to be sent",
            context.url()
        ))
        .with_hint("select a server with --store postgres://… or `store` in milepost.toml"));
    }
    context.config.check()?;
    context.check_writable()?;
    let settings = context.settings().files_with_secrets(args.with_secrets);
    let mp = context.store_source(true).open()?.with_settings(settings);
    let total = mp.waiting()?.runs().len() as u64;
    let mut progress = context.output.progress();
    let report = mp.sync(None, &mut |n| progress.of("runs sent", n, total))?;
    drop(progress);
    let waiting = mp.waiting()?;
    Ok(SyncDocument::new(context.url().to_string(), &report, &waiting))
}
