//! Settings of what is looked at and how often: `[capture]` and `[session]`.

use std::path::PathBuf;
use std::time::Duration;

use milepost::model::Profile;

use super::{Files, Settings, value};
use crate::failure::Failure;

/// What is looked at, and how often.
#[derive(Debug)]
pub(crate) struct Watching {
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

impl Watching {
    pub(super) fn load(files: &Files, settings: &mut Settings) -> Result<Self, Failure> {
        let mut flag = |key: &'static str, default: bool| {
            settings
                .take(key, files.find(key), default.to_string(), |raw, _| value::flag(&raw))
                .map(|found| found.unwrap_or(default))
        };
        let (capture, allow_home) = (flag("capture.enabled", true)?, flag("capture.allow_home", false)?);
        let session = flag("session.enabled", true)?;
        let watch = settings.take(
            "capture.watch",
            files.find("capture.watch"),
            milepost::capture::WATCHED.to_owned(),
            |raw, _| value::folders(raw),
        )?;
        let usual = Profile::Session.interval().unwrap_or_default();
        let interval = settings.take(
            "session.interval",
            files.find("session.interval"),
            value::Age(Some(usual)).to_string(),
            |raw, _| value::interval(raw).map(|every| value::Age(Some(every))),
        )?;
        Ok(Self {
            capture,
            watch: watch.map(|folders| folders.0).unwrap_or_default(),
            allow_home,
            session,
            interval: interval.and_then(|every| every.0),
        })
    }
}
