//! Labelled documents: `NAME.md` and, next to it, `NAME.facts` with one fact per line: a rank (`must`,
//! `rule`, `should` or `can`), a kind (`text` or `path`), and the fact itself. Documents in `tuning` may be
//! read while the algorithm is changed. Those in `held-out` were written and labelled from the format alone,
//! without access to the code or its results, and must not be adapted to either.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context, Result, bail};

use crate::shell::root;

/// A part of the corpus.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CorpusPart {
    Tuning,
    HeldOut,
}

impl fmt::Display for CorpusPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tuning => "tuning",
            Self::HeldOut => "held-out",
        })
    }
}

pub struct Document {
    pub name: String,
    pub text: String,
    pub facts: Vec<Fact>,
}

pub struct Fact {
    rank: String,
    is_path: bool,
    what: String,
}

/// How facts are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// `must` and `rule` weigh 4, `should` weighs 2, `can` weighs 1.
    ByRank,
    /// Every fact weighs 1.
    Equal,
}

impl fmt::Display for Weight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByRank => "weighted",
            Self::Equal => "unweighted",
        })
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.rank, self.what)
    }
}

/// A text prepared for the lookup of facts.
pub struct RetainedText {
    text: String,
    paths: BTreeSet<String>,
}

impl RetainedText {
    pub fn of(text: &str) -> Self {
        let mut paths = BTreeSet::new();
        for line in text.lines() {
            // A group: a folder, then file names, some followed by their change.
            if let Some((folder, names)) = line.strip_prefix("- ").and_then(|rest| rest.split_once("/: ")) {
                let names = names.split("; ").flat_map(|some| some.split(", "));
                let bare = names.map(|name| name.split_once(": ").map_or(name, |(name, _)| name));
                paths.extend(bare.map(|name| format!("{folder}/{name}")));
            }
        }
        Self { text: normalize(text), paths }
    }
}

impl Fact {
    pub fn survives(&self, retained: &RetainedText) -> bool {
        retained.text.contains(&normalize(&self.what)) || self.is_path && retained.paths.contains(&self.what)
    }

    fn weight(&self, weights: Weight) -> u64 {
        match (weights, self.rank.as_str()) {
            (Weight::Equal, _) | (_, "can") => 1,
            (_, "should") => 2,
            _ => 4,
        }
    }
}

/// Converts to lower case, single spaces and one kind of arrow, without Markdown markup.
fn normalize(text: &str) -> String {
    let text = text.replace("->", "→").replace("\\|", "|").to_lowercase();
    let bare: String = text.chars().filter(|c| !matches!(c, '`' | '*' | '~')).collect();
    bare.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Reads all documents of a part, sorted by name.
pub fn read(part: CorpusPart) -> Result<Vec<Document>> {
    let folder = root().join("xtask/corpus").join(part.to_string());
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).context("cannot read the corpus")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".md").map(str::to_owned));
    }
    names.sort();
    names.into_iter().map(|name| document(&folder, name)).collect()
}

fn document(folder: &std::path::Path, name: String) -> Result<Document> {
    let text = std::fs::read_to_string(folder.join(format!("{name}.md")))?;
    let labels = std::fs::read_to_string(folder.join(format!("{name}.facts")))?;
    let mut facts = Vec::new();
    let whole = RetainedText::of(&text);
    let mut seen = BTreeSet::new();
    for line in labels.lines() {
        let mut words = line.splitn(3, ' ');
        let (Some(rank), Some(kind), Some(what)) = (words.next(), words.next(), words.next()) else {
            bail!("{name}.facts: {line:?} is not a fact");
        };
        let fact = Fact { rank: rank.to_owned(), is_path: kind == "path", what: what.to_owned() };
        if !["must", "rule", "should", "can"].contains(&rank) || !["text", "path"].contains(&kind) {
            bail!("{name}.facts: {line:?} is not a fact");
        }
        if !fact.survives(&whole) {
            bail!("{name}.facts: {line:?} is not in the document");
        }
        if !seen.insert(normalize(what)) {
            bail!("{name}.facts: {line:?} is a duplicate");
        }
        facts.push(fact);
    }
    Ok(Document { name, text, facts })
}

/// The share of facts that survive the cut, over all documents together.
pub fn share(documents: &[Document], weights: Weight, cut: impl Fn(&str) -> String) -> f64 {
    let (mut left, mut all) = (0, 0);
    for document in documents {
        let retained = RetainedText::of(&cut(&document.text));
        for fact in &document.facts {
            all += fact.weight(weights);
            left += if fact.survives(&retained) { fact.weight(weights) } else { 0 };
        }
    }
    left as f64 / all as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `read` rejects a label that is not in its document, is a duplicate, or has an unknown rank.
    #[test]
    fn every_label_stands_once_in_its_document() {
        for part in [CorpusPart::Tuning, CorpusPart::HeldOut] {
            let documents = read(part).unwrap();
            assert!(documents.len() >= 30, "{part} has {} documents", documents.len());
            for document in &documents {
                assert!(!document.facts.is_empty(), "{part}/{} has no labels", document.name);
            }
        }
    }

    #[test]
    fn labels_that_say_nothing_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.md"), "The *pump* runs -> dry\n").unwrap();
        for (labels, problem) in [
            ("must text The pump stands\n", "is not in the document"),
            ("must text the pump runs\ncan text The `pump` runs\n", "is a duplicate"),
            ("maybe text The pump\n", "is not a fact"),
            ("must word The pump\n", "is not a fact"),
            ("must text\n", "is not a fact"),
        ] {
            std::fs::write(folder.path().join("a.facts"), labels).unwrap();
            let refused = document(folder.path(), "a".to_owned()).err().map(|error| error.to_string());
            assert!(refused.as_ref().is_some_and(|said| said.contains(problem)), "{labels:?}: {refused:?}");
        }
        std::fs::write(folder.path().join("a.facts"), "must text The pump runs → dry\n").unwrap();
        assert_eq!(document(folder.path(), "a".to_owned()).unwrap().facts.len(), 1);
    }
}
