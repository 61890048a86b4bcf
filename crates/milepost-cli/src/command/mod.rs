//! The commands, one file each: its arguments, whose comments are the help text, and one `execute`.
//! In: arguments and a context. Out: a typed document, which `present` renders. Prints nothing.

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
pub(crate) mod task;
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
            pub(crate) fn clap_command(name: &str) -> Option<clap::Command> {
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
    pub(crate) fn run_without_config(
        self,
        global: &Global,
        output: &Output,
    ) -> Result<Option<Self>, CommandError> {
        match self {
            Self::Schema(_) => output.present(&schema::execute())?,
            Self::Completions(args) => output.present(&completions::execute(&args))?,
            Self::Man(args) => output.present(&man::execute(&args)?)?,
            Self::Help(args) => output.present(&help::execute(&args)?)?,
            Self::Hook(args) => hook::run(&args, global, output)?,
            #[cfg(feature = "mcp")]
            Self::Mcp(args) => mcp::serve(&args, global, output)?,
            other => return Ok(Some(other)),
        }
        Ok(None)
    }

    /// Executes a command and presents its document.
    pub(crate) fn run(self, context: &Context<'_>) -> Result<(), CommandError> {
        let output = context.output;
        match self {
            Self::Init(args) => output.present(&init::execute(&args, context)?),
            Self::Status(args) => output.present(&status::execute(&args, context)?),
            Self::Run(args) => run::run(args, context).map_err(CommandError::into_supervisor),
            Self::Save(args) => output.present(&save::execute(*args, context)?),
            Self::Resume(args) => output.present(&resume::execute(&args, context)?),
            Self::Show(args) => output.present(&show::execute(&args, context)?),
            Self::Diff(args) => output.present(&diff::execute(&args, context)?),
            Self::Prune(args) => output.present(&prune::execute(&args, context)?),
            Self::Doctor(args) => output.present(&doctor::execute(&args, context)?),
            Self::Agents(args) => output.present(&agents::execute(&args, context)?),
            Self::Start(args) => output.present(&start::execute(args, context)?),
            Self::Finish(args) => output.present(&finish::execute(args, context)?),
            Self::Step(args) => output.present(&step::execute(args, context)?),
            Self::Task(args) => output.present(&task::execute(args, context)?),
            Self::Criterion(args) => output.present(&criterion::execute(args, context)?),
            Self::Record(args) => output.present(&record::execute(args, context)?),
            Self::Note(args) => output.present(&note::execute(args, context)?),
            Self::Decide(args) => output.present(&decide::execute(args, context)?),
            Self::Context(args) => output.present(&context::execute(args, context)?),
            Self::Runs(args) => output.present(&runs::execute(args, context)?),
            Self::List(args) => output.present(&list::execute(args, context)?),
            Self::Summary(args) => output.present(&summary::execute(&args, context)?),
            Self::Mark(args) => output.present(&mark::execute(args, context)?),
            Self::Complete(args) => output.present(&complete::execute(&args, context)?),
            Self::Brief(args) => output.present(&brief::execute(args, context)?),
            Self::State(args) => output.present(&state::execute(args, context)?),
            Self::Delete(args) => output.present(&delete::execute(&args, context)?),
            Self::Verify(args) => output.present(&verify::execute(&args, context)?),
            Self::Events(args) if args.follow => events::follow(&args, context),
            Self::Events(args) => output.present(&events::execute(&args, context)?),
            Self::Import(args) => output.present(&import::execute(&args, context)?),
            Self::Export(args) => output.present(&export::execute(&args, context)?),
            Self::Copy(args) => output.present(&copy::execute(&args, context)?),
            Self::Trust(args) => output.present(&trust::execute(&args, context)?),
            Self::Config(args) => output.present(&config::execute(&args, context)?),
            // These ran before the configuration was read.
            Self::Schema(_) | Self::Completions(_) | Self::Man(_) | Self::Help(_) | Self::Hook(_) => Ok(()),
            #[cfg(feature = "mcp")]
            Self::Mcp(_) => Ok(()),
        }
    }
}

/// Changes to the folder that -C names.
pub(crate) fn change_directory(global: &Global) -> Result<(), CommandError> {
    let Some(folder) = &global.directory else { return Ok(()) };
    std::env::set_current_dir(folder)
        .map_err(|source| milepost::Error::File { path: folder.clone(), what: "read", source }.into())
}

/// Refuses to write to a symbolic link inside the project, which may have come with it.
fn refuse_link(path: &std::path::Path, context: &Context<'_>) -> Result<(), CommandError> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match milepost::internal::store::identity::link_below(&context.config.paths.root, &absolute) {
        Some(link) => Err(CommandError::usage(format!("{} is a symbolic link", link.display()))
            .with_hint("name the file or folder that it leads to")),
        None => Ok(()),
    }
}
