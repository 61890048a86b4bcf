//! The allow list: values that look like secrets, but that the user wants to keep.

use std::sync::Arc;

use crate::model::ValidationError;

/// Values that redaction leaves in place. Each entry is one value, or with a `*` at its end the beginning of values.
/// Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList(Option<Arc<[String]>>);

impl AllowList {
    /// The fewest characters before a `*`: shorter beginnings would allow what nobody has looked at.
    pub const SHORTEST_PREFIX: usize = 4;

    /// A list without entries: nothing is allowed.
    pub const EMPTY: Self = Self(None);

    /// A list of these entries. Empty ones are refused, and those that are little more than a `*`.
    pub fn new<S: Into<String>>(entries: impl IntoIterator<Item = S>) -> Result<Self, ValidationError> {
        let entries: Vec<String> = entries.into_iter().map(Into::into).collect();
        for (n, entry) in entries.iter().enumerate() {
            let message = if entry.is_empty() {
                "an entry is empty".to_owned()
            } else if entry
                .strip_suffix('*')
                .is_some_and(|start| start.chars().count() < Self::SHORTEST_PREFIX)
            {
                format!("\"{entry}\" needs at least {} characters before the `*`", Self::SHORTEST_PREFIX)
            } else {
                continue;
            };
            return Err(ValidationError { path: format!("/{n}"), message });
        }
        Ok(Self((!entries.is_empty()).then(|| entries.into())))
    }

    /// The entries as they were given.
    pub fn entries(&self) -> &[String] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether a value that looks like a secret may stay.
    pub fn allows(&self, value: &str) -> bool {
        self.entries().iter().any(|entry| match entry.strip_suffix('*') {
            Some(start) => value.starts_with(start),
            None => value == entry,
        })
    }
}
