//! Parses an agent's JSON payload into a `HookEvent`, which has the same form for all agents. Returns `None`
//! for an event that Milepost does not use. Unknown fields and events are normal, so parsing never fails. It
//! reads no files.

pub(crate) mod payload;
pub(super) mod talk;
pub(super) mod todo;
pub(crate) mod tool;
pub(crate) mod transcript;

use std::path::PathBuf;

use milepost::model::InterruptionKind;
use serde_json::Value;

use self::tool::ToolUse;
use super::spec::HookedEvent;
use super::{Agent, EventFormat, ToolNames};

/// How a session started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionSource {
    Startup,
    /// The agent resumed one of its own conversations, so its context is complete.
    Resume,
    /// The context was cleared.
    Clear,
    /// The context was compacted.
    Compact,
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HookKind {
    /// A session started. The answer may add text to its context.
    SessionStarted(SessionSource),
    /// The answer may add text to the context of a session, which may have started earlier.
    ContextRequested,
    /// The session resumed after waiting for the user.
    Continued,
    /// The user submitted a prompt.
    Prompt(String),
    ToolUsed(Box<ToolUse>),
    /// The context is about to be compacted.
    Compacting {
        accepts_context: bool,
    },
    /// The turn ended, with the agent's last message if it reports one.
    TurnEnded(Option<String>),
    /// The turn failed, or is waiting for the user.
    Interrupted(InterruptionKind, Option<String>),
    SessionEnded,
}

/// The meaning of an event in the shared format. Each agent maps its event names to these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventRole {
    SessionStart,
    Prompt,
    ToolUse,
    ToolFailure,
    Compaction,
    TurnEnd,
    TurnFailure,
    Notification,
    SessionEnd,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HookEvent {
    /// The agent's session id.
    pub(crate) session: String,
    /// The agent's working directory.
    pub(crate) cwd: Option<PathBuf>,
    /// The agent's transcript of the conversation.
    pub(crate) transcript: Option<PathBuf>,
    /// The agent's name for the event.
    pub(crate) name: String,
    pub(crate) kind: HookKind,
}

impl HookEvent {
    pub(crate) fn starts_session(&self) -> bool {
        matches!(self.kind, HookKind::SessionStarted(_) | HookKind::ContextRequested)
    }
}

/// Parses an agent's payload. Returns `None` for an event that Milepost does not use.
pub(crate) fn parse(agent: Agent, payload: &Value) -> Option<HookEvent> {
    match agent.events {
        EventFormat::Shared(events) => parse_shared(payload, events, &agent.tools),
        EventFormat::Own(parse) => parse(payload, &agent.tools),
    }
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

pub(super) fn path(value: &Value, key: &str) -> Option<PathBuf> {
    text(value, key).map(PathBuf::from)
}

fn parse_shared(payload: &Value, events: &[HookedEvent], tools: &ToolNames) -> Option<HookEvent> {
    let name = text(payload, "hook_event_name")?;
    let role = events.iter().find(|event| event.name == name)?.role;
    let kind = match role {
        EventRole::SessionStart => HookKind::SessionStarted(match text(payload, "source") {
            Some("resume") => SessionSource::Resume,
            Some("clear") => SessionSource::Clear,
            Some("compact") => SessionSource::Compact,
            _ => SessionSource::Startup,
        }),
        EventRole::Prompt => HookKind::Prompt(strip_injected_context(text(payload, "prompt")?).to_owned()),
        EventRole::ToolUse | EventRole::ToolFailure => {
            let mut tool = ToolUse::parse(
                tools,
                text(payload, "tool_name")?,
                payload.get("tool_input").unwrap_or(&Value::Null),
                payload.get("tool_response").or(payload.get("error")).unwrap_or(&Value::Null),
            );
            tool.duration_ms = payload.get("duration_ms").and_then(Value::as_u64).unwrap_or(0);
            tool.failed |= role == EventRole::ToolFailure;
            tool.call_id = text(payload, "tool_use_id").map(str::to_owned);
            HookKind::ToolUsed(Box::new(tool))
        }
        EventRole::Compaction => HookKind::Compacting { accepts_context: false },
        EventRole::TurnEnd => HookKind::TurnEnded(last_message(payload)),
        EventRole::TurnFailure => {
            let keys = ["error", "message", "reason", "error_details"];
            let detail = keys.iter().find_map(|key| text(payload, key));
            HookKind::Interrupted(classify_failure(detail.unwrap_or_default()), detail.map(str::to_owned))
        }
        // Some notifications only report success.
        EventRole::Notification if text(payload, "notification_type") == Some("auth_success") => return None,
        EventRole::Notification => {
            let message = text(payload, "message").map(str::to_owned);
            HookKind::Interrupted(InterruptionKind::WaitingForUser, message)
        }
        EventRole::SessionEnd => HookKind::SessionEnded,
    };
    Some(HookEvent {
        session: text(payload, "session_id")?.to_owned(),
        cwd: path(payload, "cwd"),
        transcript: path(payload, "transcript_path"),
        name: name.to_owned(),
        kind,
    })
}

/// The agent's last message. Gemini reports the whole text of the turn.
fn last_message(payload: &Value) -> Option<String> {
    const NO_TEXT: &str = "[no response text]";
    let keys = ["last_assistant_message", "prompt_response"];
    let message = keys.iter().find_map(|key| text(payload, key)).map(str::trim);
    message.filter(|message| !message.is_empty() && *message != NO_TEXT).map(str::to_owned)
}

/// Removes the context that a Milepost hook added in front of a prompt.
fn strip_injected_context(prompt: &str) -> &str {
    const END: &str = "</hook_context>";
    match prompt.trim_start().strip_prefix("<hook_context>").and_then(|rest| rest.split_once(END)) {
        Some((_, rest)) => rest.trim_start(),
        None => prompt,
    }
}

/// Classifies why a turn stopped, by keywords in its error message.
pub(super) fn classify_failure(words: &str) -> InterruptionKind {
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
    use std::path::Path;

    use super::*;
    use crate::agents::find_agent;

    #[test]
    fn what_was_put_before_a_prompt_is_taken_away() {
        assert_eq!(
            strip_injected_context("<hook_context>(brief)</hook_context>\n\ncreate hello.txt"),
            "create hello.txt"
        );
        assert_eq!(
            strip_injected_context("say <hook_context>x</hook_context>"),
            "say <hook_context>x</hook_context>"
        );
        assert_eq!(strip_injected_context("<hook_context>never closed"), "<hook_context>never closed");
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
            assert_eq!(classify_failure(words), expected, "{words}");
        }
    }

    const RECORDED: [(&str, &str); 9] = [
        ("claude-code", include_str!("../../../tests/fixtures/agent-hooks/claude-code.json")),
        ("claude-code", include_str!("../../../tests/fixtures/agent-hooks/claude-code-lifecycle.json")),
        ("gemini", include_str!("../../../tests/fixtures/agent-hooks/gemini.json")),
        ("codex", include_str!("../../../tests/fixtures/agent-hooks/codex.json")),
        ("opencode", include_str!("../../../tests/fixtures/agent-hooks/opencode.json")),
        ("claude-code", include_str!("../../../tests/fixtures/agent-hooks/claude-code-work.json")),
        ("gemini", include_str!("../../../tests/fixtures/agent-hooks/gemini-work.json")),
        ("codex", include_str!("../../../tests/fixtures/agent-hooks/codex-work.json")),
        ("opencode", include_str!("../../../tests/fixtures/agent-hooks/opencode-work.json")),
    ];

    fn payloads() -> Vec<(Agent, Value)> {
        let of = |(agent, text): (&str, &str)| -> Vec<(Agent, Value)> {
            let agent = find_agent(agent).unwrap();
            let events: Vec<Value> = serde_json::from_str(text).unwrap();
            let payload =
                |event: Value| if agent.name == "opencode" { event } else { event["stdin"].clone() };
            events
                .into_iter()
                .map(|event| (agent, payload(event)))
                .filter(|(_, payload)| payload.is_object())
                .collect()
        };
        RECORDED.into_iter().flat_map(of).collect()
    }

    /// Calls `each` with copies of `value` in which one value, at any depth, is replaced by `odd` or one
    /// member is removed.
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
        let known = payloads().iter().filter(|(agent, payload)| parse(agent, payload).is_some()).count();
        assert!(known > 30, "{known} of {}", payloads().len());
        let tools = payloads().into_iter().filter_map(|(agent, payload)| parse(agent, &payload));
        let tools: Vec<_> = tools.filter(|event| matches!(event.kind, HookKind::ToolUsed(_))).collect();
        assert!(tools.len() >= 4 && tools.iter().all(|event| !event.session.is_empty()));
    }

    #[test]
    fn a_payload_cut_at_any_byte_is_refused_or_read() {
        for (agent, payload) in payloads() {
            let text = payload.to_string();
            for at in 0..text.len() {
                if let Ok(value) = serde_json::from_slice::<Value>(&text.as_bytes()[..at]) {
                    parse(agent, &value);
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
                    if let Some(HookEvent { kind: HookKind::ToolUsed(tool), .. }) = parse(agent, &changed) {
                        assert!(!tool.into_changes(Path::new("/p"), None).is_empty());
                    }
                });
            }
        }
    }
}
