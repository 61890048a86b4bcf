//! The commands, one file per command: its arguments, whose doc comments are the help text, and `execute`,
//! which takes the arguments and a context and returns a typed document. `present` renders the document;
//! commands themselves print nothing.

pub(crate) mod agents;
mod brief;
mod complete;
mod completions;
mod config;
mod context;
mod copy;
mod criterion;
mod decide;
mod delete;
mod diff;
mod doctor;
mod events;
mod export;
mod finish;
mod help;
mod hook;
mod import;
mod init;
mod list;
mod man;
mod mark;
#[cfg(feature = "mcp")]
mod mcp;
mod note;
mod prune;
mod purge;
mod record;
mod rerun;
mod restore;
mod resume;
mod run;
mod runs;
mod save;
mod schema;
mod search;
mod show;
mod start;
mod state;
pub(crate) mod status;
mod step;
mod store;
mod summary;
#[cfg(feature = "ui")]
mod summary_file;
mod sync;
mod task;
#[cfg(all(test, feature = "mcp"))]
#[path = "toy_tests.rs"]
mod toy;
pub(crate) mod trust;
#[cfg(feature = "ui")]
mod ui;
mod undo;
mod verify;
mod worktree_path;

use clap::Subcommand;
use milepost::ReasonCode;

use crate::cli::Global;
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::Output;

/// Defines the enum of commands, their groups in the help, a parser for a single command, and the dispatch. A
/// command runs `execute` of its module and presents the document, or calls the function named after `=>`.
macro_rules! commands {
    ($( $heading:literal {
        $( $(#[cfg($when:meta)])? $variant:ident($module:ident::$args:ident) $(as [$($alias:literal),*])? $(=> $run:path)?, )*
    } )*) => {
        /// Every command.
        #[derive(Debug, Subcommand)]
        #[allow(clippy::large_enum_variant, reason = "only one value exists, and it is moved twice")]
        pub(crate) enum Command {
            $( $( $(#[cfg($when)])? $(#[command(visible_aliases = [$($alias),*])])? $variant($module::$args), )* )*
        }

        /// The headings of the help page, with the commands below each.
        pub(crate) const GROUPS: &[(&str, &[&str])] = &[
            $( ($heading, &[ $( $(#[cfg($when)])? stringify!($module), )* ]), )*
        ];

        impl Command {
            /// The clap definition of one command, by its name or an alias.
            pub(crate) fn clap_command(name: &str) -> Option<clap::Command> {
                match name {
                    $( $( $(#[cfg($when)])? stringify!($module) $($(| $alias)*)? => {
                        let command = clap::Command::new(stringify!($module)) $(.visible_aliases([$($alias),*]))?;
                        Some(<$module::$args as clap::Args>::augment_args(command))
                    } )* )*
                    _ => None,
                }
            }

            /// Executes a command and presents its document.
            pub(crate) fn run(self, context: &Context<'_>) -> Result<()> {
                match self {
                    $( $( $(#[cfg($when)])?
                    Self::$variant(args) => commands!(@run args, context, $module $(, $run)?), )* )*
                }
            }
        }
    };
    (@run $args:ident, $context:ident, $module:ident) => {
        $context.output.present(&$module::execute($args, $context)?)
    };
    (@run $args:ident, $context:ident, $module:ident, $run:path) => { $run($args, $context) };
}

commands! {
    "Everyday" {
        Status(status::StatusArgs),
        Save(save::SaveArgs),
        List(list::ListArgs) as ["log", "ls"],
        Show(show::ShowArgs),
        Search(search::SearchArgs),
        Diff(diff::DiffArgs),
        Restore(restore::RestoreArgs),
        Undo(undo::UndoArgs),
        Resume(resume::ResumeArgs),
        Run(run::RunArgs) => run::run,
        Runs(runs::RunsArgs),
        Summary(summary::SummaryArgs),
        #[cfg(feature = "ui")]
        Ui(ui::UiArgs) => ran_without_config,
    }
    "Setup" {
        Init(init::InitArgs),
        Agents(agents::AgentsArgs) => agents::run,
        Trust(trust::TrustArgs),
        Config(config::ConfigArgs),
        Completions(completions::CompletionsArgs) => ran_without_config,
        Man(man::ManArgs) => ran_without_config,
        Help(help::HelpArgs) => ran_without_config,
    }
    "Reporting progress" {
        Start(start::StartArgs),
        Step(step::StepArgs),
        Task(task::TaskArgs) => task::run,
        Criterion(criterion::CriterionArgs),
        Record(record::RecordArgs),
        Note(note::NoteArgs),
        Decide(decide::DecideArgs),
        Context(context::ContextArgs),
        Complete(complete::CompleteArgs),
        Finish(finish::FinishArgs),
    }
    "Housekeeping" {
        Mark(mark::MarkArgs),
        Events(events::EventsArgs) => events::run,
        Verify(verify::VerifyArgs),
        Doctor(doctor::DoctorArgs),
        Prune(prune::PruneArgs),
        Purge(purge::PurgeArgs),
        Delete(delete::DeleteArgs),
        Store(store::StoreArgs),
        Sync(sync::SyncArgs),
    }
    "Moving data" {
        State(state::StateArgs),
        Brief(brief::BriefArgs),
        Import(import::ImportArgs),
        Export(export::ExportArgs),
        Copy(copy::CopyArgs),
        Schema(schema::SchemaArgs) => ran_without_config,
    }
    "Serving agents" {
        #[cfg(feature = "mcp")]
        Mcp(mcp::McpArgs) => ran_without_config,
        Hook(hook::HookArgs) => ran_without_config,
        #[cfg(all(test, feature = "mcp"))]
        Toy(toy::ToyArgs),
    }
}

impl Command {
    /// Runs a command that needs no configuration. Returns any other command without running it.
    pub(crate) fn run_without_config(self, global: &Global, output: &Output) -> Result<Option<Self>> {
        match self {
            Self::Schema(_) => output.present(&schema::execute())?,
            Self::Completions(args) => output.present(&completions::execute(&args)?)?,
            Self::Man(args) => output.present(&man::execute(&args)?)?,
            Self::Help(args) => output.present(&help::execute(&args)?)?,
            Self::Hook(args) => hook::run(&args, global, output)?,
            #[cfg(feature = "mcp")]
            Self::Mcp(args) => mcp::serve(&args, global, output)?,
            #[cfg(feature = "ui")]
            Self::Ui(args) => ui::serve(&args, global, output)?,
            other => return Ok(Some(other)),
        }
        Ok(None)
    }
}

/// Does nothing: `run_without_config` has already run the command.
fn ran_without_config<A>(_: A, _: &Context<'_>) -> Result<()> {
    Ok(())
}

/// Changes to the folder that `-C` names.
pub(crate) fn change_directory(global: &Global) -> Result<()> {
    let Some(folder) = &global.directory else { return Ok(()) };
    Ok(std::env::set_current_dir(folder).map_err(milepost::Error::file(folder, "read"))?)
}

/// Asks for confirmation before a removal. Returns an error unless the answer is yes.
fn confirm_removal(output: &Output, question: &str, removed: &str, unconfirmed: String) -> Result<()> {
    match output.confirm(question) {
        Some(true) => Ok(()),
        Some(false) => {
            let message = format!("not confirmed: nothing was {removed}");
            Err(CommandError::new(ReasonCode::ConfirmationNeeded, message))
        }
        None => Err(CommandError::new(ReasonCode::ConfirmationNeeded, unconfirmed)
            .with_hint("add --yes to confirm, or --dry-run to see what would be removed")),
    }
}

/// Refuses to write through a symbolic link inside the project, because the link may have come with a clone.
fn refuse_link(path: &std::path::Path, context: &Context<'_>) -> Result<()> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match milepost::internal::store::identity::link_below(&context.config.paths.root, &absolute) {
        Some(link) => Err(CommandError::usage(format!("{} is a symbolic link", link.display()))
            .with_hint("name the file or folder that it points to")),
        None => Ok(()),
    }
}
