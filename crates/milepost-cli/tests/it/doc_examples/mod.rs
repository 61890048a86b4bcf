//! Runs every example of README.md and docs/*.md with the real binary and compares its output with the page.
//!
//! - `console` blocks: each line after `$ ` is run, in one shell per page, and its output is compared. Ids,
//!   times, sizes and similar values only have to be of the same kind. `…` matches any text, and on a
//!   separate line it matches any number of lines.
//! - `sh` blocks: the binary parses their `milepost` commands. `toml` blocks are loaded as settings, `json`
//!   blocks are parsed, and `rust` blocks must be doc tests of the library. Blocks in other languages need a
//!   directive `file` or `skip`.
//! - Comments before a block are directives for this test: `<!-- example: setup COMMANDS -->`,
//!   `<!-- example: new project [git] -->`, `<!-- example: file NAME -->` and
//!   `<!-- example: skip needs a network -->` (or an agent, a terminal, root). Set-up commands find the files
//!   of the repository under `$REPOSITORY`.
//!
//! `UPDATE_DOCS=1` writes the output into the pages instead. `DOC_PAGE=docs/config.md` checks only that page.

mod compare;
mod markdown;
mod samples;
mod shell;
mod syntax;
mod values;

use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use markdown::{Block, Directive, Example};
use shell::Shell;
use values::Ids;

/// Programs that examples use. The pages are not checked if one is missing; `cargo xtask setup` installs
/// them.
const PROGRAMS: [&str; 5] = ["flock", "git", "jq", "python3", "sqlite3"];

/// Number of pages to check at the same time.
const THREADS: usize = 4;

/// Maximum number of times a page is rewritten until its examples pass.
const REWRITES: usize = 3;

/// The results of checking a page.
#[derive(Default)]
struct Report {
    /// Number of commands in `console` blocks that were run and compared.
    compared: usize,
    /// Number of commands and blocks that were parsed.
    parsed: usize,
    /// Blocks that were skipped: the line and the reason.
    skipped: Vec<(usize, String)>,
    /// Failures: the line and the message.
    failures: Vec<(usize, String)>,
    /// New expected output: the lines of the page that it replaces.
    replacements: Vec<(Range<usize>, Vec<String>)>,
}

/// Runs the examples of a page.
fn check_page(name: &str, page: &str) -> Report {
    let mut report = Report::default();
    let blocks = match markdown::blocks(page) {
        Ok(blocks) => blocks,
        Err(problem) => {
            report.failures.push((0, problem));
            return report;
        }
    };
    let mut runner = Runner { shell: None, ids: Ids::default(), report };
    for block in &blocks {
        if let Err(problem) = runner.check_block(name, block) {
            runner.report.failures.push((block.first_line, problem));
        }
    }
    runner.report
}

struct Runner {
    /// Started with the first command.
    shell: Option<Shell>,
    ids: Ids,
    report: Report,
}

impl Runner {
    fn shell(&mut self) -> Result<&mut Shell, String> {
        if self.shell.is_none() {
            self.shell = Some(Shell::new(false)?);
        }
        self.shell.as_mut().ok_or_else(String::new)
    }

    fn check_block(&mut self, page: &str, block: &Block) -> Result<(), String> {
        if let Some(reason) = block.skip_reason() {
            self.report.skipped.push((block.first_line, reason.to_owned()));
            return Ok(());
        }
        let mut written = false;
        for directive in &block.directives {
            match directive {
                Directive::NewProject { git } => self.shell = Some(Shell::new(*git)?),
                Directive::Setup(commands) => {
                    let commands = self.ids.in_command(commands);
                    let output =
                        self.shell()?.run(&commands).map_err(|e| format!("the setup failed: {e}"))?;
                    if output.exit != 0 {
                        return Err(format!("the setup exited with {}:\n{}", output.exit, output.text));
                    }
                }
                Directive::File(name) => {
                    self.shell()?.write_file(name, &block.text());
                    written = true;
                }
                Directive::Skip(_) => {}
            }
        }
        match block.language.as_str() {
            "console" => {
                block.examples()?.iter().try_for_each(|example| self.check_example(block, example))?
            }
            "sh" => self.report.parsed += syntax::check_script(&block.text())?,
            "toml" => syntax::check_toml(&block.text()).map(|()| self.report.parsed += 1)?,
            "json" => syntax::check_json(&block.text()).map(|()| self.report.parsed += 1)?,
            "rust" => syntax::check_rust(page).map(|()| self.report.parsed += 1)?,
            "" | "text" => {}
            // The tests of the Python package run these.
            "python" => {}
            _ if written => {}
            other => return Err(format!("a {other:?} code block needs a `file` or `skip` directive")),
        }
        Ok(())
    }

    fn check_example(&mut self, block: &Block, example: &Example) -> Result<(), String> {
        let command = self.ids.in_command(&example.command);
        let output = match self.shell()?.run(&command) {
            Ok(output) => output.text,
            Err(problem) => {
                self.shell = None;
                return Err(format!("`{}` failed: {problem}", example.command));
            }
        };
        self.report.compared += 1;
        if let Some(ids) = compare::compare(&example.expected, &output, &self.ids) {
            self.ids = ids;
            return Ok(());
        }
        let difference = compare::difference(&example.expected, &output, &self.ids);
        let message =
            format!("the output of `{}` differs (- page, + output):\n{difference}", example.command);
        self.report.failures.push((example.line, message));
        let lines = compare::rewrite(&example.expected, &output, &mut self.ids);
        if lines.iter().any(|line| line.trim_start().starts_with(&block.fence)) {
            return Err(format!(
                "`{}` prints a code fence: use a longer fence for its block",
                example.command
            ));
        }
        let indent = " ".repeat(block.indent);
        let lines =
            lines.into_iter().map(|line| if line.is_empty() { line } else { format!("{indent}{line}") });
        self.report.replacements.push((example.output.clone(), lines.collect()));
        Ok(())
    }
}

/// The page with new expected output.
fn with_replacements(page: &str, replacements: &[(Range<usize>, Vec<String>)]) -> String {
    let mut lines: Vec<String> = page.lines().map(str::to_owned).collect();
    for (range, new) in replacements.iter().rev() {
        lines.splice(range.clone(), new.iter().cloned());
    }
    lines.join("\n") + "\n"
}

/// Rewrites a page until its examples pass. Another pass is needed if a value that is compared only by its
/// kind, such as a short id, happens to look like a word.
fn update_page(name: &str, mut page: String) -> (String, Report) {
    let mut report = check_page(name, &page);
    for _ in 0..REWRITES {
        if report.replacements.is_empty() {
            break;
        }
        page = with_replacements(&page, &report.replacements);
        report = check_page(name, &page);
    }
    (page, report)
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// README.md and docs/*.md.
fn pages() -> Vec<String> {
    let files = std::fs::read_dir(repository().join("docs")).unwrap();
    let names = files.map(|file| format!("docs/{}", file.unwrap().file_name().to_str().unwrap()));
    let mut pages: Vec<_> = names.filter(|name| name.ends_with(".md")).collect();
    pages.sort();
    pages.insert(0, "README.md".to_owned());
    pages
}

#[allow(clippy::disallowed_methods, reason = "how the author of a page runs this test")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

#[test]
fn every_example_of_the_pages_does_what_the_page_shows() {
    let update = variable("UPDATE_DOCS").is_some();
    let only = variable("DOC_PAGE");
    let chosen = |page: &String| only.as_ref().is_none_or(|only| only == page);
    if let Some(missing) = PROGRAMS.iter().find(|program| !shell::has_program(program)) {
        writeln!(std::io::stderr(), "skipped: {missing}, which examples use, is not installed").unwrap();
        return;
    }
    let waiting = Mutex::new(pages().into_iter().filter(chosen).collect::<Vec<_>>());
    let reports = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(name) = { waiting.lock().unwrap().pop() } {
                    let path = repository().join(&name);
                    let page = std::fs::read_to_string(&path).unwrap();
                    let report = if update {
                        let (new, report) = update_page(&name, page.clone());
                        #[allow(clippy::disallowed_methods, reason = "a page of the repository")]
                        if new != page {
                            std::fs::write(&path, new).unwrap();
                        }
                        report
                    } else {
                        check_page(&name, &page)
                    };
                    reports.lock().unwrap().push((name, report));
                }
            });
        }
    });
    let mut reports = reports.into_inner().unwrap();
    reports.sort_by(|a, b| a.0.cmp(&b.0));
    // Bypasses the test harness, which shows the output of failed tests only.
    let mut stderr = std::io::stderr().lock();
    let (mut compared, mut parsed, mut skipped, mut failures) = (0, 0, 0, Vec::new());
    for (name, report) in &reports {
        (compared, parsed) = (compared + report.compared, parsed + report.parsed);
        skipped += report.skipped.len();
        for (line, reason) in &report.skipped {
            writeln!(stderr, "{name}:{line}: skipped: {reason}").unwrap();
        }
        failures.extend(report.failures.iter().map(|(line, text)| format!("{name}:{}: {text}", line + 1)));
    }
    let pages = reports.len();
    writeln!(stderr, "{pages} pages: {compared} examples compared, {parsed} parsed, {skipped} skipped")
        .unwrap();
    assert!(!reports.is_empty(), "no page is called {only:?}");
    assert!(
        failures.is_empty(),
        "{} examples differ; UPDATE_DOCS=1 writes the output into the pages:\n\n{}",
        failures.len(),
        failures.join("\n")
    );
}
