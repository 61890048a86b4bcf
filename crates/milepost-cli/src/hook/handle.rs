//! Handles an agent's event: records it in the run of the agent's session, and builds the answer. Takes a
//! parsed event and returns the text to print, if any. Derives the run id from the session id, so a hook need
//! not search for the run. The library's `AgentSession` decides what to record and when to make a checkpoint.

use std::time::{Duration, Instant};

use milepost::internal::capture::EndedTool;
use milepost::internal::capture::WorkspaceCapture;
use milepost::internal::engine::AgentSession;
use milepost::internal::engine::RunOptions;
use milepost::internal::engine::{RunAssessment, StartOptions};
use milepost::internal::owner;
use milepost::model::{Change, InterruptionKind, Owner, RunId};
use milepost::{Error, Milepost, ReasonCode, Save};

use super::background;
use super::offer::{self, Offer};
use crate::agents::Agent;
use crate::agents::event::tool::ToolUse;
use crate::agents::event::{HookEvent, HookKind, SessionSource};
use crate::config::PromptDetail;
use crate::context::{Context, SaveResult, save_or_enqueue};
use crate::error::{CommandError, Result};

/// Maximum size of a recorded prompt, in bytes.
const PROMPT_LIMIT: usize = 16 * 1024;
/// Maximum size of an agent's recorded message, in bytes.
const REPLY_LIMIT: usize = 8 * 1024;
/// Maximum size of the recorded reason of an interruption, in bytes.
const DETAIL_LIMIT: usize = 500;
/// Maximum size of a recorded path, in bytes.
const PATH_LIMIT: usize = 4096;
/// Maximum time that a hook spends reading the workspace and the transcript. A hook has 2 s, of which the rest is
/// for stopping git and saving.
const READ_TIME: Duration = Duration::from_millis(1_800);
/// The same for a hook after a tool, of which there are many in a turn, and which has 0.2 s.
const TOOL_READ_TIME: Duration = Duration::from_millis(150);

/// Which files a hook stores.
enum FilesToStore {
    /// All files that changed, after this tool if there was one.
    All(Option<EndedTool>),
    /// The files that the changes name.
    Named,
}

/// Handles one event.
struct EventHandler<'a> {
    agent: Agent,
    event: HookEvent,
    context: &'a Context<'a>,
    run: RunId,
    /// Deadline for reading files.
    deadline: Instant,
}

/// Handles an event. Returns the answer to the agent, if any.
pub(super) fn handle(agent: Agent, mut event: HookEvent, context: &Context<'_>) -> Result<Option<String>> {
    let run = RunId::for_session(agent.name, &event.session);
    let kind = std::mem::replace(&mut event.kind, HookKind::Continued);
    let handler = EventHandler { agent, event, context, run, deadline: Instant::now() + READ_TIME };
    let sends = matches!(
        kind,
        HookKind::TurnEnded(_)
            | HookKind::Interrupted(..)
            | HookKind::SessionEnded
            | HookKind::Compacting { .. }
    );
    let answer = handler.handle(kind);
    if sends {
        background::start_sync(context);
    }
    answer
}

impl EventHandler<'_> {
    fn handle(&self, kind: HookKind) -> Result<Option<String>> {
        let (handler, context) = (self, self.context);
        match kind {
            HookKind::SessionStarted(SessionSource::Resume) => {
                handler.start_run(&handler.open_with_server()?)?
            }
            HookKind::SessionStarted(SessionSource::Compact) => return handler.repeat_brief(),
            HookKind::SessionStarted(SessionSource::Startup | SessionSource::Clear) => {
                return handler.begin_session(false);
            }
            HookKind::ContextRequested => return handler.begin_session(true),
            HookKind::Prompt(text) => {
                let prompt = handler.recorded(&text, PROMPT_LIMIT).map(Change::Prompt);
                handler.record(prompt.into_iter().collect(), FilesToStore::All(None))?;
            }
            HookKind::ToolUsed(tool) => handler.record_tool(*tool)?,
            HookKind::Continued => handler.record(Vec::new(), FilesToStore::Named)?,
            HookKind::Compacting { accepts_context } => {
                return handler.save_before_compaction(accepts_context);
            }
            HookKind::TurnEnded(message) => {
                handler.interrupt(InterruptionKind::WaitingForUser, None, handler.last_words(message))?;
            }
            HookKind::Interrupted(kind, detail) => handler.interrupt(kind, detail, Vec::new())?,
            HookKind::SessionEnded => {
                let mp = context.open_or_create()?;
                let complete = |save| handler.with_transcript(handler.with_capture(&mp, save)?);
                handler.session(&mp).end(handler.save(), complete)?;
            }
        }
        Ok(None)
    }
}

fn truncate(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// The agent's process: the nearest ancestor that is not a shell or wrapper.
fn agent_process() -> Option<Owner> {
    const WRAPPERS: [&str; 17] = [
        "sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "tcsh", "csh", "pwsh", "busybox", "env", "nice",
        "timeout", "setsid", "sudo", "milepost",
    ];
    owner::nearest_ancestor_not_named(&WRAPPERS)
}

impl EventHandler<'_> {
    fn run_options(&self) -> RunOptions {
        RunOptions {
            owner: agent_process(),
            agent: Some(self.agent.name.to_owned()),
            transcript: self.transcript(),
            ..self.context.run_options()
        }
    }

    /// The path of the agent's transcript, if it is absolute and not too long to record.
    fn transcript(&self) -> Option<String> {
        let path = self.event.transcript.as_deref().filter(|path| path.is_absolute())?;
        path.to_str().filter(|path| path.len() <= PATH_LIMIT).map(str::to_owned)
    }

    fn start_options(&self) -> StartOptions {
        let mut run_options = self.run_options();
        let repository = self.context.config.paths.repository.as_ref();
        run_options.location.head = repository.and_then(|repository| repository.head_commit());
        StartOptions {
            run_id: Some(self.run.clone()),
            session_id: Some(self.event.session.clone()),
            run_options,
            ..StartOptions::default()
        }
    }

    fn save(&self) -> Save {
        Save::new().run_options(self.run_options()).session(&self.event.session)
    }

    fn session<'m>(&self, mp: &'m Milepost) -> AgentSession<'m> {
        AgentSession::new(mp, self.run.clone())
    }

    /// Opens the store for an event at which the agent gets text: a store on a server is used for a short time. Sends
    /// what waits, so that a run can be claimed on the server, and copies the session's own run from there.
    fn open_with_server(&self) -> Result<Milepost> {
        self.context.use_server_briefly();
        let mp = self.context.open_or_create()?;
        if mp.synced().is_some() {
            // If the server cannot be used, the session works with what is on this machine, and the answer says so.
            let _ = mp.sync(Some(self.deadline), &mut |_| {});
            let _ = mp.fetch_run(&self.run);
        }
        Ok(mp)
    }

    /// Starts the session's run, or a new session in it, unless another process of the agent still owns the
    /// run.
    fn start_run(&self, mp: &Milepost) -> Result<()> {
        match mp.start(self.start_options()) {
            Ok(_) | Err(Error::OwnerAlive { .. }) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Starts the run of a new session, and offers the session interrupted work from this project.
    fn begin_session(&self, may_have_begun: bool) -> Result<Option<String>> {
        let mp = self.open_with_server()?;
        if may_have_begun && self.session(&mp).has_begun()? {
            return Ok(None);
        }
        // `resume --with` has already chosen the run and passed on its brief.
        let chosen = crate::config::resumed_run().and_then(|run| run.parse::<RunId>().ok());
        let has_brief = chosen.is_some();
        let branch = self.context.config.paths.branch.as_deref();
        // An agent gets a run that came from elsewhere only if a person requests it.
        let may_show = |record: &_| self.context.may_show(Some(record));
        let interrupted = self.session(&mp).interrupted_runs(&self.context.worktree(), branch, may_show)?;
        let offer = match chosen.as_ref().or(interrupted.sole_candidate()) {
            Some(candidate) => match mp.continue_run(candidate, self.start_options(), has_brief) {
                Ok(_) if has_brief => None,
                Ok(continued) => self.offer_brief(&mp, &continued.from)?,
                // Another session claimed the run first, or it has no intact checkpoint.
                Err(e @ Error::NotResumable { .. }) => {
                    self.start_run(&mp)?;
                    Some(Offer::line(&e.to_string()))
                }
                Err(Error::OwnerAlive { .. }) => None,
                // The server was lost in the meantime. The session must be recorded all the same.
                Err(_) if mp.synced().is_some_and(|synced| synced.outage().is_some()) => {
                    self.start_run(&mp)?;
                    None
                }
                Err(e) => return Err(e.into()),
            },
            None => {
                self.start_run(&mp)?;
                Offer::list(&mp, interrupted.all(), self.context)
            }
        };
        Ok(self.answer(&mp, offer))
    }

    fn offer_brief(&self, mp: &Milepost, from: &RunAssessment) -> Result<Option<Offer>> {
        Offer::brief(mp, self.agent, from, self.context)
    }

    /// The brief of the session's own run.
    fn brief_of_run(&self, mp: &Milepost) -> Result<Option<String>> {
        let brief = self.offer_brief(mp, &mp.assess(&self.run, false)?)?;
        Ok(self.answer(mp, brief))
    }

    fn answer(&self, mp: &Milepost, offer: Option<Offer>) -> Option<String> {
        offer::answer(self.agent, &self.event.name, offer, mp, self.context)
    }

    /// Returns the brief of the session's own run, after its context has been compacted.
    fn repeat_brief(&self) -> Result<Option<String>> {
        let mp = self.open_with_server()?;
        if !self.session(&mp).exists()? {
            self.start_run(&mp)?;
            return Ok(None);
        }
        self.brief_of_run(&mp)
    }

    fn record_tool(&self, mut tool: ToolUse) -> Result<()> {
        if let (Some(command_end), Some(transcript), Some(call), true) =
            (self.agent.command_end, &self.event.transcript, &tool.call_id, tool.lacks_exit_code())
            && let Some(end) = command_end(transcript, call)
        {
            tool.set_end(&end);
        }
        let root = &self.context.config.paths.root;
        // A command may have changed any file, even if it failed. Other tools name the files that they wrote.
        let files = if tool.runs_command() {
            let duration = (tool.duration_ms > 0).then(|| Duration::from_millis(tool.duration_ms));
            FilesToStore::All(Some(EndedTool { duration }))
        } else {
            FilesToStore::Named
        };
        let mut changes = tool.into_changes(root, self.event.cwd.as_deref());
        changes.retain_mut(|change| match change {
            Change::Plan { text, .. } | Change::Answer { text, .. } => {
                let recorded = self.recorded(text, PROMPT_LIMIT);
                recorded.map(|recorded| *text = recorded).is_some()
            }
            _ => true,
        });
        self.record(changes, files)
    }

    /// Records changes and the files that go with them. If the store cannot be written, the changes are queued
    /// in the outbox.
    fn record(&self, changes: Vec<Change>, files: FilesToStore) -> Result<()> {
        let stored = self.context.open_or_create().and_then(|mp| {
            let mut changes = changes.clone();
            let capture = match files {
                FilesToStore::All(tool) => self.capture(&mp, tool)?,
                FilesToStore::Named => {
                    self.store_named_files(&mp, &mut changes);
                    None
                }
            };
            self.session(&mp).record(changes, self.save(), capture, |save| self.with_capture(&mp, save))
        });
        let (outbox, settings) = (self.context.outbox(), self.context.settings());
        let pending = || (self.run.clone(), self.save().with_changes(changes));
        match save_or_enqueue(stored, outbox.as_ref(), &settings, pending)? {
            // The save is not lost, but the user has to accept it.
            SaveResult::Queued(_, queued) if !queued.signed => Err(CommandError::new(
                ReasonCode::StoreUntrusted,
                "your key could not be read, so a save was queued unsigned; run `milepost trust --outbox` to accept it",
            )),
            SaveResult::Stored(()) | SaveResult::Queued(..) => Ok(()),
        }
    }

    /// Adds a capture of the workspace, taken before the deadline.
    fn with_capture(&self, mp: &Milepost, save: Save) -> Result<Save, Error> {
        Ok(save.capture(self.capture(mp, None)?))
    }

    /// Captures the workspace and its files before the deadline; `None` if capturing is turned off. If the
    /// files could not be read in time twice in a row, a process in the background does it.
    fn capture(
        &self,
        mp: &Milepost,
        tool: Option<EndedTool>,
    ) -> Result<Option<Box<WorkspaceCapture>>, Error> {
        let Some(mut options) = self.context.capture_options() else { return Ok(None) };
        let deadline = match tool {
            Some(_) => self.deadline.min(Instant::now() + TOOL_READ_TIME),
            None => self.deadline,
        };
        options.limits.time = deadline.saturating_duration_since(Instant::now());
        if let Some(files) = &mut options.files {
            files.deadline = Some(deadline);
            files.tool = tool;
        }
        let capture = mp.capture_workspace(&self.run, &options)?;
        if capture.overdue >= 2 {
            background::start(self.agent, &self.run, self.context);
        }
        Ok(Some(Box::new(capture)))
    }

    /// Stores the content of the files that a tool wrote.
    fn store_named_files(&self, mp: &Milepost, changes: &mut [Change]) {
        if self.context.config.capture.capture && self.context.config.capture.files {
            let limits = &self.context.config.capture.file_limits;
            mp.store_written_files(&self.context.config.paths.root, limits, changes);
        }
    }

    /// Adds a reference to the agent's transcript of the conversation.
    fn with_transcript(&self, mut save: Save) -> Result<Save, Error> {
        let path = self.event.transcript.as_ref();
        save.draft_mut().files.extend(
            path.and_then(|path| milepost::internal::capture::file_reference(path, self.deadline).ok()),
        );
        Ok(save)
    }

    /// Saves before the context is compacted. Returns the brief if the agent accepts text for the compacted
    /// context.
    fn save_before_compaction(&self, accepts_context: bool) -> Result<Option<String>> {
        let mp = if accepts_context { self.open_with_server()? } else { self.context.open_or_create()? };
        if self.agent.announces_every_call && !mp.is_due(&self.run, None)? {
            return Ok(None);
        }
        let save = self.with_capture(&mp, self.save().reason("pre_compaction"))?;
        mp.save(&self.run, self.with_transcript(save)?)?;
        if !accepts_context {
            return Ok(None);
        }
        self.brief_of_run(&mp)
    }

    /// The part of a message that the settings allow to record; `None` if nothing is left.
    fn recorded(&self, text: &str, limit: usize) -> Option<String> {
        let text = match self.context.config.agents.prompts {
            PromptDetail::Full => text,
            PromptDetail::FirstLine => text.trim().lines().next().unwrap_or_default(),
            PromptDetail::None => "",
        };
        let text = truncate(text, limit);
        (!text.trim().is_empty()).then(|| text.to_owned())
    }

    /// What the agent said at the end of its turn: a plan in the transcript, and its last message.
    fn last_words(&self, message: Option<String>) -> Vec<Change> {
        let plan = self.agent.proposed_plan.zip(self.event.transcript.as_ref());
        let plan = plan.and_then(|(find, transcript)| find(transcript));
        let plan = plan.and_then(|plan| self.recorded(&plan, PROMPT_LIMIT));
        let plan = plan.map(|text| Change::Plan { text, is_approved: false });
        let message = message.and_then(|message| self.recorded(&message, REPLY_LIMIT)).map(Change::Reply);
        plan.into_iter().chain(message).collect()
    }

    /// Records why the session was interrupted, and what the agent said last.
    fn interrupt(&self, kind: InterruptionKind, detail: Option<String>, said: Vec<Change>) -> Result<()> {
        let mp = self.context.open_or_create()?;
        let detail = detail.map(|detail| truncate(&detail, DETAIL_LIMIT).to_owned());
        let complete = |save| self.with_capture(&mp, save);
        Ok(self.session(&mp).interrupt(kind, detail, &said, self.save(), complete)?)
    }
}
