//! One file per target, and the list of all targets. A target takes any bytes and panics if it finds a bug.

mod address;
mod brief;
mod bundle;
mod checkpoint;
mod config;
mod files_store;
mod foreign;
mod git;
mod hook;
mod manifest;
mod mcp;
mod nova26;
mod pointer;
mod redact;
mod search;
mod settings;
mod sqlite_store;
mod stored_runs;
mod values;

/// A target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// The name, which is also the name of its program and of the folder of its inputs.
    pub name: &'static str,
    run: fn(&[u8]),
}

impl Target {
    /// Runs the code under test on an input. Panics if it finds a bug.
    pub fn check(&self, input: &[u8]) {
        (self.run)(input);
    }
}

/// All targets, by name.
pub static TARGETS: &[Target] = &[
    Target { name: "address", run: address::run },
    Target { name: "brief", run: brief::run },
    Target { name: "bundle", run: bundle::run },
    Target { name: "checkpoint", run: checkpoint::run },
    Target { name: "config", run: config::run },
    Target { name: "files_store", run: files_store::run },
    Target { name: "foreign", run: foreign::run },
    Target { name: "git", run: git::run },
    Target { name: "hook", run: hook::run },
    Target { name: "manifest", run: manifest::run },
    Target { name: "mcp", run: mcp::run },
    Target { name: "nova26", run: nova26::run },
    Target { name: "pointer", run: pointer::run },
    Target { name: "redact", run: redact::run },
    Target { name: "search", run: search::run },
    Target { name: "settings", run: settings::run },
    Target { name: "sqlite_store", run: sqlite_store::run },
    Target { name: "values", run: values::run },
];

/// The target with a name.
pub fn find_target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
