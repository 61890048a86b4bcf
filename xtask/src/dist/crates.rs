//! The packages for crates.io, one per published crate, as `cargo publish` uploads them.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::Build;
use crate::shell::{cargo, run_program, target};

/// The published crates, in the order in which they can be published.
pub const CRATES: [&str; 6] =
    ["milepost", "milepost-postgres", "milepost-mcp", "milepost-ui", "milepost-cli", "milepost-testkit"];

pub(super) fn build(build: &Build) -> Result<Vec<PathBuf>> {
    package()?;
    let folder = target()?.join("package");
    CRATES
        .iter()
        .map(|name| {
            let file = folder.join(format!("{name}-{}.crate", build.info.version));
            build.info.add(&file).with_context(|| format!("{name} was not packaged"))
        })
        .collect()
}

/// Packages every published crate as `cargo publish` does, without the verification build.
pub fn package() -> Result<()> {
    let mut package = cargo();
    package.args(["package", "--quiet", "--allow-dirty", "--no-verify"]);
    for name in CRATES {
        package.args(["--package", name]);
    }
    run_program(&mut package)
}
