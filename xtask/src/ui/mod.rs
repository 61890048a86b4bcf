//! `cargo xtask ui [--short] [CASE…]`: the local page with the real binary. Drives it in Chromium with realistic, large
//! and hostile data, and attacks its server with plain sockets. Prints ok, FAILED or skipped for every case, with
//! figures or the reason. Fails if a case fails.

mod agent;
mod attacks;
mod browser;
mod hostile;
mod http;
mod large;
mod sandbox;
mod server;
mod story;

use std::cell::OnceCell;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::json;

use self::browser::Browser;
use self::sandbox::Sandbox;
use self::server::PageServer;
use self::story::Story;
use crate::faults::Size;
use crate::shell::{build_program, root};

/// The environment of every case.
struct Environment {
    /// Path of the binary.
    milepost: PathBuf,
    /// The browser, or why there is none.
    browser: Result<Browser, String>,
    size: Size,
    /// Realistic data, made when the first case needs it.
    story: OnceCell<(Sandbox, Story)>,
}

impl Environment {
    /// Realistic data in its sandbox.
    fn story(&self) -> Result<&(Sandbox, Story)> {
        if self.story.get().is_none() {
            let sandbox = Sandbox::new(&self.milepost)?;
            let story = Story::tell(&sandbox)?;
            let _ = self.story.set((sandbox, story));
        }
        self.story.get().context("no data")
    }

    /// `short` or `full`, depending on the size.
    fn pick<T>(&self, short: T, full: T) -> T {
        if self.size == Size::Short { short } else { full }
    }
}

/// The result of a case that did not fail.
enum Outcome {
    /// Passed, with figures.
    Passed(String),
    /// Could not run here, with the reason.
    Skipped(String),
}

type Case = fn(&Environment) -> Result<Outcome>;

const CASES: [(&str, Case); 6] = [
    ("views", views),
    ("keyboard", keyboard),
    // Changes the data, so it is the last that uses it.
    ("live", live),
    ("large", large::run),
    ("hostile", hostile::run),
    ("attacks", attacks::run),
];

/// Runs the named cases, or all of them.
pub fn run(size: Size, chosen: &[&str]) -> Result<()> {
    if let Some(unknown) = chosen.iter().find(|name| !CASES.iter().any(|(known, _)| known == *name)) {
        bail!("unknown case {unknown}; available: {}", CASES.map(|(name, _)| name).join(", "));
    }
    let env = environment(size)?;
    let (mut passed, mut skipped, mut failed) = (0, 0, Vec::new());
    let start = Instant::now();
    for (name, case) in CASES.into_iter().filter(|(name, _)| chosen.is_empty() || chosen.contains(name)) {
        let begun = Instant::now();
        let end = case(&env);
        let took = begun.elapsed().as_secs_f64();
        match end {
            Ok(Outcome::Passed(figures)) => {
                passed += 1;
                println!("{name:<10} ok ({took:.1} s): {figures}");
            }
            Ok(Outcome::Skipped(reason)) => {
                skipped += 1;
                println!("{name:<10} skipped: {reason}");
            }
            Err(e) => {
                println!("{name:<10} FAILED ({took:.1} s): {e:#}");
                failed.push(name);
            }
        }
    }
    let took = start.elapsed().as_secs_f64();
    println!("ui: {passed} passed, {} failed, {skipped} skipped in {took:.0} s", failed.len());
    if !failed.is_empty() {
        bail!("failed: {}", failed.join(", "));
    }
    Ok(())
}

/// Writes the screenshots of the documentation from a real run.
pub fn pictures() -> Result<()> {
    let env = environment(Size::Full)?;
    let browser = env.browser.as_ref().map_err(|reason| anyhow::anyhow!("{reason}"))?;
    let (sandbox, story) = env.story()?;
    let server = PageServer::start(sandbox, &sandbox.home)?;
    let figures =
        browser.run("pictures", &server, story.to_json(json!({ "folder": root().join("docs") })))?;
    println!("{figures}");
    Ok(())
}

fn environment(size: Size) -> Result<Environment> {
    Ok(Environment { milepost: build_program()?, browser: Browser::find(), size, story: OnceCell::new() })
}

/// Every view with realistic data, in both colour schemes and three widths.
fn views(env: &Environment) -> Result<Outcome> {
    with_story(env, "views")
}

/// A page that is open while its run goes on.
fn live(env: &Environment) -> Result<Outcome> {
    with_story(env, "live")
}

/// Everything with keys only.
fn keyboard(env: &Environment) -> Result<Outcome> {
    with_story(env, "keyboard")
}

/// Runs a case of the browser on realistic data.
fn with_story(env: &Environment, case: &str) -> Result<Outcome> {
    let browser = match &env.browser {
        Ok(browser) => browser,
        Err(reason) => return Ok(Outcome::Skipped(reason.clone())),
    };
    let (sandbox, story) = env.story()?;
    let server = PageServer::start(sandbox, &sandbox.home)?;
    let screenshots = root().join("target/ui/screenshots");
    std::fs::create_dir_all(&screenshots)?;
    let more = json!({
        "short": env.size == Size::Short,
        "screenshots": screenshots,
        "milepost": sandbox.milepost(),
        "environment": sandbox.variables(),
    });
    browser.run(case, &server, story.to_json(more)).map(Outcome::Passed)
}
