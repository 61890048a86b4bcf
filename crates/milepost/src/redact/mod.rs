//! Secrets out of every string, before anything is written. Pure.
//! In: a draft. Out: the draft with secrets replaced, and `redacted` saying where. The place in the pipeline is here;
//! until there are rules, every draft passes through unchanged.

use crate::model::Draft;

/// What stands between a caller's draft and the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Redaction {
    /// The caller's text is written as it is: the library's default, since redaction there is the caller's choice.
    #[default]
    Off,
    /// Secrets are replaced: the default of the command line.
    On,
}

/// Replaces secrets in a draft.
pub fn draft(draft: Draft, redaction: Redaction) -> Draft {
    match redaction {
        Redaction::Off | Redaction::On => draft,
    }
}
