//! What a session that begins is offered: the brief of the one run that was interrupted here, or two lines about several.

use std::time::Duration;

use milepost::internal::brief::one_line;
use milepost::model::{RunId, RunRecord};
use milepost::{Milepost, ResumeCandidate, RunAssessment, RunState};
use serde_json::json;

use super::failures;
use crate::agents::{Agent, AnswerFormat};
use crate::context::Context;
use crate::error::CommandError;
use crate::handover::{self, Overview};
use crate::present::format;

/// What is older is offered in two lines, not in full.
const YOUNG: Duration = Duration::from_secs(48 * 3600);
/// Maximum size of the text that every agent lets through.
const BYTES: usize = 9_000;

/// What was interrupted here.
pub(super) struct Found {
    /// In this worktree, on this branch, not long ago.
    here: Vec<RunId>,
    /// All that may be continued.
    all: Vec<(RunId, String)>,
}

/// Text for the agent, and a line for the person.
pub(super) struct Text {
    pub(super) agent: String,
    pub(super) person: String,
}

impl Text {
    /// A line that says why there is no more.
    pub(super) fn short(text: String) -> Self {
        let text = one_line(&text);
        Self { agent: format!("Milepost: {text}."), person: format!("milepost: {text}") }
    }
}

/// Looks for runs that were interrupted in this project.
pub(super) fn look(mp: &Milepost, context: &Context<'_>, own: &RunId) -> Result<Found, CommandError> {
    let mut found = Found { here: Vec::new(), all: Vec::new() };
    for candidate in mp.candidates()? {
        let ResumeCandidate { summary, decision, .. } = &candidate;
        let Ok(record) = &summary.record else { continue };
        // What came from elsewhere is given to an agent only if a person asks for it.
        if !context.may_show(Some(record)) {
            continue;
        }
        // A session that was killed before anything happened in it is nothing to keep.
        let empty = summary.checkpoints == 0 && record.agent.is_some() && summary.run_id != *own;
        if empty && decision.run_state == RunState::Stopped {
            mp.abandon(&summary.run_id)?;
            continue;
        }
        if !decision.eligible || !decision.run_state.is_stopped() || summary.run_id == *own {
            continue;
        }
        // A run by hand may still be somebody's, and a supervised command is started again, not talked about.
        let interrupted = decision.run_state == RunState::Stopped && record.command.is_none();
        if interrupted && is_here(record, context) && is_young(record, mp) {
            found.here.push(summary.run_id.clone());
        }
        found.all.push((summary.run_id.clone(), format::ago(record.updated_at, mp.now())));
    }
    Ok(found)
}

fn is_here(record: &RunRecord, context: &Context<'_>) -> bool {
    let worktree = record.place();
    let branch = &context.config.place.branch;
    worktree == Some(&context.here())
        && (record.branch.is_none() || branch.is_none() || record.branch == *branch)
}

fn is_young(record: &RunRecord, mp: &Milepost) -> bool {
    milepost::internal::clock::age(record.updated_at, mp.now()).is_none_or(|age| age < YOUNG)
}

impl Found {
    /// The run to continue, where there is no doubt which.
    pub(super) fn only(&self) -> Option<RunId> {
        match &self.here[..] {
            [only] => Some(only.clone()),
            _ => None,
        }
    }

    /// Two lines about what could be continued.
    pub(super) fn short(&self) -> Option<Text> {
        let (first, ago) = self.all.first()?;
        let n = format::counted(self.all.len() as u64, "interrupted run");
        let agent = format!(
            "Milepost has {n} in this project, the newest {first}, {ago}.\n\
             If the user wants to go on with one of them: `milepost resume {first}` prints its brief, `milepost status` lists all."
        );
        Some(Text { agent, person: format!("milepost: {n}; `milepost status` lists them") })
    }
}

/// The whole brief of a run, as much of it as the agent lets through.
pub(super) fn whole(
    mp: &Milepost,
    agent: Agent,
    from: &RunAssessment,
    context: &Context<'_>,
) -> Result<Option<Text>, CommandError> {
    if from.shown.is_none() {
        return Ok(None);
    }
    let lead = Overview::of(mp, from);
    let (head, facts) = (lead.introduction(), lead.facts());
    let room = BYTES.saturating_sub(head.len() + facts.len() + handover::OVERHEAD);
    let brief = handover::brief(mp, from, context, agent.brief_tokens, room)?;
    let record = handover::wrapped(
        &format!("{facts}\n{}", brief.markdown),
        handover::RecordOrigin::of(handover::is_foreign(from)),
    );
    Ok(Some(Text { agent: format!("{head}{record}"), person: lead.for_a_person() }))
}

/// A line for the person alone, in the form that the agent reads.
pub(super) fn message(agent: Agent, person: &str) -> Option<String> {
    document(agent, "", None, person.to_owned())
}

/// What is printed, in the form that the agent reads.
pub(super) fn answer(
    agent: Agent,
    event: &str,
    text: Option<Text>,
    mp: &Milepost,
    context: &Context<'_>,
) -> Option<String> {
    let lost = crate::context::lost_writes(mp).map(|lost| format!("milepost: {lost}"));
    let failed = failures::read();
    let failed = (!failed.is_empty()).then(|| {
        let n = format::counted(failed.len() as u64, "hook failure");
        format!("milepost: {n} since the last session; `milepost status` tells")
    });
    let untrusted: Vec<_> = context.config.untrusted.keys().map(String::as_str).collect();
    let ignored = (!untrusted.is_empty()).then(|| {
        let keys = untrusted.join(", ");
        format!("milepost: untrusted settings in milepost.toml are ignored: {keys}. Run `milepost trust`")
    });
    let trouble: Vec<_> = failed.into_iter().chain(lost).chain(ignored).collect();
    let trouble = (!trouble.is_empty()).then(|| trouble.join("; "));
    let (context, person) = match (text, trouble) {
        (Some(text), Some(trouble)) => (Some(text.agent), format!("{}; {trouble}", text.person)),
        (Some(text), None) => (Some(text.agent), text.person),
        (None, Some(trouble)) => (None, trouble),
        (None, None) => return None,
    };
    document(agent, event, context, person)
}

fn document(agent: Agent, event: &str, context: Option<String>, person: String) -> Option<String> {
    let document = match agent.answer {
        AnswerFormat::Plugin => json!({ "context": context, "message": person }),
        AnswerFormat::HookSpecificOutput => {
            let mut document = json!({ "systemMessage": person });
            if let Some(context) = context {
                document["hookSpecificOutput"] =
                    json!({ "hookEventName": event, "additionalContext": context });
            }
            document
        }
    };
    Some(format!("{document}\n"))
}
