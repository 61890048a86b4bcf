//! Loads settings, and records where each one comes from: flag, environment, `milepost.toml`, the user's file
//! or default. This is the only module that reads the environment. Unknown keys are warnings. Invalid values
//! are errors that name the key and its file, flag or variable.

mod agents;
mod capture;
mod environment;
mod file;
mod guarded;
mod pager;
mod retain;
mod server;
mod trust;
mod user_file;
mod value;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

use milepost::internal::engine::Pointer;
use milepost::internal::model::SizeLimits;
use milepost::internal::store::identity::StoreTrust;
use milepost::internal::store::{DEFAULT_WAIT, ProjectPaths};
use milepost::internal::trust::StoreRecord;
use milepost::model::{Profile, RunId, ValidationError};
use milepost::store::{ForeignReason, StoreUrl};
use milepost::{AllowList, Error, ReasonCode};
use serde::{Serialize, Serializer};

pub(crate) use self::agents::{Agents, PromptDetail, RECORD, RecordScope};
pub(crate) use self::capture::CaptureSettings;
use self::environment::Environment;
#[cfg(feature = "ui")]
pub(crate) use self::environment::graphical_browser;
pub(crate) use self::environment::{
    AgentEnvironment, COMPLETION_VARIABLE, agent_variable, columns, completion_shell, register_stores,
    resumed_run, state_folder,
};
use self::file::{File, FileLookup};
pub(crate) use self::pager::{Pager, pager};
pub(crate) use self::retain::{Retain, RetainFlags};
pub(crate) use self::server::{ProjectChoice, Server};
pub(crate) use self::trust::{Trust, trusted_entry};
pub(crate) use self::value::duration;
use self::value::{AllowedValues, KeyPath, RawValue, Seconds, SettingValue, Size};
use crate::cli::Global;
use crate::error::{CommandError, Result};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A command-line flag.
    Flag(&'static str),
    /// An environment variable.
    Environment(&'static str),
    /// A configuration file.
    File(PathBuf),
    /// The profile.
    Profile(Profile),
    /// The built-in default.
    Default,
}

impl Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Profile(profile) => write!(f, "profile {profile}"),
            Self::Default => f.write_str("default"),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One setting, as `config show` lists it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

/// Everything a command needs to know before it opens the store.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) paths: ProjectPaths,
    /// The store's address; `None` for the default store.
    pub(crate) store: Option<StoreUrl>,
    /// Whether a flag or the environment selects the store, which makes it the user's own choice.
    pub(crate) store_is_chosen: bool,
    /// Why the project's configuration is refused. If it is, no store is opened.
    pub(crate) refusal: Option<String>,
    /// The settings of a store on a server; `None` for a store on this machine.
    pub(crate) server: Option<Server>,
    /// Whether the store on this machine is trusted, foreign or new.
    pub(crate) store_trust: StoreTrust,
    /// This user's record of the store.
    pub(crate) record: Option<StoreRecord>,
    /// What this user trusts.
    pub(crate) trust: Trust,
    /// Guarded values in the project's file.
    pub(crate) guarded: BTreeMap<String, String>,
    /// The guarded values that this user has not trusted. They are ignored.
    pub(crate) untrusted: BTreeMap<String, String>,
    /// The run that a flag or the environment names.
    pub(crate) run: Option<RunId>,
    /// Whether a flag names the run, rather than the environment.
    pub(crate) run_by_flag: bool,
    /// The session id for saves.
    pub(crate) session: Option<String>,
    /// The agent's own session id.
    pub(crate) agent_session: Option<String>,
    pub(crate) user: Option<String>,
    /// The user's home folder.
    pub(crate) home: Option<PathBuf>,
    /// The profile that a flag requests.
    pub(crate) requested_profile: Option<Profile>,
    /// The profile of new runs.
    pub(crate) profile: Option<Profile>,
    pub(crate) wait: Duration,
    pub(crate) limits: SizeLimits,
    pub(crate) retain: Retain,
    pub(crate) pointer: Option<Pointer>,
    pub(crate) capture: CaptureSettings,
    pub(crate) agents: Agents,
    /// Values that redaction does not replace.
    pub(crate) redact_allow: AllowList,
    pub(crate) warnings: Vec<String>,
    pub(crate) settings: Vec<Setting>,
    /// The path of the project's file, whether or not it exists.
    pub(crate) file: PathBuf,
    /// The path of the user's file, whether or not it exists; `None` without a home folder.
    user_file: Option<PathBuf>,
}

/// A value as written, and its origin. `None` if the setting is not set.
type RawSetting = Option<(RawValue, Origin)>;

/// The value of a key in the first file that sets it.
fn find_in<'f>(files: impl IntoIterator<Item = &'f File>, key: &str) -> RawSetting {
    files.into_iter().find_map(|file| {
        let value = file.get(key)?.clone();
        Some((RawValue::Toml(value), Origin::File(file.path.clone())))
    })
}

impl Config {
    /// Loads all settings from flags, the environment and the configuration files.
    pub(crate) fn load(global: &Global) -> Result<Self> {
        Self::load_from(global, Path::new("."), Environment::read()?)
    }

    /// Loads the settings of the project that contains a folder, as if the command was started there. `project` selects
    /// the runs of a server, as `MILEPOST_PROJECT` does.
    pub(crate) fn load_in(global: &Global, folder: &Path, project: Option<String>) -> Result<Self> {
        let current = Environment::read()?;
        let environment = Environment { project: project.or(current.project), ..current };
        Self::load_from(global, folder, environment)
    }

    /// Loads the settings of another project of this user. What flags and the environment say about the current
    /// project does not apply to it, except the given address of a store.
    pub(crate) fn load_project(folder: &Path, store: Option<String>) -> Result<Self> {
        let current = Environment::read()?;
        let environment =
            Environment { store, project: None, run: None, session: None, agent_session: None, ..current };
        Self::load_from(&Global::default(), folder, environment)
    }

    /// Loads the settings of a project with a user's file, without flags and the environment.
    #[cfg(feature = "internal")]
    pub(crate) fn load_files(folder: &Path, user_file: Option<PathBuf>) -> Result<Self> {
        Self::load_from(&Global::default(), folder, Environment { user_file, ..Environment::default() })
    }

    fn load_from(global: &Global, folder: &Path, environment: Environment) -> Result<Self> {
        let paths = ProjectPaths::find(folder).map_err(Error::file(folder, "read"))?;
        let file = paths.config.clone();
        // Relative paths in the project's file start at its own folder, all others at the project's root.
        let own_folder = |origin: &Origin| match origin {
            Origin::File(path) if *path == paths.config => paths.config_folder(),
            _ => Path::new(""),
        };
        let mut warnings = Vec::new();
        // The user's own file may be behind symbolic links.
        let user_file = environment
            .user_file
            .clone()
            .map(|path| milepost::internal::fs::canonicalize(&path).unwrap_or(path));
        let user = match user_file.clone().map(|path| File::read(path, false)).transpose()? {
            Some(FileLookup::File(file)) => Some(file),
            Some(FileLookup::Refused(why)) => {
                let path = environment.user_file.as_deref().unwrap_or(folder).display();
                warnings.push(format!("{path} is ignored: {why}"));
                None
            }
            Some(FileLookup::Missing) | None => None,
        };
        let home = environment.home.as_deref();
        let trust = Trust::load(environment.trust, home, user.as_ref(), &mut warnings)?;
        let covered = trust.covers(&paths.root.join(paths.config_folder()));
        let mut refusal = None;
        let mut project = match File::read(file.clone(), covered)? {
            FileLookup::File(file) => Some(file),
            FileLookup::Refused(why) => {
                refusal = Some(why);
                None
            }
            FileLookup::Missing => None,
        };
        let unknown_keys_at = warnings.len();
        if let Some(project) = project.as_mut().filter(|project| project.get(RECORD).is_some()) {
            project.remove(|key| key == RECORD);
            let file = file.display();
            warnings
                .push(format!("{RECORD} in {file} is ignored: only your own configuration file may set it"));
        }
        let flag =
            |value: &Option<String>, name| value.clone().map(|v| (RawValue::Text(v), Origin::Flag(name)));

        let run = match (&global.run, &environment.run) {
            (Some(id), _) => Some(id.parse::<RunId>()?),
            (None, Some(id)) => Some(id.parse::<RunId>().map_err(|e| {
                CommandError::new(ReasonCode::CheckpointIdInvalid, format!("MILEPOST_RUN: {e}"))
                    .with_hint("correct or unset MILEPOST_RUN")
            })?),
            (None, None) => None,
        };
        let requested_profile =
            global.profile.as_deref().map(|p| parse_choice(p, "--profile", "/profile")).transpose()?;
        let mut settings = Settings { files: Vec::new(), list: Vec::new() };
        let chosen = flag(&global.store, "--store")
            .or(environment.store.map(|v| (RawValue::Text(v), Origin::Environment("MILEPOST_STORE"))));
        let store_is_chosen = chosen.is_some();
        let default_store = StoreUrl::sqlite(paths.database.clone());
        let parse_store = |raw: RawValue, origin: &Origin| {
            let url: StoreUrl = String::parse(raw)?.parse().map_err(|e| format!("{e}"))?;
            let base = paths.root.join(own_folder(origin));
            Ok(if matches!(origin, Origin::File(_)) { url.map_path(|path| base.join(path)) } else { url })
        };
        let found_store = chosen.or(find_in(project.iter().chain(&user), "store"));
        let default = (default_store.to_string(), Origin::Default);
        let store = settings.resolve("store", found_store, default, parse_store)?;
        // `run` passes the default store to its command in the environment. It still counts as the default
        // and has an outbox.
        let store = store.filter(|url| *url != default_store);
        let local_copy = store.as_ref().and_then(|url| server::local_copy(url, &paths));
        let (store_trust, record) =
            trust.evaluate(local_copy.as_ref().or(store.as_ref()).unwrap_or(&default_store), &paths);
        let mut guarded =
            project.as_ref().map(|file| guarded::guarded_values(file, user.as_ref())).unwrap_or_default();
        if let Some(value) = guarded.get_mut("store") {
            server::hide_password(value);
        }
        let chosen_project =
            environment.project.map(|v| (RawValue::Text(v), Origin::Environment("MILEPOST_PROJECT")));
        let remote = local_copy.as_ref().and_then(|_| server::remote_origin(&paths));
        match (&remote, &local_copy) {
            _ if chosen_project.is_some() => drop(guarded.remove(server::PROJECT)),
            (_, None) => drop(guarded.remove(server::PROJECT)),
            (Some(remote), Some(_))
                if project.as_ref().is_none_or(|file| file.get(server::PROJECT).is_none()) =>
            {
                guarded.insert(server::REMOTE.to_owned(), toml::Value::String(remote.clone()).to_string());
            }
            _ => {}
        }
        let untrusted = match covered {
            true => BTreeMap::new(),
            false => trust::untrusted(record.as_ref(), &paths, &guarded, &trust.state),
        };
        if !store_is_chosen && untrusted.contains_key("store") {
            // Leave out the value: it may contain text that is meant to mislead an agent. `trust` shows it.
            refusal = Some("it sets `store`, which you have not trusted".to_owned());
        }
        let refusal = refusal.filter(|_| !store_is_chosen);
        if let Some(file) = &mut project {
            file.remove(|key| untrusted.contains_key(key));
        }
        let is_reported = |key: &&String| !["store", server::REMOTE].contains(&key.as_str());
        let ignored: Vec<_> = untrusted.keys().filter(is_reported).map(String::as_str).collect();
        if !ignored.is_empty() {
            warnings.push(format!(
                "{} sets {}, which you have not trusted; these values are ignored until you accept them with \
                 `milepost trust`",
                file.display(),
                ignored.join(", ")
            ));
        }
        settings.files = project.iter().chain(&user).collect();
        let server = server::load(
            &mut settings,
            local_copy,
            chosen_project,
            remote.filter(|_| !untrusted.contains_key(server::REMOTE)),
            &paths,
        )?;
        let profile = settings.over_files("profile", flag(&global.profile, "--profile"), Profile::Run)?;
        let wait = settings.over_files("wait", flag(&global.wait, "--wait"), Seconds(DEFAULT_WAIT))?;
        let standard = SizeLimits::default();
        let limits = SizeLimits {
            field: settings.value("limits.field", Size(standard.field))?.0,
            checkpoint: settings.value("limits.checkpoint", Size(standard.checkpoint))?.0,
        };
        let mut retain = Retain::load(&mut settings, profile.unwrap_or(Profile::Run))?;
        if let (false, Some(file)) = (covered, &project) {
            guarded::apply_as_minimum(&mut retain, file, user.as_ref(), &guarded);
        }
        let capture = CaptureSettings::load(&mut settings, own_folder)?;
        let agents = Agents::load(&mut settings, user.as_ref())?;
        let AllowedValues(redact_allow) = settings.value("redact.allow", AllowedValues::default())?;
        let pointer_file = settings.in_files("pointer.file", "none", |raw, origin| {
            Ok(own_folder(origin).join(String::parse(raw)?).to_string_lossy().into_owned())
        })?;
        let pointer_key = settings.optional::<KeyPath>("pointer.key", "none")?;
        let commit = settings.value("pointer.commit", false)?;
        let pointer = match (pointer_file, pointer_key) {
            (Some(name), Some(key)) => {
                Some(Pointer { file: paths.root.join(name), key: key.0, commit, project: paths.clone() })
            }
            (None, None) => None,
            _ => {
                let message = "pointer.file and pointer.key must be set together, but one of them is missing";
                return Err(CommandError::usage(message)
                    .with_hint("set both keys in the [pointer] section, or remove both"));
            }
        };
        // All settings have been read by now, so the list contains every valid key.
        let known: Vec<_> = settings.list.iter().map(|setting| setting.key).collect();
        let of_project = project.iter().flat_map(|file| file.warnings(&known));
        let of_user = user.iter().flat_map(|file| file.warnings(&[&known[..], &[trust::PATHS]].concat()));
        warnings.splice(unknown_keys_at..unknown_keys_at, of_project.chain(of_user).collect::<Vec<_>>());
        Ok(Self {
            paths,
            store,
            store_is_chosen,
            refusal,
            server,
            store_trust,
            record,
            trust,
            guarded,
            untrusted,
            run,
            run_by_flag: global.run.is_some(),
            session: environment.session.or_else(|| environment.agent_session.clone()),
            agent_session: environment.agent_session,
            user: environment.user,
            home: environment.home,
            requested_profile,
            profile,
            wait: wait.map_or(DEFAULT_WAIT, |wait| wait.0),
            limits,
            retain,
            pointer,
            capture,
            agents,
            redact_allow,
            warnings,
            settings: settings.list,
            file,
            user_file,
        })
    }

    /// What identifies the project: the git directory that its worktrees share, or its root outside git.
    pub(crate) fn project(&self) -> PathBuf {
        trust::project(&self.paths)
    }

    /// The path of the user's file, whether or not it exists.
    pub(crate) fn user_file(&self) -> Result<&Path> {
        self.user_file.as_deref().ok_or_else(|| {
            CommandError::usage("HOME is not set: your configuration file cannot be found")
                .with_hint("set HOME")
        })
    }

    /// Sets where hooks record, in the user's file, and returns the path of that file.
    pub(crate) fn write_record(&self, scope: RecordScope) -> Result<PathBuf> {
        let path = self.user_file()?;
        user_file::set(path, RECORD, &scope.to_string())?;
        Ok(path.to_owned())
    }

    /// The store's address.
    pub(crate) fn url(&self) -> StoreUrl {
        self.store.clone().unwrap_or_else(|| StoreUrl::sqlite(self.paths.database.clone()))
    }

    /// Why the store is foreign, if it is.
    pub(crate) fn foreign(&self) -> Option<&ForeignReason> {
        match &self.store_trust {
            StoreTrust::Foreign(why) if !self.store_is_chosen => Some(why),
            _ => None,
        }
    }

    /// Fails if the project's configuration is refused.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match &self.refusal {
            Some(why) => Err(Error::ConfigUntrusted {
                path: self.file.clone(),
                why: why.clone(),
                adoptable: self.untrusted.contains_key("store"),
            }),
            None => Ok(()),
        }
    }
}

/// Reads settings from files, and lists each with its value and origin.
struct Settings<'f> {
    /// The files, in order of precedence.
    files: Vec<&'f File>,
    list: Vec<Setting>,
}

impl Settings<'_> {
    /// Reads a setting that has a default.
    fn value<T: SettingValue>(&mut self, key: &'static str, default: T) -> Result<T> {
        Ok(self.optional(key, &default)?.unwrap_or(default))
    }

    /// Reads an optional setting. `default` is what `config show` lists if the setting is not set.
    fn optional<T: SettingValue>(&mut self, key: &'static str, default: impl Display) -> Result<Option<T>> {
        self.in_files(key, default, |raw, _| T::parse(raw))
    }

    /// Reads a setting whose default comes from the profile.
    fn by_profile<T: SettingValue>(
        &mut self,
        key: &'static str,
        default: T,
        profile: Profile,
    ) -> Result<Option<T>> {
        let default = (default.to_string(), Origin::Profile(profile));
        self.resolve(key, find_in(self.files.iter().copied(), key), default, |raw, _| T::parse(raw))
    }

    /// Reads a setting that a flag can override.
    fn over_files<T: SettingValue>(
        &mut self,
        key: &'static str,
        flag: RawSetting,
        default: T,
    ) -> Result<Option<T>> {
        let found = flag.or(find_in(self.files.iter().copied(), key));
        self.resolve(key, found, (default.to_string(), Origin::Default), |raw, _| T::parse(raw))
    }

    /// Reads a setting whose meaning depends on the file that sets it.
    fn in_files<T: Display>(
        &mut self,
        key: &'static str,
        default: impl Display,
        parse: impl Fn(RawValue, &Origin) -> Result<T, String>,
    ) -> Result<Option<T>> {
        let found = find_in(self.files.iter().copied(), key);
        self.resolve(key, found, (default.to_string(), Origin::Default), parse)
    }

    fn resolve<T: Display>(
        &mut self,
        key: &'static str,
        found: RawSetting,
        default: (String, Origin),
        parse: impl Fn(RawValue, &Origin) -> Result<T, String>,
    ) -> Result<Option<T>> {
        let Some((raw, origin)) = found else {
            self.list.push(Setting { key, value: default.0, origin: default.1 });
            return Ok(None);
        };
        let parsed = parse(raw, &origin).map_err(|why| match &origin {
            Origin::Flag(name) => CommandError::usage(format!("{name}: {why}"))
                .with_hint("`milepost help` lists what each flag accepts"),
            Origin::Environment(name) => {
                CommandError::usage(format!("{name}: {why}")).with_hint(format!("correct or unset {name}"))
            }
            _ => CommandError::usage(format!("{key} in {origin}: {why}"))
                .with_hint(format!("correct {key} in that file, or remove it")),
        })?;
        self.list.push(Setting { key, value: parsed.to_string(), origin });
        Ok(Some(parsed))
    }
}

/// The path that identifies the project of the current folder, like `Config::project`. Works even if the
/// configuration is invalid.
pub(crate) fn current_project() -> Option<PathBuf> {
    ProjectPaths::find(Path::new(".")).ok().map(|paths| trust::project(&paths))
}

/// The guarded values in a file that this program has just written.
pub(crate) fn guarded_in(path: &Path) -> Result<BTreeMap<String, String>> {
    Ok(match File::read(path.to_owned(), false)? {
        FileLookup::File(file) => guarded::guarded_values(&file, None),
        FileLookup::Missing | FileLookup::Refused(_) => BTreeMap::new(),
    })
}

/// Parses a flag's value, which is one of a closed set of words. `path` is the value's location in a
/// checkpoint.
pub(crate) fn parse_choice<T: std::str::FromStr<Err = ValidationError>>(
    text: &str,
    flag: &str,
    path: &str,
) -> Result<T, Error> {
    text.parse().map_err(|e: ValidationError| Error::Value {
        name: flag.to_owned(),
        source: ValidationError { path: path.to_owned(), message: e.message },
    })
}
