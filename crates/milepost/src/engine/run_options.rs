//! The options that a run is opened with: who works on it, on what, and where. Data only.

use serde::{Deserialize, Serialize};

use crate::model::{CheckpointId, Owner, Profile};

/// Where a run works.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunLocation {
    /// The project root.
    pub project: Option<String>,
    /// The id of the project, the same in every clone of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The worktree.
    pub worktree: Option<String>,
    /// The branch.
    pub branch: Option<String>,
    /// The commit that is checked out; empty if the repository has no commit yet.
    pub head: Option<String>,
    /// The user.
    pub user: Option<String>,
    /// The name of this machine, for stores that several machines use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// The options for opening a run. Some of them also update an existing run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOptions {
    /// The profile; also replaces the profile of an existing run.
    pub profile: Option<Profile>,
    /// The title, for people.
    pub title: Option<String>,
    /// The plan that the run follows.
    pub plan: Option<String>,
    /// The process that owns the run.
    pub owner: Option<Owner>,
    /// The checkpoint that the run continues.
    pub parent: Option<CheckpointId>,
    /// The agent that does the work, by the name that its hooks use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The path of the agent's transcript of the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transcript: Option<String>,
    /// The command, if Milepost starts one.
    pub command: Option<Vec<String>>,
    /// Where the run works.
    pub location: RunLocation,
}
