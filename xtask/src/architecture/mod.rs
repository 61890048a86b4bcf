//! What the code's shape must be, checked on every test run: the map, the edges between crates and modules, the sources.
//! In: the files that git knows. Out: every violation, each in one line that says what to do.

pub mod api;
mod edges;
mod map;
mod sources;

use std::process::Command;

use anyhow::{Result, bail};

use crate::shell::{read_output, root};

/// A check gives its violations.
type Check = fn(&Tree) -> Result<Vec<String>>;

const CHECKS: [(&str, Check); 7] = [
    ("ARCHITECTURE.md names what is there", map::check),
    ("crates depend in one direction", edges::crates),
    ("the library needs no async runtime and no network", edges::no_runtime),
    ("modules of the library know only what they may", edges::library_modules),
    ("modules of the command line know only what they may", edges::command_line_modules),
    ("sources keep the rules", sources::check),
    ("nothing of a machine is in the repository", sources::machine_paths),
];

/// The files of the repository, with forward slashes, that exist.
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

    /// A file's text; empty where it is not text.
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
        bail!("{broken} violations of the architecture");
    }
    Ok(())
}
