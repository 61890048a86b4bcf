//! Carries calls out by running the commands: each call reads the configuration and opens the store as a command typed at
//! that moment would, so that a store that comes, goes or is mended meanwhile, or another branch, needs no thought.

use std::sync::Mutex;

use crate::error_advice::Exit;
use milepost::model::RunId;
use milepost_mcp::{Call, ToolError, ToolHandler, ToolOutput};
use serde_json::Value;

use super::{resume, tasks};
use crate::cli::Global;
use crate::command::{brief, complete, decide, diff, list, record, runs, save, show, step};
use crate::config::Config;
use crate::context::{Audience, Context};
use crate::error::CommandError;
use crate::handover::{self, RecordOrigin};
use crate::present::error::Line;
use crate::present::escape::clean;
use crate::present::{Kept, Output};

/// Runs the commands that the tools are named after.
pub(super) struct CommandHandler {
    global: Global,
    /// The run that was opened by `resume` with start: what is written goes there unless a run is named.
    started: Mutex<Option<RunId>>,
}

impl CommandHandler {
    pub(super) fn new(global: Global) -> Self {
        Self { global: Global { json: true, quiet: false, ..global }, started: Mutex::default() }
    }

    /// Runs a command and keeps what it would have printed.
    fn run(
        &self,
        named: Option<&String>,
        writes: bool,
        command: impl FnOnce(&Context<'_>) -> Result<(), CommandError>,
    ) -> Result<ToolOutput, ToolError> {
        let output = Output::keeping();
        let ended = self.configured(named, writes).and_then(|config| {
            let context = Context::for_audience(config, &output, Audience::Agent);
            command(&context)
        });
        done(ended, output.take())
    }

    fn configured(&self, named: Option<&String>, writes: bool) -> Result<Config, CommandError> {
        // What is wrong with a stranger's settings is not for the agent to read.
        let mut config = Config::load(&self.global).map_err(|_| {
            CommandError::usage("the configuration is not valid")
                .with_hint("ask the user to run `milepost config show`")
        })?;
        if let Some(run) = named {
            config.run = Some(run.parse()?);
        } else if config.run.is_none() && writes {
            config.run = self.started.lock().ok().and_then(|started| started.clone());
        }
        Ok(config)
    }
}

impl ToolHandler for CommandHandler {
    fn call(&self, call: Call) -> Result<ToolOutput, ToolError> {
        match call {
            Call::Save(a) => self.run(a.run.clone().as_ref(), true, |c| save::run((*a).into(), c)),
            Call::Decide(a) => self.run(a.run.clone().as_ref(), true, |c| decide::run(a.into(), c)),
            Call::Record(a) => self.run(a.run.clone().as_ref(), true, |c| record::run(a.into(), c)),
            Call::Step(a) => self.run(a.run.clone().as_ref(), true, |c| step::run(a.into(), c)),
            Call::Tasks(a) => self.run(a.run.clone().as_ref(), true, |c| tasks::run(a, c)).map(recorded),
            Call::List(a) => {
                self.run(a.run.clone().as_ref(), false, |c| list::run(a.try_into()?, c)).map(recorded)
            }
            Call::Show(a) => {
                self.run(a.run.clone().as_ref(), false, |c| show::run(&a.into(), c)).map(recorded)
            }
            Call::Diff(a) => {
                self.run(a.run.clone().as_ref(), false, |c| diff::run(&a.into(), c)).map(recorded)
            }
            Call::Complete(a) => self.run(a.run.clone().as_ref(), false, |c| complete::run(&a.into(), c)),
            Call::Resume(a) => {
                let done = self.run(None, false, |c| resume::run(&a, c))?;
                let (done, started) = resume::told(done);
                if let (Some(run), Ok(mut known)) = (started, self.started.lock()) {
                    *known = Some(run);
                }
                Ok(done)
            }
            Call::Runs => self.run(None, false, |c| runs::run(&runs::RunsArgs::default(), c)),
            Call::Run(run) => {
                let args = runs::RunsArgs { run: Some(run), ..Default::default() };
                self.run(None, false, |c| runs::run(&args, c)).map(recorded)
            }
            Call::LatestBrief => {
                let done = self.run(None, false, brief::latest)?;
                let document: Value = serde_json::from_str(&done.document).unwrap_or_default();
                Ok(recorded(ToolOutput { text: document["markdown"].as_str().map(str::to_owned), ..done }))
            }
        }
    }
}

/// Marks what was recorded earlier as a record: the text that the model reads, and the document. Commands show an agent
/// only runs of this user's own work.
fn recorded(done: ToolOutput) -> ToolOutput {
    let text = handover::wrapped(done.text.as_deref().unwrap_or(&done.document), RecordOrigin::Own);
    ToolOutput { text: Some(text), document: noticed(&done.document, RecordOrigin::Own), ..done }
}

/// Adds the notice to a document and puts its texts of several lines between markers: a client may give the model this
/// document alone.
pub(super) fn noticed(document: &str, voice: RecordOrigin) -> String {
    match serde_json::from_str::<Value>(document) {
        Ok(Value::Object(mut members)) => {
            members.values_mut().for_each(mark);
            members.insert("notice".to_owned(), voice.notice().into());
            Value::Object(members).to_string()
        }
        _ => document.to_owned(),
    }
}

/// Puts texts of several lines, such as briefs, between markers. The state is the caller's own and stays as it is.
fn mark(value: &mut Value) {
    match value {
        Value::String(text) if text.contains('\n') => *text = handover::between_markers(text),
        Value::Array(values) => values.iter_mut().for_each(mark),
        Value::Object(members) => {
            members.iter_mut().filter(|(key, _)| *key != "state").for_each(|(_, value)| mark(value));
        }
        _ => {}
    }
}

/// What a command that has ended amounts to.
fn done(ended: Result<(), CommandError>, kept: Kept) -> Result<ToolOutput, ToolError> {
    let document = String::from_utf8_lossy(&kept.data).trim_end().to_owned();
    let mut said = kept.said;
    // A document that is there is an answer, also where an older checkpoint had to do.
    if let Some(line) = ended.err().as_ref().and_then(Line::about) {
        if document.is_empty() || line.exit != Exit::Partly as u8 {
            let Line { reason_code, message, hint, exit, .. } = line;
            let (message, hint) = (clean(&message), hint.as_deref().map(clean));
            let reason_code = reason_code.to_string();
            return Err(ToolError { r#type: "error", reason_code, message, hint, exit });
        }
        said.push(format!("Warning: {} ({})", clean(&line.message), line.reason_code));
    }
    Ok(ToolOutput { document, text: None, said })
}
