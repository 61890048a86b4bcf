//! Clocks that jump: order follows the sequence number, nothing just saved is removed, and the window for
//! coalescing is exactly three seconds.

use anyhow::{Context, Result, ensure};

use super::project::{Project, StoreKind, text};
use super::{Environment, Outcome};
use crate::shell::is_installed;

pub fn run(env: &Environment) -> Result<Outcome> {
    if !is_installed("faketime") {
        return Ok(Outcome::Skipped("faketime is missing".into()));
    }
    for kind in [StoreKind::Sqlite, StoreKind::Files] {
        back(env, kind).with_context(|| format!("an hour back, {kind:?}"))?;
        ahead(env, kind).with_context(|| format!("a year ahead, {kind:?}"))?;
        coalesce(env, kind).with_context(|| format!("coalescing, {kind:?}"))?;
    }
    Ok(Outcome::Passed(
        "an hour back keeps the order; a year ahead removes nothing just saved; 2.9 s coalesce, 3.1 s do not"
            .into(),
    ))
}

/// Saves at another time and returns the output.
fn save(project: &Project, time: &str, args: &[&str]) -> Result<serde_json::Value> {
    let before = ["env", "FAKETIME_DONT_FAKE_MONOTONIC=1", "faketime", "-f", time];
    let all: Vec<_> = ["--json", "save", "--no-capture", "--run", "r"].iter().chain(args).copied().collect();
    run_at(project, &before, &all)
}

/// Runs a command under faketime and returns its output. Repeats it if a semaphore is in the way that an earlier
/// faketime with the same pid left behind.
fn run_at(project: &Project, before: &[&str], args: &[&str]) -> Result<serde_json::Value> {
    let mut output = project.run_wrapped(before, args)?;
    for _ in 0..5 {
        if !output.stderr.contains("sem_open: File exists") {
            break;
        }
        output = project.run_wrapped(before, args)?;
    }
    output.expect(0)?.json()
}

fn latest(project: &Project) -> Result<String> {
    let shown = project.run(&["--json", "show", "latest"])?.expect(0)?.json()?;
    Ok(text(&shown["checkpoint"], "snapshot_id"))
}

fn back(env: &Environment, kind: StoreKind) -> Result<()> {
    let project = Project::new(env, kind)?;
    let mut order = vec![project.save(&["--run", "r", "--summary", "now"])?];
    for n in 0..3 {
        let output = save(&project, "-1h", &["--summary", &format!("back {n}")])?;
        order.push(text(&output, "snapshot_id"));
        ensure!(output["sequence"] == n + 2 && output["coalesced"] == false, "{output}");
        ensure!(latest(&project)? == order[order.len() - 1], "the checkpoint just saved is not latest");
    }
    order.reverse();
    let listed: Vec<_> = project.list()?.iter().map(|c| text(c, "snapshot_id")).collect();
    ensure!(listed == order, "listed {listed:?}, saved {order:?}");
    project.check_acknowledged(&order)?;
    // Identical saves are never folded if the clock went back.
    let same = project.save(&["--run", "q", "--summary", "same"])?;
    let all = ["--json", "save", "--no-capture", "--run", "q", "--summary", "same"];
    let again = run_at(&project, &["faketime", "-f", "-1h"], &all)?;
    ensure!(
        again["coalesced"] == false && text(&again, "snapshot_id") != same,
        "folded although the clock went back: {again}"
    );
    Ok(())
}

fn ahead(env: &Environment, kind: StoreKind) -> Result<()> {
    let project = Project::new(env, kind)?;
    for n in 0..3 {
        project.save(&["--run", "r", "--summary", &format!("now {n}")])?;
    }
    let far = text(&save(&project, "+365d", &["--summary", "a year ahead"])?, "snapshot_id");
    ensure!(latest(&project)? == far, "the checkpoint a year ahead is not latest");
    let now = project.save(&["--run", "r", "--summary", "now again"])?;
    ensure!(latest(&project)? == now, "the checkpoint after the jump is not latest");
    // After another jump, retention may treat everything else as old. The saves from a year ahead must
    // remain.
    let last = text(&save(&project, "+365d", &["--summary", "ahead again"])?, "snapshot_id");
    ensure!(latest(&project)? == last, "the second checkpoint a year ahead is not latest");
    project.check_acknowledged(&[far, last]).map(drop)
}

fn coalesce(env: &Environment, kind: StoreKind) -> Result<()> {
    // faketime is slightly early, and times are truncated to milliseconds, so 3.001 would become 3.000.
    for (seconds, folds) in [("02.900", true), ("03.000", true), ("03.002", false), ("03.100", false)] {
        let project = Project::new(env, kind)?;
        let first =
            save(&project, "2026-03-01 12:00:00", &["--source", "step_boundary", "--summary", "same"])?;
        let time = format!("2026-03-01 12:00:{seconds}");
        let second = save(&project, &time, &["--source", "manual", "--summary", "same"])?;
        ensure!(second["coalesced"] == folds, "{seconds} s apart: {second}");
        let listed = project.list()?;
        ensure!(listed.len() == if folds { 1 } else { 2 }, "{seconds} s apart: {} listed", listed.len());
        if folds {
            ensure!(
                text(&second, "snapshot_id") == text(&first, "snapshot_id"),
                "the folded save has another id"
            );
            let sources = &listed[0]["source_details"];
            ensure!(*sources == serde_json::json!(["step_boundary", "manual"]), "sources are {sources}");
            // A save that changes the status is never folded.
            let failed = save(&project, &time, &["--status", "failed", "--summary", "same"])?;
            ensure!(failed["coalesced"] == false, "a change of status was folded");
        }
    }
    Ok(())
}
