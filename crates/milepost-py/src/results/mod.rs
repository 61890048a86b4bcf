//! Results of calls, as frozen Python classes. Takes values of the library and copies what Python programs need.

pub(crate) mod checkpoint;
pub(crate) mod files;
pub(crate) mod run;
pub(crate) mod search;
pub(crate) mod store;

use jiff::Timestamp;
use pyo3::prelude::*;
use pyo3::types::{PyDateTime, PyTzInfo};

/// A point in time, as an aware `datetime` in UTC. Microseconds are the most that Python represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(pub(crate) Timestamp);

impl<'py> IntoPyObject<'py> for Time {
    type Target = PyDateTime;
    type Output = Bound<'py, PyDateTime>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let civil = self.0.to_zoned(jiff::tz::TimeZone::UTC).datetime();
        let utc = PyTzInfo::utc(py)?.to_owned();
        PyDateTime::new(
            py,
            i32::from(civil.year()),
            civil.month().unsigned_abs(),
            civil.day().unsigned_abs(),
            civil.hour().unsigned_abs(),
            civil.minute().unsigned_abs(),
            civil.second().unsigned_abs(),
            u32::try_from(civil.subsec_nanosecond() / 1000).unwrap_or_default(),
            Some(&utc),
        )
    }
}

/// Declares a frozen class whose fields are read-only attributes, with equality and a `repr` of the given fields.
macro_rules! result {
    (
        $(#[$meta:meta])*
        pub(crate) struct $name:ident shows $($shown:ident),+ {
            $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[pyo3::pyclass(frozen, get_all, eq, module = "milepost")]
        #[derive(Debug, Clone, PartialEq)]
        pub(crate) struct $name {
            $($(#[$field_meta])* pub(crate) $field: $type,)*
        }

        #[pyo3::pymethods]
        impl $name {
            fn __repr__(slf: &pyo3::Bound<'_, Self>) -> pyo3::PyResult<String> {
                let fields = [$(stringify!($shown)),+];
                crate::results::repr(slf.as_any(), stringify!($name), &fields)
            }
        }
    };
}
pub(crate) use result;

/// `Name(field=value, …)`.
pub(crate) fn repr(object: &Bound<'_, PyAny>, name: &str, fields: &[&str]) -> PyResult<String> {
    let mut shown = Vec::new();
    for field in fields {
        shown.push(format!("{field}={}", object.getattr(*field)?.repr()?));
    }
    Ok(format!("{}({})", name.trim_end_matches("Data"), shown.join(", ")))
}

/// The text of a value that displays as one.
pub(crate) fn text(value: impl ToString) -> String {
    value.to_string()
}

/// Like `text`, for a value that may be missing.
pub(crate) fn optional_text(value: Option<&impl ToString>) -> Option<String> {
    value.map(ToString::to_string)
}
