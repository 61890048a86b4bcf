//! References: the ways to name a checkpoint, and their lookup in the store.

use std::str::FromStr;

use super::Milepost;
use super::lookup::intact;
use crate::Error;
use crate::model::{CheckpointId, RunId};
use crate::store::{CheckpointEntry, CheckpointFilter, HeaderQuery, Row};

/// The name of a checkpoint, not yet looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// `latest` for the newest checkpoint, or `latest~2` for the second one before it.
    Latest(u64),
    /// `RUN@12`: the checkpoint with this sequence number in a run.
    Numbered(RunId, u64),
    /// An id, a prefix of an id, a tag, or the id under which a checkpoint was imported.
    Name(String),
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
            Reference::Numbered(run, number) => {
                self.stored_run(run)?;
                self.row_at(run, *number)?.ok_or_else(missing)
            }
            Reference::Name(name) => {
                for find in
                    [CheckpointFilter::Id(name), CheckpointFilter::Name(name), CheckpointFilter::Prefix(name)]
                {
                    // A match in the given run takes precedence over the rest of the store.
                    for scope in [run, None] {
                        let rows = self.store.headers(&HeaderQuery::default().run(scope).find(find))?;
                        match rows.len() {
                            0 => {}
                            1 => return rows.into_iter().next().ok_or_else(missing),
                            _ => return Err(ambiguous(name, &rows)),
                        }
                    }
                }
                // Tags and imported ids can have any form, so the rules for ids apply only to a name that
                // matches nothing.
                name.parse::<CheckpointId>()?;
                Err(missing())
            }
        }
    }

    /// Looks up an intact checkpoint.
    pub fn find(&self, reference: &Reference, run: Option<&RunId>) -> Result<CheckpointEntry, Error> {
        intact(self.locate(reference, run)?)
    }
}

fn ambiguous(name: &str, rows: &[Row]) -> Error {
    const SHOWN: usize = 8;
    let mut candidates: Vec<String> = rows
        .iter()
        .take(SHOWN)
        .map(|row| match row {
            Row::Intact(entry) => entry.header.snapshot_id.to_string(),
            Row::Damaged { damage, .. } => damage.to_string(),
        })
        .collect();
    if rows.len() > SHOWN {
        candidates.push(format!("and {} more", rows.len() - SHOWN));
    }
    Error::Ambiguous { reference: name.to_owned(), candidates }
}
