//! Opens a command's store, if it may be used, and imports saves from the outbox into it. Takes settings and
//! whether the store is trusted, and returns an engine or the reason why there is none.

use std::time::Duration;

use milepost::internal::engine::Outbox;
use milepost::internal::fs::atomic;
use milepost::internal::store::identity::StoreTrust;
use milepost::internal::trust::UserState;
use milepost::store::{ForeignReason, OpenOptions, StoreError, StoreUrl};
use milepost::{Error, Milepost};

use super::{Audience, Context};
use crate::config::trusted_entry;
use crate::present::format::counted;

/// Maximum computing time of one transaction in a hook.
const HOOK_TIME_LIMIT: Duration = Duration::from_secs(5);
/// Maximum computing time of one transaction on a foreign store.
const FOREIGN_TIME_LIMIT: Duration = Duration::from_secs(1);
/// Maximum number of outbox entries to warn about by name.
const NAMED_FILES: usize = 5;

/// One line about acknowledged writes that the store has lost, if any.
pub(crate) fn lost_writes(mp: &Milepost) -> Option<String> {
    // A store that cannot be read is reported elsewhere.
    let lost = mp.lost_writes().ok().filter(|lost| *lost > 0)?;
    let n = counted(lost, "acknowledged write");
    let are = if lost == 1 { "is" } else { "are" };
    Some(format!(
        "{n} {are} missing from the store. `milepost doctor` explains why, `milepost doctor --fix` recovers what it can"
    ))
}

/// What to do with saves in the outbox.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OutboxAction {
    Deliver,
    Leave,
}

impl Context<'_> {
    /// Opens a store that must exist.
    pub(crate) fn open_existing(&self) -> Result<Milepost, Error> {
        // Saves in the outbox may create the store.
        let create = self.foreign().is_none() && self.has_deliverable_saves();
        let opened = self.open(create, OutboxAction::Deliver);
        let opened = opened.inspect(|mp| {
            self.read_incomplete.set(self.warn_of_lost_writes(mp));
            self.recover_restore(mp);
        });
        match opened {
            // The store could not be created: it is missing, or this user cannot access it.
            Err(Error::Store(StoreError::ReadOnly { .. })) if create => self.open(false, OutboxAction::Leave),
            other => other,
        }
    }

    /// Opens the store, and creates it if needed.
    pub(crate) fn open_or_create(&self) -> Result<Milepost, Error> {
        self.config.check()?;
        self.check_writable()?;
        let mp = self.open(true, OutboxAction::Deliver)?;
        self.warn_of_lost_writes(&mp);
        self.recover_restore(&mp);
        Ok(mp)
    }

    /// Completes or rolls back a restore of files that was interrupted. Hooks leave that to other commands.
    fn recover_restore(&self, mp: &Milepost) {
        let paths = &self.config.paths;
        let store = self.config.local_url().absolute().to_string();
        let folder =
            milepost::internal::snapshot::restore_folder(&paths.root, paths.repository.as_ref(), &store);
        if self.audience == Audience::Hook || self.foreign().is_some() || !folder.exists() {
            return;
        }
        let recovered = self.capture_options().map(|options| mp.worktree_with(options)?.recover());
        // On an error, another process is restoring files right now, or the next command tries again.
        if let Some(Ok(Some(what))) = recovered {
            self.output.message(&what);
        }
    }

    /// Warns a person if the store has lost acknowledged writes. Returns whether it warned. Hooks have their
    /// own message.
    fn warn_of_lost_writes(&self, mp: &Milepost) -> bool {
        if !self.audience.is_person() {
            return false;
        }
        let warning = lost_writes(mp);
        if let Some(warning) = &warning {
            self.output.message(&format!("Warning: {warning}"));
        }
        warning.is_some()
    }

    /// Refuses to change a foreign store.
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        match self.foreign() {
            Some(why) => Err(StoreError::Untrusted { location: self.url().to_string(), why }.into()),
            None => Ok(()),
        }
    }

    /// Why the store is foreign, if it is. Queries git whether it tracks the store, except in hooks, which
    /// run at every event of an agent.
    pub(crate) fn foreign(&self) -> Option<ForeignReason> {
        self.foreign.get_or_init(|| self.detect_foreign()).clone()
    }

    fn detect_foreign(&self) -> Option<ForeignReason> {
        if self.config.store_is_chosen {
            return None;
        }
        match self.config.foreign() {
            // Trust cannot make these stores safe, so git need not be queried.
            Some(why @ (ForeignReason::OtherOwner { .. } | ForeignReason::NotRegular { .. })) => {
                Some(why.clone())
            }
            other if self.audience == Audience::Hook => other.cloned(),
            _ if self.is_tracked() => Some(ForeignReason::Tracked),
            other => other.cloned(),
        }
    }

    /// Removes the record of a store that git tracks, so that later events of this session treat it as
    /// foreign.
    pub(crate) fn forget_record(&self) {
        if let (Some(record), Ok(state)) = (&self.config.record, &self.config.trust.state) {
            // If this fails, the next session start tries again.
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

    /// The options for opening the store.
    pub(crate) fn open_options(&self, create: bool) -> OpenOptions {
        OpenOptions::new()
            .create(create)
            .wait(self.config.wait)
            .one_shot(self.audience.is_one_shot())
            .foreign(self.foreign())
            .user_state(self.config.trust.state.clone().ok())
            .time_limit(match self.foreign() {
                Some(_) => Some(FOREIGN_TIME_LIMIT),
                None => (self.audience == Audience::Hook).then_some(HOOK_TIME_LIMIT),
            })
    }

    /// Opens a store that must exist, and imports nothing from the outbox.
    pub(crate) fn open_read_only(&self) -> Result<Milepost, Error> {
        self.open(false, OutboxAction::Leave)
    }

    /// The outbox of the default store. A store with an explicit address has none.
    pub(crate) fn outbox(&self) -> Option<Outbox> {
        if self.config.store.is_some() || self.config.refusal.is_some() {
            return None;
        }
        let state = self.config.trust.state.as_ref().ok();
        // Entries created without a key are marked as unsigned, and every command reports them.
        let key = state.and_then(|state| state.create_key().ok());
        Some(Outbox::new(self.config.paths.outbox(), &self.url(), key))
    }

    /// Whether the store exists or might exist. A server that only the user's file names belongs to a project once
    /// `init` or a save has created its copy there, so that hooks do not record in every repository.
    pub(crate) fn has_store(&self) -> bool {
        let is_for_this_project = || self.config.store_is_chosen || self.config.project_sets_store();
        match &self.config.server {
            Some(_) => is_for_this_project() || self.config.local_url().exists(),
            None => self.url().may_exist(),
        }
    }

    fn has_deliverable_saves(&self) -> bool {
        // Most projects have no outbox folder, and then no key is created.
        self.config.paths.outbox().exists() && self.outbox().is_some_and(|outbox| outbox.is_ready())
    }

    fn open(&self, create: bool, outbox: OutboxAction) -> Result<Milepost, Error> {
        self.config.check()?;
        let options = self.open_options(create);
        if let Some(why) = &options.foreign {
            self.check_foreign_readable(why)?;
        }
        let foreign = options.foreign.is_some();
        let mp = self.store_source(create).open()?.with_settings(self.settings());
        self.send_waiting(&mp);
        if create && self.config.store_trust == StoreTrust::New {
            self.record_new_store();
        }
        if outbox == OutboxAction::Deliver && !foreign && self.config.paths.outbox().exists() {
            self.deliver(&mp);
        }
        Ok(mp)
    }

    /// Decides whether a foreign store may be read: with a warning for people, never for agents. Another
    /// user's store, or one behind a symbolic link, is never read.
    fn check_foreign_readable(&self, why: &ForeignReason) -> Result<(), Error> {
        let location = self.url().to_string();
        // The target of a symbolic link is not part of the project, and even reading a store there could
        // create files next to it. Another user may have placed a store in a parent folder of this user's
        // project, which git's `safe.directory` also guards against.
        let unreadable = matches!(why, ForeignReason::NotRegular { .. } | ForeignReason::OtherOwner { .. });
        if unreadable || self.is_for_agent() {
            return Err(StoreError::Untrusted { location, why: why.clone() }.into());
        }
        if !self.warned.replace(true) {
            self.output.message(&format!(
                "Warning: {location} is not trusted, so it is opened read-only: {why}.{}",
                if why.is_adoptable() { " Run `milepost trust` to review and trust it" } else { "" }
            ));
        }
        Ok(())
    }

    /// Creates the store on this machine, if it does not exist.
    pub(crate) fn create_local_copy(&self, state: &UserState) -> Result<(), Error> {
        let url = self.config.local_url();
        let options = OpenOptions::new().create(true).wait(self.config.wait).user_state(Some(state.clone()));
        if let (false, Some(folder)) = (url.exists(), url.path().and_then(std::path::Path::parent)) {
            atomic::create_folder(folder).map_err(Error::file(folder, "written"))?;
        }
        drop(Milepost::at(&url, &options)?);
        Ok(())
    }

    /// Adds the project to the record of a store that was just created, or warns that there is no record.
    pub(super) fn record_new_store(&self) {
        let config = &self.config;
        let (trust, record) = config.trust.evaluate(&config.local_url(), &config.paths);
        match (trust, record, &config.trust.state) {
            (_, Some(mut record), Ok(state)) => {
                let is_new = record.add_project(trusted_entry(&config.paths, &Default::default()));
                if is_new {
                    // A failure does no harm: the store is recorded, and the project is only needed for
                    // listings.
                    let _ = state.write_record(&record);
                }
            }
            (StoreTrust::Foreign(_), ..) if !config.store_is_chosen => {
                let why =
                    config.trust.state.as_ref().err().map_or("the record cannot be written", String::as_str);
                self.output.message(&format!(
                    "Warning: this store could not be recorded as yours ({why}). Set MILEPOST_TRUST={} for later \
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
                    self.output.message(&format!("{n} imported from the outbox"));
                }
                if !report.unsigned.is_empty() {
                    let n = counted(report.unsigned.len() as u64, "checkpoint");
                    self.output.message(&format!(
                        "Warning: the outbox contains {n} without your signature; run `milepost trust --outbox` to \
                         review them"
                    ));
                }
                let refused = report.refused.len();
                if !self.audience.is_person() {
                    // An attacker may have chosen the file names.
                    if refused > 0 {
                        let n = counted(refused as u64, "file");
                        self.output.message(&format!(
                            "Warning: could not import {n} from the outbox; `milepost doctor` shows the reason"
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
                    self.output.message(&format!(
                        "Warning: {} more could not be imported from the outbox",
                        refused - NAMED_FILES
                    ));
                }
            }
            // Reading commands continue; writing commands report the error themselves.
            Err(e) => self.output.detail(&format!("the saves in the outbox could not be imported: {e}")),
        }
    }
}
