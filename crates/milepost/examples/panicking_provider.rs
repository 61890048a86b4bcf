//! A program whose auto-save provider panics on every second tick. The program still ends normally: it saves
//! every checkpoint that it can and reports each failure. The same holds if the disk fills up while it runs.
//!
//! `cargo run --example panicking_provider -- FOLDER [MILLISECONDS]`

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::panic,
    reason = "an example that prints and panics"
)]

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use milepost::ListQuery;
use milepost::model::Source;
use milepost::{Milepost, Profile, Status};

#[derive(Default)]
struct Counts {
    given: AtomicU64,
    panicked: AtomicU64,
    refused: AtomicU64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().ok_or("usage: panicking_provider FOLDER [MILLISECONDS]")?;
    let lasting = args.next().map_or(Ok(1000), |text| text.parse())?;

    let mp = Milepost::open(folder)?;
    // This profile keeps every checkpoint, so that they can be counted at the end.
    let run = mp.run("idle").profile(Profile::Brief).rejoin_or_start()?;
    let counts = Arc::new(Counts::default());
    let (giving, failing) = (counts.clone(), counts.clone());
    let mut tick = 0_u64;
    let auto = run
        .autosave(Duration::from_millis(15))
        .provider(move || {
            tick += 1;
            if tick.is_multiple_of(2) {
                panic!("tick {tick} is a bad one");
            }
            giving.given.fetch_add(1, SeqCst);
            Ok::<_, Infallible>(tick)
        })
        .on_error(move |e| {
            let count = if !matches!(e, milepost::Error::Provider(_) | milepost::Error::ProviderPanicked(_)) {
                &failing.refused
            } else {
                &failing.panicked
            };
            count.fetch_add(1, SeqCst);
            eprintln!("not saved: {e}");
        })
        .start()?;

    // A real program would do its work here.
    std::thread::sleep(Duration::from_millis(lasting));
    auto.stop();
    run.finish(Status::Completed)?;

    let list = mp.list(&ListQuery::default().run(Some(run.id().clone())).source(Some(Source::Timer)))?;
    let (given, panicked, refused) =
        (counts.given.load(SeqCst), counts.panicked.load(SeqCst), counts.refused.load(SeqCst));
    let saved = list.checkpoints.len();
    println!("{{\"given\":{given},\"panicked\":{panicked},\"refused\":{refused},\"saved\":{saved}}}");
    Ok(())
}
