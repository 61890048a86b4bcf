//! A run that stopped, for people: one screen.

use std::fmt::Write as _;

use milepost::RunAssessment;

use super::format::{bold, clean, counted, dim, yellow};
use crate::handover::Overview;

/// One line: whether it may be continued, and why.
pub(crate) fn verdict(lead: &Overview, from: &RunAssessment) -> String {
    let code = from.decision.reason_code;
    match from.decision.eligible {
        true => format!("{} can be continued: {} ({code})\n", lead.run_id, lead.why()),
        false => format!("{} cannot be continued: {} ({code})\n", lead.run_id, clean(&from.refusal_reason())),
    }
}

/// What a person asks first.
pub(crate) fn page(
    lead: &Overview,
    from: &RunAssessment,
    workspace: Option<(String, String)>,
    others: usize,
) -> String {
    let mut text = String::new();
    let _ = match from.decision.eligible {
        true => writeln!(text, "{}\n", bold(&format!("Resume {}?", clean(&lead.name())))),
        false => {
            writeln!(text, "{}  {}\n", bold(&clean(&lead.name())), yellow(&clean(&from.refusal_reason())))
        }
    };
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "{}  {}", bold(&format!("{name:<11}")), clean(value));
    };
    let by = lead.agent.as_deref().map_or(String::new(), |agent| format!(", {agent}"));
    line("Run", &format!("{}{by}", lead.run_id));
    if let Some(doing) = &lead.doing {
        line("Doing", doing);
    }
    let detail = lead.detail.as_deref().map_or(String::new(), |detail| format!(" ({detail})"));
    line("Stopped", &format!("{}: {}{detail}", lead.stopped, lead.why()));
    let sessions = if lead.sessions > 1 { format!(" in {} sessions", lead.sessions) } else { String::new() };
    line("Had run", &format!("{}{sessions}", lead.lasted));
    if let Some(worktree) = &lead.worktree {
        line("In", worktree);
    }
    if let Some((uncommitted, branch)) = &workspace {
        line("Uncommitted", uncommitted);
        line("Branch", branch);
    }
    if let Some(failed) = &lead.failed {
        line("Failed last", failed);
    }
    for (n, action) in (1..).zip(&lead.next_actions) {
        line(if n == 1 { "Next" } else { "" }, &format!("{n}. {action}"));
    }
    text.push('\n');
    let more = if others > 0 {
        format!("{} could be resumed as well: milepost status\n", counted(others as u64, "other run"))
    } else {
        String::new()
    };
    let _ = write!(
        text,
        "{}{}",
        dim(&more),
        dim(&format!(
            "milepost resume {} --with claude-code  starts an agent with the brief below; --dismiss stops offering it\n\n",
            lead.run_id
        ))
    );
    text
}
