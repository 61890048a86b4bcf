//! What a run is opened with: by whom, for what, and where.

use serde::{Deserialize, Serialize};

use crate::model::{CheckpointId, Owner, Profile};

/// Where work happens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunLocation {
    /// The project's root.
    pub project: Option<String>,
    /// The worktree.
    pub worktree: Option<String>,
    /// The branch.
    pub branch: Option<String>,
    /// The user.
    pub user: Option<String>,
}

/// What a run is opened with, if it is not there yet.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOptions {
    /// Its profile; for a run that is there, its profile from now on.
    pub profile: Option<Profile>,
    /// What people call it.
    pub title: Option<String>,
    /// The plan it follows.
    pub plan: Option<String>,
    /// Who runs it.
    pub owner: Option<Owner>,
    /// The checkpoint it continues.
    pub parent: Option<CheckpointId>,
    /// The agent that does the work, by the name that its hooks use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The command, where Milepost starts one.
    pub command: Option<Vec<String>>,
    /// Where it works.
    pub location: RunLocation,
}
