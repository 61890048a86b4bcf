//! The settings in `[capture]` and `[session]`: what to capture of the workspace, and how often.

use std::path::{Path, PathBuf};
use std::time::Duration;

use milepost::internal::capture::DEFAULT_WATCHED_FOLDER;
use milepost::internal::capture::FileLimits;
use milepost::model::Profile;

use super::value::{Age, Folders, Interval, SettingValue as _, Size};
use super::{Origin, Settings};
use crate::error::Result;

/// What to capture of the workspace, and how often.
#[derive(Debug)]
pub(crate) struct CaptureSettings {
    /// Whether checkpoints capture the workspace.
    pub(crate) capture: bool,
    /// Folders to watch, relative to the project's root.
    pub(crate) watch: Vec<PathBuf>,
    /// Whether to capture a repository whose root is the home folder or `/`.
    pub(crate) allow_home: bool,
    /// Whether snapshots store the contents of changed files.
    pub(crate) files: bool,
    /// Limits on the contents that a snapshot stores.
    pub(crate) file_limits: FileLimits,
    /// Whether `run` makes periodic checkpoints.
    pub(crate) session: bool,
    /// The time between periodic checkpoints.
    pub(crate) interval: Option<Duration>,
}

impl CaptureSettings {
    /// Reads the settings. `base_folder` returns the folder against which the relative paths of a settings
    /// file are resolved; it is itself relative to the project's root.
    pub(super) fn load<'p>(
        settings: &mut Settings<'_>,
        base_folder: impl Fn(&Origin) -> &'p Path,
    ) -> Result<Self> {
        let in_root = |raw, origin: &Origin| {
            let Folders(folders) = Folders::parse(raw)?;
            Ok(Folders(folders.iter().map(|folder| base_folder(origin).join(folder)).collect()))
        };
        let limits = FileLimits::default();
        let default = Profile::Session.interval();
        Ok(Self {
            capture: settings.value("capture.enabled", true)?,
            watch: settings
                .in_files("capture.watch", DEFAULT_WATCHED_FOLDER, in_root)?
                .map(|folders| folders.0)
                .unwrap_or_default(),
            allow_home: settings.value("capture.allow_home", false)?,
            files: settings.value("capture.files", true)?,
            file_limits: FileLimits {
                file: settings.value("capture.max_file", Size(limits.file))?.0,
                snapshot: settings.value("capture.max_snapshot", Size(limits.snapshot))?.0,
                ..limits
            },
            session: settings.value("session.enabled", true)?,
            interval: settings.optional("session.interval", Age(default))?.map(|Interval(every)| every),
        })
    }
}
