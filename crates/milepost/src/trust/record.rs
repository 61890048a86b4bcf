//! The record of one store: where it is, whose it is, on which machine, and which guarded settings of its projects the user
//! has accepted.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::model::id::StoreId;

/// A store that this user created or trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRecord {
    /// The store's id.
    pub id: StoreId,
    /// Its address, without links: the kind of store and its database file or folder.
    pub store: String,
    /// The user id that owned it.
    pub owner: Option<u32>,
    /// The machine it was created or trusted on.
    pub machine: Option<String>,
    /// When that was.
    pub trusted_at: Timestamp,
    /// The projects that use it.
    #[serde(default)]
    pub projects: Vec<TrustedProject>,
}

/// A project and the guarded settings of its `milepost.toml` that the user has accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustedProject {
    /// What identifies the project: the git directory that its worktrees share, or its root outside git.
    pub project: String,
    /// The root of the project, or of the worktree that it was last used from.
    pub root: String,
    /// Values of guarded keys, as TOML.
    #[serde(default)]
    pub values: BTreeMap<String, String>,
}

impl StoreRecord {
    /// A record of a store that belongs to this user, on this machine.
    pub fn new(id: StoreId, store: String, trusted_at: Timestamp) -> Self {
        Self {
            id,
            store,
            owner: super::user_id(),
            machine: crate::owner::machine_id(),
            trusted_at,
            projects: Vec::new(),
        }
    }

    /// The entry of a project. If the project is new here and holds the store itself, an entry whose project is gone is
    /// taken for the same project, moved.
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

    /// Notes a project, adding to the values that were accepted for it; whether anything changed.
    pub fn add_project(&mut self, project: TrustedProject) -> bool {
        match self.projects.iter_mut().find(|entry| entry.project == project.project) {
            Some(entry) => {
                let before = entry.clone();
                entry.root = project.root;
                entry.values.extend(project.values);
                *entry != before
            }
            None => {
                self.projects.push(project);
                true
            }
        }
    }
}
