//! A session whose workspace is captured at intervals. Prints each event and, at the end, the summary that an
//! orchestrator would pass to its next iteration.
//!
//! `cargo run --example session -- PROJECT`

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use milepost::Session;
use milepost::{SessionEvent, format_duration, recommended_interval};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let project = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let store = format!("sqlite:{project}/.milepost/milepost.db");
    // The interval for a session of half an hour. This example ends much earlier.
    let interval = *recommended_interval(Duration::from_secs(30 * 60)).start();
    let session = Session::options()
        .store(store)
        .project_root(&project)
        .interval(interval)
        .session_id("abc123")
        .on_event(|event| match event {
            SessionEvent::Started { interval, .. } => {
                println!("started, every {}", format_duration(*interval))
            }
            SessionEvent::Checkpoint(body) => println!("checkpoint {}", body.sequence),
            SessionEvent::Failed { message } => println!("not saved: {message}"),
            SessionEvent::Stopped { summary, .. } => {
                println!("stopped after {} checkpoints", summary.total())
            }
        })
        .build()?;

    session.start()?;
    std::fs::File::create(format!("{project}/made-by-the-session"))?;
    session.capture()?;
    let summary = session.stop()?;

    let files: Vec<_> = summary.files_modified().iter().map(milepost::model::PathText::key).collect();
    println!("files: {}", files.join(" "));
    if let Some(latest) = session.latest()? {
        println!("{} after {}", latest.status, format_duration(Duration::from_millis(latest.elapsed_ms)));
    }
    Ok(())
}
