//! Handles tool calls by executing commands. Each call reads the configuration and opens the store, like a
//! command typed at that moment. A store that is created, deleted or repaired between calls needs no special
//! handling, and neither does a change of branch.

use std::sync::Mutex;

use milepost::model::RunId;
use milepost_mcp::{Call, ToolError, ToolHandler, ToolOutput};
use serde::Serialize;
use serde_json::Value;

use super::{file, patch, restore, resume, tasks};
use crate::cli::Global;
use crate::command::complete::CompleteArgs;
use crate::command::decide::DecideArgs;
use crate::command::diff::DiffArgs;
use crate::command::runs::RunsArgs;
use crate::command::show::ShowArgs;
use crate::command::{brief, complete, decide, diff, list, record, runs, save, search, show, step};
use crate::config::Config;
use crate::context::{Audience, Context};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;
use crate::handover::{self, RecordOrigin};
use crate::present::error::ErrorDocument;
use crate::present::escape::{self, clean};
use crate::present::resume::ResumeDocument;
use crate::present::search::SearchDocument;
use crate::present::{Document, Note, Output};

/// Executes the commands that the tools are named after.
pub(super) struct CommandHandler {
    global: Global,
    /// The run that `resume` with `start` opened. Later writes go to it unless they name a run.
    started: Mutex<Option<RunId>>,
}

/// The result of a command, with its notes.
struct Executed<D> {
    document: D,
    notes: Vec<String>,
}

impl CommandHandler {
    pub(super) fn new(global: Global) -> Self {
        Self { global, started: Mutex::default() }
    }

    /// The run that was started, for commands that write.
    fn started(&self) -> Option<RunId> {
        self.started.lock().ok().and_then(|started| started.clone())
    }

    /// Executes a command in the named run, or in the default run.
    fn execute<D: Document>(
        &self,
        run: Option<String>,
        default_run: Option<RunId>,
        command: impl FnOnce(&Context<'_>) -> Result<D>,
    ) -> Result<Executed<D>, ToolError> {
        let output = Output::collecting();
        let executed = self.config(run, default_run).and_then(|config| {
            let context = Context::for_audience(config, &output, Audience::Agent);
            command(&context)
        });
        let document = executed.map_err(|e| tool_error(&e))?;
        let mut notes = output.collected();
        notes.extend(document.notes().into_iter().filter_map(|note| match note {
            Note::Message(line) => Some(clean(&line)),
            Note::Detail(_) => None,
        }));
        // Falling back to an older checkpoint still yields a result, with a warning.
        if let Some(error) = document.error()
            && let Some(line) = ErrorDocument::of(&error)
        {
            if line.exit != Exit::Partly as u8 {
                return Err(tool_error(&error));
            }
            notes.extend(error.details().iter().map(|line| clean(line)));
            notes.push(format!("Warning: {} ({})", clean(&line.message), line.reason_code));
        }
        Ok(Executed { document, notes })
    }

    fn config(&self, run: Option<String>, default_run: Option<RunId>) -> Result<Config> {
        // The settings may come from someone else, so the agent must not see text from them.
        let mut config = Config::load(&self.global).map_err(|_| {
            CommandError::usage("the configuration is not valid")
                .with_hint("ask the user to run `milepost config show`")
        })?;
        if let Some(run) = run {
            config.run = Some(run.parse()?);
        } else if config.run.is_none() {
            config.run = default_run;
        }
        Ok(config)
    }
}

impl ToolHandler for CommandHandler {
    fn call(&self, call: Call) -> Result<ToolOutput, ToolError> {
        match call {
            Call::Save(a) => {
                self.execute(a.run.clone(), self.started(), |c| save::execute((*a).into(), c))?.plain()
            }
            Call::Decide(a) => {
                let args = DecideArgs { text: a.text, supersedes: a.supersedes };
                self.execute(a.run, self.started(), |c| decide::execute(args, c))?.plain()
            }
            Call::Record(a) => {
                self.execute(a.run.clone(), self.started(), |c| record::execute(a.into(), c))?.plain()
            }
            Call::Step(a) => {
                self.execute(a.run.clone(), self.started(), |c| step::execute(a.into(), c))?.plain()
            }
            Call::Tasks(a) => {
                self.execute(a.run.clone(), self.started(), |c| tasks::execute(a, c))?.recorded()
            }
            Call::List(a) => {
                self.execute(a.run.clone(), None, |c| list::execute(a.try_into()?, c))?.recorded()
            }
            Call::Search(a) => self
                .execute(a.run.clone(), None, |c| {
                    search::execute(a.into(), c).map(SearchDocument::for_agent)
                })?
                .recorded(),
            Call::Show(a) => {
                let args = ShowArgs { reference: a.r#ref.unwrap_or_else(|| "latest".to_owned()) };
                self.execute(a.run, None, |c| show::show_checkpoint(&args, c))?.recorded()
            }
            Call::Diff(a) => {
                let args = DiffArgs { from: a.from, to: a.to, ..DiffArgs::default() };
                self.execute(a.run, None, |c| diff::compare_checkpoints(&args, c))?.recorded()
            }
            Call::Complete(a) => {
                let args = CompleteArgs { reference: a.r#ref };
                self.execute(a.run, None, |c| complete::execute(args, c))?.plain()
            }
            Call::Restore(a) => {
                let started = self.started().filter(|_| a.run.is_none());
                self.execute(a.run.clone(), None, |c| restore::restore(a, started, c))?.recorded()
            }
            Call::Undo(a) => {
                let started = self.started().filter(|_| a.run.is_none());
                self.execute(a.run.clone(), None, |c| restore::undo(a, started, c))?.recorded()
            }
            // A file can contain anyone's text, so nothing in it was said by the user.
            Call::File(a) => {
                let executed = self.execute(a.run.clone(), None, |c| file::execute(a, c))?;
                let text = executed.document.text();
                executed.with_text(text, RecordOrigin::Foreign)
            }
            Call::Patch(a) => {
                let executed = self.execute(a.run.clone(), None, |c| patch::execute(a, c))?;
                let text = handover::wrapped(&executed.document.plain_text(), RecordOrigin::Foreign);
                executed.with_text(text, RecordOrigin::Foreign)
            }
            Call::Resume(a) => self.resume(self.execute(None, None, |c| resume::execute(&a, c))?),
            Call::Runs => self.execute(None, None, |c| runs::execute(RunsArgs::default(), c))?.plain(),
            Call::Run(run) => {
                let args = RunsArgs { run: Some(run), ..RunsArgs::default() };
                self.execute(None, None, |c| runs::execute(args, c))?.recorded()
            }
            Call::LatestBrief => {
                let executed = self.execute(None, None, brief::latest)?;
                let text = handover::wrapped(executed.document.markdown(), RecordOrigin::Own);
                executed.with_text(text, RecordOrigin::Own)
            }
        }
    }
}

impl CommandHandler {
    fn resume(&self, executed: Executed<ResumeDocument>) -> Result<ToolOutput, ToolError> {
        if let ResumeDocument::Decision(document) = &executed.document
            && let Some(run) = &document.started
            && let Ok(mut started) = self.started.lock()
        {
            *started = Some(run.run_id.clone());
        }
        let origin = resume::origin(&executed.document);
        let text = match resume::text(&executed.document) {
            Some(text) => text,
            None => executed.json()?,
        };
        executed.with_text(text, origin)
    }
}

impl<D: Serialize> Executed<D> {
    /// The document as JSON text, escaped for display.
    fn json(&self) -> Result<String, ToolError> {
        let text = serde_json::to_string(&self.document).map_err(internal)?;
        Ok(escape::json(&text))
    }

    /// Returns the document without a notice.
    fn plain(self) -> Result<ToolOutput, ToolError> {
        let text = self.json()?;
        let document = serde_json::to_value(&self.document).map_err(internal)?;
        Ok(ToolOutput { document, text, notes: self.notes })
    }

    /// Returns recorded data, marked as a record. Commands show an agent only the user's own runs.
    fn recorded(self) -> Result<ToolOutput, ToolError> {
        let text = handover::wrapped(&self.json()?, RecordOrigin::Own);
        self.with_text(text, RecordOrigin::Own)
    }

    /// Returns recorded data with a text for the model. A client may pass only the document to the model, so
    /// the document contains the notice too, and its multi-line texts are enclosed in markers.
    fn with_text(self, text: String, origin: RecordOrigin) -> Result<ToolOutput, ToolError> {
        let mut document = serde_json::to_value(&self.document).map_err(internal)?;
        if let Value::Object(members) = &mut document {
            members.values_mut().for_each(mark);
            members.insert("notice".to_owned(), origin.notice().into());
        }
        Ok(ToolOutput { document, text, notes: self.notes })
    }
}

/// Encloses multi-line texts, such as briefs, in markers. The state is the caller's own and does not change.
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

fn internal(e: serde_json::Error) -> ToolError {
    tool_error(&CommandError::Stdout(e.into()))
}

fn tool_error(error: &CommandError) -> ToolError {
    let Some(line) = ErrorDocument::of(error) else {
        return ToolError::usage(error.to_string(), "`milepost help` lists the commands");
    };
    ToolError {
        r#type: "error",
        reason_code: line.reason_code.to_string(),
        message: clean(&line.message),
        hint: line.hint.as_deref().map(clean),
        exit: line.exit,
    }
}
