//! What a person or an agent needs to go on: what it was doing, why it stopped, what comes next, and the brief.
//! In: a run that was looked at. Out: facts, and text that fits. Reads the workspace as it is now; changes nothing.

mod lead;

use milepost::Milepost;
use milepost::brief::{Brief, Fit, Fitted, Gauge, Heuristic, Overflow};
use milepost::engine::Examined;

pub(crate) use self::lead::{Lead, distance, workspace};
use crate::failure::Failure;

/// Fewer tokens than these hold nothing that is worth reading.
const FEWEST: u64 = 60;

/// The brief of a run as it stands, within so many tokens and bytes. It shrinks rather than fails: who goes on must be
/// told something.
pub(crate) fn brief(mp: &Milepost, from: &Examined, tokens: u64, bytes: usize) -> Result<Fitted, Failure> {
    let root = from.detail.summary.intact().and_then(|record| record.project.clone());
    let manifests = root.map(|root| milepost::capture::manifests(root.as_ref())).unwrap_or_default();
    let whole = Brief::parse(mp.brief_as_it_stands(from, &manifests)?);
    let show = format!("milepost brief show latest --run {}", from.detail.summary.run_id);
    let mut budget = tokens.max(FEWEST);
    loop {
        let how = Fit {
            budget,
            overflow: Overflow::Shrink,
            gauge: Gauge::new(&Heuristic),
            whole: Some(show.clone()),
        };
        let fitted = whole.fit(&how).map_err(milepost::Error::from)?;
        if fitted.markdown.len() <= bytes || budget <= FEWEST {
            return Ok(fitted);
        }
        // A token is seldom less than a byte; a few rounds are enough.
        budget = (budget * 4 / 5).max(FEWEST);
    }
}
