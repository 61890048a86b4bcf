//! The commands, one file each: its arguments, whose comments are the help text, and one `run`.
//! In: arguments and a context. Out: calls to the engine, and documents or pages for the screen.

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
mod record;
mod rerun;
mod resume;
mod run;
mod runs;
mod save;
mod schema;
mod show;
mod start;
mod state;
pub(crate) mod status;
mod step;
mod summary;
mod task;
pub(crate) mod trust;
mod verify;

use clap::Subcommand;

use crate::cli::Global;
use crate::context::Context;
use crate::error::CommandError;
use crate::present::Output;

/// Makes the list of commands, and the way to one of them that leaves the others alone.
macro_rules! commands {
    ($( $(#[cfg($when:meta)])? $(#[command($($how:tt)*)])? $variant:ident = $name:literal ($args:ty), )*) => {
        /// Every command. Those that are hidden stand in `help --all`.
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $( $(#[cfg($when)])? $(#[command($($how)*)])? $variant($args), )*
        }

        impl Command {
            /// One command as clap has it, by its name.
            pub(crate) fn alone(name: &str) -> Option<clap::Command> {
                match name {
                    $( $(#[cfg($when)])? $name => Some(<$args as clap::Args>::augment_args(clap::Command::new($name))), )*
                    _ => None,
                }
            }
        }
    };
}

commands! {
    Init = "init" (init::InitArgs),
    Status = "status" (status::StatusArgs),
    Run = "run" (run::RunArgs),
    Save = "save" (Box<save::SaveArgs>),
    Resume = "resume" (resume::ResumeArgs),
    Show = "show" (show::ShowArgs),
    Diff = "diff" (diff::DiffArgs),
    Prune = "prune" (prune::PruneArgs),
    Doctor = "doctor" (doctor::DoctorArgs),
    Agents = "agents" (agents::AgentsArgs),
    Trust = "trust" (trust::TrustArgs),
    #[command(hide = true)]
    Start = "start" (start::StartArgs),
    #[command(hide = true)]
    Finish = "finish" (finish::FinishArgs),
    #[command(hide = true)]
    Step = "step" (step::StepArgs),
    #[command(hide = true)]
    Task = "task" (task::TaskArgs),
    #[command(hide = true)]
    Criterion = "criterion" (criterion::CriterionArgs),
    #[command(hide = true)]
    Record = "record" (record::RecordArgs),
    #[command(hide = true)]
    Note = "note" (note::NoteArgs),
    #[command(hide = true)]
    Decide = "decide" (decide::DecideArgs),
    #[command(hide = true)]
    Context = "context" (context::ContextArgs),
    #[command(hide = true)]
    Runs = "runs" (runs::RunsArgs),
    #[command(hide = true)]
    List = "list" (list::ListArgs),
    #[command(hide = true)]
    Summary = "summary" (summary::SummaryArgs),
    #[command(hide = true)]
    Mark = "mark" (mark::MarkArgs),
    #[command(hide = true)]
    Complete = "complete" (complete::CompleteArgs),
    #[command(hide = true)]
    Brief = "brief" (brief::BriefArgs),
    #[command(hide = true)]
    State = "state" (state::StateArgs),
    #[command(hide = true)]
    Delete = "delete" (delete::DeleteArgs),
    #[command(hide = true)]
    Verify = "verify" (verify::VerifyArgs),
    #[command(hide = true)]
    Events = "events" (events::EventsArgs),
    #[command(hide = true)]
    Hook = "hook" (hook::HookArgs),
    #[cfg(feature = "mcp")]
    #[command(hide = true)]
    Mcp = "mcp" (mcp::McpArgs),
    #[command(hide = true)]
    Import = "import" (import::ImportArgs),
    #[command(hide = true)]
    Export = "export" (export::ExportArgs),
    #[command(hide = true)]
    Copy = "copy" (copy::CopyArgs),
    #[command(hide = true)]
    Config = "config" (config::ConfigArgs),
    #[command(hide = true)]
    Schema = "schema" (schema::SchemaArgs),
    #[command(hide = true)]
    Completions = "completions" (completions::CompletionsArgs),
    #[command(hide = true)]
    Man = "man" (man::ManArgs),
    #[command(hide = true)]
    Help = "help" (help::HelpArgs),
}

impl Command {
    /// Runs a command that needs no configuration; gives back one that does.
    pub(crate) fn run_bare(self, global: &Global, output: &Output) -> Result<Option<Self>, CommandError> {
        match self {
            Self::Schema(_) => schema::run(output).map(|()| None),
            Self::Completions(args) => completions::run(&args, output).map(|()| None),
            Self::Man(args) => man::run(&args, output).map(|()| None),
            Self::Help(args) => help::run(&args, output).map(|()| None),
            Self::Hook(args) => hook::run(&args, global, output).map(|()| None),
            #[cfg(feature = "mcp")]
            Self::Mcp(args) => mcp::run(&args, global, output).map(|()| None),
            other => Ok(Some(other)),
        }
    }

    /// Runs a command.
    pub(crate) fn run(self, context: &Context<'_>) -> Result<(), CommandError> {
        match self {
            Self::Init(args) => init::run(&args, context),
            Self::Status(args) => status::run(&args, context),
            Self::Run(args) => run::run(args, context).map_err(CommandError::into_supervisor),
            Self::Save(args) => save::run(*args, context),
            Self::Resume(args) => resume::run(&args, context),
            Self::Show(args) => show::run(&args, context),
            Self::Diff(args) => diff::run(&args, context),
            Self::Prune(args) => prune::run(&args, context),
            Self::Doctor(args) => doctor::run(&args, context),
            Self::Agents(args) => agents::run(&args, context),
            Self::Start(args) => start::run(args, context),
            Self::Finish(args) => finish::run(args, context),
            Self::Step(args) => step::run(args, context),
            Self::Task(args) => task::run(args, context),
            Self::Criterion(args) => criterion::run(args, context),
            Self::Record(args) => record::run(args, context),
            Self::Note(args) => note::run(args, context),
            Self::Decide(args) => decide::run(args, context),
            Self::Context(args) => context::run(args, context),
            Self::Runs(args) => runs::run(&args, context),
            Self::List(args) => list::run(args, context),
            Self::Summary(args) => summary::run(&args, context),
            Self::Mark(args) => mark::run(args, context),
            Self::Complete(args) => complete::run(&args, context),
            Self::Brief(args) => brief::run(args, context),
            Self::State(args) => state::run(&args, context),
            Self::Delete(args) => delete::run(&args, context),
            Self::Verify(args) => verify::run(&args, context),
            Self::Events(args) => events::run(&args, context),
            Self::Import(args) => import::run(&args, context),
            Self::Export(args) => export::run(&args, context),
            Self::Copy(args) => copy::run(&args, context),
            Self::Trust(args) => trust::run(&args, context),
            Self::Config(args) => config::run(&args, context),
            // These have run before there was a context.
            Self::Schema(_) | Self::Completions(_) | Self::Man(_) | Self::Help(_) | Self::Hook(_) => Ok(()),
            #[cfg(feature = "mcp")]
            Self::Mcp(_) => Ok(()),
        }
    }
}

/// Works in the folder that -C names.
pub(crate) fn go_to(global: &Global) -> Result<(), CommandError> {
    let Some(folder) = &global.directory else { return Ok(()) };
    std::env::set_current_dir(folder)
        .map_err(|source| milepost::Error::File { path: folder.clone(), what: "read", source }.into())
}

/// Refuses to write to a symbolic link inside the project, which may have come with it.
fn refuse_link(path: &std::path::Path, context: &Context<'_>) -> Result<(), CommandError> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match milepost::internal::store::identity::link_below(&context.config.place.root, &absolute) {
        Some(link) => Err(CommandError::usage(format!("{} is a symbolic link", link.display()))
            .with_hint("name the file or folder that it leads to")),
        None => Ok(()),
    }
}

/// Reads a whole number that a flag gives.
fn number(text: &str, flag: &str, path: &str) -> Result<u64, milepost::Error> {
    text.parse().map_err(|_| milepost::Error::Value {
        name: flag.to_owned(),
        source: milepost::model::ValidationError {
            path: path.to_owned(),
            message: format!("\"{text}\" is not a whole number, 0 or more"),
        },
    })
}
