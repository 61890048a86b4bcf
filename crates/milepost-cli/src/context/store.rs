//! The store of a command: whether it may be used, how it is opened, and what waits for it in the outbox.
//! In: settings and whether the store is trusted. Out: an engine, or the reason why there is none.

use std::time::Duration;

use milepost::internal::engine::Outbox;
use milepost::internal::store::identity::StoreTrust;
use milepost::store::{ForeignReason, OpenOptions, StoreError, StoreUrl};
use milepost::{Error, Milepost};

use super::{Audience, Context};
use crate::config::trusted_entry;
use crate::present::format::counted;

/// How long one transaction of a hook may compute.
const HOOK_TIME_LIMIT: Duration = Duration::from_secs(5);
/// The same for a store that somebody else has made.
const FOREIGN_TIME_LIMIT: Duration = Duration::from_secs(1);
/// Entries of the outbox that are named when they stay.
const NAMED_FILES: usize = 5;

/// One line about acknowledged writes that the store has lost, if there are any.
pub(crate) fn lost_writes(mp: &Milepost) -> Option<String> {
    // A store that cannot be read says so itself.
    let lost = mp.lost_writes().ok().filter(|lost| *lost > 0)?;
    let n = counted(lost, "acknowledged write");
    let are = if lost == 1 { "is" } else { "are" };
    Some(format!(
        "{n} {are} missing from the store. `milepost doctor` says why, `milepost doctor --fix` recovers what it can"
    ))
}

/// What to do with checkpoints that wait in the outbox.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutboxAction {
    Deliver,
    Leave,
}

impl Context<'_> {
    /// Opens a store that has to be there.
    pub(crate) fn open_existing(&self) -> Result<Milepost, Error> {
        // Waiting saves may create the store.
        let create = self.foreign().is_none() && self.has_deliverable_saves();
        let opened = self.open(create, OutboxAction::Deliver);
        let opened = opened.inspect(|mp| self.read_incomplete.set(self.warn_of_lost_writes(mp)));
        match opened {
            // It could not be created: then it is missing, or this user may not see it.
            Err(Error::Store(StoreError::ReadOnly { .. })) if create => self.open(false, OutboxAction::Leave),
            other => other,
        }
    }

    /// Opens the store, making it if needed.
    pub(crate) fn open_or_create(&self) -> Result<Milepost, Error> {
        self.config.check()?;
        self.check_writable()?;
        let mp = self.open(true, OutboxAction::Deliver)?;
        self.warn_of_lost_writes(&mp);
        Ok(mp)
    }

    /// Warns a person of acknowledged writes that the store has lost; whether there are any. Hooks have their own line.
    fn warn_of_lost_writes(&self, mp: &Milepost) -> bool {
        if self.audience != Audience::Person {
            return false;
        }
        let warning = lost_writes(mp);
        if let Some(warning) = &warning {
            self.output.message(&format!("Warning: {warning}"));
        }
        warning.is_some()
    }

    /// Refuses to change a store that is foreign.
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        match self.foreign() {
            Some(why) => Err(StoreError::Untrusted { location: self.url().to_string(), why }.into()),
            None => Ok(()),
        }
    }

    /// Why the store is foreign, if it is. For a store inside a worktree git is asked whether it tracks it, but not at
    /// every event of an agent's.
    pub(crate) fn foreign(&self) -> Option<ForeignReason> {
        self.foreign.get_or_init(|| self.detect_foreign()).clone()
    }

    fn detect_foreign(&self) -> Option<ForeignReason> {
        if self.config.store_is_chosen {
            return None;
        }
        match self.config.foreign() {
            // No trust makes these safe, so that git need not be asked.
            Some(why @ (ForeignReason::OtherOwner { .. } | ForeignReason::NotRegular { .. })) => {
                Some(why.clone())
            }
            other if self.audience == Audience::Hook => other.cloned(),
            _ if self.is_tracked() => Some(ForeignReason::Tracked),
            other => other.cloned(),
        }
    }

    /// Forgets the record of a store that git tracks, so that later events of this session find it foreign at once.
    pub(crate) fn forget_record(&self) {
        if let (Some(record), Ok(state)) = (&self.config.record, &self.config.trust.state) {
            // The next session start finds it tracked again.
            let _ = state.remove_record(&record.id);
        }
    }

    /// Whether git tracks the store.
    pub(crate) fn is_tracked(&self) -> bool {
        let url = self.url();
        let paths = &self.config.paths;
        let need_not_ask = self.config.store_trust == StoreTrust::New
            || self.config.trust.covers_store(&url)
            || url == StoreUrl::sqlite(paths.database.clone());
        !need_not_ask && milepost::internal::capture::is_tracked(paths.repository.as_ref(), &url)
    }

    /// How the store is opened.
    pub(crate) fn open_options(&self, create: bool) -> OpenOptions {
        OpenOptions::new()
            .create(create)
            .wait(self.config.wait)
            .one_shot(true)
            .foreign(self.foreign())
            .user_state(self.config.trust.state.clone().ok())
            .time_limit(match self.foreign() {
                Some(_) => Some(FOREIGN_TIME_LIMIT),
                None => (self.audience == Audience::Hook).then_some(HOOK_TIME_LIMIT),
            })
    }

    /// Opens a store that has to be there and changes nothing in it.
    pub(crate) fn open_read_only(&self) -> Result<Milepost, Error> {
        self.open(false, OutboxAction::Leave)
    }

    /// The outbox of the default store; a store with an address of its own has none.
    pub(crate) fn outbox(&self) -> Option<Outbox> {
        if self.config.store.is_some() || self.config.refusal.is_some() {
            return None;
        }
        let state = self.config.trust.state.as_ref().ok();
        // Entries that are made without a key are marked as such, and every command says so.
        let key = state.and_then(|state| state.create_key().ok());
        Some(Outbox::new(self.config.paths.outbox(), &self.url(), key))
    }

    /// Whether there is a store to write to, or what waits for one.
    pub(crate) fn has_store(&self) -> bool {
        self.url().may_exist()
    }

    fn has_deliverable_saves(&self) -> bool {
        // Most projects have no such folder, and need no key.
        self.config.paths.outbox().exists() && self.outbox().is_some_and(|outbox| outbox.is_ready())
    }

    fn open(&self, create: bool, outbox: OutboxAction) -> Result<Milepost, Error> {
        self.config.check()?;
        let options = self.open_options(create);
        if let Some(why) = &options.foreign {
            self.check_foreign_readable(why)?;
        }
        let foreign = options.foreign.is_some();
        let mp = Milepost::at(&self.url(), &options)?.with_settings(self.settings());
        if create && self.config.store_trust == StoreTrust::New {
            self.record_new_store();
        }
        if outbox == OutboxAction::Deliver && !foreign && self.config.paths.outbox().exists() {
            self.deliver(&mp);
        }
        Ok(mp)
    }

    /// A foreign store is read with a warning by people, and not at all by agents. Another user's store, and one behind a
    /// link, is not read at all.
    fn check_foreign_readable(&self, why: &ForeignReason) -> Result<(), Error> {
        let location = self.url().to_string();
        // What a link leads to is not the project's, and reading it could write beside it. Another user may have put a
        // store above folders that are not theirs, as git's `safe.directory` assumes.
        let unreadable = matches!(why, ForeignReason::NotRegular { .. } | ForeignReason::OtherOwner { .. });
        if unreadable || self.is_for_agent() {
            return Err(StoreError::Untrusted { location, why: why.clone() }.into());
        }
        if !self.warned.replace(true) {
            self.output.message(&format!(
                "Warning: {location} is not trusted: opened read-only, because {why}.{}",
                if why.is_adoptable() { " `milepost trust` adopts it" } else { "" }
            ));
        }
        Ok(())
    }

    /// Notes the project in the record of a store that was just made, or says that there is no record.
    fn record_new_store(&self) {
        let config = &self.config;
        let (trust, record) = config.trust.evaluate(&self.url(), &config.paths);
        match (trust, record, &config.trust.state) {
            (_, Some(mut record), Ok(state)) => {
                let is_new = record.add_project(trusted_entry(&config.paths, &Default::default()));
                if is_new {
                    // The store is recorded; its project is only for lists.
                    let _ = state.write_record(&record);
                }
            }
            (StoreTrust::Foreign(_), ..) if !config.store_is_chosen => {
                let why = config.trust.state.as_ref().err().map_or("it cannot be written", String::as_str);
                self.output.message(&format!(
                    "Warning: there is no record that this store is yours ({why}). Set MILEPOST_TRUST={} for later \
                     commands",
                    config.paths.root.display()
                ));
            }
            _ => {}
        }
    }

    fn deliver(&self, mp: &Milepost) {
        let Some(outbox) = self.outbox() else { return };
        match outbox.deliver(mp) {
            Ok(report) => {
                if !report.saved.is_empty() {
                    let n = counted(report.saved.len() as u64, "waiting checkpoint");
                    self.output.message(&format!("{n} taken in"));
                }
                if !report.unsigned.is_empty() {
                    let n = counted(report.unsigned.len() as u64, "checkpoint");
                    self.output.message(&format!(
                        "Warning: {n} in the outbox without your signature: `milepost trust --outbox` shows and \
                         accepts them"
                    ));
                }
                let refused = report.refused.len();
                if self.audience != Audience::Person {
                    // Names of files may be a stranger's words.
                    if refused > 0 {
                        let n = counted(refused as u64, "file");
                        self.output.message(&format!(
                            "Warning: {n} stay in the outbox; `milepost doctor` names them"
                        ));
                    }
                    return;
                }
                for (file, why) in report.refused.iter().take(NAMED_FILES) {
                    self.output.message(&format!(
                        "Warning: {} stays in the outbox: {why}; remove it if it is not needed",
                        file.display()
                    ));
                }
                if refused > NAMED_FILES {
                    self.output
                        .message(&format!("Warning: {} more stay in the outbox", refused - NAMED_FILES));
                }
            }
            // Reading commands continue; writing commands report the error themselves.
            Err(e) => self.output.detail(&format!("what waits in the outbox stays there: {e}")),
        }
    }
}
