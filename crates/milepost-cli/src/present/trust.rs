//! The results of `trust`: the store and settings to review, the trusted stores, a revocation, or accepted
//! saves.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use milepost::internal::brief::one_line;
use milepost::internal::engine::{PendingSave, PendingState};
use milepost::internal::model::StoreId;
use milepost::internal::trust::StoreRecord;
use serde::Serialize;

use super::format::{bold, bytes, clean, counted, time};
use super::table::{Column, Table, cell};
use super::{Document, Note, Output};
use crate::error::Result;

#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum TrustDocument {
    Offer(Offer),
    List(TrustedStores),
    Revoke(Revocation),
    Outbox(AcceptedSaves),
    Users(TrustedUsers),
}

/// A user of the store's server, or all of them in one project, that is now trusted or no longer trusted.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.trust/1")]
pub(crate) struct TrustedUsers {
    pub(crate) store: String,
    /// `None` for all users.
    pub(crate) user: Option<String>,
    pub(crate) project: String,
    pub(crate) trusted: bool,
}

impl TrustedUsers {
    fn describe(&self) -> String {
        let who = match &self.user {
            Some(name) => format!("{} in {}", clean(name), clean(&self.store)),
            None => format!("Every user in project {}", clean(&self.project)),
        };
        format!("{who} is {}", if self.trusted { "trusted on this machine" } else { "no longer trusted" })
    }
}

/// The store and settings that need trust, or were trusted.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.trust/1")]
pub(crate) struct Offer {
    pub(crate) store: String,
    pub(crate) store_id: Option<StoreId>,
    /// `trusted`, `new` or `foreign`.
    pub(crate) state: &'static str,
    /// The reason why it is foreign.
    pub(crate) why: Option<String>,
    pub(crate) runs: Option<u64>,
    pub(crate) checkpoints: Option<u64>,
    pub(crate) config: String,
    /// The guarded values in the configuration file that are not trusted yet.
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) trusted: bool,
}

/// The stores that this user created or trusted.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.trust/1")]
pub(crate) struct TrustedStores {
    pub(crate) stores: Vec<StoreRecord>,
}

/// Saves from the outbox that were accepted.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.trust/1")]
pub(crate) struct AcceptedSaves {
    pub(crate) unsigned: Vec<PathBuf>,
    pub(crate) accepted: u64,
    /// Accepted saves that could not be stored, with the reason.
    #[serde(skip)]
    pub(crate) refused: Vec<(PathBuf, String)>,
}

/// A store that is no longer trusted.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.trust/1")]
pub(crate) struct Revocation {
    pub(crate) store: String,
    pub(crate) revoked: bool,
    /// Whether a parent folder is still trusted.
    #[serde(skip)]
    pub(crate) covered: bool,
}

impl Document for TrustDocument {
    fn render(&self, output: &Output) -> Result<()> {
        let text = match self {
            Self::Offer(offer) if offer.trusted => {
                format!("{} is trusted on this machine; undo with `milepost trust --revoke`\n", offer.store)
            }
            Self::Offer(offer) if offer.is_empty() => {
                format!("{}Nothing here needs your trust.\n", offer.describe())
            }
            Self::Offer(offer) => offer.describe(),
            Self::List(list) if list.stores.is_empty() => {
                "No store has been created or trusted on this machine yet.\n".to_owned()
            }
            Self::List(list) => {
                let mut rows = Table::new(output, &[Column::new("STORE"), Column::new("SINCE")]);
                for store in &list.stores {
                    rows.add_row([cell(&store.store), cell(time(store.trusted_at))]);
                }
                rows.lines()
            }
            Self::Revoke(revocation) => {
                if revocation.covered {
                    output.message("Warning: MILEPOST_TRUST or trust.paths still trusts a parent folder");
                }
                match revocation.revoked {
                    true => format!("{} is no longer trusted, in any project\n", revocation.store),
                    false => format!("{} was not trusted\n", revocation.store),
                }
            }
            Self::Outbox(AcceptedSaves { accepted: 0, .. }) => {
                "The outbox has no unsigned saves.\n".to_owned()
            }
            Self::Outbox(saves) => format!("{} saved\n", counted(saves.accepted, "checkpoint")),
            Self::Users(users) => format!("{}\n", users.describe()),
        };
        output.write_text(&text)
    }

    fn notes(&self) -> Vec<Note> {
        let Self::Outbox(saves) = self else { return Vec::new() };
        let note = |(file, why): &(PathBuf, String)| {
            Note::Message(format!("Warning: {} stays in the outbox: {}", file.display(), clean(why)))
        };
        saves.refused.iter().map(note).collect()
    }

    fn change(&self) -> Option<String> {
        match self {
            Self::Offer(offer) => offer.trusted.then(|| format!("{} is trusted", offer.store)),
            Self::List(_) => None,
            Self::Users(users) => Some(users.describe()),
            Self::Revoke(one) => one.revoked.then(|| format!("{} is no longer trusted", one.store)),
            Self::Outbox(saves) => (!saves.unsigned.is_empty())
                .then(|| format!("{} checkpoints from the outbox were saved", saves.accepted)),
        }
    }
}

impl Offer {
    /// Whether nothing needs to be trusted.
    pub(crate) fn is_empty(&self) -> bool {
        self.state != "foreign" && self.settings.is_empty()
    }

    /// The description above the question.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "{}     {}", bold("Store"), clean(&self.store));
        match (self.state, &self.why) {
            ("foreign", Some(why)) => {
                let _ = writeln!(text, "          foreign: {}", clean(why));
            }
            ("new", _) if self.settings.is_empty() => text.push_str("          does not exist yet\n"),
            ("new", _) => text.push_str("          does not exist yet; it will be created\n"),
            _ => text.push_str("          yours\n"),
        }
        if let (Some(runs), Some(checkpoints)) = (self.runs, self.checkpoints) {
            let _ =
                writeln!(text, "          {}, {}", counted(runs, "run"), counted(checkpoints, "checkpoint"));
        }
        if !self.settings.is_empty() {
            let _ = writeln!(text, "{}  {}", bold("Settings"), clean(&self.config));
            for (key, value) in &self.settings {
                let _ = writeln!(text, "          {} = {}", clean(key), value_lines(value));
            }
        }
        text
    }
}

/// A value in full. A list has one element per line, and long text is wrapped.
fn value_lines(value: &str) -> String {
    let parsed = format!("v = {value}").parse::<toml::Table>().ok();
    let list = parsed.as_ref().and_then(|table| table.get("v")?.as_array());
    match list {
        Some(elements) => {
            let lines =
                elements.iter().map(|element| format!("\n            {}", broken(&element.to_string())));
            format!("{}:{}", counted(elements.len() as u64, "value"), lines.collect::<String>())
        }
        None => broken(value),
    }
}

/// Text, wrapped at a fixed width.
fn broken(text: &str) -> String {
    const WIDTH: usize = 64;
    let characters: Vec<char> = one_line(text).chars().collect();
    let lines: Vec<String> = characters.chunks(WIDTH).map(|line| line.iter().collect()).collect();
    lines.join("\n            ")
}

/// The description of unsigned saves above the question.
pub(crate) fn describe_unsigned(all: &[PendingSave]) -> Vec<String> {
    let n = counted(all.len() as u64, "save");
    let mut lines =
        vec![format!("The outbox has {n} without your signature. Anyone could have put them there:")];
    for one in all {
        if let PendingState::Unsigned { run_id, summary, sizes: [brief, state, changes], .. } = &one.state {
            let about = summary.as_deref().map(clean).unwrap_or_default();
            let file = clean(&one.file.display().to_string());
            lines.push(format!(
                "  {file}\n    run {run_id}: {about}\n    brief {}, state {}, {}",
                bytes(*brief as u64),
                bytes(*state as u64),
                counted(*changes as u64, "change"),
            ));
        }
    }
    lines
}
