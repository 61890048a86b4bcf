//! `trust`: adopts a foreign store or guarded settings, after showing them to the user.

use milepost::internal::brief::one_line;
use milepost::internal::engine::{PendingSave, PendingState};
use milepost::internal::store::identity::{self, ForeignReason, StoreTrust};
use milepost::internal::trust::{StoreRecord, UserState};
use milepost::{Error, Milepost, ReasonCode, RunsQuery};

use crate::agents::AGENTS;
use crate::config::{agent_variable, trusted_entry};
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::present::trust::{
    AcceptedSaves, Offer, Revocation, TrustDocument, TrustedStores, TrustedUsers, describe_unsigned,
};

/// Review and trust this project's store and guarded settings
///
/// A store that came with a clone, an archive or a copy is foreign: it is opened read-only, and nothing in it
/// is passed to an agent. Guarded settings in milepost.toml, which decide where Milepost writes, what is
/// committed or how much is kept, are ignored until you trust them. This command shows both and asks on the
/// terminal. It refuses to run under an agent.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  milepost trust\n  milepost trust --dry-run\n  milepost trust --outbox\n  \
                        milepost trust --list\n  milepost trust --revoke\n  milepost trust user alice\n\n\
                        If no state can be kept (containers, CI), set MILEPOST_TRUST to folders that you trust."
)]
pub(crate) struct TrustArgs {
    #[command(subcommand)]
    subject: Option<TrustSubject>,
    /// Show what would be trusted without changing anything
    #[arg(long, group = "what")]
    dry_run: bool,
    /// Review and accept saves in the outbox that you have not signed
    #[arg(long, group = "what")]
    outbox: bool,
    /// List the stores that you created or trusted on this machine
    #[arg(long, group = "what")]
    list: bool,
    /// Stop trusting this project's store and settings
    #[arg(long, group = "what")]
    revoke: bool,
}

/// Whose runs to trust in a store on a server.
#[derive(Debug, clap::Subcommand)]
enum TrustSubject {
    User(UserArgs),
    Project(ProjectArgs),
}

/// Trust what a user of the store's server records
///
/// What other users record is foreign until you trust it: agents are not shown it, and it is not continued without
/// asking. A user is the database role that the server recorded.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost trust user alice\n  milepost trust user alice --revoke")]
struct UserArgs {
    /// Name of the database role
    name: String,
    /// Stop trusting this user
    #[arg(long)]
    revoke: bool,
}

/// Trust what every user of the store's server records in this project
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  milepost trust project\n  milepost trust project --revoke")]
struct ProjectArgs {
    /// Trust only your own runs, and those of users that you trust by name
    #[arg(long)]
    revoke: bool,
}

/// Maximum length, in bytes, of a value that the user is asked to trust.
const MAX_VALUE: usize = 4096;

pub(crate) fn execute(args: TrustArgs, context: &Context<'_>) -> Result<TrustDocument> {
    match args.subject {
        Some(TrustSubject::User(user)) => {
            return trust_users(context, Some(user.name), user.revoke).map(TrustDocument::Users);
        }
        Some(TrustSubject::Project(project)) => {
            return trust_users(context, None, project.revoke).map(TrustDocument::Users);
        }
        None => {}
    }
    if args.list {
        return list(context).map(TrustDocument::List);
    }
    if args.revoke {
        return revoke(context).map(TrustDocument::Revoke);
    }
    if args.outbox {
        return accept_outbox(context).map(TrustDocument::Outbox);
    }
    let offer = offer(context)?;
    if args.dry_run || offer.is_empty() {
        return Ok(TrustDocument::Offer(offer));
    }
    let state = user_state(context)?;
    ensure_adoptable(context)?;
    ensure_readable(&offer)?;
    context.output.message_always(offer.describe().trim_end());
    confirm(context, "Trust this?")?;
    let record = adopt(context, state)?;
    Ok(TrustDocument::Offer(Offer { store_id: Some(record.id), trusted: true, ..offer }))
}

/// Collects what the user can trust. Opens the store read-only.
fn offer(context: &Context<'_>) -> Result<Offer> {
    let config = &context.config;
    if !config.untrusted.contains_key("store") {
        // A file that is rejected completely has no values to trust.
        config.check()?;
    }
    let url = config.url();
    let local = config.local_url();
    let foreign = context.foreign();
    let read = || -> Result<(u64, u64), Error> {
        let options = context.open_options(false).foreign(foreign.clone().or(Some(ForeignReason::NoRecord)));
        let runs = Milepost::at(&url, &options)?.runs(&RunsQuery::default())?;
        Ok((runs.len() as u64, runs.iter().map(|run| run.checkpoints()).sum()))
    };
    let counts = match &foreign {
        Some(ForeignReason::NotRegular { .. }) => None,
        // Nothing connects to a server that the user has not trusted.
        _ if config.server.is_some() => None,
        _ => read().ok(),
    };
    Ok(Offer {
        store: url.to_string(),
        store_id: identity::read_id(&local).ok().flatten(),
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
fn ensure_adoptable(context: &Context<'_>) -> Result<()> {
    match context.foreign() {
        Some(why) if !why.is_adoptable() => {
            Err(milepost::store::StoreError::Untrusted { location: context.url().to_string(), why }.into())
        }
        _ => Ok(()),
    }
}

/// Refuses values that are too long to review.
fn ensure_readable(offer: &Offer) -> Result<()> {
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

fn user_state<'c>(context: &'c Context<'_>) -> Result<&'c UserState> {
    context.config.trust.state.as_ref().map_err(|why| {
        CommandError::new(ReasonCode::StoreUntrusted, format!("trust cannot be recorded: {why}"))
            .with_exit(crate::error_advice::Exit::Untrusted)
            .with_hint(format!("set MILEPOST_TRUST={}", context.config.paths.root.display()))
    })
}

/// Records the store, which is created if needed, and the guarded values as trusted.
fn adopt(context: &Context<'_>, state: &UserState) -> Result<StoreRecord> {
    let config = &context.config;
    let url = config.local_url();
    // Create the store if it has no id, even if it already contains runs.
    if identity::read_id(&url).ok().flatten().is_none() {
        context.create_local_copy(state)?;
    }
    let mut record = identity::adopt(&url, state).map_err(Error::file(state.folder(), "written"))?;
    record.add_project(trusted_entry(&config.paths, &config.guarded));
    state.write_record(&record).map_err(Error::file(state.folder(), "written"))?;
    Ok(record)
}

/// Trusts a user of the store's server, or all users in this project, or stops trusting them.
fn trust_users(context: &Context<'_>, user: Option<String>, revoke: bool) -> Result<TrustedUsers> {
    let config = &context.config;
    config.check()?;
    let Some(server) = &config.server else {
        return Err(CommandError::usage(format!("{} is not on a server, so it has no users", context.url()))
            .with_hint("select a server with --store postgres://HOST/DATABASE"));
    };
    let state = user_state(context)?;
    ensure_adoptable(context)?;
    let store = context.url().to_string();
    if !revoke {
        let subject = match &user {
            Some(name) => format!("what {} records in {store}", one_line(name)),
            None => format!("what every user records in project {} of {store}", server.project),
        };
        context.output.message_always(&format!("Agents will be shown {subject}, as if you had recorded it."));
        confirm(context, "Trust this?")?;
    }
    context.create_local_copy(state)?;
    let mut record =
        identity::adopt(&config.local_url(), state).map_err(Error::file(state.folder(), "written"))?;
    let mut entry = trusted_entry(&config.paths, &Default::default());
    entry.all_users = user.is_none() && !revoke;
    record.add_project(entry.clone());
    match &user {
        Some(name) => {
            record.users.retain(|known| known != name);
            if !revoke {
                record.users.push(name.clone());
            }
        }
        None if revoke => {
            let own = record.projects.iter_mut().filter(|known| known.project == entry.project);
            own.for_each(|project| project.all_users = false);
        }
        None => {}
    }
    state.write_record(&record).map_err(Error::file(state.folder(), "written"))?;
    Ok(TrustedUsers { store, user, project: server.project.to_string(), trusted: !revoke })
}

/// Requires confirmation on a controlling terminal, outside any agent.
fn confirm(context: &Context<'_>, question: &str) -> Result<()> {
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
        None => Err(refused(
            "trust must be confirmed by a person at a terminal, and there is no terminal".to_owned(),
        )),
        Some(true) => Ok(()),
        Some(false) => Err(CommandError::new(ReasonCode::ConfirmationNeeded, "nothing was trusted")),
    }
}

fn list(context: &Context<'_>) -> Result<TrustedStores> {
    let state = user_state(context)?;
    let mut stores = state.records().map_err(Error::file(state.folder(), "read"))?;
    stores.sort_by(|a, b| a.store.cmp(&b.store));
    Ok(TrustedStores { stores })
}

fn revoke(context: &Context<'_>) -> Result<Revocation> {
    // A store that only an untrusted file names cannot be revoked.
    context.config.check()?;
    let state = user_state(context)?;
    // A copy of a store must not remove the record of the original.
    let (_, record) = context.config.trust.evaluate(&context.config.local_url(), &context.config.paths);
    let revoked = record
        .map(|record| state.remove_record(&record.id))
        .transpose()
        .map_err(Error::file(state.folder(), "removed"))?;
    Ok(Revocation {
        store: context.url().to_string(),
        revoked: revoked == Some(true),
        covered: context.config.trust.covers_store(&context.config.local_url()),
    })
}

fn accept_outbox(context: &Context<'_>) -> Result<AcceptedSaves> {
    let outbox = context.outbox().filter(|_| context.foreign().is_none());
    let pending = outbox.as_ref().and_then(|outbox| outbox.pending().ok()).unwrap_or_default();
    let unsigned: Vec<PendingSave> =
        pending.into_iter().filter(|one| matches!(one.state, PendingState::Unsigned { .. })).collect();
    let checksum = |one: &PendingSave| match &one.state {
        PendingState::Unsigned { checksum, .. } => Some(checksum.clone()),
        _ => None,
    };
    let shown: Vec<String> = unsigned.iter().filter_map(checksum).collect();
    let files = unsigned.iter().map(|one| one.file.clone()).collect();
    let mut document = AcceptedSaves { unsigned: files, accepted: 0, refused: Vec::new() };
    if let (Some(outbox), false) = (&outbox, unsigned.is_empty()) {
        describe_unsigned(&unsigned).iter().for_each(|line| context.output.message_always(line));
        confirm(context, "Save these checkpoints?")?;
        let delivery = outbox.deliver_accepting(&context.open_or_create()?, &shown)?;
        document.accepted = delivery.saved.len() as u64;
        document.refused = delivery.refused;
    }
    Ok(document)
}
