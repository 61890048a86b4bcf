//! A case with two handovers, in three sessions of one agent. The user states a constraint in the second prompt
//! of the first session. The first two sessions are killed while they work. The first request of the third one
//! must contain the constraint, the unfixed failure and the agent's last message.
//!
//! The agents take one prompt per headless process. The first session therefore consists of two processes, and
//! the second one continues it with the agent's own option for that.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::agent::Invocation;
use super::case::{
    Case, HOOKS, LEAD, NEXT_PROMPT, PROMPT, WORK, check_request, first_request, wait_until_model_hangs,
};
use super::endpoint::{COMMAND, FILE, LAST_MESSAGE, ModelScript, OPEN, OTHER_COMMAND};
use super::sandbox::{RunningAgent, Sandbox};

/// The second prompt of the first session, with a constraint.
const SECOND_PROMPT: &str = "Go on with the lexer. Never touch the billing folder.";
/// The prompt of the second session.
const THIRD_PROMPT: &str = "Look at the history of the lexer.";

impl Case {
    pub(super) fn hand_over_twice(&self, sandbox: &Sandbox) -> Result<()> {
        let first = self.run_first_session(sandbox).context("first session")?;
        let second = self.run_second_session(sandbox, &first).context("second session")?;
        self.run_third_session(sandbox, &second).context("third session")
    }

    /// Ends one turn normally, continues the session with a second prompt and kills the agent. Returns the run.
    fn run_first_session(&self, sandbox: &Sandbox) -> Result<String> {
        let turn = Invocation::new(ModelScript::Turn, PROMPT, self.scope);
        sandbox.start(self.worker.command(sandbox, &turn), "turn")?.wait_for_end(WORK)?;
        let status = sandbox.query(&["status"])?;
        let run = status["stopped"][0]["run_id"].as_str().unwrap_or_default().to_owned();
        ensure!(
            run.starts_with(&format!("{}-", self.worker.name)),
            "expected a run of {}, but status is {status}",
            self.worker.name
        );
        self.report("first turn", &run);

        let before = sandbox.endpoint.requests()?.len();
        let next_turn = Invocation {
            continues: true,
            ..Invocation::new(ModelScript::NextTurn, SECOND_PROMPT, self.scope)
        };
        let mut agent = sandbox.start(self.worker.command(sandbox, &next_turn), "next-turn")?;
        wait_until_model_hangs(&mut agent, sandbox, before)?;
        let text = first_request(sandbox, before)?;
        // The agent itself remembers the first turn, so a brief would repeat it.
        check_request(&text, &[PROMPT, LAST_MESSAGE, SECOND_PROMPT])?;
        ensure!(!text.contains(LEAD), "expected no brief in a session that the agent continues: {text}");
        let continued = wait_for_brief(&mut agent, sandbox, &[SECOND_PROMPT, LAST_MESSAGE, OTHER_COMMAND])?;
        ensure!(continued == run, "expected the second prompt in {run}, but it is in {continued}");
        self.report("second turn", SECOND_PROMPT);
        self.kill(&mut agent)?;
        self.check_interrupted(sandbox, &run)?;
        Ok(run)
    }

    /// Checks the first request of a new session and kills the agent. Returns the run of the session.
    fn run_second_session(&self, sandbox: &Sandbox, first: &str) -> Result<String> {
        let before = sandbox.endpoint.requests()?.len();
        let more = Invocation::new(ModelScript::More, THIRD_PROMPT, self.scope);
        let mut agent = sandbox.start(self.worker.command(sandbox, &more), "second")?;
        wait_until_model_hangs(&mut agent, sandbox, before)?;
        check_handover(&first_request(sandbox, before)?, THIRD_PROMPT)?;
        let second = wait_for_brief(&mut agent, sandbox, &[THIRD_PROMPT, OTHER_COMMAND])?;
        ensure!(second != first, "expected a new run, but the second session continues to record {first}");
        self.report("informed", &second);
        self.kill(&mut agent)?;
        self.check_interrupted(sandbox, &second)?;
        Ok(second)
    }

    /// Checks the first request of another new session, which must know about both earlier ones.
    fn run_third_session(&self, sandbox: &Sandbox, second: &str) -> Result<()> {
        let before = sandbox.endpoint.requests()?.len();
        let talk = Invocation::new(ModelScript::Talk, NEXT_PROMPT, self.scope);
        sandbox.start(self.worker.command(sandbox, &talk), "third")?.wait_for_end(WORK)?;
        let text = first_request(sandbox, before)?;
        check_handover(&text, NEXT_PROMPT)?;
        check_request(&text, &[THIRD_PROMPT, second])?;
        self.report("informed", "constraint, unfixed failure and last message after two handovers");
        let status = sandbox.query(&["status"])?;
        ensure!(status["hook_failures"] == Value::Array(vec![]), "expected no hook to fail: {status}");
        Ok(())
    }

    fn kill(&self, agent: &mut RunningAgent) -> Result<()> {
        self.report("killed", &agent.kill()?.to_string());
        Ok(())
    }
}

/// Checks the first request of a session that follows the first one.
fn check_handover(text: &str, prompt: &str) -> Result<()> {
    check_request(text, &[prompt, LEAD])?;
    let brief = &text[text.find(LEAD).unwrap_or_default()..];
    let file = format!("| `{FILE}` | created | not committed |");
    check_request(brief, &[PROMPT, SECOND_PROMPT, OPEN[0], OPEN[1], &file])?;
    let start = format!("`{COMMAND}` failed");
    let failed: Vec<_> = brief.lines().filter(|line| line.contains(&start)).collect();
    ensure!(
        matches!(failed[..], [line] if line.contains("not seen to pass since")),
        "expected {COMMAND:?} once, as an unfixed failure, but found {failed:?}"
    );
    let last = brief.lines().find(|line| line.contains("The agent's last message")).unwrap_or_default();
    ensure!(
        last.ends_with(LAST_MESSAGE),
        "expected {LAST_MESSAGE:?} as the agent's last message, but found {last:?}"
    );
    Ok(())
}

/// Waits until the brief of the live run contains every wanted text. Returns the run.
fn wait_for_brief(agent: &mut RunningAgent, sandbox: &Sandbox, wanted: &[&str]) -> Result<String> {
    let mut seen = String::new();
    let found = agent.wait_until(HOOKS, "everything in the store", || {
        let status = sandbox.query(&["status"])?;
        let Some(run) = status["live"][0]["run_id"].as_str() else {
            seen = format!("expected a live run, but status is {status}");
            return Ok(None);
        };
        let resume = sandbox.query(&["resume", run])?;
        let brief = resume["brief"].as_str().unwrap_or_default();
        seen = format!("expected {wanted:?} in the brief, which is {brief}");
        Ok(wanted.iter().all(|text| brief.contains(text)).then(|| run.to_owned()))
    });
    found.with_context(|| seen)
}
