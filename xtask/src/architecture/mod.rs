//! Architecture checks, part of every test run: ARCHITECTURE.md, dependencies between crates and modules, and
//! rules for sources. Takes the files that git tracks or would add, and prints one line per violation.

pub mod api;
mod edges;
mod map;
mod sources;

use std::process::Command;

use anyhow::{Result, bail};

use crate::shell::{read_output, root};

/// Returns one message per violation.
type Check = fn(&Tree) -> Result<Vec<String>>;

const CHECKS: [(&str, Check); 7] = [
    ("ARCHITECTURE.md matches the repository", map::check),
    ("crates depend in one direction", edges::crates),
    ("the library needs no async runtime and no network", edges::no_runtime),
    ("library modules use only allowed modules", edges::library_modules),
    ("command-line modules use only allowed modules", edges::command_line_modules),
    ("sources follow the rules", sources::check),
    ("the repository has no machine-specific paths or registries", sources::machine_paths),
];

/// The existing files of the repository, as relative paths with forward slashes.
pub struct Tree {
    pub files: Vec<String>,
}

impl Tree {
    fn read() -> Result<Self> {
        let mut git = Command::new("git");
        git.current_dir(root()).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listed = read_output(&mut git)?;
        let files = listed.split('\0').filter(|f| !f.is_empty() && root().join(f).is_file());
        Ok(Self { files: files.map(str::to_owned).collect() })
    }

    /// Rust sources under `crates/*/src`.
    pub fn modules(&self) -> impl Iterator<Item = &str> {
        let inside = |f: &&str| f.starts_with("crates/") && f.contains("/src/") && f.ends_with(".rs");
        self.files.iter().map(String::as_str).filter(inside)
    }

    /// A file's content, or an empty string if it is not UTF-8.
    pub fn text(&self, file: &str) -> Result<String> {
        Ok(String::from_utf8(std::fs::read(root().join(file))?).unwrap_or_default())
    }
}

pub fn run() -> Result<()> {
    let tree = Tree::read()?;
    let mut broken = 0;
    for (name, check) in CHECKS {
        let violations = check(&tree)?;
        println!("{} {name}", if violations.is_empty() { "ok    " } else { "FAILED" });
        for violation in &violations {
            println!("       {violation}");
        }
        broken += violations.len();
    }
    if broken > 0 {
        bail!("{broken} architecture violations");
    }
    Ok(())
}
