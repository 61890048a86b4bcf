//! One case: an agent works and is killed, and the next session, of the same agent or another, must receive a
//! description of the unfinished work. The steps of a case with two handovers are in `two_handovers`.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::agent::{Agent, Invocation};
use super::endpoint::{COMMAND, COMPLAINT, FILE, ModelScript, OPEN};
use super::sandbox::{RunningAgent, Sandbox, Scope};

/// Time limits for the work that the model requests, and for the hooks that follow it.
pub(super) const WORK: Duration = Duration::from_secs(180);
pub(super) const HOOKS: Duration = Duration::from_secs(20);

pub(super) const PROMPT: &str = "Build the parser.";
pub(super) const NEXT_PROMPT: &str = "Say hello.";

/// Start of the text that Milepost adds to a new session.
pub(super) const LEAD: &str = "Milepost: earlier work";

pub(super) struct Case {
    pub(super) worker: &'static Agent,
    pub(super) successor: &'static Agent,
    pub(super) scope: Scope,
    pub(super) handovers: Handovers,
}

/// How often the work is handed over to a new session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handovers {
    One,
    Two,
}

impl Case {
    pub(super) fn name(&self) -> String {
        if self.handovers == Handovers::Two {
            return format!("{}, two handovers", self.worker.name);
        }
        match (self.worker.name == self.successor.name, self.scope) {
            (true, Scope::User) => self.worker.name.to_owned(),
            (true, Scope::Project) => format!("{} --project", self.worker.name),
            (true, Scope::Plugin) => format!("{}, plugin", self.worker.name),
            (true, Scope::UserAndPlugin) => format!("{}, and plugin", self.worker.name),
            (false, _) => format!("{} -> {}", self.worker.name, self.successor.name),
        }
    }

    /// Prints one line per passed check. On failure, keeps the sandbox and names its folder in the error.
    pub(super) fn run(&self, milepost: &Path) -> Result<()> {
        let sandbox = Sandbox::new(milepost)?;
        let Err(failure) = self.run_steps(&sandbox) else { return Ok(()) };
        Err(failure.context(format!("the sandbox is kept in {}", sandbox.keep().display())))
    }

    fn run_steps(&self, sandbox: &Sandbox) -> Result<()> {
        self.set_up(sandbox)?;
        if self.handovers == Handovers::Two {
            return self.hand_over_twice(sandbox);
        }
        let run = self.work_until_killed(sandbox).context("work")?;
        self.check_interrupted(sandbox, &run).context("interrupted")?;
        self.check_first_request(sandbox).context("first request")?;
        self.check_continued(sandbox, &run).context("continued")
    }

    pub(super) fn report(&self, what: &str, detail: &str) {
        println!("{:<32} {what:<11} ok: {detail}", self.name());
    }

    fn set_up(&self, sandbox: &Sandbox) -> Result<()> {
        let agents = if self.worker.name == self.successor.name {
            vec![self.successor]
        } else {
            vec![self.worker, self.successor]
        };
        for agent in agents {
            agent.prepare(sandbox, self.scope)?;
            if self.scope == Scope::Plugin {
                continue;
            }
            let mut words = vec!["agents", "install", agent.name, "--yes"];
            words.extend((self.scope == Scope::Project).then_some("--project"));
            sandbox.milepost(&words).context("set up")?;
        }
        if self.scope.has_plugin() {
            return self.set_up_plugin(sandbox).context("plugin");
        }
        let named = |all: &Value| all["agents"].as_array().into_iter().flatten().cloned().collect::<Vec<_>>();
        let standing = named(&sandbox.query(&["agents", "status"])?);
        let standing = standing.iter().find(|agent| agent["agent"] == self.worker.name);
        let scope = if self.scope == Scope::Project { "project" } else { "user" };
        let scopes = standing.and_then(|agent| agent["scopes"].as_array()).into_iter().flatten();
        let parts = scopes
            .filter(|it| it["scope"] == scope)
            .flat_map(|it| it["parts"].as_array().into_iter().flatten());
        let states: Vec<_> = parts.map(|part| part["state"].clone()).collect();
        ensure!(
            !states.is_empty() && states.iter().all(|state| state == "current"),
            "set up: expected every part to be current, but they are {states:?}"
        );
        self.report("set up", &format!("{} parts in {scope} scope", states.len()));
        Ok(())
    }

    /// Installs the plugin, which `agents status` must report. Without another set-up, `agents install` must not add one.
    fn set_up_plugin(&self, sandbox: &Sandbox) -> Result<()> {
        self.worker.install_plugin(sandbox)?;
        let status = sandbox.query(&["agents", "status", self.worker.name])?;
        ensure!(status["agents"][0]["plugin"].is_string(), "expected the plugin to be reported: {status}");
        let installed = &status["agents"][0]["scopes"][0]["installed"];
        ensure!(*installed == (self.scope == Scope::UserAndPlugin), "expected one set-up: {status}");
        if self.scope == Scope::Plugin {
            let said = sandbox.milepost(&["agents", "install", self.worker.name, "--yes"])?;
            ensure!(said.contains("has Milepost's plugin"), "expected nothing to be set up: {said}");
        }
        self.report("set up", "the plugin, by the agent's own command");
        Ok(())
    }

    /// Lets the worker run until the model stops replying and the hooks have recorded everything, then kills
    /// it. Returns the id of its run.
    fn work_until_killed(&self, sandbox: &Sandbox) -> Result<String> {
        let invocation = Invocation::new(ModelScript::Work, PROMPT, self.scope);
        let mut agent = sandbox.start(self.worker.command(sandbox, &invocation), "worker")?;
        wait_until_model_hangs(&mut agent, sandbox, 0)?;
        let mut missing = String::new();
        let told = agent.wait_until(HOOKS, "everything in the store", || {
            let status = sandbox.query(&["status"])?;
            let Some(run) = status["live"][0]["run_id"].as_str() else {
                missing = format!("expected a live run, but status is {status}");
                return Ok(None);
            };
            let resume = sandbox.query(&["resume", run])?;
            Ok(match check_recorded_work(&resume) {
                Ok(failed) => Some((run.to_owned(), failed)),
                Err(e) => {
                    missing = e.to_string();
                    None
                }
            })
        });
        let (run, failed) = told.with_context(|| missing)?;
        let starts = format!("{}-", self.worker.name);
        ensure!(run.starts_with(&starts), "expected a run of {}, but it is {run}", self.worker.name);
        check_recorded_once(sandbox)?;
        if self.scope == Scope::Plugin {
            self.check_mcp_server(sandbox)?;
        }
        self.report("hooks", &run);
        self.report("outcomes", &failed);
        self.report("files", FILE);
        self.report("tasks", &OPEN.join(", "));
        let status = agent.kill()?;
        self.report("killed", &status.to_string());
        Ok(run)
    }

    /// Checks that the plugin's MCP server offers its tools to the model.
    fn check_mcp_server(&self, sandbox: &Sandbox) -> Result<()> {
        let requests = sandbox.endpoint.requests()?;
        let named = requests.iter().find(|request| request["body"]["tools"].to_string().contains("milepost"));
        ensure!(named.is_some(), "expected tools of milepost in a request");
        self.report("MCP server", "its tools are in a request");
        Ok(())
    }

    /// Checks that a run was interrupted, can be resumed and describes the work.
    pub(super) fn check_interrupted(&self, sandbox: &Sandbox, run: &str) -> Result<()> {
        let mut status = sandbox.query(&["status"])?;
        // The other processes of the killed group may take a moment to end.
        for _ in 0..50 {
            if status["live"] == json!([]) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            status = sandbox.query(&["status"])?;
        }
        let stopped = &status["stopped"][0];
        ensure!(
            stopped["run_id"] == run && stopped["class"] == "process_crash" && status["live"] == json!([]),
            "expected {run} to be stopped by a process_crash, but status is {status}"
        );
        ensure!(status["hook_failures"] == json!([]), "expected no hook to fail, but status is {status}");
        let resume = sandbox.query(&["resume"])?;
        let decision = &resume["decision"];
        ensure!(
            decision["run_id"] == run && decision["eligible"] == true,
            "expected {run} to be resumable, but it is {decision}"
        );
        check_recorded_work(&resume)?;
        self.report("interrupted", "process_crash, resume_allowed");
        Ok(())
    }

    /// Starts the successor and checks the first request of its conversation.
    fn check_first_request(&self, sandbox: &Sandbox) -> Result<()> {
        let before = sandbox.endpoint.requests()?.len();
        let invocation = Invocation::new(ModelScript::Talk, NEXT_PROMPT, self.scope);
        let mut agent = sandbox.start(self.successor.command(sandbox, &invocation), "successor")?;
        agent.wait_for_end(WORK)?;
        let wanted = [NEXT_PROMPT, LEAD, FILE, OPEN[0], OPEN[1], COMMAND, COMPLAINT];
        check_request(&first_request(sandbox, before)?, &wanted)?;
        self.report("informed", "the first request names the file, the open to-dos and the failed command");
        Ok(())
    }

    /// Checks that the successor's run has claimed the interrupted one, which is then not offered again.
    fn check_continued(&self, sandbox: &Sandbox, run: &str) -> Result<()> {
        let claimed = sandbox.query(&["resume", run])?;
        ensure!(
            claimed["decision"]["reason_code"] == "resume_claimed",
            "expected {run} to be claimed, but it is {}",
            claimed["decision"]
        );
        let status = sandbox.query(&["status"])?;
        let next = status["stopped"][0]["run_id"].as_str().unwrap_or_default().to_owned();
        ensure!(
            next.starts_with(self.successor.name) && next != run,
            "expected the successor's run, but status is {status}"
        );
        // The session after it must receive the same information.
        check_recorded_work(&sandbox.query(&["resume", &next])?)?;
        ensure!(status["hook_failures"] == json!([]), "expected no hook to fail, but status is {status}");
        self.report("continued", &next);
        Ok(())
    }
}

/// Waits until the model has done its work and stops replying. Ignores the first `before` requests.
pub(super) fn wait_until_model_hangs(
    agent: &mut RunningAgent,
    sandbox: &Sandbox,
    before: usize,
) -> Result<()> {
    agent.wait_until(WORK, "a request after the model's last step", || {
        let hangs = |request: &Value| request["answer"]["hang"] == true;
        Ok(sandbox.endpoint.requests()?.iter().skip(before).any(hangs).then_some(()))
    })
}

/// The text of the first request of a conversation, after the first `before` requests.
pub(super) fn first_request(sandbox: &Sandbox, before: usize) -> Result<String> {
    let requests = sandbox.endpoint.requests()?.split_off(before);
    // Requests that only generate a title have no tools.
    let first =
        requests.iter().find(|request| request["tools"].as_array().is_some_and(|all| !all.is_empty()));
    let first = first.with_context(|| format!("expected a request with tools, but got {requests:?}"))?;
    Ok(collect_texts(&first["body"]))
}

/// Checks that the text of a request contains every wanted text.
pub(super) fn check_request(text: &str, wanted: &[&str]) -> Result<()> {
    let brief = text.find(LEAD).map_or("no text from Milepost", |at| &text[at..]);
    let end = brief.char_indices().nth(3000).map_or(brief.len(), |(at, _)| at);
    for wanted in wanted {
        ensure!(
            text.contains(wanted),
            "expected {wanted:?} in the first request, which contains {}",
            &brief[..end]
        );
    }
    Ok(())
}

/// Checks that the prompt was recorded, but not by two hooks.
fn check_recorded_once(sandbox: &Sandbox) -> Result<()> {
    let shown = sandbox.query(&["show"])?;
    let messages = [&shown["messages"], &shown["since"]["messages"]].map(|all| all.as_array().cloned());
    let prompts: Vec<_> =
        messages.into_iter().flatten().flatten().filter(|message| message["kind"] == "prompt").collect();
    ensure!(prompts.len() == 1, "expected one prompt, but found {prompts:?}");
    Ok(())
}

/// Checks that a run records the model's work. Returns the failed command.
fn check_recorded_work(resume: &Value) -> Result<String> {
    let failed = resume["about"]["failed"].as_str().unwrap_or_default();
    let wanted = format!("{COMMAND} (exit_1)");
    ensure!(
        failed.starts_with(&wanted) && failed.contains(COMPLAINT),
        "expected {wanted:?} with {COMPLAINT:?} as the last failure, but it is {failed:?}"
    );
    let next = &resume["decision"]["next_actions"];
    ensure!(*next == json!(OPEN), "expected {OPEN:?} as open to-dos, but they are {next}");
    let brief = resume["brief"].as_str().unwrap_or_default();
    let row = format!("| `{FILE}` |");
    ensure!(brief.contains(&row), "expected {row:?} in the brief, which is {brief}");
    Ok(failed.to_owned())
}

/// All strings in a JSON value, one after the other.
fn collect_texts(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Array(all) => all.iter().map(collect_texts).collect(),
        Value::Object(all) => all.values().map(collect_texts).collect(),
        _ => String::new(),
    }
}
