//! `cargo xtask handover`: measures which facts of labelled stories reach the session that continues the
//! work. Plays each story as each agent with the real binary: calls its hooks, uses git, and kills processes.
//! Compares the text that Milepost adds to the new session with simple ways to hand work over. `USAGE` lists
//! the options.

mod agents;
mod comparison;
mod corpus;
mod delivery;
mod grade;
mod play;
mod process;
mod report;
mod sandbox;
mod story;

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

use crate::shell::{build_program, build_release_program, is_installed};
use agents::AgentKind;
use corpus::StorySet;
use delivery::Limit;
use report::{MILEPOST, Row, Rows};
use story::Story;

const USAGE: &str = "usage: cargo xtask handover [--set tuning|held-out|all] [--agent NAME]… [--story NAME]… [--missing] [--show] [--check] [--release] [--short]";

/// Number of stories that are played at the same time.
const WORKERS: usize = 2;
/// Number of stories that `--short` plays, spread evenly over the set.
const SHORT: usize = 7;

struct Options {
    set: StorySet,
    agents: Vec<AgentKind>,
    /// Name prefixes of the stories to play. Empty for all.
    stories: Vec<String>,
    /// Print every missing fact and every stale fact that is presented as current.
    missing: bool,
    /// Print the text that reaches the model.
    show: bool,
    /// Fail if a bound is missed.
    check: bool,
    /// Use the release build.
    release: bool,
    /// Play only a few stories.
    short: bool,
}

impl Options {
    fn parse(args: &[&str]) -> Result<Self> {
        let mut options = Self {
            set: StorySet::HeldOut,
            agents: Vec::new(),
            stories: Vec::new(),
            missing: false,
            show: false,
            check: false,
            release: false,
            short: false,
        };
        let mut args = args.iter().copied();
        while let Some(arg) = args.next() {
            let mut value = || args.next().with_context(|| format!("{arg} needs a value\n{USAGE}"));
            match arg {
                "--set" => options.set = StorySet::from_name(value()?)?,
                "--agent" => options.agents.push(AgentKind::from_name(value()?)?),
                "--story" => options.stories.push(value()?.to_owned()),
                "--missing" => options.missing = true,
                "--show" => options.show = true,
                "--check" => options.check = true,
                "--release" => options.release = true,
                "--short" => options.short = true,
                _ => bail!("unknown argument {arg}\n{USAGE}"),
            }
        }
        if options.agents.is_empty() {
            options.agents = AgentKind::ALL.to_vec();
        }
        Ok(options)
    }
}

pub fn run(args: &[&str]) -> Result<()> {
    let mut options = Options::parse(args)?;
    if !is_installed("node") && options.agents.contains(&AgentKind::OpenCode) {
        println!("opencode is skipped: node is not installed");
        options.agents.retain(|agent| *agent != AgentKind::OpenCode);
    }
    let mut stories = corpus::read(options.set)?;
    if !options.stories.is_empty() {
        stories.retain(|story| options.stories.iter().any(|name| story.name.starts_with(name.as_str())));
        ensure!(!stories.is_empty(), "no story of the set {} has this name", options.set.name());
    }
    if options.short {
        stories = spread(stories, SHORT);
    }
    let milepost = if options.release { build_release_program() } else { build_program() }?;
    let start = Instant::now();
    let texts = play_all(&milepost, &stories, &options.agents)?;
    let facts: usize = stories.iter().map(|story| story.facts.len()).sum();
    println!(
        "{}: {} stories, {facts} facts, played in {:.0} s",
        options.set.name(),
        stories.len(),
        start.elapsed().as_secs_f64()
    );
    let mut missed = Vec::new();
    for (agent, texts) in options.agents.iter().zip(&texts) {
        let rows = grade_all(*agent, &stories, texts, &options);
        report::print(*agent, &rows);
        missed.extend(report::missed(*agent, &rows));
    }
    if options.check && !missed.is_empty() {
        println!();
        missed.iter().for_each(|miss| println!("missed: {miss}"));
        bail!("{} bounds were missed", missed.len());
    }
    Ok(())
}

/// At most `count` stories, spread evenly.
fn spread(stories: Vec<Story>, count: usize) -> Vec<Story> {
    let all = stories.len();
    let chosen: Vec<usize> = (0..count).map(|n| n * all / count).collect();
    let numbered = stories.into_iter().enumerate();
    numbered.filter(|(n, _)| chosen.contains(n)).map(|(_, story)| story).collect()
}

/// Plays every story as every agent. Returns the whole texts, by agent and story.
fn play_all(milepost: &Path, stories: &[Story], agents: &[AgentKind]) -> Result<Vec<Vec<String>>> {
    let next = AtomicUsize::new(0);
    let texts = Mutex::new(vec![vec![String::new(); stories.len()]; agents.len()]);
    std::thread::scope(|scope| {
        let work = || -> Result<()> {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let (agent, story) = (n / stories.len(), n % stories.len());
                if agent >= agents.len() {
                    return Ok(());
                }
                let text = play::play(milepost, &stories[story], agents[agent])?;
                let mut texts = texts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                texts[agent][story] = text;
            }
        };
        let threads: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| bail!("a thread panicked")))
    })?;
    Ok(texts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner))
}

/// Grades Milepost's texts and the comparisons for one agent.
fn grade_all(agent: AgentKind, stories: &[Story], texts: &[String], options: &Options) -> Rows {
    let mut own = Row::default();
    for (story, whole) in stories.iter().zip(texts) {
        let text = delivery::delivered(agent, whole);
        let grade = grade::grade(story, &text);
        own.add(&grade, &text);
        if options.show {
            println!("\n=== {} as {agent}: {} characters\n{text}", story.name, text.chars().count());
        }
        if options.missing || options.show {
            for (fact, _) in grade.facts.iter().filter(|(_, is_there)| !is_there) {
                println!("missing: {agent} {} {}: {}", story.name, fact.class.name(), fact.any.join(" / "));
            }
            for stale in &grade.stale {
                let (class, why) = (stale.class.name(), &stale.why);
                println!("stale: {agent} {} {class}: {} ({why})", story.name, stale.text);
            }
        }
    }
    let mut rows = vec![(MILEPOST, own)];
    for (name, method) in comparison::METHODS {
        let mut row = Row::default();
        for story in stories {
            let text = method(story, Limit::of(agent));
            row.add(&grade::grade(story, &text), &text);
        }
        rows.push((name, row));
    }
    rows
}
