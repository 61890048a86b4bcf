//! Converts errors of the argument parser to the form of all other errors. Takes a clap error and the
//! arguments, and returns a `CommandError` with a hint. Must read only clap's kinds and contexts, never its
//! text.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::ParseIntError;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli::{find_command, full_command};
use crate::error::CommandError;

/// The error for arguments that cannot be parsed.
pub(crate) fn usage_error(error: &clap::Error, arguments: &[OsString]) -> CommandError {
    let parsed = ParseError { error, command: command_words(arguments) };
    let (message, hint) = parsed.describe();
    CommandError::usage(message).with_hint(hint)
}

/// Names that other tools use for some commands.
const OTHER_NAMES: [(&str, &str); 15] = [
    ("checkpoint", "save"),
    ("commit", "save"),
    ("snapshot", "save"),
    ("history", "log"),
    ("restore", "resume"),
    ("continue", "resume"),
    ("recover", "resume"),
    ("remove", "delete"),
    ("rm", "delete"),
    ("tag", "mark"),
    ("pin", "mark"),
    ("gc", "prune"),
    ("fsck", "verify"),
    ("setup", "init"),
    ("install", "agents install"),
];

/// The command that other tools call by this name.
fn known_elsewhere(name: &str) -> Option<String> {
    let is_typed = |(other, _): &&(&str, &str)| *other == name || is_near(name, other);
    OTHER_NAMES.iter().find(is_typed).map(|(_, command)| (*command).to_owned())
}

/// The error for a command that does not exist, such as `task sett`. `known` yields the valid names.
pub(crate) fn unknown_command<'k>(words: &[String], known: impl Iterator<Item = &'k str>) -> CommandError {
    let typed = words.last().map_or("", String::as_str);
    let mut near: Vec<_> = known.filter(|name| is_near(typed, name)).map(str::to_owned).collect();
    if near.is_empty() && words.len() == 1 {
        near.extend(known_elsewhere(typed));
    }
    let parent = &words[..words.len().saturating_sub(1)];
    let hint = suggestion(&near, &help(parent, "lists the commands"));
    CommandError::usage(format!("unknown command `{}`", words.join(" "))).with_hint(hint)
}

/// Whether the typed word may be a misspelling or the beginning of the name.
fn is_near(typed: &str, name: &str) -> bool {
    let (word, name) = (typed.trim_start_matches('-'), name.trim_start_matches('-'));
    let allowed = word.chars().count().div_ceil(3);
    !word.is_empty() && (name.starts_with(word) || strsim::damerau_levenshtein(word, name) <= allowed)
}

/// A hint that names the help page of a command.
fn help(command: &[String], purpose: &str) -> String {
    let words: Vec<_> = ["milepost", "help"].into_iter().chain(command.iter().map(String::as_str)).collect();
    format!("`{}` {purpose}", words.join(" "))
}

/// Suggests the nearest name, if there is one, followed by another hint.
fn suggestion(near: &[String], otherwise: &str) -> String {
    match near {
        [] => otherwise.to_owned(),
        // clap sorts them by distance, with the nearest last.
        [.., nearest] => format!("did you mean `{nearest}`? {otherwise}"),
    }
}

/// The command and its subcommands among some arguments, such as `["task", "set"]`.
fn command_words(arguments: &[OsString]) -> Vec<String> {
    let mut words = Vec::new();
    let Ok(matches) = full_command().ignore_errors(true).try_get_matches_from(arguments) else {
        return words;
    };
    let mut matches = &matches;
    while let Some((name, inner)) = matches.subcommand() {
        words.push(name.to_owned());
        matches = inner;
    }
    words
}

struct ParseError<'e> {
    error: &'e clap::Error,
    command: Vec<String>,
}

impl ParseError<'_> {
    /// The message and the hint.
    fn describe(&self) -> (String, String) {
        match self.error.kind() {
            ErrorKind::InvalidSubcommand => self.unknown_command(),
            ErrorKind::UnknownArgument => self.unknown_argument(),
            ErrorKind::MissingRequiredArgument => self.missing_arguments(),
            ErrorKind::MissingSubcommand => self.missing_subcommand(),
            ErrorKind::InvalidValue | ErrorKind::ValueValidation => self.invalid_value(),
            ErrorKind::ArgumentConflict => self.conflict(),
            ErrorKind::TooManyValues => {
                let (value, argument) =
                    (self.text(ContextKind::InvalidValue), self.text(ContextKind::InvalidArg));
                (format!("`{argument}` takes no more values, but got `{value}`"), self.usage())
            }
            ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
                (format!("`{}` needs more values", self.text(ContextKind::InvalidArg)), self.usage())
            }
            ErrorKind::NoEquals => {
                let argument = self.text(ContextKind::InvalidArg);
                (format!("`{argument}` needs its value after an equals sign"), self.usage())
            }
            ErrorKind::InvalidUtf8 => ("an argument is not valid UTF-8".to_owned(), self.help("explains it")),
            other => (other.to_string(), self.help("explains it")),
        }
    }

    fn unknown_command(&self) -> (String, String) {
        let typed = self.text(ContextKind::InvalidSubcommand);
        let mut near = self.near(&typed, ContextKind::SuggestedSubcommand);
        if near.is_empty() && self.command.is_empty() {
            near.extend(known_elsewhere(&typed));
        }
        let words = [&self.command[..], &[typed]].concat().join(" ");
        (format!("unknown command `{words}`"), suggestion(&near, &self.help("lists the commands")))
    }

    fn unknown_argument(&self) -> (String, String) {
        let argument = self.text(ContextKind::InvalidArg);
        if !argument.starts_with('-') {
            let message = format!("unexpected argument `{argument}`");
            return match self.takes_text() {
                true => (message, format!("put text with spaces in quotes; {}", self.usage())),
                false => (message, self.usage()),
            };
        }
        let message = format!("unknown flag `{argument}`");
        let near = self.near(&argument, ContextKind::SuggestedArg);
        match (&near[..], &self.texts(ContextKind::SuggestedSubcommand)[..]) {
            ([flag], [command]) => (message, format!("`milepost {command}` has `{flag}`")),
            _ => (message, suggestion(&near, &self.help("lists the flags"))),
        }
    }

    fn missing_arguments(&self) -> (String, String) {
        let missing = self.texts(ContextKind::InvalidArg);
        let noun = if missing.len() == 1 { "argument" } else { "arguments" };
        (format!("missing {noun} {}", quoted(&missing)), self.usage())
    }

    fn missing_subcommand(&self) -> (String, String) {
        let commands = self.texts(ContextKind::ValidSubcommand);
        let message =
            format!("`milepost {}` needs a command: {}", self.command.join(" "), commands.join(", "));
        (message, self.usage())
    }

    fn invalid_value(&self) -> (String, String) {
        let (value, argument) = (self.text(ContextKind::InvalidValue), self.text(ContextKind::InvalidArg));
        let allowed = self.texts(ContextKind::ValidValue);
        let message = if value.is_empty() {
            format!("`{argument}` needs a value")
        } else {
            match self.error.source() {
                Some(why) if why.is::<ParseIntError>() => {
                    format!("invalid value `{value}` for `{argument}`: not a whole number of 0 or more")
                }
                Some(why) => format!("invalid value `{value}` for `{argument}`: {why}"),
                None => format!("invalid value `{value}` for `{argument}`"),
            }
        };
        if allowed.is_empty() {
            return (message, self.help("explains it"));
        }
        let values = format!("allowed values: {}", allowed.join(", "));
        (message, suggestion(&self.near(&value, ContextKind::SuggestedValue), &values))
    }

    fn conflict(&self) -> (String, String) {
        let invalid =
            [self.texts(ContextKind::InvalidArg), self.texts(ContextKind::InvalidSubcommand)].concat();
        let others = self.texts(ContextKind::PriorArg);
        let explained = self.help("explains them");
        match (&invalid[..], &others[..]) {
            ([argument], [other]) if argument == other => {
                (format!("`{argument}` is given more than once"), "use it only once".to_owned())
            }
            ([argument], []) => (format!("`{argument}` cannot be used with the other arguments"), explained),
            (_, others) => {
                let message = format!("{} cannot be used together with {}", quoted(&invalid), quoted(others));
                (message, format!("use one of them; {explained}"))
            }
        }
    }

    /// The hint with the command's usage line.
    fn usage(&self) -> String {
        match self.error.get(ContextKind::Usage) {
            Some(ContextValue::StyledStr(usage)) => {
                let usage = usage.to_string();
                let line = usage.trim_start().strip_prefix("Usage:").unwrap_or(&usage);
                format!("usage: {}", line.split_whitespace().collect::<Vec<_>>().join(" "))
            }
            _ => self.help("explains it"),
        }
    }

    /// Whether the command takes free text.
    fn takes_text(&self) -> bool {
        let is_text = |argument: &clap::Arg| {
            argument
                .get_value_names()
                .is_some_and(|names| names.iter().any(|name| name == "MESSAGE" || name == "TEXT"))
        };
        find_command(&self.command).is_ok_and(|command| command.get_positionals().any(is_text))
    }

    fn help(&self, purpose: &str) -> String {
        help(&self.command, purpose)
    }

    /// The suggestions of clap that are close enough.
    fn near(&self, typed: &str, kind: ContextKind) -> Vec<String> {
        let mut near = self.texts(kind);
        near.retain(|name| is_near(typed, name));
        near
    }

    fn text(&self, kind: ContextKind) -> String {
        self.texts(kind).into_iter().next().unwrap_or_default()
    }

    fn texts(&self, kind: ContextKind) -> Vec<String> {
        match self.error.get(kind) {
            Some(ContextValue::String(text)) => vec![text.clone()],
            Some(ContextValue::Strings(texts)) => texts.clone(),
            _ => Vec::new(),
        }
    }
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
