//! Converts the arguments of a tool to those of its command.

use milepost_mcp::arguments::{self as given, Input};

use crate::command::list::ListArgs;
use crate::command::record::RecordArgs;
use crate::command::save::SaveArgs;
use crate::command::search::SearchArgs;
use crate::command::step::StepArgs;
use crate::error::{CommandError, Result};
use crate::input::{Argument, Content};

impl From<given::Save> for SaveArgs {
    fn from(given: given::Save) -> Self {
        Self {
            source: given.source.map(Argument::Value),
            reason: given.reason,
            status: given.status.map(Argument::Value),
            phase: given.phase,
            phase_number: given.phase_number.map(Argument::Value),
            message: None,
            summary: given.summary,
            input: given.input.map(|Input(text)| Content::Given(text)),
            brief: given.brief.map(Content::Given),
            no_capture: given.no_capture,
            no_redact: false,
            if_due: given.if_due,
            pin: given.pin,
            tag: given.tag,
        }
    }
}

impl TryFrom<given::List> for ListArgs {
    type Error = CommandError;

    fn try_from(given: given::List) -> Result<Self> {
        if given.completed && given.incomplete {
            return Err(CommandError::usage("completed and incomplete cannot be used together"));
        }
        Ok(Self {
            limit: given.limit.unwrap_or(20),
            completed: given.completed,
            incomplete: given.incomplete,
            source: given.source.map(Argument::Value),
            status: given.status.map(Argument::Value),
            tag: given.tag,
            tree: given.tree,
        })
    }
}

impl From<given::Search> for SearchArgs {
    fn from(given: given::Search) -> Self {
        /// Number of hits if the agent names none, and the maximum.
        const LIMIT: usize = 10;
        const MOST: usize = 50;
        Self {
            query: vec![given.query],
            kind: given.kind.map(Argument::Value).into_iter().collect(),
            since: given.since,
            limit: given.limit.filter(|limit| *limit > 0).unwrap_or(LIMIT).min(MOST),
            ..Self::default()
        }
    }
}

impl From<given::Record> for RecordArgs {
    fn from(given: given::Record) -> Self {
        Self {
            kind: Some(Argument::Value(given.kind)),
            name: Some(given.name),
            result: Some(Argument::Value(given.result)),
            duration_ms: Some(Argument::Value(given.duration_ms)),
            summary: given.summary,
            reason_code: given.reason_code,
            command: Vec::new(),
        }
    }
}

impl From<given::Step> for StepArgs {
    fn from(given: given::Step) -> Self {
        Self {
            what: Argument::Value(given.what.into()),
            id: given.id,
            plan: given.plan,
            ordinal: given.ordinal.map(Argument::Value),
            title: given.title,
        }
    }
}
