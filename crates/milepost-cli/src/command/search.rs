//! `search`: finds what runs recorded, in this project or in all of them.

use jiff::Timestamp;
use milepost::{Milepost, SearchKind, SearchQuery, SearchResults};

use crate::agents::agent_names;
use crate::completion::Values;
use crate::config::duration;
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::input::Argument;
use crate::present::search::SearchDocument;

/// Search prompts, decisions, failures, briefs and file names
///
/// Finds texts with all words of the query first, then those with some of them. \"a phrase\" in quotation marks must
/// occur as it is, prefix* finds words that start with it, and -word leaves out what contains it. Quote the query for
/// your shell. The first search builds an index, later ones only add what is new.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "Examples:\n  milepost search rate limit\n  \
                        milepost search '\"connection pool\" -redis' --kind decision\n  \
                        milepost search 'migrat*' --since 2w --all\n  \
                        milepost search E0382 --kind failure --json")]
pub(crate) struct SearchArgs {
    /// What to search for
    #[arg(value_name = "QUERY", required = true, num_args = 1..)]
    pub(super) query: Vec<String>,
    /// Only this kind of text: prompt, decision, failure, file, brief or summary (repeatable)
    #[arg(long, value_name = "KIND", add = Values::Words(SearchKind::NAMES))]
    pub(super) kind: Vec<Argument<SearchKind>>,
    /// Only what was recorded within this time: 30s, 5m, 12h, 14d or 2w
    #[arg(long, value_name = "DURATION")]
    pub(super) since: Option<String>,
    #[arg(long, value_name = "NAME", help = format!("Only runs of this agent: {}", agent_names()), add = Values::Agent)]
    pub(super) agent: Option<String>,
    /// Search all your projects on this machine
    #[arg(long, conflicts_with = "project")]
    pub(super) all: bool,
    /// Project to search (all = every project), in a store on a server
    #[arg(long, value_name = "ID")]
    pub(super) project: Option<String>,
    /// Maximum number to show (0 = no limit)
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(super) limit: usize,
}

pub(crate) fn execute(args: SearchArgs, context: &Context<'_>) -> Result<SearchDocument> {
    let mut kinds = Vec::new();
    for kind in args.kind {
        kinds.push(kind.choice("--kind", "/kind")?);
    }
    let since = args.since.as_deref().map(duration).transpose();
    let since = since.map_err(|why| {
        CommandError::usage(format!("--since: {why}")).with_hint("use a number and a unit: s, m, h, d or w")
    })?;
    let is_filtered =
        !kinds.is_empty() || since.is_some() || args.agent.is_some() || context.config.run.is_some();
    let now = milepost::Clock::now(&milepost::internal::clock::SystemClock);
    let text = args.query.join(" ");
    let query = SearchQuery::new(&*text)
        .kinds(kinds)
        .since(since.map(|age| now.checked_sub(age).unwrap_or(Timestamp::MIN)))
        .agent(args.agent)
        .limit(args.limit);
    if !query.has_words() {
        let message = "the query contains no letter or digit to search for";
        return Err(CommandError::usage(message)
            .with_hint("other characters are ignored; type a word or a part of one"));
    }
    if args.all {
        return Ok(search_all(text, &query, args.limit, now, context)?.filtered(is_filtered));
    }
    context.select_project(args.project.as_deref())?;
    let mp = context.open_existing()?;
    let query = query.run(context.visible_named_run(&mp)?);
    let results = search_store(&query, &mp, context)?;
    Ok(SearchDocument::of_project(text, results, now).filtered(is_filtered))
}

/// Searches one store, and shows the progress of a long update of the index.
fn search_store(query: &SearchQuery, mp: &Milepost, context: &Context<'_>) -> Result<SearchResults> {
    // Reports how many runs are hidden from an agent.
    context.hidden_runs(mp)?;
    let mut progress = context.output.progress();
    Ok(mp.search_with_progress(query, &mut |done, total| progress.of("checkpoints indexed", done, total))?)
}

/// Searches all projects of this user.
fn search_all(
    text: String,
    query: &SearchQuery,
    limit: usize,
    now: Timestamp,
    context: &Context<'_>,
) -> Result<SearchDocument> {
    if let Some(run) = &context.config.run {
        let message = format!("--all searches every run, and --run names {run}");
        return Err(CommandError::usage(message).with_hint("leave out --all, or unset MILEPOST_RUN"));
    }
    let (found, failed) = context.read_projects(|_, _, mp| Ok(mp.search(query)?));
    Ok(SearchDocument::of_all(text, found, failed, limit, context.config.home.clone(), now))
}
