//! `config show`: shows each setting, its value and where it comes from.

use crate::context::Context;
use crate::error::Result;
use crate::present::config::ConfigDocument;

/// Show settings and where each comes from
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost config show\n  milepost --profile build config show --json")]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    action: ConfigAction,
}

#[derive(Debug, clap::Subcommand)]
enum ConfigAction {
    /// Show settings and where each comes from
    #[command(
        after_help = "Examples:\n  milepost config show\n  milepost --profile build config show --json"
    )]
    Show,
}

pub(crate) fn execute(args: ConfigArgs, context: &Context<'_>) -> Result<ConfigDocument> {
    let ConfigAction::Show = args.action;
    let config = &context.config;
    Ok(ConfigDocument { file: config.file.display().to_string(), settings: config.settings.clone() })
}
