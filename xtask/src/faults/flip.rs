//! Checks the effects of a flipped byte in any store: the damaged checkpoint and its dependants are reported,
//! and the rest works. Thousands of flips are checked through the library, some of them through the binary as
//! well.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use milepost::model::{Profile, RunId, Source};
use milepost::store::{OpenOptions, StoreError, StoreUrl};
use milepost::{Error, Milepost, ReasonCode, Save};
use milepost::{ListQuery, MarkChange, Reference, VerifyScope};

use super::project::{Project, Rng};

/// Maximum number of other checkpoints that one damaged frame may make unreadable.
const DEPENDANTS: usize = 15;
const REASONS: [&str; 2] = ["checkpoint_integrity_mismatch", "checkpoint_schema_invalid"];

/// A checkpoint and the bytes that were saved.
pub struct SavedCheckpoint {
    pub id: String,
    pub run: String,
    pub sequence: u64,
    bytes: Vec<u8>,
}

/// Everything that was saved before the damage.
pub struct Baseline {
    /// Oldest first.
    pub all: Vec<SavedCheckpoint>,
    pub url: StoreUrl,
}

/// The effect of damage outside of checkpoints.
#[derive(Debug, PartialEq, Eq)]
pub enum FlipEffect {
    /// Damage was reported.
    Named,
    /// No damage was reported, and nothing changed.
    Unharmed,
}

pub fn open(url: &StoreUrl) -> Result<Milepost> {
    Ok(Milepost::at(url, &OpenOptions::new().create(false))?)
}

/// Writes two runs of twenty checkpoints, with pins, tags and folded triggers. The last four of each are
/// plain saves, one run after the other, which a SQLite store still has in its append log.
pub fn write(project: &Project) -> Result<Baseline> {
    let url = &project.url().parse::<StoreUrl>()?;
    let mp = Milepost::at(url, &project.options(true)?)?;
    let mut rng = Rng(11);
    for name in ["one", "two"] {
        let run: RunId = name.parse()?;
        let mut lines: Vec<String> = (0..40).map(|_| rng.letters(70)).collect();
        for n in 0..16 {
            lines[rng.below(40) as usize] = rng.letters(70);
            let save = || Save::new().profile(Profile::Pai).summary(format!("step {n}")).state(&lines);
            mp.save(&run, save()?)?;
            if n % 5 == 2 {
                let again = mp.save(&run, save()?.source(Source::StepBoundary))?;
                ensure!(again.coalesced(), "an identical save was not folded");
            }
            let entry = mp.find(&Reference::Latest(0), Some(&run))?;
            let tag = if n % 4 == 1 { vec![format!("tag-{name}-{n}")] } else { Vec::new() };
            if n % 3 == 0 || !tag.is_empty() {
                mp.mark(&entry, &MarkChange::default().pin(Some(n % 3 == 0)).tag(tag).untag(Vec::new()))?;
            }
        }
    }
    // A deleted run leaves a lower bound for stamps behind.
    let gone: RunId = "gone".parse()?;
    mp.save(&gone, Save::new())?;
    mp.delete(&gone)?;
    for name in ["one", "two"] {
        let run: RunId = name.parse()?;
        for n in 16..20 {
            mp.save(&run, Save::new().summary(format!("step {n}")).state(&rng.letters(2000))?)?;
        }
    }
    let mut all = Vec::new();
    for listed in mp.list(&ListQuery::default())?.checkpoints.into_iter().rev() {
        let bytes = mp.read(listed.entry())?.bytes().to_vec();
        let header = &listed.entry().header;
        let (id, run) = (header.snapshot_id().to_string(), header.run_id().to_string());
        all.push(SavedCheckpoint { id, run, sequence: header.sequence(), bytes });
    }
    ensure!(all.len() == 40, "{} of 40 written", all.len());
    Ok(Baseline { all, url: url.clone() })
}

impl Baseline {
    pub fn latest(&self) -> Result<&SavedCheckpoint> {
        self.all.last().context("nothing was written")
    }

    /// Checks the effects of one damaged checkpoint: it and its dependants are reported, and everything else
    /// is unchanged.
    pub fn check_damage(&self, id: &str) -> Result<()> {
        let hurt = self.all.iter().find(|w| w.id == id).with_context(|| format!("{id} was never written"))?;
        let mp = open(&self.url)?;
        let report = mp.verify(&VerifyScope::Store, &mut |_| {})?;
        let damaged = report.damaged();
        let named = |d: &milepost::store::Damage| d.snapshot_id().as_ref().map(ToString::to_string);
        ensure!(
            damaged.iter().any(|d| named(d).as_deref() == Some(id)),
            "verify does not report {id}: {damaged:?}"
        );
        let others: Vec<_> = damaged.iter().filter(|d| named(d).as_deref() != Some(id)).collect();
        for other in &others {
            let ours = other.because_of() == Some(hurt.sequence)
                && other.run_id().as_ref().is_some_and(|run| run.as_str() == hurt.run);
            ensure!(
                ours && other.snapshot_id().is_some(),
                "verify reports {other:?}, which does not depend on {id}"
            );
        }
        ensure!(others.len() <= DEPENDANTS, "{} dependants, more than {DEPENDANTS}", others.len());
        let gone: Vec<_> = damaged.iter().filter_map(named).collect();
        for written in &self.all {
            match (self.show(&mp, &written.id), gone.contains(&written.id)) {
                (Ok(bytes), false) => ensure!(bytes == written.bytes, "{} has different bytes", written.id),
                (Err(e), true) => ensure!(is_damage(&e), "{} fails with {e:?}", written.id),
                (Ok(_), true) => bail!("{} is reported as damaged, but is shown", written.id),
                (Err(e), false) => bail!("{} is not reported as damaged, but fails with {e:?}", written.id),
            }
        }
        mp.list(&ListQuery::default()).context("list")?;
        let latest = mp.show(&Reference::Latest(0), None).context("show latest")?;
        let newest_intact =
            self.all.iter().rev().find(|w| !gone.contains(&w.id)).context("no checkpoint is intact")?;
        let shown = latest.entry().header.snapshot_id().as_str();
        ensure!(
            shown == newest_intact.id,
            "latest is {shown}, the newest intact one is {}",
            newest_intact.id
        );
        let fell_back = !latest.fell_back_from().is_empty();
        ensure!(fell_back == gone.contains(&self.latest()?.id), "fell back: {fell_back}");
        Ok(())
    }

    /// Checks the effects of damage that is not aimed at one checkpoint: it is reported or harmless, and
    /// every checkpoint not reported as damaged can be read.
    pub fn check_other_damage(&self) -> Result<FlipEffect> {
        let mp = open(&self.url)?;
        let report = mp.verify(&VerifyScope::Store, &mut |_| {})?;
        let damaged = report.damaged();
        let gone: Vec<_> =
            damaged.iter().filter_map(|d| Some(d.snapshot_id().as_ref()?.to_string())).collect();
        for written in self.all.iter().filter(|w| !gone.contains(&w.id)) {
            let bytes = self.show(&mp, &written.id).with_context(|| format!("show {}", written.id))?;
            ensure!(bytes == written.bytes, "{} has different bytes", written.id);
        }
        let listed = mp.list(&ListQuery::default()).context("list")?;
        if !damaged.is_empty() {
            return Ok(FlipEffect::Named);
        }
        let rows = listed.checkpoints.iter().rev().map(|l| l.entry().header.snapshot_id().as_str());
        ensure!(
            rows.eq(self.all.iter().map(|w| w.id.as_str())),
            "no damage is reported, but the list differs"
        );
        let latest = mp.show(&Reference::Latest(0), None).context("show latest")?;
        ensure!(
            latest.entry().header.snapshot_id().as_str() == self.latest()?.id,
            "latest is a different checkpoint"
        );
        Ok(FlipEffect::Unharmed)
    }

    /// The same as `check_damage`, through the binary.
    pub fn check_damage_by_command(&self, project: &Project, id: &str) -> Result<()> {
        let verify = project.run(&["--json", "verify"])?.expect(5)?.expect_reason(&REASONS)?;
        ensure!(verify.stdout.contains(id), "verify does not report {id}: {}", verify.stdout);
        for command in ["show", "state"] {
            project.run(&["--json", command, id])?.expect(5)?.expect_reason(&REASONS)?;
        }
        project.run(&["list"])?.expect(0)?;
        let latest = project.run(&["--json", "show", "latest"])?;
        if self.latest()?.id == id {
            let shown = latest.expect(3)?;
            ensure!(shown.json()?["checkpoint"]["snapshot_id"] != id, "the damaged checkpoint is shown");
        } else {
            latest.expect(0)?;
        }
        let hurt = self.all.iter().find(|w| w.id == id).context("unknown id")?;
        // Checkpoints of the other run and newer ones of the same run do not depend on it.
        for other in self.all.iter().filter(|w| w.run != hurt.run || w.sequence > hurt.sequence).step_by(9) {
            project.run(&["show", &other.id])?.expect(0)?;
        }
        project.run(&["doctor"])?.expect(5)?;
        Ok(())
    }

    fn show(&self, mp: &Milepost, id: &str) -> Result<Vec<u8>, Error> {
        Ok(mp.show(&id.parse()?, None)?.bytes().to_vec())
    }
}

fn is_damage(e: &Error) -> bool {
    let named = [ReasonCode::CheckpointIntegrityMismatch, ReasonCode::CheckpointSchemaInvalid];
    matches!(e, Error::Damaged(_) | Error::Store(StoreError::Damaged(_))) && named.contains(&e.reason())
}

/// Positions to flip: the first, the last, and random ones between.
pub fn positions(length: usize, between: usize, rng: &mut Rng) -> Vec<usize> {
    let mut all = vec![0, length - 1];
    all.extend((0..between).map(|_| rng.below(length as u64) as usize));
    all
}

/// Flips one bit of a file. Returns the previous content.
pub fn flip_file(path: &Path, at: usize, bit: u64) -> Result<Vec<u8>> {
    let old = std::fs::read(path)?;
    let mut bytes = old.clone();
    bytes[at] ^= 1 << (bit % 8);
    std::fs::write(path, bytes)?;
    Ok(old)
}
