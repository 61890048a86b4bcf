//! OpenCode: calls of the hooks of Milepost's plugin, which the plugin turns into payloads for
//! `milepost hook opencode`. Includes the events from which a plugin can learn the agent's last message.

use serde_json::{Value, json};

use super::super::story::SessionEnd;
use super::{
    Report, Reporter, SessionIdentity, SessionSource, ToolCall, header, labels, merge, opencode_id,
    replacement,
};

const TIME_MS: u64 = 1_794_807_420_065;

pub struct OpenCode {
    session: SessionIdentity,
    /// Number of ids used so far.
    ids: u64,
    plans: u64,
}

impl OpenCode {
    pub fn new(session: SessionIdentity) -> Self {
        Self { session, ids: 0, plans: 0 }
    }

    fn id(&mut self, prefix: &str) -> String {
        self.ids += 1;
        opencode_id(prefix, self.ids)
    }

    fn event(&self, kind: &str, more: Value) -> Report {
        let mut properties = json!({ "sessionID": self.session.id });
        merge(&mut properties, more);
        let input = json!({ "event": { "type": kind, "properties": properties } });
        Report::Plugin { hook: "event", input, output: Value::Null }
    }

    /// Every call of the model asks for additions to the system prompt.
    fn model_call(&self) -> Report {
        Report::Plugin {
            hook: "experimental.chat.system.transform",
            input: json!({ "sessionID": self.session.id }),
            output: json!({ "system": [] }),
        }
    }

    fn used(&mut self, tool: &str, args: Value, title: &str, said: &str, metadata: Value) -> Vec<Report> {
        let call = self.id("call");
        let input = json!({ "tool": tool, "sessionID": self.session.id, "callID": call });
        let mut after = input.clone();
        merge(&mut after, json!({ "args": args }));
        let mut metadata = metadata;
        merge(&mut metadata, json!({ "truncated": false }));
        let output = json!({ "title": title, "metadata": metadata, "output": said });
        vec![
            Report::Plugin { hook: "tool.execute.before", input, output: json!({ "args": args }) },
            Report::Plugin { hook: "tool.execute.after", input: after, output },
        ]
    }

    fn write(&mut self, path: &str, exists: bool, content: &str) -> Vec<Report> {
        let file = self.session.path(path);
        let args = json!({ "filePath": file, "content": content });
        let metadata = json!({ "diagnostics": {}, "filepath": file, "exists": exists });
        self.used("write", args, path, "Wrote file successfully.", metadata)
    }

    fn edit(&mut self, path: &str, before: Option<&str>, after: &str) -> Vec<Report> {
        let Some(old_text) = before.filter(|before| !before.is_empty()) else {
            return self.write(path, before.is_some(), after);
        };
        let file = self.session.path(path);
        let (old, new) = replacement(old_text, after);
        let args = json!({ "filePath": file, "oldString": old, "newString": new });
        let difference = json!({ "file": file, "patch": "", "additions": 1, "deletions": 0 });
        let metadata = json!({ "diagnostics": {}, "diff": "", "filediff": difference });
        self.used("edit", args, path, "Edit applied successfully.", metadata)
    }

    fn question(&mut self, question: &str, options: &[String], answer: &str) -> [Report; 2] {
        let request = self.id("que");
        let asked = json!([{ "question": question, "header": header(question), "options": labels(options) }]);
        [
            self.event("question.asked", json!({ "id": request, "questions": asked })),
            self.event("question.replied", json!({ "requestID": request, "answers": [[answer]] })),
        ]
    }

    /// The plan is a file of the project. Only an approval lets the tool return.
    fn plan(&mut self, text: &str, approved: bool) -> Vec<Report> {
        self.plans += 1;
        let path = format!(".opencode/plans/{}-plan.md", TIME_MS + self.plans);
        let mut reports = vec![Report::File(self.session.project.join(&path), text.to_owned())];
        reports.extend(self.write(&path, false, text));
        let question = format!(
            "Plan at {path} is complete. Would you like to switch to the build agent and start implementing?"
        );
        let options = ["Yes", "No"].map(str::to_owned);
        reports.extend(self.question(&question, &options, if approved { "Yes" } else { "No" }));
        if approved {
            let said = "User approved switching to build agent. Wait for further instructions.";
            reports.extend(self.used("plan_exit", json!({}), "Switching to build agent", said, json!({})));
        }
        reports
    }

    fn ask(&mut self, question: &str, options: &[String], answer: &str) -> Vec<Report> {
        let mut reports = Vec::from(self.question(question, options, answer));
        let asked = json!([{ "question": question, "header": header(question), "options": labels(options) }]);
        let said = format!(
            "User has answered your questions: \"{question}\"=\"{answer}\". You can now continue with the user's answers in mind."
        );
        let metadata = json!({ "answers": [[answer]] });
        reports.extend(self.used(
            "question",
            json!({ "questions": asked }),
            "Asked 1 question",
            &said,
            metadata,
        ));
        reports
    }
}

impl Reporter for OpenCode {
    /// A session is reported when it requests the brief, so it makes its first call of the model at once.
    fn start(&mut self, _: SessionSource) -> Vec<Report> {
        let info = json!({
            "id": self.session.id,
            "version": "1.18.33",
            "directory": self.session.project,
            "title": "New session",
            "time": { "created": TIME_MS, "updated": TIME_MS },
        });
        vec![self.event("session.created", json!({ "info": info })), self.model_call()]
    }

    fn prompt(&mut self, text: &str) -> Vec<Report> {
        let (message, part) = (self.id("msg"), self.id("prt"));
        let session = &self.session.id;
        let output = json!({
            "message": {
                "id": message, "role": "user", "sessionID": session, "time": { "created": TIME_MS },
                "agent": "build", "model": { "providerID": "provider", "modelID": "model-1" },
            },
            "parts": [{ "type": "text", "text": text, "messageID": message, "sessionID": session, "id": part }],
        });
        let info = json!({ "info": output["message"] });
        let part = json!({ "part": output["parts"][0], "time": TIME_MS });
        let input = json!({ "sessionID": session });
        vec![
            Report::Plugin { hook: "chat.message", input, output },
            self.event("message.updated", info),
            self.event("message.part.updated", part),
            self.model_call(),
        ]
    }

    fn tool(&mut self, call: &ToolCall) -> Vec<Report> {
        match call {
            ToolCall::Shell { command, exit, output, folder } => {
                let mut args = json!({ "command": command, "description": "Runs the command" });
                if let Some(folder) = folder {
                    merge(&mut args, json!({ "workdir": self.session.path(folder) }));
                }
                self.used("bash", args, command, output, json!({ "output": output, "exit": exit }))
            }
            ToolCall::Edit { path, before, after } => self.edit(path, before.as_deref(), after),
            ToolCall::Read { path, content } => {
                let args = json!({ "filePath": self.session.path(path) });
                self.used(
                    "read",
                    args,
                    path,
                    &format!("<content>\n{content}\n</content>"),
                    json!({ "preview": content }),
                )
            }
            ToolCall::Search(pattern) => {
                let args = json!({ "pattern": pattern });
                self.used("grep", args, pattern, "No files found", json!({ "matches": 0 }))
            }
            ToolCall::Todo(list) => {
                let entry = |item: &super::TodoItem| json!({ "content": item.title, "status": item.status, "priority": "high" });
                let todos: Value = list.iter().map(entry).collect();
                let open = list.iter().filter(|item| item.status != "completed").count();
                let said = serde_json::to_string_pretty(&todos).unwrap_or_default();
                let args = json!({ "todos": todos });
                self.used("todowrite", args.clone(), &format!("{open} todos"), &said, args)
            }
            ToolCall::Plan { text, approved } => self.plan(text, *approved),
            ToolCall::Ask { question, options, answer } => self.ask(question, options, answer),
        }
    }

    fn turn_end(&mut self, message: &str) -> Vec<Report> {
        let (id, part) = (self.id("msg"), self.id("prt"));
        let session = self.session.id.clone();
        let info = |done: bool| {
            let mut time = json!({ "created": TIME_MS });
            let mut info = json!({
                "id": id, "sessionID": session, "role": "assistant", "mode": "build", "agent": "build",
                "modelID": "model-1", "providerID": "provider", "cost": 0, "tokens": {},
            });
            if done {
                merge(&mut time, json!({ "completed": TIME_MS + 900 }));
                merge(&mut info, json!({ "finish": "stop" }));
            }
            merge(&mut info, json!({ "time": time }));
            json!({ "info": info })
        };
        let text = |text: &str, time: Value| {
            let part = json!({
                "id": part, "sessionID": session, "messageID": id, "type": "text", "text": text, "time": time,
            });
            json!({ "part": part, "time": TIME_MS })
        };
        let delta = json!({ "messageID": id, "partID": part, "field": "text", "delta": message });
        vec![
            self.event("message.updated", info(false)),
            self.event("message.part.updated", text("", json!({ "start": TIME_MS }))),
            self.event("message.part.delta", delta),
            Report::Plugin {
                hook: "experimental.text.complete",
                input: json!({ "sessionID": session, "messageID": id, "partID": part }),
                output: json!({ "text": message }),
            },
            self.event(
                "message.part.updated",
                text(message, json!({ "start": TIME_MS, "end": TIME_MS + 800 })),
            ),
            self.event("message.updated", info(true)),
            self.event("session.idle", json!({})),
        ]
    }

    fn compaction(&mut self) -> Vec<Report> {
        vec![
            Report::Plugin {
                hook: "experimental.session.compacting",
                input: json!({ "sessionID": self.session.id }),
                output: json!({ "context": [] }),
            },
            self.event("session.compacted", json!({})),
            self.model_call(),
        ]
    }

    fn session_end(&mut self, end: SessionEnd) -> Vec<Report> {
        let (status, message) = match end {
            SessionEnd::Limit => (429, "Rate limit reached for requests"),
            SessionEnd::Error => (500, "Internal server error"),
            // OpenCode does not report the end of a session.
            SessionEnd::Kill | SessionEnd::Exit | SessionEnd::Clear => return Vec::new(),
        };
        let data = json!({ "message": message, "statusCode": status, "isRetryable": false });
        vec![
            self.event("session.error", json!({ "error": { "name": "APIError", "data": data } })),
            self.event("session.idle", json!({})),
        ]
    }
}
