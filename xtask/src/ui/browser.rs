//! Chromium, driven by the scripts in `xtask/src/ui/browser` through playwright-core. Both npm packages are installed
//! under `target/`; the browser must be there already.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::server::PageServer;
use crate::npm;
use crate::shell::{is_installed, read_output, root};

/// Drives the browser.
const PLAYWRIGHT: &str = "playwright-core@1.65.1";
/// Finds problems of accessibility.
const AXE: &str = "axe-core@4.14.0";
/// Debian's Chromium.
const CHROMIUM: &str = "/usr/bin/chromium";

pub(super) struct Browser {
    /// The folders `node_modules` of playwright-core and axe-core.
    playwright: PathBuf,
    axe: PathBuf,
}

impl Browser {
    /// Installs what is missing, or says why a browser cannot be used.
    pub(super) fn find() -> Result<Self, String> {
        if !std::path::Path::new(CHROMIUM).is_file() {
            return Err(format!("{CHROMIUM} is missing; `cargo xtask setup` installs it"));
        }
        if let Some(missing) = ["node", "npm"].into_iter().find(|program| !is_installed(program)) {
            return Err(format!("{missing} is not installed"));
        }
        let tools = root().join("target/ui/npm");
        let install =
            |package: &str| npm::install(&tools.join(package), package).map_err(|e| format!("{e:#}"));
        Ok(Self { playwright: install(PLAYWRIGHT)?, axe: install(AXE)? })
    }

    /// Runs a case in a new profile. Returns its figures, or fails with everything that was wrong.
    pub(super) fn run(&self, case: &str, server: &PageServer, mut settings: Value) -> Result<String> {
        let own = json!({
            "chromium": CHROMIUM,
            "playwright": self.playwright.join("playwright-core/index.mjs"),
            "axe": self.axe.join("axe-core/axe.min.js"),
            "url": server.url,
            "base": server.base(),
            "server": server.child.id(),
        });
        if let (Some(settings), Value::Object(own)) = (settings.as_object_mut(), own) {
            settings.extend(own);
        }
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("settings.json");
        std::fs::write(&file, settings.to_string())?;
        let script = root().join("xtask/src/ui/browser/main.mjs");
        let mut node = Command::new("node");
        node.arg(script).arg(case).arg(&file).current_dir(root());
        let output = read_output(&mut node).context("in the browser")?;
        Ok(output.trim().replace('\n', "; "))
    }
}
