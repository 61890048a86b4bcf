//! Secrets out of every string, before anything is written. Pure.
//! In: drafts, changes, texts. Out: the same with each secret replaced by `[redacted:<rule>]`, and `redacted`, which says
//! where. Rules are tables that exist when the program starts; the cost is one pass over the text.

mod allow;
mod anchored;
mod commands;
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
use crate::model::{Draft, RawJson, RedactionSummary, ValidationError};

/// What stands between a caller's draft and the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Redaction {
    /// The caller's text is written as it is: the library's default, since redaction there is the caller's choice.
    #[default]
    Off,
    /// Secrets are replaced: the default of the command line.
    On,
}

/// How a place begins where a secret was.
const MARK: &str = "[redacted:";
/// What is left of a replaced text may be a secret in its own right; this often it is looked at again.
const ROUNDS: usize = 8;

/// Members of a draft that hold words of the contract and ids of the store's own.
const FIXED: [&str; 6] = ["outcomes_dropped", "parent", "redacted", "run_id", "source", "status"];

fn marked(rule: &str) -> String {
    format!("{MARK}{rule}]")
}

/// Every rule by its name.
pub(crate) fn rules() -> BTreeSet<&'static str> {
    shapes::rules()
        .chain(structures::RULES)
        .chain(anchored::RULES)
        .chain(commands::rules())
        .chain(keyword_values::rules())
        .collect()
}

/// A text without its secrets; `None` if it has none. Nothing is allowed.
pub fn text(text: &str) -> Option<String> {
    AllowList::EMPTY.redact_text(text)
}

/// A JSON text without its secrets, all else as it was; `None` if it has none. `name` is the member it stands at. Nothing
/// is allowed.
pub fn json(text: &str, name: &str) -> Option<String> {
    AllowList::EMPTY.redact_json(text, name)
}

impl AllowList {
    /// A text without its secrets; `None` if it has none.
    pub fn redact_text(&self, text: &str) -> Option<String> {
        let mut new: Option<String> = None;
        for _ in 0..ROUNDS {
            let old = new.as_deref().unwrap_or(text);
            let found = scan::scan(old, None, self);
            if found.is_empty() {
                break;
            }
            let mut next = String::with_capacity(old.len());
            let mut copied = 0;
            for one in found {
                next.push_str(&old[copied..one.start]);
                next.push_str(&marked(one.rule));
                copied = one.end;
            }
            next.push_str(&old[copied..]);
            new = Some(next);
        }
        new
    }

    /// A JSON text without its secrets, all else as it was; `None` if it has none. `name` is the member it stands at.
    pub fn redact_json(&self, text: &str, name: &str) -> Option<String> {
        json::replaced(text, name, self)
    }

    /// Replaces secrets in any value that is written as JSON; says how many.
    pub fn redact_value<T>(&self, value: T, name: &str) -> Result<(T, u64), ValidationError>
    where
        T: Serialize + DeserializeOwned,
    {
        let raw = RawJson::of(&value)?;
        let Some(new) = self.redact_json(raw.get(), name) else { return Ok((value, 0)) };
        let invalid =
            |e: serde_json::Error| ValidationError { path: format!("/{name}"), message: e.to_string() };
        Ok((serde_json::from_str(&new).map_err(invalid)?, count(&new).saturating_sub(count(raw.get()))))
    }

    /// Replaces secrets in a draft; says how many.
    pub fn redact_draft(&self, draft: Draft) -> Result<(Draft, u64), ValidationError> {
        let mut fields = draft.to_object()?;
        let secret: Vec<(String, String, u64)> = fields
            .iter()
            .filter(|(name, _)| !FIXED.contains(name))
            .filter_map(|(name, raw)| {
                let new = self.redact_json(raw.get(), name)?;
                let more = count(&new).saturating_sub(count(raw.get()));
                Some((name.to_owned(), new, more))
            })
            .collect();
        // A name that a newer version has given a member is the caller's text as well.
        let strange: Vec<String> = draft
            .extra
            .iter()
            .filter(|(name, _)| self.redact_text(name).is_some())
            .map(|(name, _)| name.to_owned())
            .collect();
        if secret.is_empty() && strange.is_empty() {
            return Ok((draft, 0));
        }
        let mut replaced = 0;
        for (name, new, more) in secret {
            fields.set(&name, RawJson::parse(new)?);
            replaced += more;
        }
        for name in strange {
            let new = self.redact_text(&name).unwrap_or_default();
            let free = (1..).map(|n| if n == 1 { new.clone() } else { format!("{new}#{n}") });
            if let (Some(name), Some(raw)) =
                (free.into_iter().find(|name| fields.get(name).is_none()), fields.take(&name))
            {
                fields.set(&name, raw);
                replaced += 1;
            }
        }
        Ok((Draft::from_object(fields)?, replaced))
    }
}

fn count(text: &str) -> u64 {
    text.matches(MARK).count() as u64
}

/// What was replaced in a document, by its members; `None` where nothing was.
pub(crate) fn located<'a>(members: impl Iterator<Item = (&'a str, &'a RawJson)>) -> Option<RedactionSummary> {
    let mut redacted = RedactionSummary::default();
    let mut known: Option<BTreeSet<&str>> = None;
    let mut tell = |pointer: String, text: &str| {
        let known = known.get_or_insert_with(rules);
        let mut here = false;
        for rest in text.split(MARK).skip(1) {
            if let Some(rule) = rest.split(']').next().filter(|rule| known.contains(rule)) {
                *redacted.counts.entry(rule.to_owned()).or_default() += 1;
                here = true;
            }
        }
        if here {
            redacted.pointers.push(pointer);
        }
    };
    for (name, raw) in members {
        if name.contains(MARK) {
            tell(format!("/{}", name.replace('~', "~0").replace('/', "~1")), name);
        }
        if name != "redacted" {
            json::locate(raw.get(), name, &mut tell);
        }
    }
    (!redacted.pointers.is_empty()).then_some(redacted)
}

impl RedactionSummary {
    /// Joins what was replaced here with what a caller says it has replaced itself.
    pub fn and(mut self, other: Option<Self>) -> Self {
        let Some(other) = other else { return self };
        for (rule, n) in other.counts {
            let here = self.counts.entry(rule).or_default();
            *here = n.max(*here);
        }
        for pointer in other.pointers {
            if !self.pointers.contains(&pointer) {
                self.pointers.push(pointer);
            }
        }
        self
    }
}
