//! Claude Code: payloads of its hooks. It manages its to-do list one entry at a time, so the differences
//! between two lists become calls of `TaskCreate` and `TaskUpdate`.

use serde_json::{Value, json};

use super::super::story::{SessionEnd, TodoItem};
use super::{
    Report, Reporter, SessionIdentity, SessionSource, ToolCall, header, labels, merge, replacement, uuid,
};

pub struct Claude {
    session: SessionIdentity,
    /// Number of ids used so far.
    ids: u64,
    prompt: String,
    /// The entries of the to-do list, whose numbers are their positions, starting at 1.
    tasks: Vec<TodoItem>,
}

/// Commands for which exit code 1 is a result rather than an error.
const NO_ERROR: [&str; 6] = ["grep", "rg", "find", "diff", "test", "["];

impl Claude {
    pub fn new(session: SessionIdentity) -> Self {
        Self { session, ids: 0, prompt: String::new(), tasks: Vec::new() }
    }

    fn payload(&self, event: &str, more: Value) -> Report {
        let mut payload = self.session.payload(event, json!({}));
        if !self.prompt.is_empty() {
            merge(&mut payload, json!({ "prompt_id": self.prompt }));
        }
        if !["SessionStart", "PreCompact", "SessionEnd"].contains(&event) {
            merge(&mut payload, json!({ "permission_mode": "acceptEdits" }));
        }
        merge(&mut payload, more);
        Report::Hook(payload)
    }

    fn tool_payload(&mut self, event: &str, tool: &str, input: Value, more: Value) -> Report {
        self.ids += 1;
        let mut members = json!({
            "effort": { "level": "high" },
            "tool_name": tool,
            "tool_input": input,
            "tool_use_id": format!("toolu_{:02}", self.ids),
        });
        merge(&mut members, more);
        self.payload(event, members)
    }

    fn used(&mut self, tool: &str, input: Value, response: Value) -> Report {
        let duration = 20 + self.ids % 30;
        self.tool_payload(
            "PostToolUse",
            tool,
            input,
            json!({ "tool_response": response, "duration_ms": duration }),
        )
    }

    fn shell(&mut self, command: &str, exit: i64, output: &str, folder: Option<&str>) -> Report {
        let input = json!({ "command": command });
        let is_result = exit == 1 && NO_ERROR.contains(&last_program(command));
        let mut report = if exit == 0 || is_result {
            let mut response = json!({ "stdout": output, "stderr": "", "interrupted": false, "isImage": false, "noOutputExpected": false });
            if is_result {
                merge(&mut response, json!({ "returnCodeInterpretation": "No matches found" }));
            }
            self.used("Bash", input, response)
        } else {
            let error = format!("Exit code {exit}\n{output}");
            let more = json!({ "error": error.trim_end(), "is_interrupt": false, "duration_ms": 900 });
            self.tool_payload("PostToolUseFailure", "Bash", input, more)
        };
        // A command that runs in another folder was preceded by `cd`, which changes the session's folder.
        if let (Report::Hook(payload), Some(folder)) = (&mut report, folder) {
            merge(payload, json!({ "cwd": self.session.path(folder) }));
        }
        report
    }

    /// The calls that turn the current to-do list into a new one.
    fn todo(&mut self, list: &[TodoItem]) -> Vec<Report> {
        let mut reports = Vec::new();
        for item in list {
            let known =
                self.tasks.iter().position(|task| task.title == item.title && task.status != "deleted");
            let at = known.unwrap_or_else(|| {
                self.tasks.push(TodoItem { title: item.title.clone(), status: "pending".to_owned() });
                let (id, subject) = (self.tasks.len().to_string(), &item.title);
                let input = json!({ "subject": subject, "description": subject, "activeForm": subject });
                reports.push(self.used(
                    "TaskCreate",
                    input,
                    json!({ "task": { "id": id, "subject": subject } }),
                ));
                self.tasks.len() - 1
            });
            let status = if item.status == "cancelled" { "deleted" } else { &item.status };
            reports.extend(self.update_task(at, status));
        }
        for at in 0..self.tasks.len() {
            // Completed entries stay in the agent's list.
            let task = &self.tasks[at];
            if task.is_open() && !list.iter().any(|item| item.title == task.title) {
                reports.extend(self.update_task(at, "deleted"));
            }
        }
        reports
    }

    fn update_task(&mut self, at: usize, status: &str) -> Option<Report> {
        let from = std::mem::replace(&mut self.tasks[at].status, status.to_owned());
        let id = (at + 1).to_string();
        let response = json!({
            "success": true,
            "taskId": id,
            "updatedFields": ["status"],
            "statusChange": { "from": from, "to": status },
        });
        (from != status).then(|| self.used("TaskUpdate", json!({ "taskId": id, "status": status }), response))
    }

    fn plan(&mut self, text: &str, approved: bool) -> Vec<Report> {
        let file = self.session.home.join(".claude/plans/plan.md");
        let input = json!({ "plan": text, "planFilePath": file });
        let before = self.tool_payload("PreToolUse", "ExitPlanMode", input.clone(), json!({}));
        let mut reports = vec![Report::File(file.clone(), text.to_owned()), before];
        // Nothing reports a rejected plan.
        if approved {
            let response = json!({ "plan": text, "isAgent": false, "filePath": file, "planWasEdited": true });
            reports.push(self.used("ExitPlanMode", input, response));
        }
        reports
    }

    fn ask(&mut self, question: &str, options: &[String], answer: &str) -> Report {
        let questions = json!([{
            "question": question,
            "header": header(question),
            "options": labels(options),
            "multiSelect": false,
        }]);
        let answered = json!({ "questions": questions, "answers": { question: answer } });
        self.used("AskUserQuestion", answered.clone(), answered)
    }
}

/// The name of the program that ends a pipe or a list of commands.
fn last_program(command: &str) -> &str {
    let last = command.rsplit(['|', ';', '&']).next().unwrap_or_default();
    last.split_whitespace().next().unwrap_or_default()
}

impl Reporter for Claude {
    fn start(&mut self, source: SessionSource) -> Vec<Report> {
        let source = match source {
            SessionSource::Startup => "startup",
            SessionSource::Clear => "clear",
        };
        vec![self.payload("SessionStart", json!({ "source": source }))]
    }

    fn prompt(&mut self, text: &str) -> Vec<Report> {
        self.ids += 1;
        self.prompt = uuid(self.ids, 4);
        vec![self.payload("UserPromptSubmit", json!({ "prompt": text }))]
    }

    fn tool(&mut self, call: &ToolCall) -> Vec<Report> {
        let report = match call {
            ToolCall::Shell { command, exit, output, folder } => {
                self.shell(command, *exit, output, folder.as_deref())
            }
            ToolCall::Edit { path, before, after } => {
                let file = self.session.path(path);
                match before.as_deref().filter(|before| !before.is_empty()) {
                    Some(before) => {
                        let (old, new) = replacement(before, after);
                        let input = json!({ "file_path": file, "old_string": old, "new_string": new });
                        let response = json!({
                            "filePath": file, "oldString": old, "newString": new, "originalFile": before,
                            "structuredPatch": [], "userModified": false, "replaceAll": false,
                        });
                        self.used("Edit", input, response)
                    }
                    None => {
                        let input = json!({ "file_path": file, "content": after });
                        let response = json!({
                            "type": if before.is_some() { "update" } else { "create" }, "filePath": file,
                            "content": after, "structuredPatch": [], "originalFile": before, "userModified": false,
                        });
                        self.used("Write", input, response)
                    }
                }
            }
            ToolCall::Read { path, content } => {
                let file = self.session.path(path);
                let lines = content.lines().count();
                let read = json!({ "filePath": file, "content": content, "numLines": lines, "startLine": 1, "totalLines": lines });
                self.used("Read", json!({ "file_path": file }), json!({ "type": "text", "file": read }))
            }
            ToolCall::Search(pattern) => {
                let input = json!({ "pattern": pattern, "output_mode": "files_with_matches" });
                self.used(
                    "Grep",
                    input,
                    json!({ "mode": "files_with_matches", "filenames": [], "numFiles": 0 }),
                )
            }
            ToolCall::Todo(list) => return self.todo(list),
            ToolCall::Plan { text, approved } => return self.plan(text, *approved),
            ToolCall::Ask { question, options, answer } => self.ask(question, options, answer),
        };
        vec![report]
    }

    fn turn_end(&mut self, message: &str) -> Vec<Report> {
        let more = json!({
            "effort": { "level": "high" },
            "stop_hook_active": false,
            "last_assistant_message": message,
            "background_tasks": [],
            "session_crons": [],
        });
        vec![self.payload("Stop", more)]
    }

    fn compaction(&mut self) -> Vec<Report> {
        let before = self.payload("PreCompact", json!({ "trigger": "auto", "custom_instructions": null }));
        let after = Report::Hook(self.session.payload("SessionStart", json!({ "source": "compact" })));
        vec![before, after]
    }

    fn session_end(&mut self, end: SessionEnd) -> Vec<Report> {
        let failure = |error: &str, details: &str, message: &str| json!({ "error": error, "error_details": details, "last_assistant_message": message });
        let (event, more) = match end {
            SessionEnd::Kill => return Vec::new(),
            SessionEnd::Exit => ("SessionEnd", json!({ "reason": "prompt_input_exit" })),
            SessionEnd::Clear => ("SessionEnd", json!({ "reason": "clear" })),
            SessionEnd::Limit => {
                let details = "429 This request would exceed your account's rate limit";
                ("StopFailure", failure("rate_limit", details, "You've hit your usage limit"))
            }
            SessionEnd::Error => {
                let details = "500 Internal server error";
                ("StopFailure", failure("server_error", details, "API Error: 500 Internal server error"))
            }
        };
        vec![self.payload(event, more)]
    }
}
