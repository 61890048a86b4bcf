//! Runs every target on the committed inputs in `fuzz/corpus`, and on variants of them that are the same in every run. A
//! failure names the input, which is saved if it is a variant.

#![allow(clippy::panic, reason = "tests")]

use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use milepost::internal::fs::atomic;
use milepost_fuzz::{Mutator, TARGETS, Target};

/// The seed of the variants.
const SEED: u64 = 1;
/// Maximum number of variants for each target, and the time after which no further variant is tried.
const MOST_VARIANTS: u32 = 400;
const TIME: Duration = Duration::from_millis(700);
/// Maximum time for one input. The slowest take a tenth of a second without optimisation.
const MOST_TIME: Duration = Duration::from_secs(20);
/// Maximum size of a variant in bytes.
const MOST_BYTES: usize = 64 << 10;

/// The inputs of a target with their paths, sorted.
fn inputs(target: &Target) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target.name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.into_iter().filter_map(|path| Some((path.clone(), std::fs::read(path).ok()?))).collect()
}

/// Runs a target on an input. Returns `name` if the target panics or takes too long.
fn run(target: &Target, input: &[u8], name: impl Fn() -> String) -> Result<(), String> {
    let start = Instant::now();
    let is_fine = catch_unwind(|| target.check(input)).is_ok();
    match start.elapsed() {
        _ if !is_fine => Err(format!("{}: {}", target.name, name())),
        time if time > MOST_TIME => Err(format!("{}: {} took {} s", target.name, name(), time.as_secs())),
        _ => Ok(()),
    }
}

/// Runs a target on its committed inputs and on variants of them, up to the first failure.
fn run_all(target: &Target) -> Result<(), String> {
    let inputs = inputs(target);
    for (path, input) in &inputs {
        run(target, input, || path.display().to_string())?;
    }
    let contents: Vec<Vec<u8>> = inputs.into_iter().map(|(_, content)| content).collect();
    let mutator = Mutator::new(SEED);
    let start = Instant::now();
    let mut variants = 0;
    while variants < MOST_VARIANTS && start.elapsed() < TIME {
        let input = mutator.next(&contents, MOST_BYTES);
        run(target, &input, || save(target, variants, &input))?;
        variants += 1;
    }
    Ok(())
}

/// Saves a variant, and returns its description.
fn save(target: &Target, number: u32, input: &[u8]) -> String {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{SEED}-{number}", target.name));
    let place = match atomic::write(&file, input, atomic::Mode::Private) {
        Ok(()) => file.display().to_string(),
        Err(e) => e.to_string(),
    };
    format!("variant {number} of seed {SEED}, saved as {place}")
}

#[test]
fn committed_inputs_and_variants_of_them_find_nothing() {
    let failures: Vec<String> = TARGETS.iter().filter_map(|target| run_all(target).err()).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_folder_of_inputs_and_every_program_has_a_target() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let names = |folder: &str, suffix: &str| -> Vec<String> {
        let entries = std::fs::read_dir(fuzz.join(folder)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<_> =
            names.filter_map(|name| Some(name.strip_suffix(suffix)?.to_owned())).collect();
        names.sort();
        names
    };
    let targets: Vec<_> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(names("corpus", ""), targets);
    assert_eq!(names("fuzz_targets", ".rs"), targets);
}
