//! Simple ways to hand work over, as comparisons. Takes a story and a size limit, and returns the text that
//! the next session would get. Each method sees the whole story, in order. Pure.

use super::delivery::Limit;
use super::story::{Event, Story};

/// A way to write the text for the next session.
pub type Method = fn(&Story, Limit) -> String;

pub const METHODS: [(&str, Method); 3] = [
    ("last messages", last_messages),
    ("first and last messages", first_and_last),
    ("plain template", template),
];

/// Number of commands that the template lists.
const COMMANDS: usize = 20;

/// The newest messages of the transcript that fit.
fn last_messages(story: &Story, limit: Limit) -> String {
    newest(&transcript(story), limit)
}

/// The first prompt and the newest messages, with half of the limit each.
fn first_and_last(story: &Story, limit: Limit) -> String {
    let lines = transcript(story);
    let first = lines.iter().position(|line| line.starts_with("user: "));
    let half = limit.half();
    let (head, rest) = match first {
        Some(at) => (half.start(&lines[at]), &lines[at + 1..]),
        None => ("", &lines[..]),
    };
    format!("{head}\n{}", newest(rest, half))
}

/// Whole lines from the end of a transcript. If not even the last one fits, its end.
fn newest(lines: &[String], limit: Limit) -> String {
    let from = |start: usize| lines[start..].join("\n");
    let mut start = lines.len();
    while start > 0 && limit.fits(&from(start - 1)) {
        start -= 1;
    }
    match lines.last() {
        Some(last) if start == lines.len() => limit.end(last).to_owned(),
        _ => from(start),
    }
}

/// A template with fixed sections, filled from the newest facts and cut at the limit.
fn template(story: &Story, limit: Limit) -> String {
    let prompts: Vec<&str> = story
        .events()
        .filter_map(|event| if let Event::Prompt(text) = event { Some(text.as_str()) } else { None })
        .collect();
    let commands: Vec<String> = story.events().filter_map(command).collect();
    let mut files: Vec<&str> = Vec::new();
    for path in story.events().flat_map(paths) {
        if !files.contains(&path) {
            files.push(path);
        }
    }
    let branch = story.events().rev().find_map(|event| match event {
        Event::Branch(name) => Some(format!("Branch: {name}")),
        _ => None,
    });
    let open = story.newest_todo().iter().filter(|item| item.is_open()).map(|item| item.title.clone());
    let sections = [
        ("## Problem", prompts.first().map(|text| (*text).to_owned()).into_iter().collect()),
        ("## Session Intent", prompts.last().map(|text| (*text).to_owned()).into_iter().collect()),
        ("### Decisions", vec!["- None".to_owned()]),
        ("### Technical Context", bullets(branch.into_iter())),
        ("### Play-By-Play", bullets(commands[commands.len().saturating_sub(COMMANDS)..].iter().cloned())),
        ("### Artifact Trail", bullets(files.iter().map(|path| format!("{path} modified")))),
        ("### Current State", bullets(commands.last().cloned().into_iter())),
        ("### Next Actions", bullets(open)),
    ];
    let text: String = sections
        .iter()
        .map(|(heading, lines): &(_, Vec<String>)| format!("{heading}\n{}\n\n", lines.join("\n")))
        .collect();
    limit.start(&text).to_owned()
}

fn bullets(lines: impl Iterator<Item = String>) -> Vec<String> {
    lines.map(|line| format!("- {line}")).collect()
}

/// The paths that an event changes.
fn paths(event: &Event) -> Vec<&str> {
    match event {
        Event::Edit(path) | Event::Delete(path) => vec![path],
        Event::Rename(from, to) => vec![from, to],
        _ => Vec::new(),
    }
}

/// A command with its exit code and the end of its output, on one line.
fn command(event: &Event) -> Option<String> {
    Some(match event {
        Event::Shell { command, exit, output, .. } => {
            let lines: Vec<&str> = output.lines().collect();
            let end = lines[lines.len().saturating_sub(5)..].join(" ");
            let comma = if end.is_empty() { "" } else { ", " };
            format!("{} → exit {exit}{comma}{end}", one_line(command))
        }
        Event::Delete(path) => format!("rm {path} → exit 0"),
        Event::Rename(from, to) => format!("git mv {from} {to} → exit 0"),
        Event::Commit(message) => format!("git commit -m {} → exit 0", one_line(message)),
        Event::Branch(name) => format!("git checkout -b {name} → exit 0"),
        _ => return None,
    })
}

/// The story as a transcript, with one line per message or tool call.
fn transcript(story: &Story) -> Vec<String> {
    story.events().filter_map(message).collect()
}

fn message(event: &Event) -> Option<String> {
    Some(match event {
        Event::Prompt(text) => format!("user: {}", one_line(text)),
        Event::Say(text) => format!("assistant: {}", one_line(text)),
        Event::Edit(path) => format!("tool: edit {path}"),
        Event::Read(path) => format!("tool: read {path}"),
        Event::Search(pattern) => format!("tool: search {pattern}"),
        Event::Todo(list) => {
            let mark = |item: &super::story::TodoItem| {
                let mark = if item.is_open() { ' ' } else { 'x' };
                format!("tool: to-do [{mark}] {}", one_line(&item.title))
            };
            list.iter().map(mark).collect::<Vec<_>>().join("\n")
        }
        Event::Plan { text, approved } => {
            format!("tool: plan {} → {}", one_line(text), if *approved { "approved" } else { "rejected" })
        }
        Event::Ask { question, options, answer } => {
            format!("user: {} ({}) → {}", one_line(question), one_line(&options.join(", ")), one_line(answer))
        }
        Event::Compact => return None,
        _ => format!("tool: {}", command(event)?),
    })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story() -> Story {
        let events = r#"[
            {"prompt": "Build it.\nNever touch b"},
            {"shell": "make", "exit": 2, "output": "no rule"},
            {"edit": "src/a.rs"},
            {"todo": [["Write", "completed"], ["Test", "pending"]]},
            {"prompt": "go on"}
        ]"#;
        let text = format!(
            r#"{{"about": "a", "language": "en", "sessions": [{{"events": {events}, "end": "kill"}}], "facts": []}}"#
        );
        Story::parse("story", &text).unwrap()
    }

    #[test]
    fn whole_messages_are_kept_from_the_end() {
        let (story, all) = (story(), Limit::Characters(1_000));
        let whole = "user: Build it. Never touch b\ntool: make → exit 2, no rule\ntool: edit src/a.rs\n\
                     tool: to-do [x] Write\ntool: to-do [ ] Test\nuser: go on";
        assert_eq!(last_messages(&story, all), whole);
        assert_eq!(last_messages(&story, Limit::Characters(11)), "user: go on");
        assert_eq!(last_messages(&story, Limit::Characters(5)), "go on");
        assert_eq!(first_and_last(&story, Limit::Characters(40)), "user: Build it. Neve\nuser: go on");
        assert_eq!(first_and_last(&story, all), whole);
    }

    #[test]
    fn the_template_lists_commands_files_and_open_items() {
        let text = template(&story(), Limit::Characters(1_000));
        for line in
            ["## Session Intent\ngo on", "- make → exit 2, no rule", "- src/a.rs modified", "- Test\n"]
        {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(!text.contains("Write"));
    }
}
