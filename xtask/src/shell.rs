//! Runs cargo and other programs, and checks what this machine provides.
//! Every error names the command line that failed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// A command for the cargo that started this process, run in the repository's root.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a command to completion. It inherits stdout and stderr.
pub fn run_program(command: &mut Command) -> Result<()> {
    let line = line(command);
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed: {status}");
    }
    Ok(())
}

/// Runs a command to completion and returns its stdout.
pub fn read_output(command: &mut Command) -> Result<String> {
    let line = line(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed: {}: {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a program is in a folder of PATH, in `/usr/sbin`, in `/sbin`, or where Debian keeps PostgreSQL's
/// server programs.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = folders.chain(versions.map(|version| version.path().join("bin")));
    folders.into_iter().any(|folder| folder.join(program).is_file())
}

/// Whether this process runs as root and can therefore mount file systems and install packages.
pub fn is_root() -> bool {
    read_output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
