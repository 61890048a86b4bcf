//! The trust record of one store: its address, its owner, its machine, and the guarded settings that the user
//! has accepted for the projects that use it.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::id::StoreId;

/// A store that this user created or trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRecord {
    /// The id of the store.
    pub id: StoreId,
    /// The address of the store with symbolic links resolved: its kind and its database file or folder.
    pub store: String,
    /// The id of the user who created or trusted the store.
    pub owner: Option<u32>,
    /// The id of the machine on which the store was created or trusted.
    pub machine: Option<String>,
    /// When the store was created or trusted.
    pub trusted_at: Timestamp,
    /// The projects that use the store.
    #[serde(default)]
    pub projects: Vec<TrustedProject>,
    /// Users of the store's server whose runs this user trusts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
}

/// A project, and the guarded settings of its `milepost.toml` that the user has accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedProject {
    /// The path that identifies the project: the git directory shared by its worktrees, or its root.
    pub project: String,
    /// The root of the project, or of the worktree that was used last.
    pub root: String,
    /// The accepted values by guarded key, as TOML.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
    /// Whether the user trusts what every user of the store's server records in this project.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub all_users: bool,
}

impl StoreRecord {
    /// Creates the record of a store of the current user on this machine.
    pub fn new(id: StoreId, store: String, trusted_at: Timestamp) -> Self {
        Self {
            id,
            store,
            owner: super::user_id(),
            machine: crate::owner::machine_id(),
            trusted_at,
            projects: Vec::new(),
            users: Vec::new(),
        }
    }

    /// Returns the entry of a project. If the project has no entry but contains the store, it may have been
    /// moved: an entry whose project path no longer exists is then used.
    pub fn project(&self, project: &str, root: &str) -> Option<&TrustedProject> {
        let is_gone = |entry: &&TrustedProject| {
            let found = std::fs::symlink_metadata(&entry.project);
            found.is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
        };
        let known = self.projects.iter().find(|entry| entry.project == project);
        let path = Path::new(self.store.split_once(':').map_or("", |(_, path)| path));
        let inside = path.starts_with(project) || path.starts_with(root);
        known.or_else(|| self.projects.iter().find(is_gone).filter(|_| inside))
    }

    /// Adds a project, or merges its values into the existing entry. Returns true if the record changed.
    pub fn add_project(&mut self, project: TrustedProject) -> bool {
        match self.projects.iter_mut().find(|entry| entry.project == project.project) {
            Some(entry) => {
                let before = entry.clone();
                entry.root = project.root;
                entry.values.extend(project.values);
                entry.all_users |= project.all_users;
                *entry != before
            }
            None => {
                self.projects.push(project);
                true
            }
        }
    }
}
