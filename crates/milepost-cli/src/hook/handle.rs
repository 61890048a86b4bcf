//! What a run keeps of an agent's events. One run for one session of an agent, named after it, so that a hook needs to
//! look for nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use milepost::Due;
use milepost::internal::capture::WorkspaceCapture;
use milepost::internal::owner;
use milepost::model::{
    Change, FileRef, Interruption, InterruptionKind, Owner, RunId, RunRecord, Source, Status,
};
use milepost::{Error, FinishOptions, Milepost, ReasonCode, RunOptions, Save, StartOptions};

use super::offer;
use crate::agents::Agent;
use crate::agents::event::{HookEvent, HookKind, SessionSource};
use crate::config::Prompts;
use crate::context::{Context, SaveResult, save_or_enqueue};
use crate::error::CommandError;

/// Bytes of a prompt that are kept.
const PROMPT: usize = 16 * 1024;
/// How long a hook may read the workspace and the agent's record of the conversation.
const LOOK: Duration = Duration::from_secs(1);

/// One event on its way into a run.
struct Hook<'a> {
    agent: Agent,
    event: HookEvent,
    context: &'a Context<'a>,
    run: RunId,
    /// Until when files may be read.
    deadline: Instant,
}

/// Acts on an event; gives what the agent is answered.
pub(super) fn handle(
    agent: Agent,
    event: HookEvent,
    context: &Context<'_>,
) -> Result<Option<String>, CommandError> {
    let run = run_of(agent, &event.session);
    let hook = Hook { agent, event, context, run, deadline: Instant::now() + LOOK };
    match hook.event.kind.clone() {
        HookKind::SessionStarted(SessionSource::Resume) => {
            hook.open(&context.open_or_create()?).map(|_| None)
        }
        HookKind::SessionStarted(SessionSource::Compact) => hook.again(),
        HookKind::SessionStarted(SessionSource::Startup | SessionSource::Clear)
        | HookKind::ContextRequested => hook.begin(),
        HookKind::Prompt(text) => {
            let text = match context.config.agents.prompts {
                Prompts::Full => bounded(&text, PROMPT),
                Prompts::FirstLine => bounded(text.trim().lines().next().unwrap_or_default(), PROMPT),
                Prompts::None => "",
            };
            if text.trim().is_empty() {
                return hook.keep(Vec::new()).map(|()| None);
            }
            hook.keep(vec![Change::Prompt(text.to_owned())]).map(|()| None)
        }
        HookKind::ToolUsed(mut tool) => {
            if let (Some(command_end), Some(transcript), Some(call), true) =
                (agent.command_end, &hook.event.transcript, &tool.call_id, tool.lacks_exit_code())
                && let Some(end) = command_end(transcript, call)
            {
                tool.set_end(&end);
            }
            let root = context.config.place.root.clone();
            hook.keep(tool.into_changes(|path| relative(&root, path))).map(|()| None)
        }
        HookKind::Continued => hook.keep(Vec::new()).map(|()| None),
        HookKind::Compacting { accepts_context } => hook.compaction(accepts_context),
        HookKind::TurnEnded => hook.rest(InterruptionKind::WaitingForUser, None).map(|()| None),
        HookKind::Interrupted(class, detail) => hook.rest(class, detail).map(|()| None),
        HookKind::SessionEnded => hook.end().map(|()| None),
    }
}

/// The run of an agent's session.
pub(super) fn run_of(agent: Agent, session: &str) -> RunId {
    RunId::for_session(agent.name, session)
}

fn bounded(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

fn relative(root: &Path, path: &str) -> String {
    let inside = Path::new(path).strip_prefix(root).ok();
    inside.map_or_else(|| path.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// The agent: the nearest ancestor that only passes nothing on.
fn agent_process() -> Option<Owner> {
    const BETWEEN: [&str; 17] = [
        "sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "tcsh", "csh", "pwsh", "busybox", "env", "nice",
        "timeout", "setsid", "sudo", "milepost",
    ];
    owner::nearest_ancestor_but(&BETWEEN)
}

impl Hook<'_> {
    fn run_options(&self) -> RunOptions {
        RunOptions {
            owner: agent_process(),
            agent: Some(self.agent.name.to_owned()),
            ..self.context.run_options()
        }
    }

    fn start(&self) -> StartOptions {
        StartOptions {
            run_id: Some(self.run.clone()),
            session_id: Some(self.event.session.clone()),
            run_options: self.run_options(),
            ..StartOptions::default()
        }
    }

    fn save(&self) -> Save {
        let mut save = Save::new();
        save.run_options = self.run_options();
        save.draft.session_id = Some(self.event.session.clone());
        save
    }

    /// Opens the run of the session, or a new session of it. One that another process of the agent still holds stays its.
    fn open(&self, mp: &Milepost) -> Result<Option<RunRecord>, CommandError> {
        match mp.start(self.start()) {
            Ok(started) => Ok(Some(started.record)),
            Err(Error::OwnerAlive { .. }) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }

    /// A session begins: opens its run, and offers it what was interrupted here.
    fn begin(&self) -> Result<Option<String>, CommandError> {
        let mp = self.context.open_or_create()?;
        if self.event.kind == HookKind::ContextRequested && self.has_begun(&mp)? {
            return Ok(None);
        }
        // `resume --with` has chosen, and has given the brief already.
        let chosen = crate::config::resuming().and_then(|run| run.parse::<RunId>().ok());
        let told = chosen.is_some();
        let found = offer::look(&mp, self.context, &self.run)?;
        let offered = match chosen.or_else(|| found.only()) {
            Some(candidate) => match mp.continue_run(&candidate, self.start(), told) {
                Ok(_) if told => None,
                Ok(continued) => offer::whole(&mp, self.agent, &continued.from, self.context)?,
                // Somebody else was faster, or it does not hold what it seemed to.
                Err(e @ Error::NotResumable { .. }) => {
                    self.open(&mp)?;
                    Some(offer::Text::short(e.to_string()))
                }
                Err(Error::OwnerAlive { .. }) => None,
                Err(e) => return Err(e.into()),
            },
            None => {
                self.open(&mp)?;
                found.short()
            }
        };
        Ok(offer::answer(self.agent, &self.event.name, offered, &mp, self.context))
    }

    /// Whether the run is known and holds something: then it was offered what there was.
    fn has_begun(&self, mp: &Milepost) -> Result<bool, CommandError> {
        let Some(state) = mp.store().run(&self.run)? else { return Ok(false) };
        let continues = state.row.record.as_ref().is_ok_and(|record| record.parent.is_some());
        Ok(state.row.count > 0 || continues)
    }

    /// The context was made smaller: what the run itself holds goes in again.
    fn again(&self) -> Result<Option<String>, CommandError> {
        let mp = self.context.open_or_create()?;
        let known = mp.store().run(&self.run)?.is_some();
        if !known {
            self.open(&mp)?;
            return Ok(None);
        }
        let text = offer::whole(&mp, self.agent, &mp.assess(&self.run, false)?, self.context)?;
        Ok(offer::answer(self.agent, &self.event.name, text, &mp, self.context))
    }

    /// Keeps changes; where the store cannot be written, they wait in the outbox.
    fn keep(&self, changes: Vec<Change>) -> Result<(), CommandError> {
        let stored = self.keep_in_store(&changes);
        let (outbox, settings) = (self.context.outbox(), self.context.settings());
        let pending = || (self.run.clone(), self.save().with_changes(changes));
        match save_or_enqueue(stored, outbox.as_ref(), &settings, pending)? {
            // It is kept, but somebody has to be told.
            SaveResult::Queued(_, queued) if !queued.signed => Err(CommandError::new(
                ReasonCode::StoreUntrusted,
                "your key could not be read, so that a save waits unsigned: `milepost trust --outbox` accepts it",
            )),
            SaveResult::Stored(()) | SaveResult::Queued(..) => Ok(()),
        }
    }

    /// Keeps changes, and saves where a checkpoint is due, so that a long turn has checkpoints.
    fn keep_in_store(&self, changes: &[Change]) -> Result<(), Error> {
        let mp = self.context.open_or_create()?;
        let mut save = self.save();
        match mp.record_changes(&self.run, changes, &save.run_options)? {
            // The first thing that happens makes a session worth resuming.
            Due::First => {
                mp.save(&self.run, save.reason("session_start"))?;
            }
            Due::Yes => {
                save.draft.source = Some(Source::Timer);
                save.capture = self.capture_workspace(&mp)?;
                mp.save(&self.run, save)?;
            }
            Due::No => {}
        }
        Ok(())
    }

    /// Looks at the workspace, but not for long: the agent waits.
    fn capture_workspace(&self, mp: &Milepost) -> Result<Option<Box<WorkspaceCapture>>, Error> {
        let Some(mut scope) = self.context.scope() else { return Ok(None) };
        scope.bounds.time = self.deadline.saturating_duration_since(Instant::now());
        Ok(Some(Box::new(mp.capture_workspace(&self.run, &scope)?)))
    }

    /// The context is about to be made smaller. Gemini says so before every call of its model.
    fn compaction(&self, ask: bool) -> Result<Option<String>, CommandError> {
        let mp = self.context.open_or_create()?;
        if self.agent.announces_every_call && !mp.is_due(&self.run, None)? {
            return Ok(None);
        }
        let mut save = self.save().reason("pre_compaction");
        save.capture = self.capture_workspace(&mp)?;
        save.draft.files.extend(self.transcript());
        mp.save(&self.run, save)?;
        if !ask {
            return Ok(None);
        }
        let text = offer::whole(&mp, self.agent, &mp.assess(&self.run, false)?, self.context)?;
        Ok(offer::answer(self.agent, &self.event.name, text, &mp, self.context))
    }

    /// The turn is over, or does not go on: who looks at the run is told why it stands still.
    fn rest(&self, class: InterruptionKind, detail: Option<String>) -> Result<(), CommandError> {
        let mp = self.context.open_or_create()?;
        let Some(state) = mp.store().run(&self.run)? else { return Ok(()) };
        let detail = detail.map(|detail| bounded(&detail, 500).to_owned());
        let interruption = Interruption { class, at: mp.now(), detail };
        if state.row.count > 0 && (mp.is_due(&self.run, None)? || class != InterruptionKind::WaitingForUser) {
            let mut save = self.save();
            save.draft.source = (class != InterruptionKind::WaitingForUser).then_some(Source::ErrorBoundary);
            save.interruption = Some(interruption);
            save.capture = self.capture_workspace(&mp)?;
            mp.save(&self.run, save)?;
            return Ok(());
        }
        let same = state.row.record.as_ref().ok().and_then(|record| record.interruption.as_ref());
        if same.is_none_or(|noted| noted.class != class) {
            mp.interrupt(&self.run, &interruption)?;
        }
        Ok(())
    }

    /// The session is over. One in which nothing happened leaves nothing behind.
    fn end(&self) -> Result<(), CommandError> {
        let mp = self.context.open_or_create()?;
        if mp.store().run(&self.run)?.is_none() || mp.abandon(&self.run)? {
            return Ok(());
        }
        let detail = mp.run_detail(&self.run)?;
        let open = detail
            .summary
            .record
            .as_ref()
            .is_ok_and(|record| record.working.tasks.iter().any(|task| !task.has_ended()));
        let mut save = self.save();
        save.capture = self.capture_workspace(&mp)?;
        save.draft.files.extend(self.transcript());
        let status = if open { Status::Paused } else { Status::Completed };
        mp.finish(&self.run, FinishOptions { status, save })?;
        Ok(())
    }

    /// The agent's own record of the conversation, by reference.
    fn transcript(&self) -> Option<FileRef> {
        let path = self.event.transcript.as_ref()?;
        milepost::internal::capture::reference(path, self.deadline).ok()
    }
}
