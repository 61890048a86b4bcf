//! Parses the arguments, runs the command and returns the exit code. Holds the global flags.
//! Values that are a matter of the contract (ids, sources, statuses) are parsed by the commands, not here.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser};

use crate::command::Command;
use crate::config::Config;
use crate::context::Context;
use crate::error::Result;
use crate::parse_error::{unknown_command, usage_error};
use crate::present::Output;
use crate::present::reference::HelpDocument;

/// The lines below the short help.
const HELP_FOOTER: &str =
    "Run `milepost help --all` for every command, `milepost help COMMAND` for one with examples.";

/// Checkpoints for long-running agent work: sealed, durable, resumable
#[derive(Debug, Parser)]
#[command(name = "milepost", version, disable_help_subcommand = true, after_help = HELP_FOOTER)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Flags that every command takes, before or after its name.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Work as if started in DIR
    #[arg(short = 'C', value_name = "DIR", global = true)]
    pub(crate) directory: Option<PathBuf>,
    /// The store: sqlite:PATH or files:DIR [env: MILEPOST_STORE]
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) store: Option<String>,
    /// Run to operate on [env: MILEPOST_RUN]
    #[arg(long, value_name = "ID", global = true)]
    pub(crate) run: Option<String>,
    /// The profile: run, build, session, pai or brief
    #[arg(long, value_name = "P", global = true)]
    pub(crate) profile: Option<String>,
    /// Print one JSON document on stdout
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Suppress informational output
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more detail on stderr
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
    /// Colours
    #[arg(long, value_name = "WHEN", global = true, value_parser = ["auto", "always", "never"])]
    pub(crate) color: Option<String>,
    /// How long to wait for a busy store [default: 10]
    #[arg(long, value_name = "SECONDS", global = true, allow_hyphen_values = true)]
    pub(crate) wait: Option<String>,
    /// Assume yes for all prompts
    #[arg(long, global = true)]
    pub(crate) yes: bool,
}

/// Parses the arguments of this process, runs the command and returns its exit code.
///
/// Data goes to stdout, messages go to stderr.
pub fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let json = arguments.iter().take_while(|a| *a != "--").any(|a| a == "--json");
    let cli = match parse_single_command(&arguments).map_or_else(|| parse(&arguments), Ok) {
        Ok(cli) => cli,
        Err(e) => return report_parse_error(&e, &arguments, json),
    };
    let output = Output::new(&cli.global);
    match dispatch(cli, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(output.fail(&error)),
    }
}

/// Parses with all commands.
fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let matches = full_command().try_get_matches_from(arguments)?;
    Cli::from_arg_matches(&matches)
}

/// Parses with the one command that is named: making all of them takes a good part of a short command's time.
/// Whatever does not fit at once, help and mistakes among it, is for the whole parser.
fn parse_single_command(arguments: &[OsString]) -> Option<Cli> {
    let subcommand =
        arguments.iter().skip(1).find_map(|argument| Command::clap_command(argument.to_str()?))?;
    let bare = clap::Command::new("milepost").disable_help_subcommand(true);
    let mut parser = Global::augment_args(bare).subcommand(subcommand);
    let matches = parser.try_get_matches_from_mut(arguments).ok()?;
    // The process ends before its memory is needed again.
    std::mem::forget(parser);
    Cli::from_arg_matches(&matches).ok()
}

fn dispatch(cli: Cli, output: &Output) -> Result<()> {
    let command = cli.command.unwrap_or(Command::Status(crate::command::status::StatusArgs {}));
    let command = match command.run_without_config(&cli.global, output)? {
        Some(command) => command,
        None => return Ok(()),
    };
    crate::command::change_directory(&cli.global)?;
    let config = Config::load(&cli.global)?;
    for warning in &config.warnings {
        output.message(&format!("Warning: {warning}"));
    }
    let context = Context::new(config, output);
    command.run(&context)?;
    context.end()
}

/// Prints help or the version, or reports what is wrong with the arguments.
fn report_parse_error(e: &clap::Error, arguments: &[OsString], json: bool) -> ExitCode {
    let output = Output::for_color(color_choice(arguments));
    if !e.use_stderr() {
        // A reader that has gone away needs no help.
        let _ = output.present(&HelpDocument::of_text(&e.render()));
        return ExitCode::SUCCESS;
    }
    let output = if json { Output::for_json() } else { output };
    ExitCode::from(output.fail(&usage_error(e, arguments)))
}

/// What `--color` asks for, in arguments that could not be parsed.
fn color_choice(arguments: &[OsString]) -> anstream::ColorChoice {
    let words: Vec<_> =
        arguments.iter().map_while(|argument| argument.to_str().filter(|word| *word != "--")).collect();
    let asks_for = |when: &str| {
        words.contains(&format!("--color={when}").as_str())
            || words.windows(2).any(|pair| pair == ["--color", when])
    };
    match () {
        () if asks_for("always") => anstream::ColorChoice::Always,
        () if asks_for("never") => anstream::ColorChoice::Never,
        () => anstream::ColorChoice::Auto,
    }
}

/// The clap command with every subcommand.
pub(crate) fn full_command() -> clap::Command {
    // A missing subcommand is an error like any other, not a page of help.
    Cli::command()
        .mut_subcommands(|command| command.hide(false).arg_required_else_help(false))
        .after_help(None::<&str>)
}

/// The clap command of a subcommand such as `task set`; of the program for no words.
pub(crate) fn find_command(words: &[String]) -> Result<clap::Command> {
    let mut command = full_command();
    command.build();
    for (n, name) in words.iter().enumerate() {
        let Some(found) = command.find_subcommand(name) else {
            return Err(unknown_command(
                &words[..=n],
                command.get_subcommands().map(clap::Command::get_name),
            ));
        };
        command = found.clone();
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_parses_alone() {
        for command in full_command().get_subcommands() {
            let single = Command::clap_command(command.get_name()).unwrap();
            let ids = |command: &clap::Command| -> Vec<_> {
                command.get_arguments().map(|argument| argument.get_id().to_string()).collect()
            };
            assert_eq!(ids(&single), ids(command), "{}", command.get_name());
        }
    }

    #[test]
    fn parsing_a_single_command_agrees_with_the_full_parser() {
        let parse = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for line in [
            "milepost save --summary x --run r",
            "milepost --json --run save list --limit 3",
            "milepost -C / task set save done",
            "milepost run --run r -- milepost save --summary x",
        ] {
            let whole = format!("{:?}", Cli::try_parse_from(parse(line)).unwrap());
            let quick = parse_single_command(&parse(line)).map(|cli| format!("{cli:?}"));
            assert!(quick.is_none_or(|quick| quick == whole), "{line}");
        }
        assert!(parse_single_command(&parse("milepost save --summary x")).is_some());
        for line in ["milepost", "milepost save --help", "milepost --version", "milepost save --bogus"] {
            assert!(parse_single_command(&parse(line)).is_none(), "{line}");
        }
    }
}
