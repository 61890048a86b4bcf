//! `store`: creates the store, or shows its size, its version and what makes it slow.

use clap::Subcommand;

use crate::context::Context;
use crate::error::{CommandError, Result};
#[cfg(feature = "postgres")]
use crate::present::escape::clean;
#[cfg(feature = "postgres")]
use crate::present::store::Statements;
use crate::present::store::{StoreCreated, StoreDocument, StoreInfoDocument};

/// Create the store, or show its size and health
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost store info\n  milepost store init --store postgres://db/team\n  \
                        milepost store init --print --role app --store postgres://db/team"
)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    action: StoreAction,
}

#[derive(Debug, Subcommand)]
enum StoreAction {
    Init(InitArgs),
    Info(InfoArgs),
}

/// Create the store; does nothing if it exists
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost store init --store postgres://db/team\n  \
                        milepost store init --print --store postgres://db/team | psql team\n  \
                        milepost store init --print --role app --store postgres://db/team")]
struct InitArgs {
    /// Print the SQL statements instead of running them
    #[arg(long)]
    print: bool,
    /// Role that gets the rights to use the store, with --print
    #[arg(long, value_name = "NAME", requires = "print")]
    role: Option<String>,
}

/// Show the store's size, version and health
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost store info\n  milepost store info --json")]
struct InfoArgs {}

pub(crate) fn execute(args: StoreArgs, context: &Context<'_>) -> Result<StoreDocument> {
    match args.action {
        StoreAction::Init(args) if args.print => statements(context, args.role.as_deref()),
        StoreAction::Init(_) => create(context),
        StoreAction::Info(InfoArgs {}) => info(context),
    }
}

fn create(context: &Context<'_>) -> Result<StoreDocument> {
    let mp = context.open_or_create()?;
    let info = mp.store().info()?;
    Ok(StoreDocument::Created(StoreCreated { store: info.url().clone(), warning: info.warning().clone() }))
}

fn info(context: &Context<'_>) -> Result<StoreDocument> {
    let mp = context.open_existing()?;
    let info = mp.store().detailed_info()?;
    Ok(StoreDocument::Info(StoreInfoDocument::new(&info, &mp.waiting()?)))
}

#[cfg(feature = "postgres")]
fn statements(context: &Context<'_>, role: Option<&str>) -> Result<StoreDocument> {
    context.config.check()?;
    let url = context.url();
    if context.config.server.is_none() {
        return Err(not_on_server(&url.to_string()));
    }
    if role.is_some_and(|name| clean(name) != name) {
        return Err(CommandError::usage("the name of the role contains a control character")
            .with_hint("pass the name of an existing role to --role"));
    }
    let sql = milepost_postgres::create_statements(&url, role)
        .map_err(|e| CommandError::usage(e.to_string()).with_hint("correct the address of the store"))?;
    Ok(StoreDocument::Statements(Statements { sql }))
}

#[cfg(not(feature = "postgres"))]
fn statements(context: &Context<'_>, _: Option<&str>) -> Result<StoreDocument> {
    Err(not_on_server(&context.url().to_string()))
}

fn not_on_server(url: &str) -> CommandError {
    CommandError::usage(format!("{url} is not on a server, so there are no statements to print"))
        .with_hint("select a server with --store postgres://HOST/DATABASE")
}
