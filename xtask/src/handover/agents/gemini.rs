//! Gemini CLI: payloads of its hooks. It announces a compression before every call of the model. The text
//! that a hook adds at the start comes back in front of the first prompt. Plans are files outside the
//! project.

use serde_json::{Value, json};

use super::super::story::SessionEnd;
use super::{Report, Reporter, SessionIdentity, SessionSource, ToolCall, header, labels, merge, replacement};

pub struct Gemini {
    session: SessionIdentity,
    /// Text that a hook added, in the form in which it precedes the next prompt.
    context: String,
    /// The current prompt as Gemini reports it.
    prompt: String,
    plans: u64,
}

impl Gemini {
    pub fn new(session: SessionIdentity) -> Self {
        Self { session, context: String::new(), prompt: String::new(), plans: 0 }
    }

    fn payload(&self, event: &str, more: Value) -> Report {
        let mut payload = self.session.payload(event, json!({ "timestamp": "2026-11-16T05:36:33.106Z" }));
        merge(&mut payload, more);
        Report::Hook(payload)
    }

    fn compression(&self) -> Report {
        self.payload("PreCompress", json!({ "trigger": "auto" }))
    }

    fn used(&self, tool: &str, input: Value, for_model: &str, display: Value) -> Vec<Report> {
        let more = json!({
            "tool_name": tool,
            "tool_input": input,
            "tool_response": { "llmContent": for_model, "returnDisplay": display },
        });
        vec![self.compression(), self.payload("AfterTool", more)]
    }

    fn shell(&self, command: &str, exit: i64, output: &str, folder: Option<&str>) -> Vec<Report> {
        let mut input = json!({ "command": command });
        if let Some(folder) = folder {
            merge(&mut input, json!({ "dir_path": folder }));
        }
        let shown = if output.is_empty() { "(empty)" } else { output };
        let code = if exit == 0 { String::new() } else { format!("Exit Code: {exit}\n") };
        let for_model = format!(
            "<untrusted_context>\nOutput: {shown}\n{code}Process Group PGID: 18005\n</untrusted_context>"
        );
        self.used("run_shell_command", input, &for_model, json!(output))
    }

    fn edit(&self, path: &str, before: Option<&str>, after: &str) -> Vec<Report> {
        let file = self.session.path(path);
        let name = path.rsplit('/').next().unwrap_or(path);
        let display = json!({
            "fileDiff": "",
            "fileName": name,
            "filePath": file,
            "originalContent": before.unwrap_or_default(),
            "newContent": after,
            "isNewFile": before.is_none(),
            "isBuildFile": false,
        });
        match before.filter(|before| !before.is_empty()) {
            Some(before) => {
                let (old, new) = replacement(before, after);
                let input = json!({ "file_path": file, "instruction": "Apply the change", "old_string": old, "new_string": new });
                let said = format!(
                    "Successfully modified file: {file} (1 replacements). Here is the updated code:\n{new}"
                );
                self.used("replace", input, &said, display)
            }
            None => {
                let said = format!(
                    "Successfully created and wrote to new file: {file}. Here is the updated code:\n{after}"
                );
                self.used("write_file", json!({ "file_path": file, "content": after }), &said, display)
            }
        }
    }

    fn plan(&mut self, text: &str, approved: bool) -> Vec<Report> {
        self.plans += 1;
        let name = format!("plan-{}.md", self.plans);
        let file =
            self.session.home.join(".gemini/tmp/project").join(&self.session.id).join("plans").join(&name);
        let shown = file.to_string_lossy();
        let input = json!({ "file_path": shown, "content": text });
        let written = format!("Successfully created and wrote to new file: {shown}.");
        let mut reports = vec![Report::File(file.clone(), text.to_owned())];
        reports.extend(self.used(
            "write_file",
            input,
            &written,
            json!({ "filePath": shown, "newContent": text }),
        ));
        let (for_model, display) = if approved {
            (
                format!(
                    "Plan approved. Switching to Auto-Edit mode (edits will be applied automatically).\n\nThe approved implementation plan is stored at: {shown}\nRead and follow the plan strictly during implementation."
                ),
                format!("Plan approved: {shown}"),
            )
        } else {
            (
                format!(
                    "Plan rejected. No feedback provided.\n\nThe plan is stored at: {shown}\nAsk the user for specific feedback on how to improve the plan."
                ),
                "Rejected (no feedback)".to_owned(),
            )
        };
        reports.extend(self.used(
            "exit_plan_mode",
            json!({ "plan_filename": name }),
            &for_model,
            json!(display),
        ));
        reports
    }

    fn ask(&self, question: &str, options: &[String], answer: &str) -> Vec<Report> {
        let header = header(question);
        let mut asked = json!({ "question": question, "header": header, "type": "text" });
        if !options.is_empty() {
            merge(&mut asked, json!({ "type": "choice", "options": labels(options), "multiSelect": false }));
        }
        let for_model = json!({ "answers": { "0": answer } }).to_string();
        let display = format!("**User answered:**\n  {header} → {answer}");
        self.used("ask_user", json!({ "questions": [asked] }), &for_model, json!(display))
    }
}

impl Reporter for Gemini {
    fn start(&mut self, source: SessionSource) -> Vec<Report> {
        let source = match source {
            SessionSource::Startup => "startup",
            SessionSource::Clear => "clear",
        };
        vec![self.payload("SessionStart", json!({ "source": source }))]
    }

    fn receive_context(&mut self, text: &str) {
        let escaped = text.replace('<', "&lt;").replace('>', "&gt;");
        self.context = format!("<hook_context>{escaped}</hook_context>\n\n");
    }

    fn prompt(&mut self, text: &str) -> Vec<Report> {
        self.prompt = std::mem::take(&mut self.context) + text;
        vec![self.payload("BeforeAgent", json!({ "prompt": self.prompt }))]
    }

    fn tool(&mut self, call: &ToolCall) -> Vec<Report> {
        match call {
            ToolCall::Shell { command, exit, output, folder } => {
                self.shell(command, *exit, output, folder.as_deref())
            }
            ToolCall::Edit { path, before, after } => self.edit(path, before.as_deref(), after),
            ToolCall::Read { path, content } => {
                self.used("read_file", json!({ "file_path": self.session.path(path) }), content, json!(""))
            }
            ToolCall::Search(pattern) => self.used(
                "grep_search",
                json!({ "pattern": pattern }),
                "No matches found",
                json!("No matches found"),
            ),
            ToolCall::Todo(list) => {
                let entry =
                    |item: &super::TodoItem| json!({ "description": item.title, "status": item.status });
                let todos = json!({ "todos": list.iter().map(entry).collect::<Value>() });
                let lines = (1..).zip(list).map(|(n, item)| format!("{n}. [{}] {}", item.status, item.title));
                let said = format!(
                    "Successfully updated the todo list. The current list is now:\n{}",
                    lines.collect::<Vec<_>>().join("\n")
                );
                self.used("write_todos", todos.clone(), &said, todos)
            }
            ToolCall::Plan { text, approved } => self.plan(text, *approved),
            ToolCall::Ask { question, options, answer } => self.ask(question, options, answer),
        }
    }

    fn turn_end(&mut self, message: &str) -> Vec<Report> {
        let more = json!({ "prompt": self.prompt, "prompt_response": message, "stop_hook_active": false });
        vec![self.compression(), self.payload("AfterAgent", more)]
    }

    fn compaction(&mut self) -> Vec<Report> {
        vec![self.compression()]
    }

    fn session_end(&mut self, end: SessionEnd) -> Vec<Report> {
        let reason = match end {
            SessionEnd::Exit => "exit",
            SessionEnd::Clear => "clear",
            // Gemini has no event for a turn that failed.
            SessionEnd::Kill | SessionEnd::Limit | SessionEnd::Error => return Vec::new(),
        };
        vec![self.payload("SessionEnd", json!({ "reason": reason }))]
    }
}
