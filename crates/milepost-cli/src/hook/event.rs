//! What an agent says happened, in one form for all agents.
//! In: the agent's JSON. Out: an event, or nothing where the agent says what nobody asked for. Unknown fields and events
//! are normal; only what is no JSON object at all is an error.

use std::path::PathBuf;

use milepost::model::InterruptionKind;
use serde_json::Value;

use super::tool::Tool;
use crate::agents::Agent;

/// How a session begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// Anew.
    Startup,
    /// The agent goes on with a conversation of its own: what it needs is in its context.
    Resume,
    /// The context was emptied.
    Clear,
    /// The context was made smaller.
    Compact,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
    /// A session began, and text may be given to it.
    Start(Beginning),
    /// Text may be given to a session that is seen for the first time.
    Ask,
    /// What it waited for has come.
    GoesOn,
    /// The person said something.
    Prompt(String),
    /// A tool was used.
    Tool(Box<Tool>),
    /// The context is about to be made smaller; whether text may be given to what is left.
    Compaction { ask: bool },
    /// The agent's turn is over.
    TurnEnd,
    /// The turn did not end well, or waits.
    Trouble(InterruptionKind, Option<String>),
    /// The session is over.
    End,
}

/// An event of an agent's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HookEvent {
    /// The agent's own session.
    pub(crate) session: String,
    /// Where the agent works.
    pub(crate) cwd: Option<PathBuf>,
    /// The agent's own record of the conversation.
    pub(crate) transcript: Option<PathBuf>,
    /// The name that the agent gave the event.
    pub(crate) name: String,
    pub(crate) what: What,
}

impl HookEvent {
    /// Whether a session begins with it.
    pub(super) fn begins(&self) -> bool {
        matches!(self.what, What::Start(_) | What::Ask)
    }
}

/// Reads what an agent wrote; `None` for what is of no interest.
pub(crate) fn read(agent: Agent, payload: &Value) -> Option<HookEvent> {
    match agent {
        Agent::OpenCode => open_code(payload),
        Agent::ClaudeCode | Agent::Gemini | Agent::Codex => common(payload),
    }
}

fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn path(value: &Value, key: &str) -> Option<PathBuf> {
    text(value, key).map(PathBuf::from)
}

/// Claude Code, Gemini CLI and Codex CLI say the same in nearly the same words.
fn common(payload: &Value) -> Option<HookEvent> {
    let name = text(payload, "hook_event_name")?;
    let what = match name {
        "SessionStart" => What::Start(match text(payload, "source") {
            Some("resume") => Beginning::Resume,
            Some("clear") => Beginning::Clear,
            Some("compact") => Beginning::Compact,
            _ => Beginning::Startup,
        }),
        "UserPromptSubmit" | "BeforeAgent" => What::Prompt(said(text(payload, "prompt")?).to_owned()),
        "PostToolUse" | "AfterTool" | "PostToolUseFailure" => {
            let mut tool = Tool::of(
                text(payload, "tool_name")?,
                payload.get("tool_input").unwrap_or(&Value::Null),
                payload.get("tool_response").or(payload.get("error")).unwrap_or(&Value::Null),
            );
            tool.duration_ms = payload.get("duration_ms").and_then(Value::as_u64).unwrap_or(0);
            tool.failed |= name == "PostToolUseFailure";
            tool.call = text(payload, "tool_use_id").map(str::to_owned);
            What::Tool(Box::new(tool))
        }
        "PreCompact" | "PreCompress" => What::Compaction { ask: false },
        "Stop" | "AfterAgent" => What::TurnEnd,
        "StopFailure" => {
            let detail =
                ["error", "message", "reason", "error_details"].iter().find_map(|key| text(payload, key));
            What::Trouble(class(detail.unwrap_or_default()), detail.map(str::to_owned))
        }
        "Notification" => {
            let kind = text(payload, "notification_type").unwrap_or_default();
            // Some only tell that something went well.
            if kind == "auth_success" {
                return None;
            }
            What::Trouble(InterruptionKind::WaitingForUser, text(payload, "message").map(str::to_owned))
        }
        "SessionEnd" => What::End,
        _ => return None,
    };
    Some(HookEvent {
        session: text(payload, "session_id")?.to_owned(),
        cwd: path(payload, "cwd"),
        transcript: path(payload, "transcript_path"),
        name: name.to_owned(),
        what,
    })
}

/// The plugin's own form: `{"event", "data", "directory"}`.
fn open_code(payload: &Value) -> Option<HookEvent> {
    let name = text(payload, "event")?;
    let data = payload.get("data").unwrap_or(&Value::Null);
    let input = data.get("i").unwrap_or(data);
    let output = data.get("o").unwrap_or(&Value::Null);
    let what = match name {
        "experimental.chat.system.transform" => match text(data, "source") {
            Some("resume") => What::Start(Beginning::Resume),
            Some("compact") => What::Start(Beginning::Compact),
            _ => What::Ask,
        },
        "chat.message" => {
            let parts = output.get("parts").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            let texts: Vec<_> = parts.iter().filter_map(|part| text(part, "text")).collect();
            What::Prompt((!texts.is_empty()).then(|| texts.join("\n"))?)
        }
        "tool.execute.after" => {
            let mut tool = Tool::of(text(input, "tool")?, input.get("args").unwrap_or(&Value::Null), output);
            tool.duration_ms = data.get("duration_ms").and_then(Value::as_u64).unwrap_or(0);
            What::Tool(Box::new(tool))
        }
        // The plugin sends only parts that are a tool that failed: for those there is no other word.
        "event:message.part.updated" => {
            let (part, none) = (data.get("part")?, Value::Null);
            let state = part.get("state").filter(|state| text(state, "status") == Some("error"))?;
            let mut tool = Tool::of(text(part, "tool")?, state.get("input").unwrap_or(&none), state);
            tool.duration_ms = data.get("duration_ms").and_then(Value::as_u64).unwrap_or(0);
            tool.failed = true;
            What::Tool(Box::new(tool))
        }
        "event:permission.replied" => What::GoesOn,
        "experimental.session.compacting" => What::Compaction { ask: true },
        "event:session.idle" => What::TurnEnd,
        "event:session.error" => {
            let error = data.get("error").unwrap_or(&Value::Null);
            let message = error.get("data").and_then(|data| text(data, "message"));
            let detail = message.or_else(|| text(error, "message")).or_else(|| text(error, "name"));
            What::Trouble(class(detail.unwrap_or_default()), detail.map(str::to_owned))
        }
        "event:permission.updated" | "event:permission.asked" => {
            let detail =
                text(data, "title").or_else(|| text(data, "permission")).or_else(|| text(data, "type"));
            What::Trouble(InterruptionKind::WaitingForUser, detail.map(str::to_owned))
        }
        _ => return None,
    };
    let session = ["sessionID", "session_id"].iter().find_map(|key| text(input, key).or(text(data, key)))?;
    Some(HookEvent {
        session: session.to_owned(),
        cwd: path(payload, "directory").or_else(|| path(payload, "worktree")),
        transcript: None,
        name: name.to_owned(),
        what,
    })
}

/// A prompt without what this program had put before it.
fn said(prompt: &str) -> &str {
    const END: &str = "</hook_context>";
    match prompt.trim_start().strip_prefix("<hook_context>").and_then(|rest| rest.split_once(END)) {
        Some((_, rest)) => rest.trim_start(),
        None => prompt,
    }
}

/// What stopped a turn, by the words it was told in.
fn class(words: &str) -> InterruptionKind {
    let words = words.to_ascii_lowercase();
    let any = |parts: &[&str]| parts.iter().any(|part| words.contains(part));
    if any(&["usage limit", "rate limit", "rate_limit", "quota", "usage_limit", "billing", "credit", "429"]) {
        InterruptionKind::UsageLimit
    } else if any(&["timeout", "timed out", "time out"]) {
        InterruptionKind::Timeout
    } else if any(&["context", "too long", "max_tokens", "max_output_tokens"]) {
        InterruptionKind::ContextReset
    } else {
        InterruptionKind::ApiError
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_before_a_prompt_is_taken_away() {
        assert_eq!(said("<hook_context>(brief)</hook_context>\n\ncreate hello.txt"), "create hello.txt");
        assert_eq!(said("say <hook_context>x</hook_context>"), "say <hook_context>x</hook_context>");
        assert_eq!(said("<hook_context>never closed"), "<hook_context>never closed");
    }

    #[test]
    fn failures_are_classed_by_their_words() {
        for (words, expected) in [
            ("Claude usage limit reached. Your limit will reset at 3pm", InterruptionKind::UsageLimit),
            ("429 Too Many Requests", InterruptionKind::UsageLimit),
            ("request timed out", InterruptionKind::Timeout),
            ("prompt is too long: 210000 tokens", InterruptionKind::ContextReset),
            ("overloaded_error", InterruptionKind::ApiError),
            ("", InterruptionKind::ApiError),
        ] {
            assert_eq!(class(words), expected, "{words}");
        }
    }

    const RECORDED: [(Agent, &str); 9] = [
        (Agent::ClaudeCode, include_str!("../../tests/fixtures/agent-hooks/claude-code.json")),
        (Agent::ClaudeCode, include_str!("../../tests/fixtures/agent-hooks/claude-code-lifecycle.json")),
        (Agent::Gemini, include_str!("../../tests/fixtures/agent-hooks/gemini.json")),
        (Agent::Codex, include_str!("../../tests/fixtures/agent-hooks/codex.json")),
        (Agent::OpenCode, include_str!("../../tests/fixtures/agent-hooks/opencode.json")),
        (Agent::ClaudeCode, include_str!("../../tests/fixtures/agent-hooks/claude-code-work.json")),
        (Agent::Gemini, include_str!("../../tests/fixtures/agent-hooks/gemini-work.json")),
        (Agent::Codex, include_str!("../../tests/fixtures/agent-hooks/codex-work.json")),
        (Agent::OpenCode, include_str!("../../tests/fixtures/agent-hooks/opencode-work.json")),
    ];

    fn payloads() -> Vec<(Agent, Value)> {
        let of = |(agent, text): (Agent, &str)| -> Vec<(Agent, Value)> {
            let events: Vec<Value> = serde_json::from_str(text).unwrap();
            let payload =
                |event: Value| if agent == Agent::OpenCode { event } else { event["stdin"].clone() };
            events
                .into_iter()
                .map(|event| (agent, payload(event)))
                .filter(|(_, payload)| payload.is_object())
                .collect()
        };
        RECORDED.into_iter().flat_map(of).collect()
    }

    /// Every value at every depth, replaced by `odd`, one at a time.
    fn with_each_replaced(value: &Value, odd: &Value, each: &mut dyn FnMut(Value)) {
        each(odd.clone());
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let mut without = members.clone();
                    without.remove(name);
                    each(Value::Object(without));
                    with_each_replaced(member, odd, &mut |new| {
                        let mut members = members.clone();
                        members.insert(name.clone(), new);
                        each(Value::Object(members));
                    });
                }
            }
            Value::Array(elements) => {
                for (at, element) in elements.iter().enumerate() {
                    with_each_replaced(element, odd, &mut |new| {
                        let mut elements = elements.clone();
                        elements[at] = new;
                        each(Value::Array(elements));
                    });
                }
            }
            _ => {}
        }
    }

    #[test]
    fn recorded_payloads_say_what_happened() {
        let known = payloads().iter().filter(|(agent, payload)| read(*agent, payload).is_some()).count();
        assert!(known > 30, "{known} of {}", payloads().len());
        let tools = payloads().into_iter().filter_map(|(agent, payload)| read(agent, &payload));
        let tools: Vec<_> = tools.filter(|event| matches!(event.what, What::Tool(_))).collect();
        assert!(tools.len() >= 4 && tools.iter().all(|event| !event.session.is_empty()));
    }

    #[test]
    fn a_payload_cut_at_any_byte_is_refused_or_read() {
        for (agent, payload) in payloads() {
            let text = payload.to_string();
            for at in 0..text.len() {
                if let Ok(value) = serde_json::from_slice::<Value>(&text.as_bytes()[..at]) {
                    read(agent, &value);
                }
            }
        }
    }

    #[test]
    fn any_field_may_be_missing_or_of_another_type() {
        let odds = [
            Value::Null,
            3.into(),
            "x".into(),
            true.into(),
            Value::Array(vec![]),
            serde_json::json!({"a": 1}),
        ];
        for (agent, payload) in payloads() {
            for odd in &odds {
                with_each_replaced(&payload, odd, &mut |changed| {
                    if let Some(HookEvent { what: What::Tool(tool), .. }) = read(agent, &changed) {
                        assert!(!tool.changes(str::to_owned).is_empty());
                    }
                });
            }
        }
    }
}
