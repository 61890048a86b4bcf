//! Parses the arguments, runs the command and returns the exit code. Defines the global flags. Ids, sources
//! and statuses are parsed by the commands, not here.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::{Args, CommandFactory, FromArgMatches, Parser};
use milepost::model::Profile;

use crate::command::status::StatusArgs;
use crate::command::{Command, GROUPS};
use crate::completion::{self, Values};
use crate::config::Config;
use crate::context::Context;
use crate::error::Result;
use crate::parse_error::{unknown_command, usage_error};
use crate::present::Output;
use crate::present::reference::HelpDocument;

/// Checkpoints for long-running agent work: sealed, durable, resumable
#[derive(Debug, Parser)]
#[command(name = "milepost", version, disable_help_subcommand = true, max_term_width = 80)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Flags that every command takes, before or after its name.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Work as if started in DIR
    #[arg(short = 'C', value_name = "DIR", global = true, value_hint = clap::ValueHint::DirPath)]
    pub(crate) directory: Option<PathBuf>,
    /// Store: sqlite:, files:, postgres: [env: MILEPOST_STORE]
    #[arg(long, value_name = "URL", global = true, add = Values::Store)]
    pub(crate) store: Option<String>,
    /// Run to operate on [env: MILEPOST_RUN]
    #[arg(long, value_name = "ID", global = true, add = Values::Run)]
    pub(crate) run: Option<String>,
    /// Profile of new runs: run, build, session, pai, brief or thread
    #[arg(long, value_name = "NAME", global = true, add = Values::Words(Profile::NAMES))]
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
    /// When to use colours: auto, always or never
    #[arg(
        long,
        value_name = "WHEN",
        global = true,
        hide_possible_values = true,
        value_parser = ["auto", "always", "never"]
    )]
    pub(crate) color: Option<String>,
    /// Maximum time to wait for a busy store [default: 10]
    #[arg(long, value_name = "SECONDS", global = true, allow_hyphen_values = true)]
    pub(crate) wait: Option<String>,
    /// Assume yes for all prompts
    #[arg(long, global = true)]
    pub(crate) yes: bool,
    /// Do not show long output in a pager [env: MILEPOST_PAGER]
    #[arg(long, global = true)]
    pub(crate) no_pager: bool,
}

/// Parses the arguments of this process, runs the command and returns its exit code.
///
/// Data goes to stdout, messages go to stderr.
pub fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    crate::config::register_stores();
    if let Some(shell) = crate::config::completion_shell() {
        return complete(&shell, &arguments);
    }
    let json = arguments.iter().take_while(|a| *a != "--").any(|a| a == "--json");
    let cli = match parse_single_command(&arguments).map_or_else(|| parse(&arguments), Ok) {
        Ok(cli) => cli,
        Err(e) => return report_parse_error(&e, &arguments, json),
    };
    let output = Output::new(&cli.global, crate::config::columns());
    match dispatch(cli, &output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => ExitCode::from(output.fail(&error)),
    }
}

/// Prints the completion candidates for a command line; prints nothing if there are none.
fn complete(shell: &OsStr, arguments: &[OsString]) -> ExitCode {
    let candidates = completion::complete(shell, arguments).unwrap_or_default();
    // The shell may have closed the pipe.
    let _ = Output::for_color(anstream::ColorChoice::Never).write_candidates(&candidates);
    ExitCode::SUCCESS
}

/// Parses with all commands.
fn parse(arguments: &[OsString]) -> Result<Cli, clap::Error> {
    let matches = full_command().try_get_matches_from(arguments)?;
    Cli::from_arg_matches(&matches)
}

/// Parses with only the named command, because building all of them takes a large part of a short command's
/// time. Returns `None` if that fails, for example for help and mistakes; then the full parser is used.
fn parse_single_command(arguments: &[OsString]) -> Option<Cli> {
    let subcommand =
        arguments.iter().skip(1).find_map(|argument| Command::clap_command(argument.to_str()?))?;
    let bare = clap::Command::new("milepost").disable_help_subcommand(true);
    let mut parser = Global::augment_args(bare).subcommand(subcommand);
    let matches = parser.try_get_matches_from_mut(arguments).ok()?;
    // Skip the drop: the process ends soon.
    std::mem::forget(parser);
    Cli::from_arg_matches(&matches).ok()
}

fn dispatch(cli: Cli, output: &Output) -> Result<()> {
    let is_bare = cli.command.is_none();
    let command = cli.command.unwrap_or(Command::Status(Default::default()));
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
    let command = match command {
        Command::Status(_) if is_bare && context.is_outside_projects() => {
            Command::Status(StatusArgs { all: true, ..Default::default() })
        }
        command => command,
    };
    command.run(&context).map_err(|error| context.explain_outage(error))?;
    context.end()
}

/// Prints help or the version, or reports what is wrong with the arguments.
fn report_parse_error(e: &clap::Error, arguments: &[OsString], json: bool) -> ExitCode {
    let output = Output::for_color(color_choice(arguments));
    if !e.use_stderr() {
        // The reader may have closed the pipe.
        let _ = output.present(&HelpDocument::of_text(&e.render()));
        return ExitCode::SUCCESS;
    }
    let output = if json { Output::for_json() } else { output };
    ExitCode::from(output.fail(&usage_error(e, arguments)))
}

/// The value of `--color` in arguments that could not be parsed.
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
    let command = Cli::command().mut_subcommands(|command| command.arg_required_else_help(false));
    let page = help_template(&command);
    command.help_template(page)
}

/// The template of the program's own help page: its commands in groups.
fn help_template(command: &clap::Command) -> String {
    let (header, literal) = (command.get_styles().get_header(), command.get_styles().get_literal());
    let width = command.get_subcommands().map(|inner| inner.get_name().len()).max().unwrap_or_default();
    let mut page = "{about-with-newline}\n{usage-heading} {usage}\n\n".to_owned();
    for (heading, names) in GROUPS {
        let _ = writeln!(page, "{header}{heading}:{header:#}");
        for inner in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = inner.get_about().map(ToString::to_string).unwrap_or_default();
            let aliases = inner.get_visible_aliases().collect::<Vec<_>>().join(", ");
            let aliases = if aliases.is_empty() { String::new() } else { format!(" [aliases: {aliases}]") };
            let _ = writeln!(page, "  {literal}{:width$}{literal:#}  {about}{aliases}", inner.get_name());
        }
        page.push('\n');
    }
    let _ = write!(page, "{header}Global options:{header:#}\n{{options}}\n\n");
    page.push_str("`milepost help COMMAND` explains a command and shows examples.\n");
    page
}

/// The page that `--help` prints for a command such as `task set`, or for the program if `words` is empty.
pub(crate) fn help_page(words: &[String]) -> StyledStr {
    let words = words.iter().map(String::as_str);
    let arguments = ["milepost"].into_iter().chain(words).chain(["--help"]);
    full_command().try_get_matches_from(arguments).err().map(|page| page.render()).unwrap_or_default()
}

/// The clap command of a subcommand such as `task set`, or of the program if `words` is empty.
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
    fn every_command_is_in_a_group_and_the_page_fits_80_columns() {
        for inner in full_command().get_subcommands() {
            assert!(
                GROUPS.iter().any(|(_, names)| names.contains(&inner.get_name())),
                "{}",
                inner.get_name()
            );
        }
        let page = help_page(&[]).to_string();
        assert!(page.lines().all(|line| line.chars().count() <= 80), "{page}");
    }

    #[test]
    fn every_command_has_examples_and_every_argument_has_help() {
        fn check(command: &clap::Command) {
            if command.get_name() == "toy" {
                return;
            }
            let name = command.get_name();
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                after.starts_with("Examples:\n") && after.matches("milepost").count() >= 2,
                "{name}: {after}"
            );
            // An example that is wrapped at 80 columns cannot be pasted.
            for line in after.lines().filter(|line| line.starts_with("  ")) {
                assert!(line.chars().count() <= 80, "{name}: {line}");
            }
            for argument in command.get_arguments() {
                let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(
                    !help.is_empty() && !help.starts_with("The "),
                    "{name} {}: {help}",
                    argument.get_id()
                );
            }
            command.get_subcommands().for_each(check);
        }
        full_command().get_subcommands().for_each(check);
    }

    #[test]
    fn parsing_a_single_command_agrees_with_the_full_parser() {
        let parse = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for line in [
            "milepost save --summary x --run r",
            "milepost save x --run r",
            "milepost ls --limit 3",
            "milepost --json --run save list --limit 3",
            "milepost -C / task set save done",
            "milepost run --run r -- milepost save --summary x",
        ] {
            let whole = format!("{:?}", Cli::try_parse_from(parse(line)).unwrap());
            let quick = parse_single_command(&parse(line)).map(|cli| format!("{cli:?}"));
            assert!(quick.is_none_or(|quick| quick == whole), "{line}");
        }
        for line in ["milepost save --summary x", "milepost log --limit 3", "milepost ls"] {
            assert!(parse_single_command(&parse(line)).is_some(), "{line}");
        }
        for line in ["milepost", "milepost save --help", "milepost --version", "milepost save --bogus"] {
            assert!(parse_single_command(&parse(line)).is_none(), "{line}");
        }
    }
}
