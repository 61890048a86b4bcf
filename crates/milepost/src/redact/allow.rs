//! The allow list: values that look like secrets but that the user wants to keep.

use std::sync::Arc;

use crate::model::ValidationError;

/// Values that redaction does not replace. An entry is an exact value, or a prefix if it ends with `*`.
/// Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowList(Option<Arc<[String]>>);

impl AllowList {
    /// Minimum number of characters before a `*`. A shorter prefix would allow values the user never saw.
    pub const SHORTEST_PREFIX: usize = 4;

    /// A list without entries, which allows nothing.
    pub const EMPTY: Self = Self(None);

    /// Creates a list from these entries. Rejects empty entries and prefixes shorter than
    /// [`Self::SHORTEST_PREFIX`].
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

    /// The entries as passed to [`AllowList::new`].
    pub fn entries(&self) -> &[String] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Whether an entry matches this value.
    pub fn allows(&self, value: &str) -> bool {
        self.entries().iter().any(|entry| match entry.strip_suffix('*') {
            Some(start) => value.starts_with(start),
            None => value == entry,
        })
    }
}
