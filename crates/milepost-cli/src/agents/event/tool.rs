//! One tool call: how it ended, which files it wrote, and what it changed in the agent's to-do list. Takes
//! the tool's name, input and output, and returns the changes that a run records. Agents put the same facts
//! into different fields, so all known fields are tried. Tool names come from the agent's spec.

use std::path::Path;

use milepost::model::{Change, FileRef, Item, Outcome, OutcomeKind, OutcomeResult};
use serde_json::Value;

use super::talk::Talk;
use super::todo::TodoChange;
use super::transcript::CommandEnd;
use crate::agents::ToolNames;

/// Maximum length of an outcome's name and summary, in characters.
const NAME_LIMIT: usize = 240;
const SUMMARY_LIMIT: usize = 600;

/// One tool call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolUse {
    pub(crate) name: String,
    pub(crate) failed: bool,
    pub(crate) duration_ms: u64,
    /// The agent's id for this call.
    pub(crate) call_id: Option<String>,
    /// The command, if the tool runs one.
    command: Option<String>,
    /// The end of the output, or the file that was written.
    summary: String,
    reason: Option<String>,
    files: Vec<String>,
    todo: Option<TodoChange>,
    talk: Vec<Talk>,
    /// The folder in which a command ran, if its input names one.
    folder: Option<String>,
}

impl ToolUse {
    pub(crate) fn parse(tools: &ToolNames, name: &str, input: &Value, output: &Value) -> Self {
        let lower = name.to_ascii_lowercase();
        let is = |names: &[&str]| names.contains(&lower.as_str());
        let command = is(tools.shell).then(|| command(input)).flatten();
        // Only these tools report their exit code in a line of text. The output of other tools may be a file
        // that happens to contain such a line.
        let has_exit_line = is(tools.shell) || is(tools.patch);
        let exit = exit_code(output).or_else(|| has_exit_line.then(|| exit_code_in_text(output)).flatten());
        let failed = exit.is_some_and(|code| code != 0) || says_failed(output);
        let writes = is(tools.write) || is(tools.patch);
        let files = if writes { written_files(input) } else { Vec::new() };
        let folder = ["workdir", "dir_path", "cwd"].iter().find_map(|key| text(input, key));
        let folder = folder.map(str::to_owned);
        let text = output_text(output);
        let summary = match (failed || command.is_some(), files.first()) {
            (true, _) => tail(&text),
            (false, Some(file)) => file.clone(),
            (false, None) => String::new(),
        };
        Self {
            name: name.to_owned(),
            failed,
            duration_ms: 0,
            call_id: None,
            command,
            summary,
            reason: exit.and_then(reason),
            files,
            todo: TodoChange::parse(tools, &lower, input, output),
            talk: if failed { Vec::new() } else { parse_talk(tools, &lower, input, output) },
            folder,
        }
    }

    /// Whether it ran a command, which may have written any file.
    pub(crate) fn runs_command(&self) -> bool {
        self.command.is_some()
    }

    /// Whether it ran a command whose output does not show how it ended.
    pub(crate) fn lacks_exit_code(&self) -> bool {
        self.command.is_some() && self.reason.is_none() && !self.failed
    }

    /// Adds the exit code and duration, which were found elsewhere.
    pub(crate) fn set_end(&mut self, end: &CommandEnd) {
        self.failed |= end.exit_code != 0;
        self.reason = reason(end.exit_code);
        self.duration_ms = self.duration_ms.max(end.duration_ms);
        self.folder = self.folder.take().or(end.folder.clone());
    }

    /// Converts this to the changes that a run records. Paths in the project become relative to its root.
    /// `cwd` is the agent's folder.
    pub(crate) fn into_changes(self, project: &Path, cwd: Option<&Path>) -> Vec<Change> {
        let relative = |path: &str| {
            let inside = milepost::internal::fs::below(Path::new(path), project);
            let text = inside.map_or_else(|| path.to_owned(), |path| path.to_string_lossy().into_owned());
            if cfg!(windows) { text.replace('\\', "/") } else { text }
        };
        let summary = match self.files.first() {
            Some(file) if self.summary == *file => relative(file),
            _ => self.summary,
        };
        let kind = if self.command.is_some() { OutcomeKind::Shell } else { OutcomeKind::ToolUse };
        let name = self.command.as_deref().map_or(self.name.as_str(), |command| command);
        let cwd = cwd.unwrap_or(project);
        let folder = self.folder.map_or_else(|| cwd.to_owned(), |folder| cwd.join(folder));
        let outcome = Outcome {
            duration_ms: self.duration_ms,
            kind,
            name: one_line(name),
            reason_code: self.reason,
            result: if self.failed { OutcomeResult::Fail } else { OutcomeResult::Pass },
            summary,
            extra: Default::default(),
        };
        let outcome = match self.command.is_some() {
            true => outcome.clone().in_folder(&folder.to_string_lossy()).unwrap_or(outcome),
            false => outcome,
        };
        let mut changes = vec![Change::Item(Item::Outcome(outcome))];
        if !self.failed {
            let file = |path: &String| FileRef {
                blob: None,
                path: relative(path),
                sha256: None,
                size: None,
                extra: Default::default(),
            };
            changes.extend(self.files.iter().map(|path| Change::Item(Item::File(file(path)))));
            changes.extend(self.todo.and_then(TodoChange::into_change));
            changes.extend(self.talk.into_iter().filter_map(|talk| talk.into_change()));
        }
        changes
    }
}

fn parse_talk(tools: &ToolNames, tool: &str, input: &Value, output: &Value) -> Vec<Talk> {
    let format = tools.talk.iter().find(|(name, _)| *name == tool).map(|(_, format)| *format);
    format.map_or_else(Vec::new, |format| Talk::parse(format, input, output))
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// The command line, which is a string or a list of words.
fn command(input: &Value) -> Option<String> {
    match input.get("command").or_else(|| input.get("cmd"))? {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        _ => None,
    }
}

/// The paths that a tool wrote: the one that its input names, or those in a patch.
fn written_files(input: &Value) -> Vec<String> {
    let named = ["file_path", "filePath", "path", "notebook_path", "absolute_path"];
    let mut files: Vec<String> =
        named.iter().find_map(|key| text(input, key)).map(str::to_owned).into_iter().collect();
    let patch = ["input", "patch", "patchText", "command"].iter().find_map(|key| text(input, key));
    for line in patch.unwrap_or_default().lines() {
        let file = ["*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: "]
            .iter()
            .find_map(|start| line.strip_prefix(start));
        files.extend(file.map(|file| file.trim().to_owned()));
    }
    files
}

/// Fields of Gemini's output: the text for the model, and the plain text for the user.
const MODEL_TEXT: &str = "llmContent";
const DISPLAY_TEXT: &str = "returnDisplay";

/// Finds the exit code in any of the fields that agents use.
fn exit_code(output: &Value) -> Option<i64> {
    let keys = ["exit_code", "exitCode", "exit", "code"];
    let in_object = |value: &Value| keys.iter().find_map(|key| value.get(key).and_then(Value::as_i64));
    in_object(output).or_else(|| output.get("metadata").and_then(in_object))
}

/// Finds the exit code in a line of the output.
fn exit_code_in_text(output: &Value) -> Option<i64> {
    match text(output, MODEL_TEXT) {
        // Gemini prints it after the output, and only if it is not zero.
        Some(text) => text.lines().rev().take(6).find_map(exit_code_in_line),
        None => output_text(output).lines().take(12).find_map(exit_code_in_line),
    }
}

fn exit_code_in_line(line: &str) -> Option<i64> {
    let line = line.trim();
    let start =
        ["Exit Code: ", "Exit code: ", "Exit code ", "Error: Exit code ", "Process exited with code "]
            .iter()
            .find_map(|start| line.strip_prefix(start))?;
    let digits: String = start.chars().take_while(|c| c.is_ascii_digit() || *c == '-').collect();
    digits.parse().ok()
}

fn reason(exit_code: i64) -> Option<String> {
    (exit_code != 0).then(|| format!("exit_{exit_code}"))
}

/// Whether the output itself reports a failure.
fn says_failed(output: &Value) -> bool {
    let is = |key: &str, wanted: bool| output.get(key).and_then(Value::as_bool) == Some(wanted);
    let error = output.get("error").is_some_and(|error| match error {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Bool(failed) => *failed,
        _ => true,
    });
    is("is_error", true)
        || is("isError", true)
        || is("interrupted", true)
        || is("success", false)
        || error
        || output.as_str().is_some_and(|text| text.starts_with("Error") || text.contains("<tool_use_error>"))
}

/// The text fields of an output, joined by line breaks.
fn output_text(output: &Value) -> String {
    match output {
        Value::String(text) => text.clone(),
        Value::Object(_) => {
            let shown = text(output, DISPLAY_TEXT).is_some_and(|text| !text.trim().is_empty());
            let gemini = if shown { DISPLAY_TEXT } else { MODEL_TEXT };
            let keys = ["stderr", "error", "output", gemini, "stdout", "content", "message"];
            let texts = keys.iter().filter_map(|key| output.get(key)).filter_map(|value| match value {
                Value::String(text) => Some(text.clone()),
                Value::Object(_) => text(value, "message").map(str::to_owned),
                _ => None,
            });
            texts.filter(|text| !text.trim().is_empty()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// The end of a text, short enough for a summary. Starts at the beginning of a line if possible.
fn tail(text: &str) -> String {
    let text = text.trim();
    let Some((at, _)) = text.char_indices().rev().nth(SUMMARY_LIMIT) else { return text.to_owned() };
    let end = &text[at..];
    end.split_once('\n').map_or(end, |(_, rest)| rest).to_owned()
}

/// A command in one line. A full command line distinguishes it from others that start alike.
fn one_line(text: &str) -> String {
    let lines: Vec<_> = text.trim().lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let line = lines.join("; ");
    match line.char_indices().nth(NAME_LIMIT) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None if line.is_empty() => "unnamed".to_owned(),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    static TOOLS: ToolNames = ToolNames {
        shell: &["bash", "shell"],
        write: &["write"],
        patch: &["apply_patch"],
        todo: &[],
        talk: &[],
    };

    fn outcome(tool: ToolUse) -> Outcome {
        match tool.into_changes(Path::new("/p"), None).into_iter().next() {
            Some(Change::Item(Item::Outcome(outcome))) => outcome,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_failing_command_is_named_by_itself_with_the_end_of_its_output() {
        for output in [
            json!({"stdout": "", "stderr": "no rule", "exit_code": 2}),
            json!("Error: Exit code 2\nno rule"),
            json!({"llmContent": "Output: no rule\nExit Code: 2\nProcess Group PGID: 7"}),
            json!({"llmContent": format!("<untrusted_context>\nOutput: {}no rule\nExit Code: 2\nProcess Group PGID: 7\n</untrusted_context>", "a\n".repeat(50)), "returnDisplay": "no rule"}),
            json!({"output": "no rule", "metadata": {"exit": 2}}),
        ] {
            let outcome = outcome(ToolUse::parse(&TOOLS, "Bash", &json!({"command": "make all"}), &output));
            assert_eq!(
                (outcome.name.as_str(), outcome.result),
                ("make all", OutcomeResult::Fail),
                "{output}"
            );
            assert_eq!(outcome.reason_code.as_deref(), Some("exit_2"), "{output}");
            assert!(outcome.summary.contains("no rule"), "{output}");
        }
        let fine = outcome(ToolUse::parse(&TOOLS, "shell", &json!({"command": ["ls", "-l"]}), &json!("")));
        assert_eq!((fine.name.as_str(), fine.result), ("ls -l", OutcomeResult::Pass));
    }

    #[test]
    fn written_files_are_found_in_arguments_and_patches() {
        let of = |name: &str, input: Value| ToolUse::parse(&TOOLS, name, &input, &Value::Null).files;
        assert_eq!(of("Write", json!({"file_path": "/p/a.rs", "content": "x"})), ["/p/a.rs"]);
        assert_eq!(of("write", json!({"filePath": "/p/a.rs"})), ["/p/a.rs"]);
        let patch =
            "*** Begin Patch\n*** Update File: a.rs\n@@\n-x\n+y\n*** Add File: b.rs\n+z\n*** End Patch";
        assert_eq!(of("apply_patch", json!({"input": patch})), ["a.rs", "b.rs"]);
        assert!(of("Read", json!({"file_path": "/p/a.rs"})).is_empty());
    }
}
