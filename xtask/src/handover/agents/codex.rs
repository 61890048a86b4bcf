//! Codex: payloads of its hooks, and its transcript. Hooks report a command's output but not its exit code,
//! which is only in the transcript. Codex reads and searches files with the shell, and writes them with
//! patches. A plan is a block in a message, and only the transcript contains it.

use serde_json::{Value, json};

use super::super::story::SessionEnd;
use super::{
    Report, Reporter, SessionIdentity, SessionSource, ToolCall, header, labels, merge, quoted, uuid,
};

const TIME: &str = "2026-11-16T05:36:45.267Z";
const TIME_MS: u64 = 1_794_807_405_265;
/// The prompt that Codex submits when the user approves a plan.
const APPROVAL: &str = "Implement the plan.";

pub struct Codex {
    session: SessionIdentity,
    /// Number of calls and turns so far.
    ids: u64,
    turn: String,
    /// Number of transcript lines so far.
    lines: u64,
}

impl Codex {
    pub fn new(session: SessionIdentity) -> Self {
        Self { session, ids: 0, turn: String::new(), lines: 0 }
    }

    fn payload(&self, event: &str, more: Value) -> Report {
        let mut payload = self.session.payload(event, json!({}));
        if !self.turn.is_empty() {
            merge(&mut payload, json!({ "turn_id": self.turn }));
        }
        merge(&mut payload, json!({ "model": "gpt-5.5", "permission_mode": "default" }));
        merge(&mut payload, more);
        Report::Hook(payload)
    }

    fn line(&mut self, kind: &str, payload: Value) -> Report {
        self.lines += 1;
        Report::TranscriptLine(
            json!({ "timestamp": TIME, "ordinal": self.lines, "type": kind, "payload": payload }),
        )
    }

    fn message(&mut self, role: &str, text: &str) -> Report {
        let kind = if role == "user" { "input_text" } else { "output_text" };
        let content = json!([{ "type": kind, "text": text }]);
        self.line("response_item", json!({ "type": "message", "role": role, "content": content }))
    }

    fn item_completed(&mut self, item: Value) -> Report {
        let payload = json!({
            "type": "item_completed",
            "thread_id": self.session.id,
            "turn_id": self.turn,
            "item": item,
            "started_at_ms": TIME_MS,
            "completed_at_ms": TIME_MS + 120,
        });
        self.line("event_msg", payload)
    }

    fn call_id(&mut self) -> String {
        self.ids += 1;
        format!("call_{}", self.ids)
    }

    fn used(&mut self, call: &str, tool: &str, input: Value, response: &str) -> Vec<Report> {
        let kind = if tool == "apply_patch" { "custom_tool_call_output" } else { "function_call_output" };
        let output = json!({ "type": kind, "call_id": call, "output": response });
        let more = json!({
            "tool_name": tool,
            "tool_input": input,
            "tool_response": response,
            "tool_use_id": call,
        });
        vec![self.line("response_item", output), self.payload("PostToolUse", more)]
    }

    fn shell(&mut self, command: &str, exit: i64, output: &str, folder: Option<&str>) -> Vec<Report> {
        let call = self.call_id();
        let cwd = folder.map_or_else(|| self.session.path(""), |folder| self.session.path(folder));
        let item = json!({
            "type": "CommandExecution",
            "id": call,
            "process_id": (70_000 + self.ids).to_string(),
            "command": ["/bin/bash", "-lc", command],
            "cwd": format!("file://{}", cwd.trim_end_matches('/')),
            "parsed_cmd": [{ "type": "unknown", "cmd": command }],
            "source": "unified_exec_startup",
            "status": if exit == 0 { "completed" } else { "failed" },
            "aggregated_output": output,
            "exit_code": exit,
            "duration": { "secs": 0, "nanos": 120_000_000 },
        });
        let wrapped = format!(
            "Chunk ID: efd744\nWall time: 0.1200 seconds\nProcess exited with code {exit}\nOriginal token count: {}\nOutput:\n{output}",
            output.len() / 4
        );
        let said = json!({ "type": "function_call_output", "call_id": call, "output": wrapped });
        let more = json!({
            "tool_name": "Bash",
            "tool_input": { "command": command },
            "tool_response": output,
            "tool_use_id": call,
        });
        vec![self.item_completed(item), self.line("response_item", said), self.payload("PostToolUse", more)]
    }

    fn edit(&mut self, path: &str, before: Option<&str>, after: &str) -> Vec<Report> {
        let (patch, letter) = match before {
            Some(before) => {
                let (old, new) = super::replacement(before, after);
                let line = |sign: char| move |line: &str| format!("{sign}{line}\n");
                let hunk: String = old.lines().map(line('-')).chain(new.lines().map(line('+'))).collect();
                (format!("*** Update File: {path}\n@@\n{hunk}"), 'M')
            }
            None => {
                let lines: String = after.lines().map(|line| format!("+{line}\n")).collect();
                (format!("*** Add File: {path}\n{lines}"), 'A')
            }
        };
        let call = self.call_id();
        let done = format!("Success. Updated the following files:\n{letter} {path}\n");
        let change = if before.is_some() {
            json!({ "type": "update", "unified_diff": "", "move_path": null })
        } else {
            json!({ "type": "add", "content": after })
        };
        let item = json!({
            "type": "FileChange",
            "id": call,
            "changes": { self.session.path(path): change },
            "status": "completed",
            "stdout": done,
            "stderr": "",
        });
        let mut reports = vec![self.item_completed(item)];
        let input = json!({ "command": format!("*** Begin Patch\n{patch}*** End Patch\n") });
        let response = format!("Exit code: 0\nWall time: 0 seconds\nOutput:\n{done}");
        reports.extend(self.used(&call, "apply_patch", input, &response));
        reports
    }

    /// The turn ends with the plan, which Codex removes from the last message.
    fn plan(&mut self, text: &str, approved: bool) -> Vec<Report> {
        let call = self.call_id();
        let mut reports = vec![
            self.message("assistant", &format!("<proposed_plan>\n{text}\n</proposed_plan>")),
            self.item_completed(json!({ "type": "Plan", "id": call, "text": text })),
            self.payload("Stop", json!({ "stop_hook_active": false, "last_assistant_message": null })),
        ];
        if approved {
            reports.extend(self.prompt(APPROVAL));
        }
        reports
    }

    fn ask(&mut self, question: &str, options: &[String], answer: &str) -> Vec<Report> {
        let call = self.call_id();
        let id = format!("question_{}", self.ids);
        let input = json!({ "questions": [{
            "id": id,
            "header": header(question),
            "question": question,
            "options": labels(options),
        }] });
        let is_option = options.iter().any(|option| option == answer);
        let answer = if is_option { answer.to_owned() } else { format!("user_note: {answer}") };
        let answers = json!({ "answers": { id: { "answers": [answer] } } });
        self.used(&call, "request_user_input", input, &answers.to_string())
    }
}

impl Reporter for Codex {
    fn start(&mut self, source: SessionSource) -> Vec<Report> {
        let meta = json!({ "id": self.session.id, "cwd": self.session.project, "cli_version": "0.166.0" });
        let source = match source {
            SessionSource::Startup => "startup",
            SessionSource::Clear => "clear",
        };
        vec![self.line("session_meta", meta), self.payload("SessionStart", json!({ "source": source }))]
    }

    fn prompt(&mut self, text: &str) -> Vec<Report> {
        self.ids += 1;
        self.turn = uuid(self.ids, 7);
        vec![self.message("user", text), self.payload("UserPromptSubmit", json!({ "prompt": text }))]
    }

    fn tool(&mut self, call: &ToolCall) -> Vec<Report> {
        match call {
            ToolCall::Shell { command, exit, output, folder } => {
                self.shell(command, *exit, output, folder.as_deref())
            }
            ToolCall::Edit { path, before, after } => self.edit(path, before.as_deref(), after),
            ToolCall::Read { path, content } => {
                self.shell(&format!("sed -n '1,240p' {}", quoted(path)), 0, content, None)
            }
            ToolCall::Search(pattern) => self.shell(&format!("rg -n {}", quoted(pattern)), 0, "", None),
            ToolCall::Todo(list) => {
                let call = self.call_id();
                let step = |item: &super::TodoItem| json!({ "step": item.title, "status": item.status });
                let open = list.iter().filter(|item| item.status != "cancelled").map(step);
                let input = json!({ "plan": open.collect::<Value>() });
                self.used(&call, "update_plan", input, "Plan updated")
            }
            ToolCall::Plan { text, approved } => self.plan(text, *approved),
            ToolCall::Ask { question, options, answer } => self.ask(question, options, answer),
        }
    }

    fn turn_end(&mut self, message: &str) -> Vec<Report> {
        let more = json!({ "stop_hook_active": false, "last_assistant_message": message });
        vec![self.message("assistant", message), self.payload("Stop", more)]
    }

    fn compaction(&mut self) -> Vec<Report> {
        let before = self.payload("PreCompact", json!({ "trigger": "auto" }));
        vec![before, self.line("compacted", json!({ "message": "" }))]
    }

    fn session_end(&mut self, end: SessionEnd) -> Vec<Report> {
        let reason = match end {
            SessionEnd::Exit => "other",
            SessionEnd::Clear => "clear",
            // Codex has no event for a turn that failed.
            SessionEnd::Kill | SessionEnd::Limit | SessionEnd::Error => return Vec::new(),
        };
        vec![Report::Hook(self.session.payload("SessionEnd", json!({ "reason": reason })))]
    }
}
