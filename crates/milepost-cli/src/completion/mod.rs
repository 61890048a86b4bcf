//! Shell completion of commands, flags, and values such as runs, checkpoints and tags. Takes the words of a
//! command line and returns candidates in the format of the shell. Must not print messages or write anything,
//! and reads only a store that the user trusts.

mod bash;
mod candidates;

use std::ffi::{OsStr, OsString};

use clap::FromArgMatches as _;
use clap::builder::ArgExt;
use clap_complete::engine::ArgValueCompleter;
use clap_complete::env::{Elvish, Fish, Powershell, Shells, Zsh};

use crate::agents::AGENTS;
use crate::cli::{Global, full_command};
use crate::config::COMPLETION_VARIABLE;

/// The supported shells.
const SHELLS: Shells<'static> = Shells(&[&bash::Bash, &Elvish, &Fish, &Powershell, &Zsh]);

/// The kind of values that an argument takes. Attached to the definition of the argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    /// Fixed words.
    Words(&'static [&'static str]),
    /// Names of agents.
    Agent,
    /// Names of agents, `all` and `none`.
    AgentOrAll,
    /// `auto`, and formats.
    ImportFormat,
    /// Names of commands.
    Command,
    /// Addresses of stores.
    Store,
    /// Ids of runs.
    Run,
    /// References to checkpoints.
    Reference,
    /// References to checkpoints, and ids of runs.
    RunOrReference,
    /// References to checkpoints, and files.
    ReferenceOrFile,
    /// Tags of checkpoints.
    Tag,
}

impl ArgExt for Values {}

impl Values {
    /// The values, if they are fixed and do not depend on the store.
    fn fixed(self) -> Option<Vec<&'static str>> {
        let agents = || AGENTS.iter().map(|agent| agent.name);
        Some(match self {
            Self::Words(words) => words.to_vec(),
            Self::Agent => agents().collect(),
            Self::AgentOrAll => agents().chain(["all", "none"]).collect(),
            Self::ImportFormat => [&["auto"], milepost::interop::Format::NAMES].concat(),
            _ => return None,
        })
    }
}

/// The names of the supported shells.
pub(crate) fn shell_names() -> impl Iterator<Item = &'static str> {
    SHELLS.names()
}

/// The script that makes a shell call milepost for candidates.
pub(crate) fn registration(shell: &str) -> Option<String> {
    let mut script = Vec::new();
    SHELLS
        .completer(shell)?
        .write_registration(COMPLETION_VARIABLE, "milepost", "milepost", "milepost", &mut script)
        .ok()?;
    let mut script = String::from_utf8(script).ok()?;
    if shell == "zsh" {
        // zsh loads the file at the first completion and expects it to complete immediately.
        script.push_str("\n[[ $funcstack[1] == _milepost ]] && _clap_dynamic_completer_milepost \"$@\"\n");
    }
    Some(script)
}

/// The candidates for a command line that a script passes after `--`, in the format of the shell.
pub(crate) fn complete(shell: &OsStr, arguments: &[OsString]) -> Option<Vec<u8>> {
    let words: Vec<_> = arguments.iter().skip_while(|argument| *argument != "--").skip(1).cloned().collect();
    if words.is_empty() {
        return None;
    }
    let global = global_flags(&words);
    crate::command::change_directory(&global).ok()?;
    let mut command = with_completers(full_command(), &global);
    let mut candidates = Vec::new();
    let current = std::env::current_dir().ok();
    let completer = SHELLS.completer(shell.to_str()?)?;
    completer.write_complete(&mut command, words, current.as_deref(), &mut candidates).ok()?;
    Some(candidates)
}

/// The global flags of an unfinished command line.
fn global_flags(words: &[OsString]) -> Global {
    let matches = full_command().ignore_errors(true).try_get_matches_from(words);
    matches.ok().and_then(|matches| Global::from_arg_matches(&matches).ok()).unwrap_or_default()
}

/// Replaces the `Values` attached to arguments with functions that find candidates.
fn with_completers(command: clap::Command, global: &Global) -> clap::Command {
    let command = command.mut_args(|argument| match argument.get::<Values>().copied() {
        Some(values) => {
            let global = global.clone();
            argument.add(ArgValueCompleter::new(move |current: &OsStr| {
                candidates::find(values, &global, current)
            }))
        }
        None => argument,
    });
    command.mut_subcommands(|inner| with_completers(inner, global))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_help(command: &clap::Command) {
        for argument in command.get_arguments() {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            for word in argument.get::<Values>().and_then(|values| values.fixed()).unwrap_or_default() {
                assert!(
                    help.contains(word),
                    "{} {}: {word} is not in \"{help}\"",
                    command.get_name(),
                    argument.get_id()
                );
            }
        }
        command.get_subcommands().for_each(check_help);
    }

    #[test]
    fn help_lists_every_fixed_value() {
        check_help(&full_command());
    }

    #[test]
    fn global_flags_are_found_in_unfinished_command_lines() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(global_flags(&words("milepost show --run r lat")).run.as_deref(), Some("r"));
        assert_eq!(
            global_flags(&words("milepost --store files:x task set ")).store.as_deref(),
            Some("files:x")
        );
        assert_eq!(global_flags(&words("milepost mark -C /tmp --bogus ")).directory, Some("/tmp".into()));
        assert_eq!(global_flags(&words("milepost --help ")).run, None);
    }
}
