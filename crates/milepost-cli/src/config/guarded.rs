//! Guarded settings: values in a project's `milepost.toml` that need the user's trust, because someone else
//! may have written the file. Takes the project's file and the user's, and returns the guarded keys that the
//! project sets, with their values.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::time::Duration;

use milepost::Settings;
use milepost::internal::capture::FileLimits;
use milepost::internal::engine::ResumePolicy;
use milepost::internal::model::{SizeLimits, StoreLimits};
use milepost::internal::store::DEFAULT_WAIT;
use milepost::model::Profile;

use super::file::File;
use super::value::{Age, AllowedValues, Folders, Interval, RawValue, Seconds, SettingValue, Size};
use super::{PromptDetail, Retain};

/// Guarded values by key, as TOML.
pub(super) type Guarded = BTreeMap<String, String>;

/// The values in the project's file that need trust, given the user's own settings.
pub(super) fn guarded_values(project: &File, user: Option<&File>) -> Guarded {
    let values = project.values().iter();
    let values = values.filter(|(key, theirs)| needs_trust(key, theirs, user));
    let mut found: Guarded = values.map(|(key, theirs)| (key.clone(), theirs.to_string())).collect();
    // The three pointer keys form one setting.
    if found.keys().any(|key| key.starts_with("pointer.")) {
        for key in ["pointer.file", "pointer.key", "pointer.commit"] {
            found.extend(project.get(key).map(|value| (key.to_owned(), value.to_string())));
        }
    }
    found
}

/// Whether a value in the project's file needs trust. An invalid value does not, because it is an error
/// anyway.
fn needs_trust(key: &str, theirs: &toml::Value, user: Option<&File>) -> bool {
    let ours = user.and_then(|file| file.get(key));
    let profile = own_profile(user);
    let store_limits = StoreLimits::default();
    match key {
        "store" | "project" | "pointer.file" | "pointer.key" | "pointer.commit" => true,
        "capture.allow_home" => theirs.as_bool() == Some(true) && !own_flag(ours, false),
        "capture.enabled" => theirs.as_bool() == Some(true) && !own_flag(ours, true),
        "capture.watch" => parse::<Folders>(theirs)
            .is_some_and(|folders| folders.0.iter().any(|folder| leads_outside(folder))),
        "profile" => parse(theirs).is_some_and(|theirs| keeps_less(theirs, profile, user)),
        "retain.keep_last" => compare(theirs, ours, profile.retention().keep_last, |a, b| a.larger(*b) != *a),
        "retain.max_age" => compare(theirs, ours, Age(profile.retention().max_age), is_shorter),
        "retain.keep_hourly" | "retain.keep_daily" | "retain.keep_weekly" => {
            compare(theirs, ours, 0u64, |a, b| a < b)
        }
        "retain.keep_within" => compare(theirs, ours, Age(None), |a, b| a < b),
        "retain.ended_runs" => compare(theirs, ours, Age(store_limits.ended_after), is_shorter),
        "retain.max_store" => {
            compare(theirs, ours, Size(store_limits.max_bytes), |a, b| unbounded(a) < unbounded(b))
        }
        "capture.files" => theirs.as_bool() == Some(true) && !own_flag(ours, true),
        "capture.max_file" => compare(theirs, ours, Size(FileLimits::default().file), |a, b| a != b),
        "capture.max_snapshot" => compare(theirs, ours, Size(FileLimits::default().snapshot), |a, b| a != b),
        "retain.max_files" => compare(theirs, ours, Size(store_limits.max_file_bytes), |a, b| a != b),
        // A larger value costs more; a smaller one refuses or keeps less than the user's own settings.
        "limits.field" => compare(theirs, ours, Size(SizeLimits::default().field), |a, b| a != b),
        "limits.checkpoint" => compare(theirs, ours, Size(SizeLimits::default().checkpoint), |a, b| a != b),
        "wait" => compare(theirs, ours, Seconds(DEFAULT_WAIT), |a, b| a != b),
        "resume.attempts" => compare(theirs, ours, ResumePolicy::default().attempts, |a, b| a != b),
        "resume.cooldown" => compare(theirs, ours, Seconds(ResumePolicy::default().cooldown), |a, b| a != b),
        "session.interval" => {
            let usual = Interval(Profile::Session.interval().unwrap_or(Duration::MAX));
            compare(theirs, ours, usual, |a, b| a < b)
        }
        "redact.allow" => {
            compare(theirs, ours, AllowedValues::default(), |AllowedValues(theirs), AllowedValues(ours)| {
                !theirs.entries().iter().all(|entry| ours.entries().contains(entry))
            })
        }
        "hooks.prompts" => compare(theirs, ours, PromptDetail::Full, |a, b| a != b),
        _ => false,
    }
}

fn parse<T: SettingValue>(value: &toml::Value) -> Option<T> {
    T::parse(RawValue::Toml(value.clone())).ok()
}

fn own_profile(user: Option<&File>) -> Profile {
    let named = user.and_then(|file| file.get("profile")?.as_str()?.parse().ok());
    named.unwrap_or(Profile::Run)
}

fn own_flag(ours: Option<&toml::Value>, usual: bool) -> bool {
    ours.and_then(toml::Value::as_bool).unwrap_or(usual)
}

/// Whether new runs with the profile `theirs` would keep less than with `ours`. Ignores retention limits that
/// the user's own settings specify.
fn keeps_less(theirs: Profile, ours: Profile, user: Option<&File>) -> bool {
    let own = |key: &str| user.is_some_and(|file| file.get(key).is_some());
    let (a, b) = (Settings::default().retention(theirs), Settings::default().retention(ours));
    (!own("retain.keep_last") && a.keep_last.larger(b.keep_last) != a.keep_last)
        || (!own("retain.max_age") && is_shorter(&Age(a.max_age), &Age(b.max_age)))
}

/// Compares the project's value with the user's, or with the default if the user has none.
fn compare<T: SettingValue>(
    theirs: &toml::Value,
    ours: Option<&toml::Value>,
    usual: T,
    needs_trust: impl Fn(&T, &T) -> bool,
) -> bool {
    let ours = ours.and_then(parse).unwrap_or(usual);
    parse(theirs).is_some_and(|theirs| needs_trust(&theirs, &ours))
}

/// Whether an age is shorter than another one. No limit is the longest.
fn is_shorter(theirs: &Age, ours: &Age) -> bool {
    theirs.0.unwrap_or(Duration::MAX) < ours.0.unwrap_or(Duration::MAX)
}

/// The number of bytes, with 0 (no limit) as the largest.
fn unbounded(size: &Size) -> u64 {
    if size.0 == 0 { u64::MAX } else { size.0 }
}

/// Whether a path, as written, can lead out of the project.
fn leads_outside(path: &Path) -> bool {
    path.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Applies a project's unguarded retention as a minimum: it must not reduce what the user's own settings and
/// the runs' profiles keep. Guarded values that are still in the file have been trusted and apply as they
/// are.
pub(super) fn apply_as_minimum(retain: &mut Retain, project: &File, user: Option<&File>, guarded: &Guarded) {
    let own = |key: &str| user.and_then(|file| file.get(key));
    let unguarded = |key: &str| project.get(key).is_some() && !guarded.contains_key(key);
    if unguarded("retain.keep_last") {
        retain.keep_last_at_least = retain.keep_last.take();
        retain.keep_last = own("retain.keep_last").and_then(parse);
    }
    if unguarded("retain.max_age") {
        retain.max_age_at_least = retain.max_age.take();
        retain.max_age = own("retain.max_age").and_then(parse).map(|Age(age)| age);
    }
}
