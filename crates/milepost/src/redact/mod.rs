//! Replaces the secrets in drafts, changes and texts with `[redacted:<rule>]` before anything is written,
//! and summarises where the replacements are. Does no I/O. The rules are tables built at compile time, and
//! one scan is one pass over the text.

mod allow;
mod commands;
mod infix_shapes;
mod json;
mod keyword_values;
mod netrc;
mod scan;
mod secret_likelihood;
mod shape_table;
mod shapes;
mod structures;
#[cfg(test)]
mod tests;
mod text;
mod vendors;

use std::collections::BTreeSet;

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::allow::AllowList;
use crate::model::{Draft, JsonPath, RawJson, RedactionSummary, ValidationError};

/// Whether secrets in a caller's draft are replaced before it is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Redaction {
    /// The caller's text is stored unchanged. This is the library's default: the caller decides on redaction.
    #[default]
    Off,
    /// Secrets are replaced. This is the command line's default.
    On,
}

/// The start of the mark that replaces a secret.
const MARK: &str = "[redacted:";
/// Maximum number of scans of one text. Replacing a secret can reveal another one, so the result is scanned
/// again.
const MAX_ROUNDS: usize = 8;

/// Draft members that are never redacted: they contain values fixed by the contract, and ids of the store.
const CONTRACT_MEMBERS: [&str; 6] = ["outcomes_dropped", "parent", "redacted", "run_id", "source", "status"];

/// Removes the last word of a text that was cut, because the beginning of a secret is not recognised. Secrets consist of
/// ASCII characters, so text in other scripts can be cut anywhere.
pub fn without_cut_word(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_ascii() && !c.is_ascii_whitespace())
}

/// Removes the first word of a text whose beginning was cut off, for the same reason.
pub(crate) fn without_first_cut_word(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_ascii() && !c.is_ascii_whitespace())
}

fn format_mark(rule: &str) -> String {
    format!("{MARK}{rule}]")
}

/// Replaces each secret with the mark of its rule. `offset` maps a position in the scanned text to one in
/// `text`.
fn replace_secrets(text: &str, found: &[scan::SecretSpan], offset: impl Fn(usize) -> usize) -> String {
    let mut new = String::with_capacity(text.len());
    let mut copied = 0;
    for secret in found {
        new.push_str(&text[copied..offset(secret.start)]);
        new.push_str(&format_mark(secret.rule));
        copied = offset(secret.end);
    }
    new + &text[copied..]
}

/// The first of `name`, `name#2`, `name#3` and so on that is not taken.
fn unique_name(name: &str, is_taken: impl Fn(&str) -> bool) -> String {
    let mut unique = name.to_owned();
    for n in 2.. {
        if !is_taken(&unique) {
            break;
        }
        unique = format!("{name}#{n}");
    }
    unique
}

pub(crate) fn rules() -> BTreeSet<&'static str> {
    shapes::rules()
        .chain(structures::RULES)
        .chain(infix_shapes::RULES)
        .chain(commands::rules())
        .chain(keyword_values::rules())
        .collect()
}

/// Returns the text with its secrets replaced, or `None` if it has none. Uses an empty allow list.
pub fn text(text: &str) -> Option<String> {
    AllowList::EMPTY.redact_text(text)
}

/// Returns the JSON text with its secrets replaced and everything else unchanged, or `None` if it has none.
/// `name` is the name of the member whose value the text is. Uses an empty allow list.
pub fn json(text: &str, name: &str) -> Option<String> {
    AllowList::EMPTY.redact_json(text, name)
}

impl AllowList {
    /// Returns the text with its secrets replaced, or `None` if it has none.
    pub fn redact_text(&self, text: &str) -> Option<String> {
        let mut new: Option<String> = None;
        for _ in 0..MAX_ROUNDS {
            let old = new.as_deref().unwrap_or(text);
            let found = scan::find_secrets(old, None, self);
            if found.is_empty() {
                break;
            }
            new = Some(replace_secrets(old, &found, |at| at));
        }
        new
    }

    /// Returns the JSON text with its secrets replaced and everything else unchanged, or `None` if it has
    /// none. `name` is the name of the member whose value the text is.
    pub fn redact_json(&self, text: &str, name: &str) -> Option<String> {
        json::redact_document(text, name, self)
    }

    /// Replaces secrets in any value that serialises to JSON. Also returns the number of replacements.
    pub fn redact_value<T>(&self, value: T, name: &str) -> Result<(T, u64), ValidationError>
    where
        T: Serialize + DeserializeOwned,
    {
        let raw = RawJson::of(&value)?;
        let Some(new) = self.redact_json(raw.get(), name) else { return Ok((value, 0)) };
        let invalid =
            |e: serde_json::Error| ValidationError { path: format!("/{name}"), message: e.to_string() };
        Ok((
            serde_json::from_str(&new).map_err(invalid)?,
            count_marks(&new).saturating_sub(count_marks(raw.get())),
        ))
    }

    /// Replaces secrets in a draft. Also returns the number of replacements.
    pub fn redact_draft(&self, draft: Draft) -> Result<(Draft, u64), ValidationError> {
        let mut fields = draft.to_object()?;
        let secret: Vec<(String, String, u64)> = fields
            .iter()
            .filter(|(name, _)| !CONTRACT_MEMBERS.contains(name))
            .filter_map(|(name, raw)| {
                let new = self.redact_json(raw.get(), name)?;
                let more = count_marks(&new).saturating_sub(count_marks(raw.get()));
                Some((name.to_owned(), new, more))
            })
            .collect();
        // The names of unknown members also come from the caller.
        let secret_names: Vec<String> = draft
            .extra
            .iter()
            .filter(|(name, _)| self.redact_text(name).is_some())
            .map(|(name, _)| name.to_owned())
            .collect();
        if secret.is_empty() && secret_names.is_empty() {
            return Ok((draft, 0));
        }
        let mut replaced = 0;
        for (name, new, more) in secret {
            fields.set(&name, RawJson::parse(new)?);
            replaced += more;
        }
        for name in secret_names {
            let new = self.redact_text(&name).unwrap_or_default();
            let unique = unique_name(&new, |name| fields.get(name).is_some());
            if let Some(raw) = fields.take(&name) {
                fields.set(&unique, raw);
                replaced += 1;
            }
        }
        Ok((Draft::from_object(fields)?, replaced))
    }
}

fn count_marks(text: &str) -> u64 {
    text.matches(MARK).count() as u64
}

/// Counts the marks in a document's members and lists their pointers; `None` if there are none.
pub(crate) fn summarize_redactions<'a>(
    members: impl Iterator<Item = (&'a str, &'a RawJson)>,
) -> Option<RedactionSummary> {
    let mut redacted = RedactionSummary::default();
    let mut known: Option<BTreeSet<&str>> = None;
    let mut record = |pointer: String, text: &str| {
        let known = known.get_or_insert_with(rules);
        let mut has_mark = false;
        for rest in text.split(MARK).skip(1) {
            if let Some(rule) = rest.split(']').next().filter(|rule| known.contains(rule)) {
                *redacted.counts.entry(rule.to_owned()).or_default() += 1;
                has_mark = true;
            }
        }
        if has_mark {
            redacted.pointers.push(pointer);
        }
    };
    for (name, raw) in members {
        if name.contains(MARK) {
            record(JsonPath::Root.key(name).to_string(), name);
        }
        if name != "redacted" {
            json::locate_marks(raw.get(), name, &mut record);
        }
    }
    (!redacted.pointers.is_empty()).then_some(redacted)
}

impl RedactionSummary {
    /// Merges this summary with the caller's summary of its own replacements. For each rule, the larger count
    /// is kept.
    pub fn merge(mut self, other: Option<Self>) -> Self {
        let Some(other) = other else { return self };
        for (rule, n) in other.counts {
            let count = self.counts.entry(rule).or_default();
            *count = n.max(*count);
        }
        for pointer in other.pointers {
            if !self.pointers.contains(&pointer) {
                self.pointers.push(pointer);
            }
        }
        self
    }
}
