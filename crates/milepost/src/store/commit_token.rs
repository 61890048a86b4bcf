//! The token of a commit, by which a writer whose reply was lost finds out whether its commit was applied.
//! The token is kept in the run's record, among the most recent commits. Nothing here touches a file.

use derive_getters::Getters;

use super::Commit;
use crate::model::{RecentCommit, RunRecord, WriteToken};

/// Number of recent commits in a run's record.
const RECENT: usize = 8;

/// What a commit that was looked up by its token has written.
#[derive(Getters, Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommittedWrite {
    /// The sequence number of the checkpoint that was written or coalesced into, or 0 if there is none.
    #[getter(copy)]
    sequence: u64,
    /// Whether the commit was coalesced into an existing checkpoint.
    #[getter(copy)]
    coalesced: bool,
}

impl CommittedWrite {
    /// A commit that wrote the checkpoint with this sequence number, or was coalesced into it.
    pub fn new(sequence: u64, coalesced: bool) -> Self {
        Self { sequence, coalesced }
    }
}

impl Commit {
    /// Sets the token of this commit, and adds it to the recent commits in the run's record.
    pub fn set_token(&mut self, token: &WriteToken, written: CommittedWrite) {
        let CommittedWrite { sequence, coalesced } = written;
        let recent = &mut self.record.recent;
        recent.push(RecentCommit { token: token.clone(), sequence, coalesced });
        recent.drain(..recent.len().saturating_sub(RECENT));
        self.token = Some(token.clone());
    }

    /// The token of this commit and what the commit writes; `None` if it was not given a token. A store that
    /// overrides `Store::find_commit` stores both in the transaction of the commit.
    pub fn token(&self) -> Option<(&WriteToken, CommittedWrite)> {
        let token = self.token.as_ref()?;
        let written = self.record.find_commit(token).unwrap_or(CommittedWrite::new(0, false));
        Some((token, written))
    }

    /// The token of this commit. A commit without one gets a new one, which is not added to the record: only a store
    /// that keeps tokens itself finds it.
    pub(crate) fn token_or_new(&mut self) -> WriteToken {
        self.token.get_or_insert_with(WriteToken::generate).clone()
    }
}

impl RunRecord {
    /// The commit with this token, if it is among the run's most recent ones.
    pub(crate) fn find_commit(&self, token: &WriteToken) -> Option<CommittedWrite> {
        let found = self.recent.iter().find(|recent| recent.token == *token)?;
        Some(CommittedWrite::new(found.sequence, found.coalesced))
    }
}
