//! Settings of a store on a server: the copy on this machine in which writes wait, and the project whose runs are
//! used. Takes the settings and the repository's remote; decides nothing about trust.

use std::fmt;
use std::str::FromStr;

use milepost::internal::store::identity::StoreTrust;
use milepost::internal::store::{ProjectPaths, project_id};
use milepost::store::StoreUrl;

use super::value::SettingValue;
use super::{Config, RawSetting, Settings, trust};
use crate::error::Result;

/// The key in `milepost.toml` that names the project.
pub(super) const PROJECT: &str = "project";
/// The name under which the remote `origin` is trusted as the project.
pub(super) const REMOTE: &str = "remote.origin";

/// Settings of a store on a server.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// The copy on this machine.
    pub(crate) local: StoreUrl,
    /// The project whose runs are used.
    pub(crate) project: ProjectChoice,
}

/// The project whose runs are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProjectChoice {
    /// The project with this id, which a flag, a variable or a trusted file names.
    Named(String),
    /// The project of the repository with this remote, which the user trusts.
    Remote(String),
    /// The project in this folder only.
    Folder(String),
    /// Every project.
    All,
}

impl FromStr for ProjectChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        match text {
            "all" => Ok(Self::All),
            text if !text.is_empty() && text.len() <= 128 && text.chars().all(is_allowed) => {
                Ok(Self::Named(text.to_owned()))
            }
            _ => Err("a project id has 1 to 128 letters, digits, '.', '_', '-' or '/'".to_owned()),
        }
    }
}

impl ProjectChoice {
    /// The id of the project; `None` for all projects.
    pub(crate) fn id(&self) -> Option<String> {
        match self {
            Self::Named(id) | Self::Folder(id) => Some(id.clone()),
            Self::Remote(remote) => Some(project_id::of_origin(remote)),
            Self::All => None,
        }
    }
}

impl fmt::Display for ProjectChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(id) | Self::Folder(id) => f.write_str(id),
            Self::Remote(remote) => write!(f, "{} ({remote})", project_id::of_origin(remote)),
            Self::All => f.write_str("all"),
        }
    }
}

/// The address of the copy of a store on a server; `None` for a store on this machine. It is beside the default
/// store, and each server, database and schema has its own.
pub(super) fn local_copy(url: &StoreUrl, paths: &ProjectPaths) -> Option<StoreUrl> {
    if url.path().is_some() {
        return None;
    }
    let digest = blake3::hash(url.to_string().as_bytes()).to_hex();
    Some(StoreUrl::sqlite(paths.database.with_file_name(format!("server-{}.db", &digest[..12]))))
}

/// Replaces the address of a server in a TOML value by the one that may be shown and recorded, without a password.
pub(super) fn hide_password(value: &mut String) {
    let table = format!("v = {value}").parse::<toml::Table>().ok();
    let text = table.as_ref().and_then(|table| table.get("v")?.as_str());
    if let Some(url) = text.and_then(|text| text.parse::<StoreUrl>().ok()).filter(|url| url.path().is_none())
    {
        *value = toml::Value::String(url.to_string()).to_string();
    }
}

impl Config {
    /// The address of the store on this machine: the store itself, or the copy of one on a server.
    pub(crate) fn local_url(&self) -> StoreUrl {
        self.server.as_ref().map_or_else(|| self.url(), |server| server.local.clone())
    }

    /// Whether the store on this machine may be used. One that came from elsewhere may not, even if the user chose the
    /// server that it belongs to.
    pub(crate) fn may_use_local(&self) -> bool {
        !matches!(self.store_trust, StoreTrust::Foreign(_))
    }

    /// The users of the store's server whose runs this user trusts, and whether all users of this project are trusted.
    pub(crate) fn trusted_users(&self) -> (Vec<String>, bool) {
        let Some(record) = &self.record else { return Default::default() };
        let entry = trust::trusted_entry(&self.paths, &Default::default());
        let project = record.project(&entry.project, &entry.root);
        (record.users.clone(), project.is_some_and(|project| project.all_users))
    }

    /// Whether the project's file selects the store.
    pub(crate) fn project_sets_store(&self) -> bool {
        let mut settings = self.settings.iter();
        settings
            .any(|setting| setting.key == "store" && setting.origin == super::Origin::File(self.file.clone()))
    }

    /// The guarded keys of the project's file that the user has not trusted.
    pub(crate) fn untrusted_settings(&self) -> Vec<&str> {
        self.untrusted.keys().map(String::as_str).filter(|key| *key != REMOTE).collect()
    }

    /// The remote `origin` of the repository, if the user has not trusted it as the project.
    pub(crate) fn untrusted_remote(&self) -> Option<String> {
        let value = self.untrusted.get(REMOTE)?;
        Some(value.trim_matches('"').to_owned())
    }

    /// The settings of a store on a server that an argument names; `None` for a store on this machine.
    pub(crate) fn server_at(&self, url: &StoreUrl) -> Option<Server> {
        let local = local_copy(url, &self.paths)?;
        if let Some(server) = self.server.as_ref().filter(|server| server.local == local) {
            return Some(server.clone());
        }
        let (_, record) = self.trust.evaluate(&local, &self.paths);
        let entry = trust::trusted_entry(&self.paths, &Default::default());
        let accepted = record.as_ref().and_then(|record| record.project(&entry.project, &entry.root));
        let is_accepted = |remote: &String| {
            let value = toml::Value::String(remote.clone()).to_string();
            accepted.is_some_and(|known| known.values.get(REMOTE) == Some(&value))
        };
        let project = self.settings.iter().find(|setting| setting.key == PROJECT);
        let project = project.filter(|setting| setting.origin != super::Origin::Default);
        let project = match (project.map(|setting| setting.value.parse()), remote_origin(&self.paths)) {
            (Some(Ok(named)), _) => named,
            (_, Some(remote)) if is_accepted(&remote) => ProjectChoice::Remote(remote),
            _ => ProjectChoice::Folder(project_id::of_folder(&trust::project(&self.paths))),
        };
        Some(Server { local, project })
    }
}

/// The normalised address of the repository's remote `origin`.
pub(super) fn remote_origin(paths: &ProjectPaths) -> Option<String> {
    project_id::normalised_origin(&paths.repository.as_ref()?.origin_url()?)
}

/// Reads the settings of a server, if the store is on one. `remote` is the remote that the user trusts.
pub(super) fn load(
    settings: &mut Settings<'_>,
    local: Option<StoreUrl>,
    chosen: RawSetting,
    remote: Option<String>,
    paths: &ProjectPaths,
) -> Result<Option<Server>> {
    let found = chosen.or(super::find_in(settings.files.iter().copied(), PROJECT));
    let own = match &remote {
        Some(remote) => ProjectChoice::Remote(remote.clone()),
        None => ProjectChoice::Folder(project_id::of_folder(&trust::project(paths))),
    };
    let shown = if local.is_some() { own.to_string() } else { "none".to_owned() };
    let named = settings.resolve(PROJECT, found, (shown, super::Origin::Default), |raw, _| {
        String::parse(raw)?.parse::<ProjectChoice>()
    })?;
    let project = named.unwrap_or(own);
    Ok(local.map(|local| Server { local, project }))
}
