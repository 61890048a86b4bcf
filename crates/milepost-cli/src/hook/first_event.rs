//! Handles the first event in a project without a store. Decides whether the hook creates the store, and
//! returns a notice for the user if it does not. Takes the context of the event. A store is created only in the git directory
//! of the user's own repository, and only if the user's setting `agents.record` is `all`.

use std::path::Path;

use milepost::internal::store::identity::StoreTrust;

use crate::config::RecordScope;
use crate::context::Context;
use crate::error::{CommandError, Result};

/// Creates the store if the settings and the project allow it. Returns whether the store now exists. Several
/// hooks may do this at the same time: the store's lock lets one of them create the tables.
pub(super) fn create_store(context: &Context<'_>) -> Result<bool> {
    if context.config.agents.record() != RecordScope::All || obstacle(context).is_some() {
        return Ok(false);
    }
    if let Ok(state) = &context.config.trust.state {
        // Without a record in the user's state, every later event would find a foreign store.
        state
            .create_key()
            .map_err(milepost::Error::file(state.folder(), "written"))
            .map_err(CommandError::from)?;
    }
    // Create the store now: a save that finds no store would be queued in a folder of the worktree.
    drop(context.open_or_create()?);
    Ok(true)
}

/// One line for the user of a project where nothing is recorded.
pub(super) fn notice(context: &Context<'_>) -> String {
    match (context.config.agents.record(), obstacle(context)) {
        (RecordScope::Initialised, None) => "milepost: nothing is recorded in this repository yet. Run `milepost init` to \
                                             record sessions here, or `milepost agents install --record all` to record in \
                                             every git repository"
            .to_owned(),
        (RecordScope::All, Some(why)) => {
            format!("milepost: nothing is recorded here, because {why}. Run `milepost init` to record sessions here")
        }
        (RecordScope::Initialised, Some(_)) | (RecordScope::All, None) => {
            "milepost: nothing is recorded here yet. Run `milepost init` to record sessions here".to_owned()
        }
    }
}

/// Why a hook must not create the store of this project, whatever the user's setting is.
fn obstacle(context: &Context<'_>) -> Option<&'static str> {
    let config = &context.config;
    let Some(repository) = &config.paths.repository else {
        return Some("this folder is not in a git repository that can be used");
    };
    let home = config.home.as_ref().and_then(|home| milepost::internal::fs::canonicalize(home).ok());
    let Some(home) = home else { return Some("your home folder is unknown") };
    if repository.is_rooted_at(&home) {
        return Some("the root of this repository is your home folder");
    }
    if repository.is_rooted_at(Path::new("/")) {
        return Some("the root of this repository is /");
    }
    if repository.is_bare() {
        return Some("this repository is bare");
    }
    if config.store.is_some() {
        return Some("the store that is configured for it does not exist");
    }
    if !config.untrusted.is_empty() {
        return Some("milepost.toml contains settings that you have not trusted");
    }
    if config.trust.state.is_err() {
        return Some("your state folder cannot be used");
    }
    (config.store_trust != StoreTrust::New).then_some("this repository belongs to another user")
}
