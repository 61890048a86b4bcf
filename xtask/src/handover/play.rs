//! Plays a story as an agent. Takes a story and the agent under test, and returns the text that Milepost adds
//! to the context of a new session after the story's last one. Sessions run one after another, each in a
//! process of its own unless the user cleared the context.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::agents::{AgentKind, Report, Reporter, SessionIdentity, SessionSource, reporter};
use super::process::AgentProcess;
use super::sandbox::Sandbox;
use super::story::{Event, Session, SessionEnd, Story};

/// Plays a story. Returns an empty text if Milepost adds nothing.
pub fn play(milepost: &Path, story: &Story, agent: AgentKind) -> Result<String> {
    let mut player =
        Player { sandbox: Sandbox::new(milepost, story)?, process: None, source: SessionSource::Startup };
    for (n, session) in (1..).zip(&story.sessions) {
        player
            .session(n, session, session.agent.unwrap_or(agent))
            .with_context(|| format!("{} as {agent}: session {n}", story.name))?;
    }
    player.next_session(story.sessions.len() + 1, agent)
}

struct Player {
    sandbox: Sandbox,
    /// The process of a session whose context was cleared. The next session runs in it.
    process: Option<AgentProcess>,
    source: SessionSource,
}

/// A session in progress.
struct RunningSession {
    process: AgentProcess,
    reporter: Box<dyn Reporter>,
    transcript: PathBuf,
}

impl RunningSession {
    fn send(&mut self, reports: Vec<Report>) -> Result<Option<String>> {
        let mut context = None;
        for report in &reports {
            context = self.process.send(report, &self.transcript)?.or(context);
        }
        Ok(context)
    }
}

impl Player {
    /// Starts a session. Returns it with the text that Milepost adds to its context.
    fn start(&mut self, n: usize, agent: AgentKind) -> Result<(RunningSession, Option<String>)> {
        let identity = SessionIdentity::new(agent, n, &self.sandbox.home, &self.sandbox.project);
        let (process, source) = match self.process.take() {
            Some(process) if process.agent == agent => (process, self.source),
            _ => (AgentProcess::start(agent, &self.sandbox)?, SessionSource::Startup),
        };
        let transcript = identity.transcript.clone();
        let mut session = RunningSession { process, reporter: reporter(agent, identity), transcript };
        let reports = session.reporter.start(source);
        let context = session.send(reports)?;
        if let Some(text) = &context {
            session.reporter.receive_context(text);
        }
        Ok((session, context))
    }

    fn session(&mut self, n: usize, session: &Session, agent: AgentKind) -> Result<()> {
        let (mut running, _) = self.start(n, agent)?;
        for (at, event) in (1..).zip(&session.events) {
            self.event(event, &mut running).with_context(|| format!("event {at}"))?;
        }
        let reports = running.reporter.session_end(session.end);
        running.send(reports)?;
        match session.end {
            SessionEnd::Exit => running.process.exit()?,
            SessionEnd::Clear => {
                (self.process, self.source) = (Some(running.process), SessionSource::Clear);
            }
            // After a failed turn the agent waits until its terminal is closed.
            SessionEnd::Kill | SessionEnd::Limit | SessionEnd::Error => running.process.kill()?,
        }
        Ok(())
    }

    fn event(&mut self, event: &Event, running: &mut RunningSession) -> Result<()> {
        let call = self.sandbox.apply(event)?;
        let reporter = &mut running.reporter;
        let reports = match (event, &call) {
            (Event::Prompt(text), _) => reporter.prompt(text),
            (Event::Say(text), _) => reporter.turn_end(text),
            (_, Some(call)) => reporter.tool(call),
            (_, None) => reporter.compaction(),
        };
        running.send(reports)?;
        Ok(())
    }

    /// Starts the session after the story. Returns the text that Milepost adds to its context.
    fn next_session(&mut self, n: usize, agent: AgentKind) -> Result<String> {
        let (session, context) = self.start(n, agent)?;
        session.process.kill()?;
        Ok(context.unwrap_or_default())
    }
}
