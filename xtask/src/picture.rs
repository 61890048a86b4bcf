//! `cargo xtask picture [BINARY]`: draws `docs/resume.svg`, the picture in the README. Runs a job with the
//! real binary in an 80-column terminal, kills it, resumes it, and renders the terminal's content. Fails if a
//! command does not print what the picture must show. Changes the output in two ways: the home folder becomes
//! `~`, and the brief becomes `…`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::shell::{build_program, is_installed, read_output, root};

const COLUMNS: usize = 80;
const TITLE: &str = "A job is killed and resumed: only the task that was not done runs again";

/// The job. It runs each task that is not done yet.
const JOB: &str = "for task in fetch build test; do
  milepost task is $task done || milepost task run $task -- ./work $task
done
";

/// The work of a task. `test` does not end the first time.
const WORK: &str = "#!/bin/sh
echo \"working on $1\"
sleep 1
if [ \"$1\" = test ] && [ ! -e .first ]; then touch .first; sleep 600; fi
echo ok > \"$1.log\"
";

/// Runs the scenario in one shell. `show` prints a command after a mark and runs it.
const SESSION: &str = r#"
git init -q -b main && chmod +x work && echo .first > .gitignore && git add . && git commit -q -m 'Start the project'
set -m
show() { printf '\036%s\n' "$1"; eval "$1"; }
show 'cat nightly.sh'
show "milepost run --run nightly --title 'Nightly build' -- sh nightly.sh &"
until [ -e .first ]; do sleep 0.1; done
# The shell's own message names this file.
{ show 'kill -9 -- -$!'; wait $!; } 2>/dev/null
show 'milepost'
show 'milepost resume'
show 'milepost run --rejoin --run nightly -- sh nightly.sh'
"#;

/// The text that the terminal must show, in this order.
const EXPECTED: [&str; 8] = [
    "working on fetch",
    "working on build",
    "working on test",
    "process_crash",
    "Next: milepost resume",
    "the process died unexpectedly",
    "working on test",
    "exit 0",
];

pub fn run(binary: Option<&str>) -> Result<()> {
    ensure!(is_installed("script"), "`script` (package bsdutils) is needed to run commands in a terminal");
    let binary = match binary {
        Some(path) => std::fs::canonicalize(path).with_context(|| path.to_owned())?,
        None => build_program()?,
    };
    let screen = screen(&run_session(&binary)?);
    check(&screen)?;
    let path = root().join("docs/resume.svg");
    std::fs::write(&path, draw(&screen)).with_context(|| path.display().to_string())?;
    println!("{}", path.display());
    Ok(())
}

/// Runs the scenario in a temporary project and home folder. Returns what the terminal received, without
/// carriage returns.
fn run_session(binary: &Path) -> Result<String> {
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let home = folder.path().canonicalize().context("cannot resolve the temporary folder")?;
    let project = home.join("app");
    let write = |path: PathBuf, text: &str| {
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    };
    std::fs::create_dir_all(&project).with_context(|| project.display().to_string())?;
    write(project.join("nightly.sh"), JOB)?;
    write(project.join("work"), WORK)?;
    write(home.join("session.sh"), SESSION)?;
    write(home.join(".gitconfig"), "[user]\nname = Ada\nemail = ada@example.org\n")?;
    let programs = binary.parent().context("the binary has no folder")?;
    let output = read_output(
        Command::new("script")
            .args(["--quiet", "--return", "--command", "bash ../session.sh", "/dev/null"])
            .current_dir(&project)
            .env_clear()
            .env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", programs.display()))
            .env("HOME", &home)
            .env("COLUMNS", COLUMNS.to_string())
            .env("TERM", "xterm-256color")
            .env("LC_ALL", "C.UTF-8"),
    )?;
    Ok(output.replace('\r', "").replace(&*home.to_string_lossy(), "~"))
}

/// Text of one style. Positions count characters, since every character of the output is one column wide.
#[derive(Debug, Clone, Default, PartialEq)]
struct Span {
    text: String,
    style: Style,
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Style {
    colour: Option<&'static str>,
    bold: bool,
    dim: bool,
}

/// The lines of the terminal with their styles. A blank line separates commands, and `…` stands for a brief.
fn screen(output: &str) -> Vec<Vec<Span>> {
    let mut screen: Vec<Vec<Span>> = Vec::new();
    let mut in_brief = false;
    for line in output.lines() {
        if let Some(command) = line.strip_prefix('\x1e') {
            in_brief = false;
            if screen.last().is_some_and(|line| !line.is_empty()) {
                screen.push(Vec::new());
            }
            let prompt = Style { colour: Some(GREEN), bold: true, dim: false };
            let typed = Style { colour: Some(TYPED), ..Style::default() };
            screen.push(vec![
                Span { text: "$ ".to_owned(), style: prompt },
                Span { text: command.to_owned(), style: typed },
            ]);
        } else if line == "---" && !in_brief {
            in_brief = true;
            let style = Style { dim: true, ..Style::default() };
            screen.push(vec![Span { text: "… (the brief for the next session)".to_owned(), style }]);
        } else if !in_brief {
            screen.push(spans(line));
        }
    }
    screen
}

/// Splits a line at the escape sequences that select styles. Other sequences are dropped.
fn spans(line: &str) -> Vec<Span> {
    let mut parts = line.split("\x1b[");
    let mut spans = vec![Span { text: parts.next().unwrap_or_default().to_owned(), ..Span::default() }];
    let mut style = Style::default();
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(part.len());
        let (codes, text) = part.split_at(end);
        if let Some(text) = text.strip_prefix('m') {
            codes.split(';').for_each(|code| style.apply(code));
            spans.push(Span { text: text.to_owned(), style });
        } else {
            spans.push(Span { text: text.get(1..).unwrap_or_default().to_owned(), style });
        }
    }
    spans.retain(|span| !span.text.is_empty());
    spans
}

impl Style {
    fn apply(&mut self, code: &str) {
        match code {
            "" | "0" => *self = Self::default(),
            "1" => self.bold = true,
            "2" => self.dim = true,
            "22" => (self.bold, self.dim) = (false, false),
            "31" | "91" => self.colour = Some(RED),
            "32" | "92" => self.colour = Some(GREEN),
            "33" | "93" => self.colour = Some(YELLOW),
            "34" | "94" => self.colour = Some(BLUE),
            "35" | "95" => self.colour = Some(MAGENTA),
            "36" | "96" => self.colour = Some(CYAN),
            "39" => self.colour = None,
            _ => {}
        }
    }

    fn fill(self) -> &'static str {
        self.colour.unwrap_or(match (self.dim, self.bold) {
            (true, _) => DIM,
            (_, true) => BRIGHT,
            _ => TEXT,
        })
    }
}

fn plain(screen: &[Vec<Span>]) -> String {
    let line = |line: &Vec<Span>| line.iter().map(|span| span.text.as_str()).collect::<String>();
    screen.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn check(screen: &[Vec<Span>]) -> Result<()> {
    let text = plain(screen);
    let mut rest = text.as_str();
    for expected in EXPECTED {
        let at = rest
            .find(expected)
            .with_context(|| format!("the terminal does not show `{expected}` where it should:\n{text}"))?;
        rest = &rest[at + expected.len()..];
    }
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    ensure!(widest <= COLUMNS, "a line has {widest} columns:\n{text}");
    Ok(())
}

// The window has its own background, so that the picture is readable on light and dark pages.
const BACKGROUND: &str = "#0d1117";
const BAR: &str = "#161b22";
const BORDER: &str = "#3d444d";
const TEXT: &str = "#c9d1d9";
const BRIGHT: &str = "#f0f6fc";
const TYPED: &str = "#f0f6fc";
const DIM: &str = "#8b949e";
const RED: &str = "#ff7b72";
const GREEN: &str = "#56d364";
const YELLOW: &str = "#e3b341";
const BLUE: &str = "#79c0ff";
const MAGENTA: &str = "#d2a8ff";
const CYAN: &str = "#76e3ea";

// Pixels.
const CELL: f64 = 8.4;
const LINE: f64 = 19.0;
const FONT: f64 = 14.0;
const PADDING: f64 = 18.0;
const BAR_HEIGHT: f64 = 34.0;

/// Renders the screen. Each word group has its own position and width, so that columns are aligned in any
/// font.
fn draw(screen: &[Vec<Span>]) -> String {
    let width = COLUMNS as f64 * CELL + 2.0 * PADDING;
    let height = BAR_HEIGHT + screen.len() as f64 * LINE + 2.0 * PADDING;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" \
         font-size=\"{FONT}\">\n\
         <!-- Drawn by cargo xtask picture from a real run. -->\n\
         <title>{TITLE}</title>\n\
         <rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"10\" fill=\"{BACKGROUND}\" stroke=\"{BORDER}\"/>\n\
         <path d=\"M1 {BAR_HEIGHT} V11 Q1 1 11 1 H{} Q{} 1 {} 11 V{BAR_HEIGHT} Z\" fill=\"{BAR}\"/>\n",
        width - 1.0,
        height - 1.0,
        width - 11.0,
        width - 1.0,
        width - 1.0,
    );
    for (number, colour) in ["#ff5f57", "#febc2e", "#28c840"].into_iter().enumerate() {
        let x = 20.0 + 20.0 * number as f64;
        push(
            &mut svg,
            format_args!("<circle cx=\"{x}\" cy=\"{}\" r=\"6\" fill=\"{colour}\"/>\n", BAR_HEIGHT / 2.0),
        );
    }
    for (number, line) in screen.iter().enumerate() {
        let y = BAR_HEIGHT + PADDING + LINE * (number as f64 + 0.75);
        let mut column = 0;
        for span in line {
            for (offset, words) in word_groups(&span.text) {
                let x = PADDING + CELL * (column + offset) as f64;
                let length = CELL * words.chars().count() as f64;
                let weight = if span.style.bold { " font-weight=\"bold\"" } else { "" };
                push(
                    &mut svg,
                    format_args!(
                        "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{length:.1}\" \
                         lengthAdjust=\"spacingAndGlyphs\" fill=\"{}\"{weight}>{}</text>\n",
                        span.style.fill(),
                        escape(words),
                    ),
                );
            }
            column += span.text.chars().count();
        }
    }
    svg.push_str("</svg>\n");
    svg
}

fn push(text: &mut String, part: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = text.write_fmt(part);
}

/// The parts of a text between gaps of two or more spaces, each with its column.
fn word_groups(text: &str) -> Vec<(usize, &str)> {
    let mut column = 0;
    let mut groups = Vec::new();
    for part in text.split("  ") {
        let words = part.trim();
        let indent = part.chars().take_while(|c| *c == ' ').count();
        if !words.is_empty() {
            groups.push((column + indent, words));
        }
        column += part.chars().count() + 2;
    }
    groups
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_are_parsed() {
        let spans = spans("\x1b[1mRUN\x1b[0m  \x1b[31mstopped\x1b[0m\x1b[K");
        let texts: Vec<_> = spans.iter().map(|span| (span.text.as_str(), span.style.fill())).collect();
        assert_eq!(texts, [("RUN", BRIGHT), ("  ", TEXT), ("stopped", RED)]);
    }

    #[test]
    fn groups_keep_their_columns() {
        assert_eq!(word_groups("a b   c  d"), [(0, "a b"), (6, "c"), (9, "d")]);
        assert_eq!(word_groups("  x "), [(2, "x")]);
    }

    #[test]
    fn text_is_escaped() {
        let line = vec![Span { text: "<a> & b".to_owned(), ..Span::default() }];
        assert!(draw(&[line]).contains(">&lt;a&gt; &amp; b</text>"));
    }
}
