//! Realistic data, made by the real binary: three projects with agent sessions and scripts. One run was killed, another
//! continues it, one is completed, one failed, and one is still going on.

use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

use super::agent::Agent;
use super::sandbox::{Sandbox, write};

/// A brief that a user wrote.
const BRIEF: &str = include_str!("brief.md");

const INVOICE: &str = "use crate::money::Cents;

/// One line of an invoice.
pub struct Line {
    pub text: String,
    pub amount: Cents,
}

pub fn total(lines: &[Line]) -> Cents {
    lines.iter().map(|line| line.amount).sum()
}
";

const INVOICE_WITH_TAX: &str = "use crate::money::{Cents, Rate};

/// One line of an invoice.
pub struct Line {
    pub text: String,
    pub amount: Cents,
    pub tax: Rate,
}

/// The amount without tax.
pub fn net(lines: &[Line]) -> Cents {
    lines.iter().map(|line| line.amount).sum()
}

/// The amount with tax, rounded once per line as the tax office requires.
pub fn total(lines: &[Line]) -> Cents {
    lines.iter().map(|line| line.amount + line.tax.of(line.amount)).sum()
}
";

const FAILED_TEST: &str = "running 4 tests
test net_of_two_lines ... ok
test total_rounds_per_line ... FAILED

---- total_rounds_per_line stdout ----
thread 'total_rounds_per_line' panicked at tests/invoice.rs:41:5:
assertion `left == right` failed
  left: Cents(11901)
 right: Cents(11900)

test result: FAILED. 3 passed; 1 failed";

/// The projects and runs that exist.
pub(super) struct Story {
    project: PathBuf,
    live: Agent,
}

/// The run that was killed, the one that continues it, and the one that goes on.
const KILLED: &str = "claude-code-7c1f9a52";
const CONTINUED: &str = "claude-code-b83e04d1";
const LIVE: &str = "claude-code-e5d20c77";

impl Story {
    pub(super) fn tell(sandbox: &Sandbox) -> Result<Self> {
        let project = sandbox.project(
            "invoice-api",
            &[
                ("src/invoice.rs", INVOICE),
                ("src/money.rs", "pub struct Cents(pub i64);\n"),
                ("tests/invoice.rs", "// Tests of invoices.\n"),
                ("README.md", "# Invoice API\n"),
                (".gitignore", ".milepost\n"),
            ],
        )?;
        first_session(sandbox, &project)?;
        second_session(sandbox, &project)?;
        scripts(sandbox)?;
        mobile(sandbox)?;
        sandbox.set_clock(34)?;
        let mut live = Agent::start(sandbox, &project, "claude-code", "e5d20c77")?;
        live.prompt("Add a PDF export of invoices. Keep the layout of the paper form.")?;
        sandbox.set_clock(29)?;
        live.write("src/pdf.rs", "pub fn render() -> Vec<u8> {\n    Vec::new()\n}\n")?;
        live.todo(&[
            ("Choose a PDF library", "completed"),
            ("Render the header and the lines", "in_progress"),
            ("Compare with the paper form", "pending"),
        ])?;
        live.compact()?;
        sandbox.set_clock(11)?;
        live.shell("cargo run --example pdf", 0, "wrote invoice.pdf")?;
        live.compact()?;
        sandbox.set_clock(0)?;
        Ok(Self { project, live })
    }

    /// What the browser needs to know.
    pub(super) fn to_json(&self, more: Value) -> Value {
        let mut all = json!({
            "project": self.project,
            "killed": KILLED,
            "continued": CONTINUED,
            "live": LIVE,
            "liveProcess": self.live.process(),
        });
        if let (Some(all), Value::Object(more)) = (all.as_object_mut(), more) {
            all.extend(more);
        }
        all
    }
}

/// A session that works on tax rates and is killed.
fn first_session(sandbox: &Sandbox, project: &Path) -> Result<()> {
    let run = |words: &[&str]| sandbox.run(project, words);
    sandbox.set_clock(412)?;
    let mut agent = Agent::start(sandbox, project, "claude-code", "7c1f9a52")?;
    agent.prompt(
        "Add tax to invoices. Every line has its own rate. Round per line, not per invoice: the tax office \
         checks that.",
    )?;
    agent.todo(&[
        ("Add a rate to every line", "in_progress"),
        ("Round per line", "pending"),
        ("Migrate the stored invoices", "pending"),
        ("Document the new fields of the API", "pending"),
    ])?;
    sandbox.set_clock(405)?;
    agent.write("src/invoice.rs", INVOICE_WITH_TAX)?;
    agent.write(
        "src/money.rs",
        "pub struct Cents(pub i64);\n\n/// A tax rate in hundredths of a percent.\npub struct Rate(pub u32);\n",
    )?;
    sandbox.set_clock(398)?;
    agent.shell("cargo check", 0, "    Finished `dev` profile in 2.31s")?;
    run(&["decide", "--run", KILLED, "Store rates in hundredths of a percent, as integers"])?;
    sandbox.set_clock(391)?;
    agent.compact()?;
    sandbox.set_clock(384)?;
    agent.shell("cargo test --test invoice", 101, FAILED_TEST)?;
    agent.todo(&[
        ("Add a rate to every line", "completed"),
        ("Round per line", "in_progress"),
        ("Migrate the stored invoices", "pending"),
        ("Document the new fields of the API", "pending"),
    ])?;
    sandbox.set_clock(379)?;
    run(&[
        "save",
        "--run",
        KILLED,
        "Tax per line; rounding is off by one cent",
        "--tag",
        "before-rounding",
        "--pin",
    ])?;
    sandbox.set_clock(352)?;
    agent.prompt("Use banker's rounding only where the customer is abroad. The rest rounds half up.")?;
    sandbox.set_clock(347)?;
    agent.write("tests/invoice.rs", "// Tests of invoices.\n\n#[test]\nfn total_rounds_per_line() {}\n")?;
    agent.write(
        "migrations/0007_rates.sql",
        "alter table line add column rate integer not null default 0;\n",
    )?;
    sandbox.set_clock(341)?;
    run(&["decide", "--run", KILLED, "Round half up at home, half to even abroad"])?;
    run(&["note", "--run", KILLED, "The finance team confirmed the rounding rules on the phone"])?;
    sandbox.set_clock(333)?;
    agent.compact()?;
    sandbox.set_clock(326)?;
    agent.shell(
        "psql -f migrations/0007_rates.sql",
        2,
        "psql: error: connection to server failed: Connection refused",
    )?;
    sandbox.set_clock(321)?;
    agent.compact()
}

/// A session that continues the killed one.
fn second_session(sandbox: &Sandbox, project: &Path) -> Result<()> {
    sandbox.set_clock(190)?;
    let mut agent = Agent::start(sandbox, project, "claude-code", "b83e04d1")?;
    agent.prompt("Continue where the last session stopped.")?;
    sandbox.set_clock(182)?;
    agent.shell("cargo test --test invoice", 0, "test result: ok. 4 passed; 0 failed")?;
    agent.write(
        "src/money.rs",
        "pub struct Cents(pub i64);\n\n/// A tax rate.\npub struct Rate(pub u32);\n",
    )?;
    sandbox.set_clock(171)?;
    agent.compact()?;
    agent.todo(&[
        ("Round per line", "completed"),
        ("Migrate the stored invoices", "completed"),
        ("Document the new fields of the API", "completed"),
    ])?;
    sandbox.set_clock(158)?;
    agent.stop()?;
    agent.end()
}

/// Scripts: one that completes, one that fails, and one that keeps state, tasks and a brief.
fn scripts(sandbox: &Sandbox) -> Result<()> {
    let project = sandbox
        .project("price-import", &[("import.sh", "echo importing\n"), ("prices.csv", "id,price\n")])?;
    let run = |words: &[&str]| sandbox.run(&project, words);
    sandbox.set_clock(530)?;
    run(&[
        "run",
        "--run",
        "nightly-1117",
        "--title",
        "Nightly import",
        "--",
        "sh",
        "-c",
        "echo 1,20 >> prices.csv",
    ])?;
    sandbox.set_clock(105)?;
    // Exits with the code of the command.
    let _ = run(&[
        "run",
        "--run",
        "nightly-1118",
        "--title",
        "Nightly import",
        "--",
        "sh",
        "-c",
        "echo no disk >&2; exit 28",
    ]);
    sandbox.set_clock(96)?;
    run(&["start", "--run", "reprice", "--title", "Reprice the whole catalogue"])?;
    for (task, title, status) in [
        ("fetch", "Fetch supplier lists", "done"),
        ("match", "Match articles", "done"),
        ("approve", "Wait for approval of margins below 3 %", "in_progress"),
        ("publish", "Publish to the shop", "pending"),
    ] {
        run(&["task", "set", "--run", "reprice", task, status, "--title", title])?;
    }
    sandbox.set_clock(81)?;
    run(&[
        "record",
        "--run",
        "reprice",
        "--kind",
        "shell",
        "--name",
        "import-prices --dry-run",
        "--result",
        "PASS",
        "--summary",
        "18,204 articles, 312 with a new price",
        "--duration-ms",
        "74210",
    ])?;
    run(&[
        "record",
        "--run",
        "reprice",
        "--kind",
        "tool_use",
        "--name",
        "margin check",
        "--result",
        "WARN",
        "--duration-ms",
        "310",
        "--summary",
        "41 articles below 3 %",
    ])?;
    let state = json!({
        "cursor": { "supplier": "nordwind", "page": 118, "of": 240 },
        "counts": { "seen": 18204, "changed": 312, "skipped": [11, 9, 41] },
        "exchange_rate": 1.0830,
        "dry_run": true,
        "last_error": null,
    });
    let input =
        json!({ "state": state, "metadata": { "host": "batch-2", "queue": ["nordwind", "meyer", "sol"] } });
    let brief = sandbox.home.join("brief.md");
    write(&brief, BRIEF)?;
    let brief = brief.to_string_lossy();
    sandbox.run_with_input(
        &project,
        &[
            "save",
            "--run",
            "reprice",
            "Half of the suppliers are done",
            "--phase",
            "MATCH",
            "--input",
            "-",
            "--brief",
            &brief,
        ],
        &input.to_string(),
    )?;
    sandbox.set_clock(63)?;
    write(&project.join("prices.csv"), "id,price\n1,20\n2,35\n3,12\n")?;
    run(&["save", "--run", "reprice", "Margins are checked", "--status", "paused"])?;
    Ok(())
}

/// A project of another agent, with a run that has ended.
fn mobile(sandbox: &Sandbox) -> Result<()> {
    let project = sandbox.project("mobile-app", &[("lib/main.dart", "void main() {}\n")])?;
    sandbox.set_clock(57)?;
    let mut agent = Agent::start(sandbox, &project, "codex", "019a2c40")?;
    agent.prompt("Make the start screen work offline")?;
    sandbox.set_clock(49)?;
    agent.shell("flutter test", 0, "All tests passed!")?;
    agent.stop()?;
    agent.end()
}
