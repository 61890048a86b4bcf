//! One case: an agent works and is killed; another, or the same again, must be told what was left.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::agent::Agent;
use super::endpoint::{COMMAND, COMPLAINT, FILE, Mood, OPEN};
use super::place::{Place, Scope};

/// How long an agent may take for what the model tells it, and for what its hooks do after that.
const WORK: Duration = Duration::from_secs(180);
const HOOKS: Duration = Duration::from_secs(20);

const PROMPT: &str = "Build the parser.";
const NEXT_PROMPT: &str = "Say hello.";

/// How the text begins that a new session is given.
const LEAD: &str = "Milepost: earlier work";

pub(super) struct Case {
    pub(super) worker: &'static Agent,
    pub(super) heir: &'static Agent,
    pub(super) scope: Scope,
}

impl Case {
    pub(super) fn name(&self) -> String {
        match (self.worker.name == self.heir.name, self.scope) {
            (true, Scope::User) => self.worker.name.to_owned(),
            (true, Scope::Project) => format!("{} --project", self.worker.name),
            (false, _) => format!("{} -> {}", self.worker.name, self.heir.name),
        }
    }

    /// Prints a line for everything that held; where something did not, the files stay and are named.
    pub(super) fn run(&self, milepost: &Path) -> Result<()> {
        let place = Place::new(milepost)?;
        let Err(failure) = self.play(&place) else { return Ok(()) };
        Err(failure.context(format!("its files are in {}", place.keep().display())))
    }

    fn play(&self, place: &Place) -> Result<()> {
        self.set_up(place)?;
        let run = self.work(place).context("works")?;
        self.is_interrupted(place, &run).context("interrupted")?;
        self.is_told(place).context("told")?;
        self.goes_on(place, &run).context("goes on")
    }

    fn held(&self, what: &str, detail: &str) {
        println!("{:<32} {what:<11} ok: {detail}", self.name());
    }

    fn set_up(&self, place: &Place) -> Result<()> {
        let agents =
            if self.worker.name == self.heir.name { vec![self.heir] } else { vec![self.worker, self.heir] };
        for agent in agents {
            agent.prepare(place, self.scope)?;
            let mut words = vec!["agents", "install", agent.name, "--yes"];
            words.extend((self.scope == Scope::Project).then_some("--project"));
            place.milepost(&words).context("set up")?;
        }
        let named = |all: &Value| all["agents"].as_array().into_iter().flatten().cloned().collect::<Vec<_>>();
        let standing = named(&place.ask(&["agents", "status"])?);
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
        self.held("set up", &format!("{} parts for the {scope}", states.len()));
        Ok(())
    }

    /// Lets the worker work until its model answers no more and its hooks have told everything; then kills it. Gives its run.
    fn work(&self, place: &Place) -> Result<String> {
        let mut agent = place.start(self.worker.command(place, Mood::Work, PROMPT, self.scope), "worker")?;
        let asked = || {
            let hangs = |request: &Value| request["answer"]["hang"] == true;
            Ok(place.endpoint.requests()?.iter().any(hangs).then_some(()))
        };
        agent.until(WORK, "a to-do list, a file and a command", asked)?;
        let mut missing = String::new();
        let told = agent.until(HOOKS, "everything in the store", || {
            let status = place.ask(&["status"])?;
            let Some(run) = status["live"][0]["run_id"].as_str() else {
                missing = format!("expected a live run, but status is {status}");
                return Ok(None);
            };
            let resume = place.ask(&["resume", run])?;
            Ok(match arrived(&resume) {
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
        self.held("hooks", &run);
        self.held("outcomes", &failed);
        self.held("files", FILE);
        self.held("tasks", &OPEN.join(", "));
        let status = agent.kill()?;
        self.held("killed", &status.to_string());
        Ok(run)
    }

    fn is_interrupted(&self, place: &Place, run: &str) -> Result<()> {
        let mut status = place.ask(&["status"])?;
        // What was killed with the head of the group may take a moment to go.
        for _ in 0..50 {
            if status["live"] == json!([]) {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
            status = place.ask(&["status"])?;
        }
        let stopped = &status["stopped"][0];
        ensure!(
            stopped["run_id"] == run && stopped["class"] == "process_crash" && status["live"] == json!([]),
            "expected {run} to be stopped by a process_crash, but status is {status}"
        );
        ensure!(status["hook_failures"] == json!([]), "expected no hook to fail, but status is {status}");
        let resume = place.ask(&["resume"])?;
        let decision = &resume["decision"];
        ensure!(
            decision["run_id"] == run && decision["eligible"] == true,
            "expected {run} to be resumable, but it is {decision}"
        );
        arrived(&resume)?;
        self.held("interrupted", "process_crash, resume_allowed");
        Ok(())
    }

    /// Starts the heir, and looks at the first request of its conversation.
    fn is_told(&self, place: &Place) -> Result<()> {
        let before = place.endpoint.requests()?.len();
        let mut agent = place.start(self.heir.command(place, Mood::Talk, NEXT_PROMPT, self.scope), "heir")?;
        agent.end(WORK)?;
        let requests = place.endpoint.requests()?.split_off(before);
        // What makes up a title has no tools.
        let first =
            requests.iter().find(|request| request["tools"].as_array().is_some_and(|all| !all.is_empty()));
        let first =
            first.with_context(|| format!("expected a request to the model, but there was {requests:?}"))?;
        let text = words(&first["body"]);
        let brief = text.find(LEAD).map_or("nothing of Milepost", |at| &text[at..]);
        let end = brief.char_indices().nth(3000).map_or(brief.len(), |(at, _)| at);
        for wanted in [NEXT_PROMPT, LEAD, FILE, OPEN[0], OPEN[1], COMMAND, COMPLAINT] {
            ensure!(
                text.contains(wanted),
                "expected {wanted:?} in the first request, which has {}",
                &brief[..end]
            );
        }
        self.held("told", "the first request names the file, the open to-dos and the failed command");
        Ok(())
    }

    /// The heir's run goes on with the dead one, which is offered to nobody else.
    fn goes_on(&self, place: &Place, run: &str) -> Result<()> {
        let claimed = place.ask(&["resume", run])?;
        ensure!(
            claimed["decision"]["reason_code"] == "resume_claimed",
            "expected {run} to be claimed, but it is {}",
            claimed["decision"]
        );
        let status = place.ask(&["status"])?;
        let next = status["stopped"][0]["run_id"].as_str().unwrap_or_default().to_owned();
        ensure!(
            next.starts_with(self.heir.name) && next != run,
            "expected the heir's run, but status is {status}"
        );
        // Whoever comes after it must be told the same.
        arrived(&place.ask(&["resume", &next])?)?;
        ensure!(status["hook_failures"] == json!([]), "expected no hook to fail, but status is {status}");
        self.held("goes on", &next);
        Ok(())
    }
}

/// Whether a run holds what the model has done; gives what failed.
fn arrived(resume: &Value) -> Result<String> {
    let failed = resume["about"]["failed"].as_str().unwrap_or_default();
    let wanted = format!("{COMMAND} (exit_1)");
    ensure!(
        failed.starts_with(&wanted) && failed.contains(COMPLAINT),
        "expected {wanted:?} with {COMPLAINT:?} as what failed last, but it is {failed:?}"
    );
    let next = &resume["decision"]["next_actions"];
    ensure!(*next == json!(OPEN), "expected {OPEN:?} as open to-dos, but they are {next}");
    let brief = resume["brief"].as_str().unwrap_or_default();
    let row = format!("| `{FILE}` |");
    ensure!(brief.contains(&row), "expected {row:?} in the brief, which is {brief}");
    Ok(failed.to_owned())
}

/// All texts of a document, one after the other.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Array(all) => all.iter().map(words).collect(),
        Value::Object(all) => all.values().map(words).collect(),
        _ => String::new(),
    }
}
