//! Breaks the network at every request of every kind of command: before the request reaches the server, on the way
//! of its reply, for a moment and for good. A command must end in time, with the right output or an error, and must
//! leave its change on the server once or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use milepost_testkit::postgres::{ClusterOptions, PrivateCluster, Proxy, RequestFault};
use serde_json::Value;

use super::client::{Client, reported_error, waits};
use super::cut_commands::{COMMANDS, CutCommand, Effect, content, copy_database, prepare};
use crate::faults::project::CommandOutput;
use crate::faults::{Environment, Outcome, run_threads};

/// Waiting time of each command.
const WAIT: Duration = Duration::from_secs(2);
/// How much longer a command may take than without faults and with the waiting time, on a busy machine.
const MARGIN: Duration = Duration::from_millis(1500);
/// Number of commands at the same time. Most of them wait for a network that is down.
const WORKERS: usize = 4;

const FAULTS: [RequestFault; 7] = [
    RequestFault::Lost,
    RequestFault::ReplyLost,
    RequestFault::Late,
    RequestFault::Stalled,
    RequestFault::ReplyStalled,
    RequestFault::NetworkDown,
    RequestFault::Delayed,
];

/// A command without faults.
struct Expected {
    /// What it prints, without the address of the store.
    output: String,
    /// Whether a second run prints the same, and not only the same except for numbers.
    is_exact: bool,
    requests: Vec<Vec<u8>>,
    /// How long it takes, recorded on the same machine.
    duration: Duration,
    before: Value,
    after: Value,
}

/// What all trials share.
struct Setup<'a> {
    cluster: &'a PrivateCluster,
    client: Client,
    next: AtomicUsize,
}

/// What happened in all trials.
#[derive(Default)]
struct Totals {
    succeeded: usize,
    failed: BTreeMap<String, usize>,
    unknown: usize,
    longest: Duration,
    violations: Vec<String>,
}

pub fn run(env: &Environment) -> Result<Outcome> {
    let cluster = match super::start(ClusterOptions::new().without_fsync())? {
        Ok(cluster) => cluster,
        Err(reason) => return Ok(Outcome::Skipped(reason)),
    };
    let setup = Setup { cluster: &cluster, client: Client::new(env)?, next: AtomicUsize::new(0) };
    cluster.sql("postgres", "CREATE DATABASE base")?;
    prepare(&setup.client, &cluster.url("base"))?;
    let mut trials = Vec::new();
    let expected: Vec<Expected> = COMMANDS.iter().map(|one| setup.expect(one)).collect::<Result<_>>()?;
    for (command, expected) in expected.iter().enumerate() {
        for number in 1..=expected.requests.len() {
            trials.extend(FAULTS.map(|fault| (command, number, fault)));
        }
    }
    let step = env.pick(37, 1);
    let trials: Vec<_> = trials.into_iter().step_by(step).collect();
    let (next, totals) = (AtomicUsize::new(0), Mutex::new(Totals::default()));
    run_threads(WORKERS, |_| {
        while let Some((command, number, fault)) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (one, expected) = (&COMMANDS[*command], &expected[*command]);
            let tried = setup.try_fault(one, expected, *number as u64, *fault, &totals);
            if let Err(e) = tried {
                let statement = statement(&expected.requests[number - 1]);
                let violation = format!("{}, request {number} ({statement}), {fault:?}: {e:#}", one.name);
                lock(&totals).violations.push(violation);
            }
        }
        Ok(())
    })?;
    let totals = totals.into_inner().unwrap_or_else(|e| e.into_inner());
    if !totals.violations.is_empty() {
        bail!(
            "{} of {} trials:\n  {}",
            totals.violations.len(),
            trials.len(),
            totals.violations.join("\n  ")
        );
    }
    let statements: BTreeSet<_> =
        expected.iter().flat_map(|one| &one.requests).map(|r| statement(r)).collect();
    Ok(Outcome::Passed(format!(
        "{} trials with {} commands and {} kinds of requests: {} succeeded, {} failed {:?}, {} unknown; longest {:.1} s",
        trials.len(),
        COMMANDS.len(),
        statements.len(),
        totals.succeeded,
        totals.failed.values().sum::<usize>(),
        totals.failed,
        totals.unknown,
        totals.longest.as_secs_f64()
    )))
}

fn lock(totals: &Mutex<Totals>) -> std::sync::MutexGuard<'_, Totals> {
    totals.lock().unwrap_or_else(|e| e.into_inner())
}

impl Setup<'_> {
    /// A new copy of the store, and its address without a proxy.
    fn new_store(&self) -> Result<(String, String)> {
        let name = format!("trial_{}", self.next.fetch_add(1, Ordering::Relaxed));
        copy_database(self.cluster, "base", &name)?;
        let url = self.cluster.url(&name);
        Ok((name, url))
    }

    fn run(&self, command: &CutCommand, database: &str, proxy: &Proxy) -> Result<CommandOutput> {
        let store = self.cluster.url_at(proxy.address(), database)?;
        self.run_directly(command, &store)
    }

    fn run_directly(&self, command: &CutCommand, store: &str) -> Result<CommandOutput> {
        let args = command.args.iter().map(|arg| if *arg == "{store}" { store } else { arg });
        let wait = WAIT.as_secs().to_string();
        let args: Vec<&str> = args.chain(["--json", "--wait", &wait]).collect();
        self.client.run(store, &args)
    }

    /// Runs a command without faults, and records its requests.
    fn expect(&self, command: &CutCommand) -> Result<Expected> {
        let proxy = Proxy::start(self.cluster.target()?)?;
        let (database, url) = self.new_store()?;
        let before = content(&self.client, &url)?;
        proxy.record_requests();
        let output = self.run(command, &database, &proxy)?.expect(0)?;
        let requests = proxy.take_recorded();
        let after = content(&self.client, &url)?;
        ensure!(
            (before == after) == (command.effect == Effect::Reads),
            "{} has another effect",
            command.name
        );
        let again = without_address(&self.run(command, &database, &proxy)?.stdout, &proxy, &database);
        let duration = output.duration;
        let output = without_address(&output.stdout, &proxy, &database);
        Ok(Expected { is_exact: again == output, output, requests, duration, before, after })
    }

    fn try_fault(
        &self,
        command: &CutCommand,
        expected: &Expected,
        number: u64,
        fault: RequestFault,
        totals: &Mutex<Totals>,
    ) -> Result<()> {
        let proxy = Proxy::start(self.cluster.target()?)?;
        let (database, url) = self.new_store()?;
        proxy.fault_request_number(fault, number);
        let output = self.run(command, &database, &proxy)?;
        let printed = without_address(&output.stdout, &proxy, &database);
        // A late request is still on its way.
        std::thread::sleep(Duration::from_millis(200));
        proxy.resume();
        if waits(&output) {
            let address = self.cluster.url_at(proxy.address(), &database)?;
            self.client.run(&address, &["sync"])?.expect(0)?;
            let again = self.client.run(&address, &["sync", "--json"])?.expect(0)?.json()?;
            ensure!(again["sent"] == serde_json::json!([]), "sent twice: {again}");
        }
        drop(proxy);
        let is_unknown = check_output(command, expected, &output, &printed, totals)?;
        self.client.run(&url, &["verify"])?.expect(0)?;
        let found = content(&self.client, &url)?;
        match command.effect {
            Effect::Reads => ensure!(found == expected.before, "a read changed the store"),
            // A run of which this machine has no copy goes on as a run of its own.
            _ if waits(&output) => ensure!(found != expected.before, "acknowledged, and did not arrive"),
            _ if output.code == 0 => ensure!(found == expected.after, "acknowledged, but found {found}"),
            Effect::Writes if found == expected.after => {
                ensure!(is_unknown, "reported as failed, but done: {}", output.stderr.trim());
            }
            Effect::Writes => ensure!(found == expected.before, "neither done nor not done: {found}"),
            Effect::WritesInParts => {
                self.run_directly(command, &url)?;
                let repeated = content(&self.client, &url)?;
                ensure!(repeated == expected.after, "not done after a repetition: {repeated}");
            }
        }
        self.cluster.sql("postgres", &format!("DROP DATABASE {database} WITH (FORCE)"))?;
        Ok(())
    }
}

/// Checks the time and the output. Returns whether the command reported that its result is unknown.
fn check_output(
    command: &CutCommand,
    expected: &Expected,
    output: &CommandOutput,
    printed: &str,
    totals: &Mutex<Totals>,
) -> Result<bool> {
    let mut totals = lock(totals);
    totals.longest = totals.longest.max(output.duration);
    let took = output.duration.as_secs_f64();
    ensure!(
        output.duration < expected.duration + WAIT + MARGIN,
        "took {took:.1} s: exit {} {}",
        output.code,
        output.stderr.trim()
    );
    if output.code == 0 {
        totals.succeeded += 1;
        let plain = |text: &str| text.replace(|c: char| c.is_ascii_digit(), "");
        let is_right = match command.effect {
            Effect::Reads if expected.is_exact => printed == expected.output,
            Effect::Reads => plain(printed) == plain(&expected.output),
            _ => true,
        };
        ensure!(is_right, "wrong output: {}", printed.trim());
        return Ok(false);
    }
    if output.code == 3 && output.stderr.contains("the server cannot be reached") {
        // It says that it read only what is on this machine.
        *totals.failed.entry("partly".to_owned()).or_default() += 1;
        return Ok(false);
    }
    let error = reported_error(output);
    let (reason, is_unknown) =
        error.with_context(|| format!("exit {} without a reason: {}", output.code, output.stderr.trim()))?;
    if is_unknown {
        totals.unknown += 1;
    } else {
        *totals.failed.entry(reason).or_default() += 1;
    }
    Ok(is_unknown)
}

/// The output of a command without the address of its store, which differs between trials. Of a decision to resume,
/// only the decision: the rest says how long ago the run stopped.
fn without_address(output: &str, proxy: &Proxy, database: &str) -> String {
    let output = output.replace(&format!("{}/{database}", proxy.address()), "STORE");
    let parsed: Value = serde_json::from_str(&output).unwrap_or_default();
    parsed.get("decision").map_or(output, Value::to_string)
}

/// The kind of a request: the start of its SQL text, or the message of the protocol.
fn statement(request: &[u8]) -> String {
    let text: String = request
        .iter()
        .map(|byte| if byte.is_ascii_graphic() { char::from(*byte) } else { ' ' })
        .collect::<String>()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let words = ["SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "BEGIN", "COMMIT", "SHOW", "CREATE"];
    match words.iter().filter_map(|word| text.find(word)).min() {
        Some(at) => text[at..].chars().take(60).collect(),
        None => format!("protocol message of {} bytes", request.len()),
    }
}
