//! `cargo xtask release VERSION [--dry-run]`: sets the version everywhere, starts the version's section in the changelog,
//! commits and tags. Publishes and pushes nothing. `--dry-run` prints the changes and writes nothing.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::dist::{CRATES, ReleaseInfo};
use crate::shell::{cargo, git, read_output, root, run_program};

const CHANGELOG: &str = "CHANGELOG.md";
const UNRELEASED: &str = "## [Unreleased]";

/// Files with the version, and the text around each occurrence. `{}` is the version.
const PLACES: [(&str, &str); 7] = [
    ("Cargo.toml", "version = \"{}\""),
    ("docs/install.md", "milepost {}"),
    ("plugins/claude-code/.claude-plugin/plugin.json", "\"version\": \"{}\""),
    ("plugins/codex/.codex-plugin/plugin.json", "\"version\": \"{}\""),
    ("plugins/gemini/gemini-extension.json", "\"version\": \"{}\""),
    ("plugins/opencode/package.json", "\"version\": \"{}\""),
    (CHANGELOG, ""),
];

/// Lock files that contain the crates of this repository.
const LOCKS: [&str; 2] = ["Cargo.lock", "fuzz/Cargo.lock"];

pub fn run(version: &str, is_dry_run: bool) -> Result<()> {
    let info = ReleaseInfo::read()?;
    check_version(version, &info.version)?;
    let tag = format!("v{version}");
    let tags = read_output(git().args(["tag", "--list", &tag]))?;
    ensure!(tags.trim().is_empty(), "the tag {tag} already exists");
    let status = read_output(git().args(["status", "--porcelain"]))?;
    ensure!(is_dry_run || status.is_empty(), "commit or stash your changes first:\n{status}");
    let date = jiff::Zoned::now().date().to_string();
    let mut changes = Vec::new();
    for file in LOCKS {
        let before = fs::read_to_string(root().join(file)).with_context(|| format!("cannot read {file}"))?;
        changes.push((file, replace_in_lock(&before, &info.version, version)));
    }
    for (file, pattern) in PLACES {
        let before = fs::read_to_string(root().join(file)).with_context(|| format!("cannot read {file}"))?;
        let after = match file {
            CHANGELOG => start_section(&before, version, &date)?,
            _ => replace_version(&before, pattern, &info.version, version)
                .with_context(|| format!("{file} does not contain the version {}", info.version))?,
        };
        changes.push((file, after));
    }
    if is_dry_run {
        for (file, after) in &changes {
            print_difference(file, after)?;
        }
        println!("Would also commit \"Release {version}\" and create the tag {tag}.");
        return Ok(());
    }
    for (file, after) in &changes {
        fs::write(root().join(file), after).with_context(|| format!("cannot write {file}"))?;
    }
    let checked = read_output(cargo().args(["metadata", "--format-version", "1", "--locked", "--no-deps"]));
    checked.context("the new versions do not agree; `git restore .` undoes the changes")?;
    run_program(git().args(["commit", "--quiet", "--all", "--message", &format!("Release {version}")]))?;
    run_program(git().args(["tag", "--annotate", &tag, "--message", &format!("Milepost {version}")]))?;
    println!("Committed and tagged {tag}.");
    println!(
        "Next: run `cargo xtask test --full`, then `git push --follow-tags`, which starts the release workflow."
    );
    Ok(())
}

/// Publishes every crate of the current version on crates.io, with the token in CARGO_REGISTRY_TOKEN. For the release
/// workflow; crates that are already published are skipped, so that it can be repeated.
pub fn publish_crates() -> Result<()> {
    for name in CRATES {
        let output = cargo().args(["publish", "--locked", "--package", name]).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let is_published = said.contains("already exists") || said.contains("already uploaded");
        ensure!(output.status.success() || is_published, "cannot publish {name}: {said}");
        println!("{name}: {}", if output.status.success() { "published" } else { "was already published" });
    }
    Ok(())
}

/// Checks that a version is valid and higher than the current one. The current version may be released if it has no tag.
fn check_version(new: &str, current: &str) -> Result<()> {
    let (new_parts, current_parts) = (parse(new)?, parse(current)?);
    ensure!(new_parts >= current_parts, "{new} is lower than the current version {current}");
    Ok(())
}

/// A version as numbers that compare as versions do. A pre-release, such as `1.0.0-rc.1`, is lower than its version.
fn parse(version: &str) -> Result<([u64; 3], bool, Vec<u64>)> {
    let (numbers, pre) =
        version.split_once('-').map_or((version, None), |(numbers, pre)| (numbers, Some(pre)));
    let numbers: Vec<u64> = numbers.split('.').filter_map(|part| part.parse().ok()).collect();
    let Ok(numbers) = <[u64; 3]>::try_from(numbers) else {
        bail!("{version} is not a version of the form 1.2.3 or 1.2.3-rc.1");
    };
    let pre_numbers = match pre {
        None => Vec::new(),
        Some(pre) => match pre.strip_prefix("rc.").and_then(|number| number.parse().ok()) {
            Some(number) => vec![number],
            None => bail!("{version} is not a version of the form 1.2.3 or 1.2.3-rc.1"),
        },
    };
    Ok((numbers, pre.is_none(), pre_numbers))
}

/// Replaces every occurrence of the old version inside a pattern. `None` if there is none.
fn replace_version(text: &str, pattern: &str, old: &str, new: &str) -> Option<String> {
    let (old, new) = (pattern.replace("{}", old), pattern.replace("{}", new));
    text.contains(&old).then(|| text.replace(&old, &new))
}

/// Replaces the versions of this repository's crates in a lock file.
fn replace_in_lock(text: &str, old: &str, new: &str) -> String {
    let (old, new) = (format!("version = \"{old}\""), format!("version = \"{new}\""));
    let mut is_ours = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("name = ") {
            is_ours = name.trim_matches('"').split('-').next() == Some("milepost");
        }
        lines.push(if is_ours && line == old { new.as_str() } else { line });
    }
    lines.join("\n") + "\n"
}

/// Moves what is unreleased into a section of the version.
fn start_section(text: &str, version: &str, date: &str) -> Result<String> {
    let (before, after) = text.split_once(UNRELEASED).context("the changelog has no section [Unreleased]")?;
    let unreleased = after.split("\n## ").next().unwrap_or_default();
    ensure!(!unreleased.trim().is_empty(), "the section [Unreleased] of the changelog is empty");
    Ok(format!("{before}{UNRELEASED}\n\n## [{version}] - {date}{after}"))
}

/// Prints how a file would change.
fn print_difference(file: &str, after: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join(Path::new(file).file_name().context("a file has no name")?);
    fs::write(&copy, after)?;
    let mut diff = Command::new("git");
    diff.current_dir(root()).args([
        "--no-pager",
        "diff",
        "--no-index",
        "--no-color",
        "--unified=1",
        "--",
        file,
    ]);
    let output = diff.arg(&copy).output()?;
    // The paths of the temporary file are of no interest.
    for line in String::from_utf8_lossy(&output.stdout).lines().filter(|line| is_change(line)) {
        println!("{}", line.replace(&copy.display().to_string(), &format!("/{file}")));
    }
    Ok(())
}

fn is_change(line: &str) -> bool {
    !line.starts_with("diff ") && !line.starts_with("index ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_only_rise() {
        for (new, current) in
            [("0.2.0", "0.1.9"), ("1.0.0-rc.1", "0.9.0"), ("1.0.0", "1.0.0-rc.2"), ("0.1.0", "0.1.0")]
        {
            assert!(check_version(new, current).is_ok(), "{new} after {current}");
        }
        for (new, current) in
            [("0.1.0", "0.1.1"), ("1.0.0-rc.1", "1.0.0"), ("1.0", "0.1.0"), ("v1.0.0", "0.1.0")]
        {
            assert!(check_version(new, current).is_err(), "{new} after {current}");
        }
    }

    #[test]
    fn a_section_starts_below_unreleased() {
        let text =
            "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- one\n\n## [0.1.0] - 2026-01-01\n\n- zero\n";
        let after = start_section(text, "0.2.0", "2026-02-03").unwrap();
        assert_eq!(
            after,
            "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-02-03\n\n### Added\n\n- one\n\n\
             ## [0.1.0] - 2026-01-01\n\n- zero\n"
        );
        assert!(start_section(&after, "0.3.0", "2026-03-04").is_err(), "nothing is unreleased");
    }

    #[test]
    fn only_our_crates_change_in_a_lock_file() {
        let lock = "[[package]]\nname = \"milepost-cli\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"other\"\nversion = \"0.1.0\"\n";
        let after = replace_in_lock(lock, "0.1.0", "0.2.0");
        assert_eq!(after, lock.replacen("0.1.0", "0.2.0", 1));
        let own = fs::read_to_string(root().join("Cargo.lock")).unwrap();
        assert_eq!(replace_in_lock(&own, "0.1.0", "0.1.0"), own);
    }

    #[test]
    fn every_place_contains_the_version() {
        let version = ReleaseInfo::read().unwrap().version;
        for (file, pattern) in PLACES {
            let text = fs::read_to_string(root().join(file)).unwrap();
            assert!(
                pattern.is_empty() || replace_version(&text, pattern, &version, "9.9.9").is_some(),
                "{file}"
            );
        }
    }
}
