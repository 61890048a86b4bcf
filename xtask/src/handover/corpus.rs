//! Reads the stories of a set, sorted by name, and checks their labels: each text of a fact must occur in the
//! part of the story that its class refers to. Errors name the file and the label. Stories in `tuning` may be
//! read while Milepost is being changed. Those in `held-out` must not be adapted to its results.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use super::grade::normalize;
use super::story::{Event, Fact, FactClass, StaleFact, Story};
use crate::shell::root;

const CORPUS: &str = "xtask/corpus/handover";

/// A set of stories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StorySet {
    Tuning,
    HeldOut,
    All,
}

impl StorySet {
    pub fn from_name(name: &str) -> Result<Self> {
        Ok(match name {
            "tuning" => Self::Tuning,
            "held-out" => Self::HeldOut,
            "all" => Self::All,
            _ => bail!("unknown set {name}; known: tuning, held-out, all"),
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Tuning => "tuning",
            Self::HeldOut => "held-out",
            Self::All => "all",
        }
    }
}

/// Reads the stories of a set.
pub fn read(set: StorySet) -> Result<Vec<Story>> {
    let corpus = root().join(CORPUS);
    let folders: &[&str] = match set {
        StorySet::Tuning => &["tuning"],
        StorySet::HeldOut => &["held-out"],
        StorySet::All => &["tuning", "held-out"],
    };
    let mut stories = Vec::new();
    for folder in folders {
        let mut read = read_folder(&corpus.join(folder))?;
        stories.append(&mut read);
    }
    ensure!(!stories.is_empty(), "the set {} has no stories", set.name());
    Ok(stories)
}

fn read_folder(folder: &Path) -> Result<Vec<Story>> {
    let mut names = Vec::new();
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".json").map(str::to_owned));
    }
    names.sort();
    let read = |name: String| {
        let file = folder.join(format!("{name}.json"));
        parse(&name, &std::fs::read_to_string(&file)?).with_context(|| file.display().to_string())
    };
    names.into_iter().map(read).collect()
}

/// Parses a story and checks its labels.
fn parse(name: &str, text: &str) -> Result<Story> {
    let story = Story::parse(name, text)?;
    ensure!(!story.facts.is_empty(), "the story has no facts");
    for fact in &story.facts {
        check_fact(&story, fact)?;
    }
    for stale in &story.stale {
        check_stale(&story, stale)?;
    }
    Ok(story)
}

fn check_fact(story: &Story, fact: &Fact) -> Result<()> {
    ensure!(!fact.any.is_empty(), "a {} fact has no text", fact.class.name());
    let sources: Vec<String> = sources(story, fact.class).iter().map(|text| normalize(text)).collect();
    for text in &fact.any {
        let wanted = normalize(text);
        ensure!(!wanted.is_empty(), "a {} fact has an empty text", fact.class.name());
        ensure!(
            sources.iter().any(|source| source.contains(&wanted)),
            "the {} fact \"{text}\" is not in {}",
            fact.class.name(),
            source_name(fact.class)
        );
    }
    Ok(())
}

fn check_stale(story: &Story, stale: &StaleFact) -> Result<()> {
    let wanted = normalize(&stale.text);
    let label = format!("the stale {} \"{}\"", stale.class.name(), stale.text);
    ensure!(!wanted.is_empty(), "{label} is empty");
    let all = story.events().flat_map(texts);
    ensure!(all.into_iter().any(|text| normalize(text).contains(&wanted)), "{label} is not in the story");
    let current =
        story.facts.iter().flat_map(|fact| &fact.any).find(|text| normalize(text).contains(&wanted));
    if let Some(fact) = current {
        bail!("{label} is part of the fact \"{fact}\"");
    }
    Ok(())
}

/// The texts of a story that a fact of a class may quote.
fn sources(story: &Story, class: FactClass) -> Vec<&str> {
    let from_events = |pick: fn(&Event) -> Vec<&str>| story.events().flat_map(pick).collect();
    match class {
        FactClass::Constraint => from_events(|event| match event {
            Event::Prompt(text) => vec![text],
            Event::Ask { answer, .. } => vec![answer],
            _ => Vec::new(),
        }),
        FactClass::Failure => from_events(|event| match event {
            Event::Shell { command, exit, output, .. } if *exit != 0 => vec![command, output],
            _ => Vec::new(),
        }),
        FactClass::Todo => {
            story.newest_todo().iter().filter(|item| item.is_open()).map(|item| item.title.as_str()).collect()
        }
        FactClass::Decision => from_events(|event| match event {
            Event::Plan { text, approved: true } => vec![text],
            Event::Ask { question, answer, .. } => vec![question, answer],
            _ => Vec::new(),
        }),
        FactClass::File => from_events(|event| match event {
            Event::Edit(path) | Event::Delete(path) => vec![path],
            Event::Rename(from, to) => vec![from, to],
            Event::Shell { command, .. } => vec![command],
            _ => Vec::new(),
        }),
        FactClass::LastMessage => {
            let last = story.events().rev().find_map(|event| match event {
                Event::Say(text) => Some(text.as_str()),
                _ => None,
            });
            last.into_iter().collect()
        }
    }
}

fn source_name(class: FactClass) -> &'static str {
    match class {
        FactClass::Constraint => "a prompt or an answer",
        FactClass::Failure => "a command that failed",
        FactClass::Todo => "an open item of the newest to-do list",
        FactClass::Decision => "an approved plan, a question or its answer",
        FactClass::File => "an edited, deleted or renamed path, or a command",
        FactClass::LastMessage => "the last message of the agent",
    }
}

/// All texts of an event.
fn texts(event: &Event) -> Vec<&str> {
    match event {
        Event::Prompt(text)
        | Event::Say(text)
        | Event::Edit(text)
        | Event::Read(text)
        | Event::Search(text)
        | Event::Delete(text)
        | Event::Commit(text)
        | Event::Branch(text)
        | Event::Plan { text, .. } => vec![text],
        Event::Shell { command, output, .. } => vec![command, output],
        Event::Rename(from, to) => vec![from, to],
        Event::Todo(list) => list.iter().map(|item| item.title.as_str()).collect(),
        Event::Ask { question, options, answer } => {
            options.iter().chain([question, answer]).map(String::as_str).collect()
        }
        Event::Compact => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(facts: &str, stale: &str) -> Result<Story> {
        let events = r#"[
            {"prompt": "Never touch `billing`"},
            {"todo": [["Write it", "completed"], ["Test it", "pending"]]},
            {"shell": "make test", "exit": 2},
            {"shell": "make"},
            {"plan": "Use Redis", "approved": false},
            {"edit": "src/a.rs"},
            {"say": "First"},
            {"say": "Last one"}
        ]"#;
        let text = format!(
            r#"{{"about": "a", "language": "en", "sessions": [{{"events": {events}, "end": "kill"}}],
                "facts": [{facts}], "stale": [{stale}]}}"#
        );
        parse("story", &text)
    }

    #[test]
    fn every_story_of_the_corpus_is_sound() {
        for entry in std::fs::read_dir(root().join(CORPUS)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                assert!(read_folder(&path).unwrap().len() >= 10, "{}", path.display());
            }
        }
    }

    #[test]
    fn labels_must_occur_in_the_story() {
        let sound = r#"{"class": "constraint", "any": ["never touch billing"]}"#;
        labelled(sound, r#"{"class": "todo", "text": "Write it"}"#).unwrap();
        for (fact, problem) in [
            (r#"{"class": "constraint", "any": ["never touch", "always touch"]}"#, "\"always touch\""),
            (r#"{"class": "constraint", "any": []}"#, "has no text"),
            (r#"{"class": "failure", "any": ["make all"]}"#, "a command that failed"),
            (r#"{"class": "todo", "any": ["Write it"]}"#, "an open item"),
            (r#"{"class": "decision", "any": ["Use Redis"]}"#, "an approved plan"),
            (r#"{"class": "file", "any": ["src/b.rs"]}"#, "path"),
            (r#"{"class": "last_message", "any": ["First"]}"#, "last message"),
        ] {
            let error = labelled(fact, "").err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(problem), "{fact}: {error}");
        }
        for (stale, problem) in [
            (r#"{"class": "todo", "text": "Sell it"}"#, "is not in the story"),
            (r#"{"class": "decision", "text": "Never touch"}"#, "is part of the fact"),
        ] {
            let error = labelled(sound, stale).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(problem), "{stale}: {error}");
        }
    }
}
