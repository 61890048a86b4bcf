//! `cargo xtask fuzz`: builds the programs in `fuzz` with coverage instrumentation, and runs each for some time with
//! libFuzzer. Prints what each has covered and found, and fails if one finds a bug. New inputs are kept in the target
//! folder; only `--minimize` changes the committed ones. `--short` needs no instrumentation: it runs the committed inputs
//! and variants of them as a test.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::shell::{cargo, read_output, root, run_program, target};

pub const USAGE: &str =
    "usage: cargo xtask fuzz [--short] [TARGET…] [--seconds N | --hours N | --input FILE | --minimize]";

/// Time for each target by default, in seconds.
const SECONDS: u64 = 60;
/// Time for each target in `cargo xtask test --full`, in seconds.
const SECONDS_OF_FULL_TEST: u64 = 20;
/// Maximum time for one input, in seconds. The slowest take a tenth of a second.
const INPUT_SECONDS: u64 = 20;
/// Maximum memory of a program, in MiB.
const MEMORY: u64 = 2048;
/// Maximum size of an input, in bytes. A page of a SQLite file is 4 KiB, so that a database has several.
const INPUT_BYTES: u64 = 40_000;
/// Maximum size of the committed inputs of one target, in bytes, except those that were there before.
const COMMITTED_BYTES: u64 = 16_000;
/// Maximum size of a new committed input, in bytes.
const COMMITTED_INPUT_BYTES: u64 = 2_000;

/// What the compiler adds for libFuzzer: counters for edges, and the operands of comparisons. Stable compilers accept
/// these options.
const INSTRUMENTATION: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg",
    "fuzzing",
];

/// What to do with each target.
enum Job {
    /// Search for new inputs, for this many seconds.
    Search(u64),
    /// Run one input.
    Reproduce(PathBuf),
    /// Add inputs that cover more to the committed ones.
    Minimize,
}

pub fn run(args: &[&str]) -> Result<()> {
    let known = targets()?;
    let mut job = Job::Search(SECONDS);
    let mut hours = None;
    let mut names: Vec<String> = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{arg} needs a value\n{USAGE}"));
        match *arg {
            "--short" => return run_short(),
            "--seconds" => job = Job::Search(value()?.parse().context("--seconds needs a whole number")?),
            "--hours" => hours = Some(value()?.parse::<f64>().context("--hours needs a number")?),
            "--input" => job = Job::Reproduce(std::path::absolute(value()?)?),
            "--minimize" => job = Job::Minimize,
            name if known.iter().any(|target| target == name) => names.push(name.to_owned()),
            name => bail!("unknown target {name}; the targets are {}\n{USAGE}", known.join(", ")),
        }
    }
    if names.is_empty() {
        names = known;
    }
    if let Some(hours) = hours {
        job = Job::Search((hours * 3600.0 / names.len() as f64) as u64);
    }
    if matches!(job, Job::Reproduce(_)) && names.len() != 1 {
        bail!("--input needs the name of one target\n{USAGE}");
    }
    let programs = Programs::build(&names)?;
    let mut findings = 0;
    for name in &names {
        match &job {
            Job::Search(seconds) => findings += programs.search(name, *seconds)?,
            Job::Reproduce(input) => run_program(programs.command(name).arg(input))?,
            Job::Minimize => programs.minimize(name)?,
        }
    }
    match findings {
        0 => Ok(()),
        _ => bail!("{findings} of {} targets found a bug", names.len()),
    }
}

/// Runs the committed inputs and variants of them, without instrumentation. Builds with the features of
/// `cargo test --workspace`, so that both share what is compiled.
pub fn run_short() -> Result<()> {
    run_program(cargo().args(["test", "--quiet", "--workspace", "--test", "corpus"]))
}

/// Searches with every target for a short time.
pub fn run_in_full_test() -> Result<()> {
    run(&["--seconds", &SECONDS_OF_FULL_TEST.to_string()])
}

/// The names of all targets.
fn targets() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(root().join("fuzz/fuzz_targets")).context("cannot list fuzz/fuzz_targets")? {
        names.extend(entry?.path().file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// The instrumented programs, and the folder of what they find.
struct Programs {
    programs: PathBuf,
    found: PathBuf,
}

impl Programs {
    fn build(names: &[String]) -> Result<Self> {
        let found = target()?.join("fuzz");
        let version = read_output(Command::new("rustc").arg("-vV"))?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.context("rustc does not name its host")?;
        let build = found.join("build");
        println!("fuzz: building {} programs", names.len());
        // With `--target`, build scripts and procedural macros are not instrumented.
        let mut command = cargo();
        command
            .args(["build", "--quiet", "--release", "--manifest-path", "fuzz/Cargo.toml"])
            .args(["--target", host])
            .args(names.iter().flat_map(|name| ["--bin", name]))
            .env("CARGO_TARGET_DIR", &build)
            .env("CARGO_ENCODED_RUSTFLAGS", INSTRUMENTATION.join("\x1f"));
        run_program(&mut command)?;
        Ok(Self { programs: build.join(host).join("release"), found })
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.args([
            format!("-timeout={INPUT_SECONDS}"),
            format!("-rss_limit_mb={MEMORY}"),
            format!("-max_len={INPUT_BYTES}"),
        ]);
        command
    }

    /// Searches for inputs that cover more code or find a bug. Returns the number of bugs, which is 0 or 1: the program
    /// ends at the first one.
    fn search(&self, name: &str, seconds: u64) -> Result<usize> {
        let inputs = self.found.join("corpus").join(name);
        let findings = self.found.join("findings").join(name);
        fs::create_dir_all(&inputs)?;
        fs::create_dir_all(&findings)?;
        let (count_before, findings_before) = (files(&inputs)?.len(), files(&findings)?);
        let log = self.found.join(format!("{name}.log"));
        let mut command = self.command(name);
        command
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-artifact_prefix={}/", findings.display()))
            .args(["-print_final_stats=1", "-reload=0"])
            .args([&inputs, &root().join("fuzz/corpus").join(name)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log)?);
        let status = command.status().with_context(|| format!("cannot start the program of {name}"))?;
        let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        let executions = last_number(&text, "stat::number_of_executed_units:").or(last_number(&text, "#"));
        println!(
            "{name}: {} executions, {} edges, {} features, {} new inputs, {}",
            executions.unwrap_or(0),
            last_number(&text, "cov:").unwrap_or(0),
            last_number(&text, "ft:").unwrap_or(0),
            files(&inputs)?.len() - count_before,
            if status.success() { "no bug" } else { "A BUG" },
        );
        if status.success() {
            return Ok(0);
        }
        for line in problems(&text) {
            println!("  {line}");
        }
        println!("  log: {}", log.display());
        for input in files(&findings)?.iter().filter(|input| !findings_before.contains(input)) {
            println!("  input: {}", input.display());
            println!("  reproduce: cargo xtask fuzz {name} --input {}", input.display());
        }
        Ok(1)
    }

    /// Adds the inputs that cover edges which the committed ones do not, smallest first, up to a total size.
    fn minimize(&self, name: &str) -> Result<()> {
        let committed = root().join("fuzz/corpus").join(name);
        let found = self.found.join("corpus").join(name);
        let merged = self.found.join("merged").join(name);
        if merged.exists() {
            fs::remove_dir_all(&merged)?;
        }
        fs::create_dir_all(&merged)?;
        fs::create_dir_all(&found)?;
        let mut command = self.command(name);
        // Without counters, an input that only repeats a loop more often covers nothing new.
        command.args(["-set_cover_merge=1", "-use_counters=0"]).args([&merged, &committed, &found]);
        run_program(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
        let known: Vec<_> = files(&committed)?.iter().map(fs::read).collect::<Result<_, _>>()?;
        let mut new = Vec::new();
        for path in files(&merged)? {
            let content = fs::read(&path)?;
            if !known.contains(&content) && content.len() as u64 <= COMMITTED_INPUT_BYTES {
                new.push((content.len() as u64, path));
            }
        }
        new.sort();
        let mut total: u64 = known.iter().map(|content| content.len() as u64).sum();
        let mut added = 0;
        for (size, path) in new {
            total += size;
            if total > COMMITTED_BYTES {
                break;
            }
            fs::copy(&path, committed.join(path.file_name().unwrap_or_default()))?;
            added += 1;
        }
        println!("{name}: {added} inputs added to {}", committed.display());
        Ok(())
    }
}

/// The lines of libFuzzer's output that tell what is wrong, with the message of a panic. Long lines are cut.
fn problems(text: &str) -> Vec<String> {
    let mut previous = "";
    let mut found = Vec::new();
    for line in text.lines() {
        if line.contains("panicked at") || previous.contains("panicked at") || line.contains("ERROR: ") {
            found.push(line.chars().take(300).collect());
        }
        previous = line;
    }
    found
}

/// The files in a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

/// The number after the last occurrence of a word.
fn last_number(text: &str, word: &str) -> Option<u64> {
    let rest = text.rsplit_once(word)?.1.trim_start();
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_the_output_of_libfuzzer() {
        let panic = "#9 NEW\nthread 'a' panicked at a.rs:1:2:\nwhy\nnote\n";
        assert_eq!(problems(panic), ["thread 'a' panicked at a.rs:1:2:", "why"]);
        let text = "#2 INITED cov: 7 ft: 8 corp: 1/1b\n#2097 NEW cov: 61 ft: 90 corp: 2/6b\n";
        assert_eq!(last_number(text, "cov:"), Some(61));
        assert_eq!(last_number(text, "ft:"), Some(90));
        assert_eq!(last_number(text, "#"), Some(2097));
        assert_eq!(last_number(text, "stat::x:"), None);
    }
}
