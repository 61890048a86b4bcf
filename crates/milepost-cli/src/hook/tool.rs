//! The use of a tool: how it ended, which files it wrote, and the agent's own to-do list.

use milepost::model::{Change, FileRef, Item, Outcome, OutcomeKind, OutcomeResult};
use serde_json::Value;

use super::todo::Todo;
use super::transcript::Ended;

/// Characters of what a command is called and of what its end is told in.
const NAME: usize = 160;
const SUMMARY: usize = 600;

/// A tool that was used.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) failed: bool,
    pub(crate) duration_ms: u64,
    /// The agent's name for this use.
    pub(crate) call: Option<String>,
    /// The command, where the tool runs one.
    command: Option<String>,
    /// What to say about its end.
    summary: String,
    reason: Option<String>,
    files: Vec<String>,
    todo: Option<Todo>,
}

impl Tool {
    /// Reads what went into a tool and what came out of it.
    pub(crate) fn of(name: &str, input: &Value, output: &Value) -> Self {
        let command = is_shell(name).then(|| command(input)).flatten();
        // What other tools show may be a file that holds such words.
        let exit = exit_code(output)
            .or_else(|| (is_shell(name) || is_patch(name)).then(|| told_code(output)).flatten());
        let failed = exit.is_some_and(|code| code != 0) || says_failed(output);
        let files = if is_writer(name) { written(input) } else { Vec::new() };
        let told = words(output);
        let summary = match (failed || command.is_some(), files.first()) {
            (true, _) => tail(&told),
            (false, Some(file)) => file.clone(),
            (false, None) => String::new(),
        };
        Self {
            name: name.to_owned(),
            failed,
            duration_ms: 0,
            call: None,
            command,
            summary,
            reason: exit.and_then(reason),
            files,
            todo: Todo::of(name, input, output),
        }
    }

    /// Whether it ran a command and its output does not say how that ended.
    pub(super) fn is_unclear(&self) -> bool {
        self.command.is_some() && self.reason.is_none() && !self.failed
    }

    /// Takes in how it ended, where that was found elsewhere.
    pub(super) fn ended(&mut self, ended: &Ended) {
        self.failed |= ended.exit_code != 0;
        self.reason = reason(ended.exit_code);
        self.duration_ms = self.duration_ms.max(ended.duration_ms);
    }

    /// What a run keeps of it.
    pub(crate) fn changes(self, relative: impl Fn(&str) -> String) -> Vec<Change> {
        let summary = match self.files.first() {
            Some(file) if self.summary == *file => relative(file),
            _ => self.summary,
        };
        let kind = if self.command.is_some() { OutcomeKind::Shell } else { OutcomeKind::ToolUse };
        let name = self.command.as_deref().map_or(self.name.as_str(), |command| command);
        let mut changes = vec![Change::Item(Item::Outcome(Outcome {
            duration_ms: self.duration_ms,
            kind,
            name: first_line(name),
            reason_code: self.reason,
            result: if self.failed { OutcomeResult::Fail } else { OutcomeResult::Pass },
            summary,
            extra: Default::default(),
        }))];
        if !self.failed {
            let file = |path: &String| FileRef {
                path: relative(path),
                sha256: None,
                size: None,
                extra: Default::default(),
            };
            changes.extend(self.files.iter().map(|path| Change::Item(Item::File(file(path)))));
            changes.extend(self.todo.and_then(Todo::change));
        }
        changes
    }
}

fn is_shell(name: &str) -> bool {
    matches!(
        name.to_ascii_lowercase().as_str(),
        "bash" | "shell" | "local_shell" | "run_shell_command" | "exec_command" | "powershell"
    )
}

fn is_patch(name: &str) -> bool {
    matches!(name.to_ascii_lowercase().as_str(), "apply_patch" | "patch")
}

fn is_writer(name: &str) -> bool {
    let writers = ["write", "edit", "multiedit", "notebookedit", "write_file", "replace", "edit_file"];
    is_patch(name) || writers.contains(&name.to_ascii_lowercase().as_str())
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// A command line, given whole or word by word.
fn command(input: &Value) -> Option<String> {
    match input.get("command").or_else(|| input.get("cmd"))? {
        Value::String(command) => Some(command.clone()),
        Value::Array(words) => Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")),
        _ => None,
    }
}

/// Paths that a tool wrote to: named by themselves, or in a patch.
fn written(input: &Value) -> Vec<String> {
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

/// What Gemini tells its model, and what it shows to people: the same without a frame.
const MODEL: &str = "llmContent";
const PEOPLE: &str = "returnDisplay";

/// The exit code, wherever an agent puts it.
fn exit_code(output: &Value) -> Option<i64> {
    let keys = ["exit_code", "exitCode", "exit", "code"];
    let in_object = |value: &Value| keys.iter().find_map(|key| value.get(key).and_then(Value::as_i64));
    in_object(output).or_else(|| output.get("metadata").and_then(in_object))
}

/// The exit code, where it is told in words.
fn told_code(output: &Value) -> Option<i64> {
    match text(output, MODEL) {
        // Gemini says it below the output, and only if it is not zero.
        Some(told) => told.lines().rev().take(6).find_map(code_of),
        None => words(output).lines().take(12).find_map(code_of),
    }
}

fn code_of(line: &str) -> Option<i64> {
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

/// Whether the output says of itself that it failed.
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

/// What an output says to people.
fn words(output: &Value) -> String {
    match output {
        Value::String(text) => text.clone(),
        Value::Object(_) => {
            let shown = text(output, PEOPLE).is_some_and(|text| !text.trim().is_empty());
            let gemini = if shown { PEOPLE } else { MODEL };
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

/// The end of a text, from the start of a line, not longer than a summary.
fn tail(text: &str) -> String {
    let text = text.trim();
    let Some((at, _)) = text.char_indices().rev().nth(SUMMARY) else { return text.to_owned() };
    let end = &text[at..];
    end.split_once('\n').map_or(end, |(_, rest)| rest).to_owned()
}

fn first_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(NAME) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None if line.is_empty() => "unnamed".to_owned(),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outcome(tool: Tool) -> Outcome {
        match tool.changes(str::to_owned).into_iter().next() {
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
            let outcome = outcome(Tool::of("Bash", &json!({"command": "make all\nmore"}), &output));
            assert_eq!(
                (outcome.name.as_str(), outcome.result),
                ("make all", OutcomeResult::Fail),
                "{output}"
            );
            assert_eq!(outcome.reason_code.as_deref(), Some("exit_2"), "{output}");
            assert!(outcome.summary.contains("no rule"), "{output}");
        }
        let fine = outcome(Tool::of("shell", &json!({"command": ["ls", "-l"]}), &json!("")));
        assert_eq!((fine.name.as_str(), fine.result), ("ls -l", OutcomeResult::Pass));
    }

    #[test]
    fn written_files_are_found_in_arguments_and_patches() {
        let of = |name: &str, input: Value| Tool::of(name, &input, &Value::Null).files;
        assert_eq!(of("Write", json!({"file_path": "/p/a.rs", "content": "x"})), ["/p/a.rs"]);
        assert_eq!(of("write", json!({"filePath": "/p/a.rs"})), ["/p/a.rs"]);
        let patch =
            "*** Begin Patch\n*** Update File: a.rs\n@@\n-x\n+y\n*** Add File: b.rs\n+z\n*** End Patch";
        assert_eq!(of("apply_patch", json!({"input": patch})), ["a.rs", "b.rs"]);
        assert!(of("Read", json!({"file_path": "/p/a.rs"})).is_empty());
    }
}
