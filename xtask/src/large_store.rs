//! Writes large stores quickly through the library, for benchmarks and for the test of the local page.

use anyhow::Result;
use jiff::Timestamp;
use milepost::Milepost;
use milepost::internal::seal::{self, Unsealed};
use milepost::model::{Body, Profile, RunId, RunRecord};
use milepost::store::{Commit, WriteDecision};

/// Maximum number of checkpoints in one commit.
const BATCH: u64 = 2_000;

/// Appends checkpoints to a run in large commits, as an import does. Creates the run with this profile if it does not
/// exist. `body` returns the body of the checkpoint with a number below `count`.
pub fn append_checkpoints(
    engine: &Milepost,
    run: &RunId,
    profile: Profile,
    started_at: Timestamp,
    count: u64,
    mut body: impl FnMut(u64) -> Result<Body>,
) -> Result<()> {
    let mut done = 0;
    while done < count {
        let batch = (count - done).min(BATCH);
        let bodies = (done..done + batch).map(&mut body).collect::<Result<Vec<_>>>()?;
        let mut result = Ok(());
        engine.raw_store().write(run, &mut |view| {
            let record = view.record.clone();
            let mut commit =
                Commit::new(record.unwrap_or_else(|| RunRecord::new(run.clone(), profile, started_at)));
            let mut slot = view.slot.clone();
            for body in &bodies {
                match Unsealed::new(body.clone(), true).and_then(|body| seal::seal(body, &slot)) {
                    Ok(sealed) => commit.puts.push(sealed),
                    Err(e) => result = Err(e),
                }
                slot = slot.next();
            }
            WriteDecision::Commit(Box::new(commit))
        })?;
        result?;
        done += batch;
    }
    Ok(())
}
