//! `trust`: adopts a store or guarded settings that came from elsewhere, after showing them to a person.

use std::collections::BTreeMap;
use std::path::PathBuf;

use milepost::RunsQuery;
use milepost::internal::engine::{PendingSave, PendingState};
use milepost::internal::store::identity::{self, StoreTrust};
use milepost::internal::trust::{StoreRecord, UserState};
use milepost::model::StoreId;
use milepost::store::ForeignReason;
use milepost::store::OpenOptions;
use milepost::{Error, Milepost, ReasonCode};
use serde::Serialize;

use crate::agents::AGENTS;
use crate::config::{agent_variable, trusted_entry};
use crate::context::Context;
use crate::error::CommandError;
use crate::present::trust as page;

/// Trust the store and the guarded settings of this project, after showing them
///
/// A store that came with a clone, an archive or a copy is foreign: it is opened read-only, and nothing in it is given to
/// an agent. Settings in milepost.toml that decide where things are written, what is committed or how much is kept are
/// ignored. This command shows both and asks on the terminal. It refuses to run under an agent.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  milepost trust\n  milepost trust --dry-run\n  milepost trust --outbox\n  \
                        milepost trust --list\n  milepost trust --revoke\n\n\
                        Where no state can be kept (containers, CI), set MILEPOST_TRUST to folders that you trust."
)]
pub(crate) struct TrustArgs {
    /// Show what would be trusted, and change nothing
    #[arg(long, group = "what")]
    dry_run: bool,
    /// Show saves in the outbox that are not signed by you, and accept them
    #[arg(long, group = "what")]
    outbox: bool,
    /// List the stores that you created or trusted on this machine
    #[arg(long, group = "what")]
    list: bool,
    /// Stop trusting this project's store and settings
    #[arg(long, group = "what")]
    revoke: bool,
}

/// What is there to trust.
#[derive(Serialize)]
pub(crate) struct Offer {
    schema: &'static str,
    pub(crate) store: String,
    pub(crate) store_id: Option<StoreId>,
    /// `trusted`, `new` or `foreign`.
    pub(crate) state: &'static str,
    /// Why it is foreign.
    pub(crate) why: Option<String>,
    pub(crate) runs: Option<u64>,
    pub(crate) checkpoints: Option<u64>,
    /// The configuration file, and the guarded values in it that are not trusted yet.
    pub(crate) config: String,
    pub(crate) settings: BTreeMap<String, String>,
    pub(crate) trusted: bool,
}

#[derive(Serialize)]
struct ListDocument<'a> {
    schema: &'static str,
    stores: &'a [StoreRecord],
}

#[derive(Serialize)]
struct OutboxDocument<'a> {
    schema: &'static str,
    unsigned: &'a [PathBuf],
    accepted: u64,
}

#[derive(Serialize)]
struct RevokeDocument {
    schema: &'static str,
    store: String,
    revoked: bool,
}

const SCHEMA: &str = "milepost.trust/1";
/// Bytes of the longest value that a person is asked to trust.
const MAX_VALUE: usize = 4096;

pub(crate) fn run(args: &TrustArgs, context: &Context<'_>) -> Result<(), CommandError> {
    if args.list {
        return list(context);
    }
    if args.revoke {
        return revoke(context);
    }
    if args.outbox {
        return outbox(context);
    }
    let offer = offer(context)?;
    let nothing = offer.state != "foreign" && offer.settings.is_empty();
    if args.dry_run || nothing {
        return page::offer(context.output, &offer, nothing);
    }
    let state = state(context)?;
    adoptable(context)?;
    readable(&offer)?;
    page::show(context.output, &offer);
    confirmed(context, "Trust this?")?;
    let record = adopt(context, state)?;
    let offer = Offer { store_id: Some(record.id), trusted: true, ..offer };
    page::trusted(context.output, &offer)
}

/// Reads what there is to trust. The store is opened for reading alone.
fn offer(context: &Context<'_>) -> Result<Offer, CommandError> {
    let config = &context.config;
    if !config.untrusted.contains_key("store") {
        // A file that is refused as a whole has no values that could be trusted.
        config.check()?;
    }
    let url = config.url();
    let foreign = context.foreign();
    let read = || -> Result<(u64, u64), Error> {
        let options = context.open_options(false).foreign(foreign.clone().or(Some(ForeignReason::NoRecord)));
        let runs = Milepost::at(&url, &options)?.runs(&RunsQuery::default())?;
        Ok((runs.len() as u64, runs.iter().map(|run| run.checkpoints).sum()))
    };
    let counts = match &foreign {
        Some(ForeignReason::NotRegular { .. }) => None,
        _ => read().ok(),
    };
    Ok(Offer {
        schema: SCHEMA,
        store: url.to_string(),
        store_id: identity::read_id(&url).ok().flatten(),
        state: match (&foreign, &config.store_trust) {
            (Some(_), _) => "foreign",
            (None, StoreTrust::New) => "new",
            (None, _) => "trusted",
        },
        why: foreign.map(|why| why.to_string()),
        runs: counts.map(|(runs, _)| runs),
        checkpoints: counts.map(|(_, checkpoints)| checkpoints),
        config: config.file.display().to_string(),
        settings: config.untrusted.clone(),
        trusted: false,
    })
}

/// Refuses stores that trust cannot make safe.
fn adoptable(context: &Context<'_>) -> Result<(), CommandError> {
    match context.foreign() {
        Some(why) if !why.is_adoptable() => {
            Err(milepost::store::StoreError::Untrusted { place: context.url().to_string(), why }.into())
        }
        _ => Ok(()),
    }
}

/// Refuses values that nobody can read before they answer.
fn readable(offer: &Offer) -> Result<(), CommandError> {
    let Some((key, value)) = offer.settings.iter().find(|(_, value)| value.len() > MAX_VALUE) else {
        return Ok(());
    };
    let message = format!(
        "`{key}` in {} has a value of {} bytes: more than {MAX_VALUE} cannot be trusted",
        offer.config,
        value.len()
    );
    Err(CommandError::new(ReasonCode::ConfigUntrusted, message)
        .with_exit(crate::error_advice::Exit::Untrusted)
        .with_hint("shorten the value in the file, or remove it; `milepost trust --dry-run` shows all of it"))
}

fn state<'c>(context: &'c Context<'_>) -> Result<&'c UserState, CommandError> {
    context.config.trust.state.as_ref().map_err(|why| {
        CommandError::new(ReasonCode::StoreUntrusted, format!("trust cannot be recorded: {why}"))
            .with_exit(crate::error_advice::Exit::Untrusted)
            .with_hint(format!("set MILEPOST_TRUST={}", context.config.place.root.display()))
    })
}

/// Records the store, made if it is not there yet, and the guarded values.
fn adopt(context: &Context<'_>, state: &UserState) -> Result<StoreRecord, CommandError> {
    let config = &context.config;
    let (url, file) =
        (config.url(), |source| Error::File { path: state.folder().to_owned(), what: "written", source });
    // Made if it is not there, also around runs that are.
    if identity::read_id(&url).ok().flatten().is_none() {
        let options = OpenOptions::new().create(true).wait(config.wait).user_state(Some(state.clone()));
        drop(Milepost::at(&url, &options)?);
    }
    let mut record = identity::adopt(&url, state).map_err(file)?;
    record.add_project(trusted_entry(&config.place, &config.guarded));
    state.put(&record).map_err(file)?;
    context.output.record_change(format!("{url} is trusted"));
    Ok(record)
}

/// Requires a yes on a controlling terminal, outside any agent.
fn confirmed(context: &Context<'_>, question: &str) -> Result<(), CommandError> {
    let refused = |why: String| {
        CommandError::new(ReasonCode::ConfirmationNeeded, why)
            .with_hint("run it yourself in a terminal, or set MILEPOST_TRUST to folders that you trust")
    };
    if let Some(name) = agent_variable() {
        return Err(refused(format!("refusing to trust anything under an agent ({name} is set)")));
    }
    let programs: Vec<_> = AGENTS.iter().map(|agent| agent.program).collect();
    if let Some(name) = milepost::internal::owner::ancestor_named(&programs) {
        return Err(refused(format!("refusing to trust anything under an agent (started by {name})")));
    }
    match context.output.confirm_on_terminal(question) {
        None => Err(refused("trust needs a person at a terminal, and there is none".to_owned())),
        Some(true) => Ok(()),
        Some(false) => Err(CommandError::new(ReasonCode::ConfirmationNeeded, "nothing was trusted")),
    }
}

fn list(context: &Context<'_>) -> Result<(), CommandError> {
    let state = state(context)?;
    let mut stores = state.records().map_err(|source| Error::File {
        path: state.folder().to_owned(),
        what: "read",
        source,
    })?;
    stores.sort_by(|a, b| a.store.cmp(&b.store));
    if context.output.json {
        return context.output.document(&ListDocument { schema: SCHEMA, stores: &stores });
    }
    page::list(context.output, &stores)
}

fn revoke(context: &Context<'_>) -> Result<(), CommandError> {
    // A store that only an untrusted file names is not this project's to revoke.
    context.config.check()?;
    let state = state(context)?;
    // The record of a copy's original is not the copy's to remove.
    let (_, record) = context.config.trust.judge(&context.url(), &context.config.place);
    let revoked = record
        .map(|record| state.remove(&record.id))
        .transpose()
        .map_err(|source| Error::File { path: state.folder().to_owned(), what: "removed", source })?;
    if revoked == Some(true) {
        context.output.record_change(format!("{} is no longer trusted", context.url()));
    }
    let document =
        RevokeDocument { schema: SCHEMA, store: context.url().to_string(), revoked: revoked == Some(true) };
    if context.output.json {
        return context.output.document(&document);
    }
    if context.config.trust.covers_store(&context.url()) {
        context.output.message("MILEPOST_TRUST or trust.paths still names a folder above it");
    }
    context.output.text(&match document.revoked {
        true => format!("{} is no longer trusted, in any project\n", document.store),
        false => format!("{} was not trusted\n", document.store),
    })
}

fn outbox(context: &Context<'_>) -> Result<(), CommandError> {
    let outbox = context.outbox().filter(|_| context.foreign().is_none());
    let pending = outbox.as_ref().and_then(|outbox| outbox.pending().ok()).unwrap_or_default();
    let unsigned: Vec<PendingSave> =
        pending.into_iter().filter(|one| matches!(one.state, PendingState::Unsigned { .. })).collect();
    let files: Vec<PathBuf> = unsigned.iter().map(|one| one.file.clone()).collect();
    let checksum = |one: &PendingSave| match &one.state {
        PendingState::Unsigned { checksum, .. } => Some(checksum.clone()),
        _ => None,
    };
    let shown: Vec<String> = unsigned.iter().filter_map(checksum).collect();
    let mut accepted = 0;
    if let (Some(outbox), false) = (&outbox, files.is_empty()) {
        page::unsigned(context.output, &unsigned);
        confirmed(context, "Save these checkpoints?")?;
        let report = outbox.deliver_accepting(&context.open_or_create()?, &shown)?;
        accepted = report.saved.len() as u64;
        context.output.record_change(format!("{accepted} checkpoints of the outbox were saved"));
        page::refused(context.output, &report.refused);
    }
    if context.output.json {
        return context.output.document(&OutboxDocument { schema: SCHEMA, unsigned: &files, accepted });
    }
    page::accepted(context.output, accepted)
}
