//! `config show`: each setting, its value, and where it comes from.

use serde::Serialize;

use crate::context::Context;
use crate::error::CommandError;
use crate::present::table::{cell, lines, table};

/// Show settings and where each comes from
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost config show\n  milepost --profile build config show --json")]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Show settings and where each comes from
    Show,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'a str,
    file: String,
    settings: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    key: &'a str,
    value: &'a str,
    origin: String,
}

pub(crate) fn run(args: &ConfigArgs, context: &Context<'_>) -> Result<(), CommandError> {
    let What::Show = args.what;
    let config = &context.config;
    let row = |s: &'_ crate::config::Setting| s.origin.to_string();
    if context.output.json {
        let settings =
            config.settings.iter().map(|s| Row { key: s.key, value: &s.value, origin: row(s) }).collect();
        let file = config.file.display().to_string();
        return context.output.document(&Document { schema: "milepost.config/1", file, settings });
    }
    let mut shown = table(context.output, &["KEY", "VALUE", "FROM"]);
    for setting in &config.settings {
        shown.add_row([cell(setting.key), cell(&setting.value), cell(row(setting))]);
    }
    context.output.text(&lines(&shown))
}
