//! `brief fit`: prints as much of a brief as fits a token budget.

use milepost::Error;
use milepost::brief::{FitOptions, Overflow, Tokenizer};
use milepost::internal::brief::{HeuristicTokenizer, TokenCounter};
use milepost::model::ValidationError;

use super::source::Source;
use crate::completion::Values;
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::input::Argument;
use crate::present::brief::FitDocument;

/// Print as much of a brief as fits a token budget
///
/// Keeps problem, intent, decisions, current state, next actions and rules verbatim, and drops the least
/// important of the rest first. Ends with a list of what was omitted and the command that shows it.
#[derive(Debug, clap::Args)]
pub(super) struct FitArgs {
    /// Checkpoint or file; a file takes precedence
    #[arg(value_name = "FILE|REF", add = Values::ReferenceOrFile)]
    source: String,
    /// Maximum number of tokens
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    budget: Argument<u64>,
    /// If the sections that must be kept do not fit: error (exit 1), shrink or exceed [default: error]
    #[arg(long, value_name = "HOW", add = Values::Words(Overflow::NAMES))]
    overflow: Option<String>,
    /// Factor for the token count, for models whose tokenizer is not public [default: 1]
    #[arg(long, value_name = "X", allow_hyphen_values = true)]
    token_scale: Option<String>,
    /// Token counter: heuristic, or o200k or cl100k in builds with exact counters [default: heuristic]
    #[arg(long, value_name = "NAME", add = Values::Words(&["heuristic", "o200k", "cl100k"]))]
    counter: Option<String>,
}

pub(super) fn execute(args: &FitArgs, context: &Context<'_>) -> Result<FitDocument> {
    let budget = args.budget.clone().number("--budget", "/budget")?;
    let overflow = match args.overflow.as_deref() {
        Some(word) => word.parse().map_err(|source| value("--overflow", source))?,
        None => Overflow::default(),
    };
    let tokenizer = tokenizer(args.counter.as_deref())?;
    let counter = scaled(TokenCounter::new(&*tokenizer), args.token_scale.as_deref())?;
    let source = Source::read(&args.source, context)?;
    let how = FitOptions::default()
        .budget(budget)
        .overflow(overflow)
        .counter(counter)
        .full_command(source.command.clone());
    let fitted = source.brief.fit(&how).map_err(Error::from)?;
    Ok(FitDocument { fitted, fallback: source.fallback() })
}

fn value(name: &str, source: ValidationError) -> Error {
    Error::Value { name: name.to_owned(), source }
}

fn scaled<'a>(counter: TokenCounter<'a>, scale: Option<&str>) -> Result<TokenCounter<'a>, Error> {
    let Some(text) = scale else { return Ok(counter) };
    let scale = text.parse().ok().and_then(|scale: f64| counter.scaled(scale));
    scale.ok_or_else(|| {
        let message = format!("\"{text}\" is not a number above 0 and at most 1000");
        value("--token-scale", ValidationError { path: "/token_scale".into(), message })
    })
}

#[cfg(feature = "exact-tokens")]
fn exact(name: &str) -> Option<Box<dyn Tokenizer>> {
    milepost::brief::ExactTokenizer::from_name(name)
        .map(|tokenizer| Box::new(tokenizer) as Box<dyn Tokenizer>)
}

#[cfg(not(feature = "exact-tokens"))]
fn exact(_: &str) -> Option<Box<dyn Tokenizer>> {
    None
}

fn tokenizer(name: Option<&str>) -> Result<Box<dyn Tokenizer>> {
    let known = match name {
        None | Some("heuristic" | "heuristic-1") => Some(Box::new(HeuristicTokenizer) as Box<dyn Tokenizer>),
        Some(name) => exact(name),
    };
    known.ok_or_else(|| {
        let message = format!("no counter \"{}\" in this build", name.unwrap_or_default());
        CommandError::usage(message).with_hint(
            "heuristic is always available; exact counters need a build with --features exact-tokens",
        )
    })
}
