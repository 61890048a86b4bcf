//! References: the ways to name a checkpoint, and their lookup in the store.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::Milepost;
use super::lookup::{intact, is_own};
use crate::Error;
use crate::model::{CheckpointId, RunId};
use crate::store::{CheckpointEntry, CheckpointFilter, HeaderQuery, Row};

/// The name of a checkpoint, not yet looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// `latest` for the newest checkpoint, or `latest~2` for the second one before it.
    Latest(u64),
    /// `prompt` for the files before the newest prompt, or `prompt~2` for those before the second one before
    /// it. Names files only, not a checkpoint.
    Prompt(u64),
    /// `RUN@12`: the checkpoint with this sequence number in a run.
    Numbered(RunId, u64),
    /// An id or short id, the unique start of either, a tag, or the id it was imported under. The name of a
    /// run refers to its newest checkpoint.
    Name(String),
}

/// What a name refers to.
enum Named {
    Checkpoint(Box<Row>),
    /// The newest checkpoint of a run.
    LatestOf(RunId),
}

impl FromStr for Reference {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        if text == "latest" {
            return Ok(Self::Latest(0));
        }
        if let Some(back) = text.strip_prefix("latest~").and_then(|n| n.parse().ok()) {
            return Ok(Self::Latest(back));
        }
        if text == "prompt" {
            return Ok(Self::Prompt(0));
        }
        if let Some(back) = text.strip_prefix("prompt~").and_then(|n| n.parse().ok()) {
            return Ok(Self::Prompt(back));
        }
        if let Some((run, number)) = text.rsplit_once('@')
            && let Ok(number) = number.parse()
        {
            return Ok(Self::Numbered(run.parse()?, number));
        }
        if text.is_empty() || text.len() > 512 {
            // No checkpoint has such a name. The rules for ids provide the error.
            text.parse::<CheckpointId>()?;
        }
        Ok(Self::Name(text.to_owned()))
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Latest(0) => f.write_str("latest"),
            Self::Latest(n) => write!(f, "latest~{n}"),
            Self::Prompt(0) => f.write_str("prompt"),
            Self::Prompt(n) => write!(f, "prompt~{n}"),
            Self::Numbered(run, n) => write!(f, "{run}@{n}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

impl Milepost {
    /// Looks up a checkpoint in a run or in the whole store. Also finds damaged rows.
    pub(super) fn locate(&self, reference: &Reference, run: Option<&RunId>) -> Result<Row, Error> {
        let missing = || Error::NotFound { reference: reference.to_string() };
        match reference {
            Reference::Latest(back) => {
                let limit = usize::try_from(*back).unwrap_or(usize::MAX).saturating_add(1);
                let query = HeaderQuery::default().run(run).limit(limit);
                self.store.headers(&query)?.into_iter().nth(limit - 1).ok_or_else(missing)
            }
            Reference::Prompt(_) => {
                // A tag may have this name.
                let name = reference.to_string();
                let exact = [CheckpointFilter::Id(&name), CheckpointFilter::Name(&name)];
                self.row_matching(&name, &exact, run)?.ok_or_else(missing)
            }
            Reference::Numbered(run, number) => {
                self.row_at(&self.find_run(run.as_str())?, *number)?.ok_or_else(missing)
            }
            Reference::Name(name) => match self.resolve_name(name, run)? {
                Some(Named::Checkpoint(row)) => Ok(*row),
                Some(Named::LatestOf(run)) => self.locate(&Reference::Latest(0), Some(&run)),
                None => {
                    // Tags and imported ids can have any form, so the rules for ids apply only to a name that
                    // matches nothing.
                    name.parse::<CheckpointId>()?;
                    Err(missing())
                }
            },
        }
    }

    /// Finds what a name refers to. An exact match takes precedence over the start of an id.
    fn resolve_name(&self, name: &str, run: Option<&RunId>) -> Result<Option<Named>, Error> {
        let checkpoint = |row| Named::Checkpoint(Box::new(row));
        let exact = [CheckpointFilter::Id(name), CheckpointFilter::Name(name)];
        if let Some(row) = self.row_matching(name, &exact, run)? {
            return Ok(Some(checkpoint(row)));
        }
        if let Ok(id) = name.parse::<RunId>()
            && self.store.run(&id)?.is_some()
        {
            return Ok(Some(Named::LatestOf(id)));
        }
        let start = [CheckpointFilter::Prefix(name), CheckpointFilter::ShortId(name)];
        if let Some(row) = self.row_matching(name, &start, run)? {
            return Ok(Some(checkpoint(row)));
        }
        Ok(self.run_named(name)?.map(Named::LatestOf))
    }

    /// Looks up the only checkpoint that matches the first filter that any checkpoint matches. A match within `run`
    /// takes precedence over the same name elsewhere.
    fn row_matching(
        &self,
        name: &str,
        filters: &[CheckpointFilter<'_>],
        run: Option<&RunId>,
    ) -> Result<Option<Row>, Error> {
        for find in filters {
            let scopes = if run.is_some() { &[run, None][..] } else { &[None] };
            for scope in scopes {
                let mut rows = self.store.headers(&HeaderQuery::default().run(*scope).find(*find))?;
                if rows.len() > 1 && self.settings.hide_foreign_runs {
                    rows = self.rows_of_own_runs(rows)?;
                }
                if rows.len() > 1 {
                    return Err(ambiguous(name, &rows));
                }
                if let Some(row) = rows.pop() {
                    return Ok(Some(row));
                }
            }
        }
        Ok(None)
    }

    /// Drops the rows of runs from elsewhere, and damaged rows without a run.
    fn rows_of_own_runs(&self, rows: Vec<Row>) -> Result<Vec<Row>, Error> {
        let mut known: BTreeMap<RunId, bool> = BTreeMap::new();
        let mut own = Vec::new();
        for row in rows {
            let run = match &row {
                Row::Intact(entry) => Some(&entry.header.run_id),
                Row::Damaged { damage, .. } => damage.run_id.as_ref(),
            };
            let Some(run) = run else { continue };
            let is_own = match known.get(run) {
                Some(is_own) => *is_own,
                None => {
                    let is_own = is_own(self.record_of(run)?.as_deref());
                    known.insert(run.clone(), is_own);
                    is_own
                }
            };
            if is_own {
                own.push(row);
            }
        }
        Ok(own)
    }

    /// The run whose latest checkpoint a reference names: `RUN` alone, unless it names a checkpoint.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn run_of_latest(
        &self,
        reference: &Reference,
        run: Option<&RunId>,
    ) -> Result<Option<RunId>, Error> {
        let Reference::Name(name) = reference else { return Ok(None) };
        match self.resolve_name(name, run)? {
            Some(Named::LatestOf(run)) => Ok(Some(run)),
            Some(Named::Checkpoint(_)) | None => Ok(None),
        }
    }

    /// Returns how many characters of each short id identify it in this store, or `None` for ids without a
    /// short form.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn unique_prefixes(&self, ids: &[&CheckpointId]) -> Result<Vec<Option<usize>>, Error> {
        /// Shorter prefixes are rarely unique, and are easily mistaken for words.
        const SHORTEST: usize = 3;
        let unique = |id: &&CheckpointId| {
            let Some(short) = id.short() else { return Ok(None) };
            for len in SHORTEST..short.len() {
                let query = HeaderQuery::default().find(CheckpointFilter::ShortId(&short[..len])).limit(2);
                if self.store.headers(&query)?.len() < 2 {
                    return Ok(Some(len));
                }
            }
            Ok(Some(short.len()))
        };
        ids.iter().map(unique).collect()
    }

    /// Looks up an intact checkpoint.
    pub fn find(&self, reference: &Reference, run: Option<&RunId>) -> Result<CheckpointEntry, Error> {
        intact(self.locate(reference, run)?)
    }
}

fn ambiguous(name: &str, rows: &[Row]) -> Error {
    let ids = rows.iter().map(|row| match row {
        Row::Intact(entry) => entry.header.snapshot_id.to_string(),
        Row::Damaged { damage, .. } => damage.to_string(),
    });
    Error::ambiguous(name, "checkpoints", ids)
}
