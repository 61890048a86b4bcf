//! Settings of what is looked at and how often: `[capture]` and `[session]`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use milepost::model::Profile;

use super::{ConfigFiles, Origin, Settings, value};
use crate::error::CommandError;

/// What is looked at, and how often.
#[derive(Debug)]
pub(crate) struct CaptureSettings {
    /// Whether checkpoints look at the workspace.
    pub(crate) capture: bool,
    /// Folders to watch, from the project's root.
    pub(crate) watch: Vec<PathBuf>,
    /// Whether a repository in the home folder is looked at.
    pub(crate) allow_home: bool,
    /// Whether `run` makes periodic checkpoints.
    pub(crate) session: bool,
    /// How often.
    pub(crate) interval: Option<Duration>,
}

impl CaptureSettings {
    /// `own_folder` is where relative paths of a file start, from the project's root.
    pub(super) fn load<'p>(
        files: &ConfigFiles<'_>,
        settings: &mut Settings,
        own_folder: impl Fn(&Origin) -> &'p Path,
    ) -> Result<Self, CommandError> {
        let capture = flag(files, settings, "capture.enabled", true)?;
        let usual = milepost::internal::capture::DEFAULT_WATCHED_FOLDER.to_owned();
        let watch =
            settings.resolve("capture.watch", files.find("capture.watch"), usual, |raw, origin| {
                let folders = value::folders(raw)?.0;
                Ok(value::Folders(folders.iter().map(|folder| own_folder(origin).join(folder)).collect()))
            })?;
        let allow_home = flag(files, settings, "capture.allow_home", false)?;
        let session = flag(files, settings, "session.enabled", true)?;
        let usual = value::Age(Profile::Session.interval()).to_string();
        let interval =
            settings.resolve("session.interval", files.find("session.interval"), usual, |raw, _| {
                value::interval(raw).map(|every| value::Age(Some(every)))
            })?;
        Ok(Self {
            capture,
            watch: watch.map(|folders| folders.0).unwrap_or_default(),
            allow_home,
            session,
            interval: interval.and_then(|every| every.0),
        })
    }
}

fn flag(
    files: &ConfigFiles<'_>,
    settings: &mut Settings,
    key: &'static str,
    default: bool,
) -> Result<bool, CommandError> {
    let found = settings.resolve(key, files.find(key), default.to_string(), |raw, _| value::flag(&raw))?;
    Ok(found.unwrap_or(default))
}
