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

/// A command for npm, which is a batch file on Windows.
pub fn npm() -> Command {
    Command::new(if cfg!(windows) { "npm.cmd" } else { "npm" })
}

/// A command for git in the repository's root.
pub fn git() -> Command {
    let mut command = Command::new("git");
    command.current_dir(root());
    command
}

/// Builds the program in the development profile and returns its path. Builds it with the features that
/// `cargo test --workspace` enables in dependencies, so that the tests and this share what is compiled: cargo
/// includes the features of dev-dependencies only if it builds a test or an example.
pub fn build_program() -> Result<PathBuf> {
    build_with_example("session")?;
    Ok(target()?.join("debug/milepost"))
}

/// Builds an example of the library together with the program, and returns its path.
#[cfg(unix)]
pub fn build_example(name: &str) -> Result<PathBuf> {
    build_with_example(name)?;
    Ok(target()?.join("debug/examples").join(name))
}

fn build_with_example(name: &str) -> Result<()> {
    run_program(cargo().args(["build", "--quiet", "--workspace", "--bin", "milepost", "--example", name]))
}

/// Builds the program in the release profile, as users do, and returns its path.
#[cfg(unix)]
pub fn build_release_program() -> Result<PathBuf> {
    run_program(cargo().args(["build", "--quiet", "--release", "--package", "milepost-cli"]))?;
    Ok(target()?.join("release/milepost"))
}

/// The folder of what cargo builds, which contains this program in a folder of its profile.
pub fn target() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    let folder = own.parent().and_then(Path::parent);
    Ok(folder.context("this program is not in a folder of a target folder")?.to_owned())
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
    let names = [program.to_owned(), format!("{program}.exe"), format!("{program}.cmd")];
    let names = if cfg!(windows) { &names[..] } else { &names[..1] };
    folders.into_iter().any(|folder| names.iter().any(|name| folder.join(name).is_file()))
}

/// Whether this process runs as root and can therefore mount file systems and install packages.
#[cfg(unix)]
pub fn is_root() -> bool {
    read_output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}

fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
