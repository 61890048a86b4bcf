//! Finds candidates in an index, ranks them and chooses their excerpts. Takes a query, returns hits that the caller
//! compares with the store. The time does not depend on how frequent a word is: of a frequent one, only the newest
//! documents are ranked.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use rusqlite::{OptionalExtension as _, ToSql};

use super::spans::Spans;
use super::write::number;
use super::{IndexError, SearchIndex};
use crate::model::RunId;
use crate::search::document::Origin;
use crate::search::excerpt::{Excerpt, excerpt};
use crate::search::query::ParsedQuery;
use crate::search::rank::{Ranked, Ranking};
use crate::search::tokens::tokenize;
use crate::search::{SearchKind, SearchQuery};

/// Maximum number of documents with all terms that are ranked: the newest ones.
const NEWEST: usize = 600;
/// Maximum number of documents with some of the terms that are ranked: the best ones by FTS5's own rank.
const BEST: usize = 200;
/// Maximum number of documents that are counted to estimate how rare a term is. A term in more documents is frequent.
const COUNTED: u64 = 4_000;
/// The share of common words above which two texts of a run count as the same.
const SAME: f64 = 0.85;
/// Number of words of a text that are compared.
const COMPARED: usize = 64;
const MILLIS_PER_DAY: f64 = 86_400_000.0;

/// A hit, before it is compared with the store.
pub(crate) struct Found {
    pub(crate) run: RunId,
    pub(crate) origin: Origin,
    pub(crate) at: Timestamp,
    /// The checkpoints that contain it.
    pub(crate) spans: Spans,
    pub(crate) score: f64,
    pub(crate) excerpt: String,
    pub(crate) matches: Vec<std::ops::Range<usize>>,
    pub(crate) about: Option<String>,
    pub(crate) agent: Option<String>,
}

/// What to leave out, beyond the query.
pub(crate) struct Visibility {
    pub(crate) hides_foreign: bool,
    pub(crate) now: Timestamp,
}

struct Candidate {
    n: i64,
    run: String,
    started_at: i64,
    origin: Origin,
    at: i64,
    spans: String,
    about: Option<String>,
    agent: Option<String>,
}

/// The origin with this number; `None` if a newer version wrote it.
pub(super) fn origin(n: i64) -> Option<Origin> {
    let name = usize::try_from(n).ok().and_then(|n| Origin::NAMES.get(n))?;
    name.parse().ok()
}

/// What the caller does with a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Shown,
    /// The hit is not shown, because what it refers to is gone or hidden.
    Skipped,
    /// The hit is not shown, and no more hits are needed.
    Enough,
}

/// Passes hits to `accept` in the order of their score, until it has enough of them or there are no more.
pub(crate) fn search<E: From<IndexError>>(
    index: &SearchIndex,
    query: &SearchQuery,
    visibility: &Visibility,
    accept: &mut dyn FnMut(Found) -> Result<Verdict, E>,
) -> Result<(), E> {
    let parsed = ParsedQuery::parse(&query.text, query.prefix_last);
    if parsed.is_empty() {
        return Ok(());
    }
    let filter = index.filter(query, visibility)?;
    let most = |most: usize| (query.limit > 0).then(|| most.max(query.limit.saturating_mul(4)));
    let mut counts = Vec::with_capacity(parsed.terms.len());
    for term in &parsed.terms {
        counts.push(index.count(&term.expression(false))?);
    }
    let mut candidates = index.candidates(&parsed.match_all(), &filter, Order::Newest, most(NEWEST))?;
    // Among very many documents, those with the words next to each other may be older.
    if most(NEWEST).is_some_and(|most| candidates.len() >= most) {
        let in_sequence = index.candidates(&parsed.match_sequence(), &filter, Order::Newest, most(BEST))?;
        add_new(&mut candidates, in_sequence);
    }
    if query.limit == 0 || candidates.len() < query.limit.saturating_mul(4) {
        // Frequent terms find too much, and nothing that a rarer one does not rank better.
        let is_rare = |n: usize| counts[n] < COUNTED || counts.iter().all(|count| *count >= COUNTED);
        let some = index.candidates(&parsed.match_some(is_rare), &filter, Order::Best, most(BEST))?;
        add_new(&mut candidates, some);
    }
    let ranking = Ranking::new(&parsed, &counts, index.total()?);
    let now = visibility.now.as_millisecond();
    let mut ranked: Vec<(Candidate, String, Ranked)> = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let Some(text) = index.text(candidate.n)? else { continue };
        let age = (now - candidate.at) as f64 / MILLIS_PER_DAY;
        let result = ranking.rank(&text, candidate.origin.kind(), candidate.origin, age);
        if result.score > 0.0 {
            ranked.push((candidate, text, result));
        }
    }
    ranked.sort_by(|(a, _, a_rank), (b, _, b_rank)| {
        // Of texts with the same time, one was inherited from the run that began first, which said it.
        let first_run = a.started_at.cmp(&b.started_at);
        b_rank.score.total_cmp(&a_rank.score).then(b.at.cmp(&a.at)).then(first_run).then(b.n.cmp(&a.n))
    });
    let mut shown: HashMap<String, Vec<HashSet<String>>> = HashMap::new();
    // A run that continues another one inherits its notes and decisions, with their times.
    let mut shown_texts: HashSet<(i64, i64, String)> = HashSet::new();
    for (candidate, text, rank) in ranked {
        let earlier = shown.entry(candidate.run.clone()).or_default();
        let words: HashSet<String> =
            tokenize(&text).into_iter().take(COMPARED).map(|token| token.text).collect();
        let identity = (candidate.origin as i64, candidate.at, text.clone());
        if shown_texts.contains(&identity) || earlier.iter().any(|other| is_same(other, &words)) {
            continue;
        }
        let Ok(run) = candidate.run.parse() else { continue };
        let Excerpt { text, matches } = excerpt(&text, &rank.matches);
        let found = Found {
            run,
            origin: candidate.origin,
            at: Timestamp::from_millisecond(candidate.at).unwrap_or_default(),
            spans: Spans::parse(&candidate.spans)?,
            score: rank.score,
            excerpt: text,
            matches,
            about: candidate.about,
            agent: candidate.agent,
        };
        match accept(found)? {
            Verdict::Shown => {
                earlier.push(words);
                shown_texts.insert(identity);
            }
            Verdict::Skipped => {}
            Verdict::Enough => break,
        }
    }
    Ok(())
}

/// Adds candidates that are not known yet.
fn add_new(candidates: &mut Vec<Candidate>, more: Vec<Candidate>) {
    let known: HashSet<i64> = candidates.iter().map(|candidate| candidate.n).collect();
    candidates.extend(more.into_iter().filter(|candidate| !known.contains(&candidate.n)));
}

/// Which documents are preferred if too many match.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Newest,
    /// By the rank of FTS5, which reads all documents with each term.
    Best,
}

/// Whether two sets of words are almost equal.
fn is_same(a: &HashSet<String>, b: &HashSet<String>) -> bool {
    let common = a.intersection(b).count() as f64;
    common >= SAME * (a.len().max(b.len()) as f64)
}

/// The conditions of a query, as SQL.
#[derive(Default)]
struct Filter {
    conditions: Vec<String>,
    values: Vec<Box<dyn ToSql>>,
    /// The numbers that documents of the run can have; all numbers without a run.
    first: i64,
    last: i64,
}

impl Filter {
    fn of(query: &SearchQuery, visibility: &Visibility) -> Self {
        let mut filter = Self { last: i64::MAX, ..Self::default() };
        if !query.kinds.is_empty() {
            let is_wanted = |origin: &Origin| query.kinds.contains(&SearchKind::from(*origin));
            let origins =
                Origin::NAMES.iter().filter_map(|name| name.parse::<Origin>().ok()).filter(is_wanted);
            let numbers = origins.map(|origin| (origin as i64).to_string()).collect::<Vec<_>>().join(", ");
            filter.conditions.push(format!("d.origin IN ({numbers})"));
        }
        if let Some(since) = query.since {
            filter.add("d.at >= ?", since.as_millisecond());
        }
        if let Some(agent) = &query.agent {
            filter.add("r.agent = ?", agent.clone());
        }
        if let Some(run) = &query.run {
            filter.add("r.id = ?", run.to_string());
        }
        if visibility.hides_foreign {
            filter.conditions.push("r.is_foreign = 0".to_owned());
        }
        filter
    }

    fn add(&mut self, condition: &str, value: impl ToSql + 'static) {
        self.conditions.push(condition.to_owned());
        self.values.push(Box::new(value));
    }
}

impl From<Origin> for SearchKind {
    fn from(origin: Origin) -> Self {
        origin.kind()
    }
}

impl SearchIndex {
    /// The conditions of a query. Documents of one run are close together, so a range of numbers leaves out most others.
    fn filter(&self, query: &SearchQuery, visibility: &Visibility) -> Result<Filter, IndexError> {
        let mut filter = Filter::of(query, visibility);
        if let Some(run) = &query.run {
            let sql = "SELECT coalesce(min(d.n), 0), coalesce(max(d.n), 0) FROM document d JOIN run r ON r.n = d.run_n \
                       WHERE r.id = ?1";
            let mut statement = self.connection.prepare_cached(sql)?;
            (filter.first, filter.last) =
                statement.query_row([run.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))?;
        }
        Ok(filter)
    }

    /// Documents that match an expression, at most this many.
    fn candidates(
        &self,
        expression: &str,
        filter: &Filter,
        order: Order,
        most: Option<usize>,
    ) -> Result<Vec<Candidate>, IndexError> {
        let limit = most.map_or(-1, |most| i64::try_from(most).unwrap_or(-1));
        let order = if order == Order::Best { "bm25(word, 1.0, 0.8), " } else { "" };
        let columns = "d.n, r.id, d.origin, d.at, d.spans, r.about, r.agent, r.started_at";
        // Without conditions, only the chosen documents are looked up in the other tables.
        let sql = if filter.conditions.is_empty() {
            format!(
                "SELECT {columns} FROM (SELECT rowid AS n FROM word WHERE word MATCH ? AND rowid BETWEEN ? AND ? \
                 ORDER BY {order}rowid DESC LIMIT ?) JOIN document d USING (n) JOIN run r ON r.n = d.run_n"
            )
        } else {
            format!(
                "SELECT {columns} FROM word CROSS JOIN document d ON d.n = word.rowid CROSS JOIN run r \
                 ON r.n = d.run_n WHERE word MATCH ? AND word.rowid BETWEEN ? AND ? AND {} \
                 ORDER BY {order}word.rowid DESC LIMIT ?",
                filter.conditions.join(" AND ")
            )
        };
        let mut values: Vec<&dyn ToSql> = vec![&expression, &filter.first, &filter.last];
        values.extend(filter.values.iter().map(|value| &**value));
        values.push(&limit);
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(values.as_slice())?;
        let mut candidates = Vec::new();
        while let Some(row) = rows.next()? {
            let Some(origin) = origin(row.get(2)?) else { continue };
            candidates.push(Candidate {
                n: row.get(0)?,
                run: row.get(1)?,
                origin,
                at: row.get(3)?,
                spans: row.get(4)?,
                about: row.get(5)?,
                agent: row.get(6)?,
                started_at: row.get(7)?,
            });
        }
        Ok(candidates)
    }

    /// The number of documents that match, up to a maximum.
    fn count(&self, expression: &str) -> Result<u64, IndexError> {
        let sql = "SELECT count(*) FROM (SELECT 1 FROM word WHERE word MATCH ?1 LIMIT ?2)";
        Ok(self
            .connection
            .prepare_cached(sql)?
            .query_row((expression, COUNTED.cast_signed()), |row| number(row, 0))?)
    }

    /// The approximate number of documents.
    fn total(&self) -> Result<u64, IndexError> {
        let sql = "SELECT coalesce(max(n), 0) FROM document";
        Ok(self.connection.prepare_cached(sql)?.query_row([], |row| number(row, 0))?)
    }

    fn text(&self, n: i64) -> Result<Option<String>, IndexError> {
        let sql = "SELECT text FROM content WHERE n = ?1";
        Ok(self.connection.prepare_cached(sql)?.query_row([n], |row| row.get(0)).optional()?)
    }
}
