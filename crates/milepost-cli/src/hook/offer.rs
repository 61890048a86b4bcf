//! What a new session is offered: the brief of the one run that was interrupted here, or two lines about
//! several runs, and a line about files that can be restored. Formats the answer in the way that the agent
//! expects.

use milepost::Milepost;
use milepost::internal::brief::one_line;
use milepost::internal::engine::RunAssessment;
use milepost::model::RunRecord;
use serde_json::json;

use super::failures;
use crate::agents::{Agent, AnswerFormat};
use crate::context::Context;
use crate::error::Result;
use crate::handover::{self, Overview};
use crate::present::format;

/// Text for the agent, and a line for the user.
pub(super) struct Offer {
    agent_text: String,
    user_line: String,
}

impl Offer {
    /// One line that explains why there is no brief.
    pub(super) fn line(text: &str) -> Self {
        let text = one_line(text);
        Self { agent_text: format!("Milepost: {text}."), user_line: format!("milepost: {text}") }
    }

    /// A few lines about runs that could be continued, in the order in which they are offered.
    pub(super) fn list<'r>(
        mp: &Milepost,
        mut runs: impl ExactSizeIterator<Item = &'r RunRecord>,
        context: &Context<'_>,
    ) -> Option<Self> {
        let n = format::counted(runs.len() as u64, "interrupted run");
        let first = runs.next()?;
        let (run_id, ago) = (first.run_id(), format::ago(first.updated_at(), mp.now()));
        let mut agent_text = format!(
            "Milepost has {n} in this project. The first to continue is {run_id}, {ago}.\n\
             If the user wants to continue one of them: `milepost resume {run_id}` prints its brief, `milepost status` lists all.\n"
        );
        agent_text.push_str(handover::files_line(mp, context));
        let agent_text = agent_text.trim_end().to_owned();
        Some(Self { agent_text, user_line: format!("milepost: {n}; `milepost status` lists them") })
    }

    /// The brief of a run, shortened to what the agent does not truncate.
    pub(super) fn brief(
        mp: &Milepost,
        agent: Agent,
        from: &RunAssessment,
        context: &Context<'_>,
    ) -> Result<Option<Self>> {
        if from.shown.is_none() {
            return Ok(None);
        }
        let overview = Overview::of(mp, from);
        let agent_text = handover::text_for_agent(mp, from, &overview, context, &agent.text_limit)?;
        Ok(Some(Self { agent_text, user_line: overview.for_a_person() }))
    }
}

/// A line for the user only, in the format that the agent expects.
pub(super) fn user_message(agent: Agent, line: &str) -> String {
    format_answer(agent, "", None, line.to_owned())
}

/// The answer to an event, in the format that the agent expects: an offer, and problems that the user should
/// know about.
pub(super) fn answer(
    agent: Agent,
    event: &str,
    offer: Option<Offer>,
    mp: &Milepost,
    context: &Context<'_>,
) -> Option<String> {
    let lost = crate::context::lost_writes(mp).map(|lost| format!("milepost: {lost}"));
    let failed = failures::read(&context.config.project());
    let failed = (!failed.is_empty()).then(|| {
        let n = format::counted(failed.len() as u64, "hook failure");
        format!("milepost: {n} since the last session; `milepost status` shows details")
    });
    // Without the name of the remote, which comes from the repository.
    let clones = context.untrusted_project().map(|_| {
        "milepost: runs of other clones of this repository are not offered until you run `milepost trust`"
            .to_owned()
    });
    let untrusted = context.config.untrusted_settings();
    let ignored = (!untrusted.is_empty()).then(|| {
        let keys = untrusted.join(", ");
        format!(
            "milepost: untrusted settings in milepost.toml are ignored: {keys}. Run `milepost trust` to review \
             them"
        )
    });
    let outage = mp.synced().and_then(|synced| synced.outage()).map(|_| {
        "milepost: the server of the store cannot be reached; runs of other machines are not offered, and this session is \
         sent later"
            .to_owned()
    });
    let trouble: Vec<_> = failed.into_iter().chain(lost).chain(ignored).chain(clones).chain(outage).collect();
    let trouble = (!trouble.is_empty()).then(|| trouble.join("; "));
    let (context, line) = match (offer, trouble) {
        (Some(offer), Some(trouble)) => (Some(offer.agent_text), format!("{}; {trouble}", offer.user_line)),
        (Some(offer), None) => (Some(offer.agent_text), offer.user_line),
        (None, Some(trouble)) => (None, trouble),
        (None, None) => return None,
    };
    Some(format_answer(agent, event, context, line))
}

fn format_answer(agent: Agent, event: &str, context: Option<String>, line: String) -> String {
    let document = match agent.answer {
        AnswerFormat::Plugin => json!({ "context": context, "message": line }),
        AnswerFormat::HookSpecificOutput => {
            let mut document = json!({ "systemMessage": line });
            if let Some(context) = context {
                document["hookSpecificOutput"] =
                    json!({ "hookEventName": event, "additionalContext": context });
            }
            document
        }
    };
    format!("{document}\n")
}
