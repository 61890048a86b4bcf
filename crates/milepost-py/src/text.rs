//! Parses the arguments of Python calls: ids, references, names of a fixed set, intervals, times.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use milepost::model::{RunId, ValidationError};
use milepost::{Error, Reference};
use pyo3::prelude::*;

use crate::error::{OrRaise as _, exception, invalid};

/// The id of a run.
pub(crate) fn run_id(text: &str) -> PyResult<RunId> {
    text.parse::<RunId>().or_raise()
}

/// A reference to a checkpoint.
pub(crate) fn reference(text: &str) -> PyResult<Reference> {
    text.parse::<Reference>().or_raise()
}

/// A value from a fixed set of names.
pub(crate) fn choice<T: FromStr<Err = ValidationError>>(name: &str, text: &str) -> PyResult<T> {
    text.parse::<T>().map_err(|source| exception(&Error::Value { name: name.to_owned(), source }))
}

/// Like `choice`, for an argument that may be missing.
pub(crate) fn optional_choice<T: FromStr<Err = ValidationError>>(
    name: &str,
    text: Option<&str>,
) -> PyResult<Option<T>> {
    text.map(|text| choice(name, text)).transpose()
}

/// A number of seconds.
pub(crate) fn seconds(name: &str, seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| invalid(&format!("{name} must be a number of seconds, not {seconds}")))
}

/// A time as seconds since 1970.
pub(crate) fn timestamp(seconds: f64) -> PyResult<Timestamp> {
    let nanoseconds = (seconds * 1e9).round();
    #[allow(clippy::cast_possible_truncation, reason = "the range is checked by the conversion")]
    Timestamp::from_nanosecond(nanoseconds as i128).map_err(|e| invalid(&format!("the time: {e}")))
}
