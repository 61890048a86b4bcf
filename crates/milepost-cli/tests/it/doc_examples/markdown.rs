//! Finds the fenced code blocks of a Markdown page, the directives before them, and the commands with their
//! expected output in `console` blocks. Reads text only; runs nothing.

use std::ops::Range;

/// The allowed reasons to skip an example: it needs something that a test does not have.
const SKIP_REASONS: [&str; 4] = ["needs a network", "needs an agent", "needs a terminal", "needs root"];

/// A fenced code block.
#[derive(Debug)]
pub(super) struct Block {
    /// The first word after the opening fence, such as `console`; empty without one.
    pub(super) language: String,
    /// The directives in HTML comments directly before the block.
    pub(super) directives: Vec<Directive>,
    /// The content, without the indentation of the fence.
    pub(super) lines: Vec<String>,
    /// The index of the first content line in the page.
    pub(super) first_line: usize,
    /// The closing fence, and the indentation of the block.
    pub(super) fence: String,
    pub(super) indent: usize,
}

/// An instruction to this test: `<!-- example: … -->`.
#[derive(Debug, PartialEq)]
pub(super) enum Directive {
    /// `setup`: runs commands that the reader does not see.
    Setup(String),
    /// `new project`, `new project git`: starts over in an empty project, or in a repository with one commit.
    NewProject { git: bool },
    /// `file NAME`: writes the block to a file of the project.
    File(String),
    /// `skip REASON`: does not check the block.
    Skip(String),
}

/// A command of a `console` block with the output that the page shows.
#[derive(Debug)]
pub(super) struct Example {
    pub(super) command: String,
    pub(super) expected: Vec<String>,
    /// The index of the command in the page.
    pub(super) line: usize,
    /// The indices of the expected output in the page.
    pub(super) output: Range<usize>,
}

impl Block {
    pub(super) fn text(&self) -> String {
        self.lines.iter().flat_map(|line| [line, "\n"]).collect()
    }

    pub(super) fn skip_reason(&self) -> Option<&str> {
        self.directives.iter().find_map(|directive| match directive {
            Directive::Skip(reason) => Some(reason.as_str()),
            _ => None,
        })
    }

    /// The commands of a `console` block.
    pub(super) fn examples(&self) -> Result<Vec<Example>, String> {
        let mut examples: Vec<Example> = Vec::new();
        let mut lines = self.lines.iter().enumerate().peekable();
        while let Some((number, line)) = lines.next() {
            let at = self.first_line + number;
            if let Some(command) = line.strip_prefix("$ ") {
                let mut command = command.to_owned();
                let mut end = at + 1;
                while let Some((_, next)) = lines.peek() {
                    let prompted =
                        next.strip_prefix("> ").or_else(|| next.strip_prefix('>').filter(|s| s.is_empty()));
                    let Some(more) = prompted.or_else(|| command.ends_with('\\').then_some(next.as_str()))
                    else {
                        break;
                    };
                    command = format!("{command}\n{more}");
                    end += 1;
                    lines.next();
                }
                examples.push(Example { command, expected: Vec::new(), line: at, output: end..end });
            } else if let Some(example) = examples.last_mut() {
                example.expected.push(line.clone());
                example.output.end += 1;
            } else {
                return Err(format!("line {}: output before the first `$ ` of a console block", at + 1));
            }
        }
        Ok(examples)
    }
}

/// The code blocks of a page in order.
pub(super) fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut directives = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if let Some(start) = line.trim_start().strip_prefix("<!-- example:") {
            let mut comment = start.to_owned();
            while !comment.contains("-->") {
                let (_, next) =
                    lines.next().ok_or_else(|| format!("line {}: a comment without an end", number + 1))?;
                comment = format!("{comment}\n{next}");
            }
            let text = comment.split("-->").next().unwrap_or_default();
            directives.push(directive(text.trim()).map_err(|e| format!("line {}: {e}", number + 1))?);
        } else if let Some((fence, info)) = opening_fence(line) {
            let indent = line.len() - line.trim_start().len();
            let mut content = Vec::new();
            loop {
                let (_, next) =
                    lines.next().ok_or_else(|| format!("line {}: a fence without an end", number + 1))?;
                if next.trim().starts_with(&fence)
                    && next.trim().trim_matches(fence.chars().next().unwrap()).is_empty()
                {
                    break;
                }
                let spaces = next.chars().take_while(|c| *c == ' ').count();
                content.push(next[spaces.min(indent)..].to_owned());
            }
            let language = info.split([',', ' ']).next().unwrap_or_default().to_owned();
            let directives = std::mem::take(&mut directives);
            blocks.push(Block {
                language,
                directives,
                lines: content,
                first_line: number + 1,
                fence,
                indent,
            });
        } else if !line.trim().is_empty() && !directives.is_empty() {
            return Err(format!("line {}: text between a directive and its code block", number + 1));
        }
    }
    if directives.is_empty() { Ok(blocks) } else { Err("a directive after the last code block".to_owned()) }
}

/// The marks and the info string of a line that opens a code block.
fn opening_fence(line: &str) -> Option<(String, &str)> {
    let line = line.trim();
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let info = line.trim_start_matches(mark);
    let fence = &line[..line.len() - info.len()];
    (fence.len() >= 3 && !info.contains('`')).then(|| (fence.to_owned(), info.trim()))
}

fn directive(text: &str) -> Result<Directive, String> {
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    match (name, rest) {
        ("new", "project") => Ok(Directive::NewProject { git: false }),
        ("new", "project git") => Ok(Directive::NewProject { git: true }),
        ("setup" | "file" | "skip", "") => Err(format!("the directive `{name}` needs a value")),
        ("setup", commands) => Ok(Directive::Setup(commands.to_owned())),
        ("file", name) => Ok(Directive::File(name.to_owned())),
        ("skip", reason) if !SKIP_REASONS.iter().any(|start| reason.starts_with(start)) => {
            Err(format!("`{reason}` is not a reason to skip; use one of: {}", SKIP_REASONS.join(", ")))
        }
        ("skip", reason) => Ok(Directive::Skip(reason.to_owned())),
        _ => Err(format!(
            "unknown directive `{text}`; known: setup, new project [git], file NAME, skip REASON"
        )),
    }
}
