//! The C compilers for SQLite, zstd, BLAKE3 and ring: mingw-w64 for Windows, Zig for macOS and musl. Without them, or if
//! nothing is linked, a placeholder that compiles nothing. Takes a target; sets the environment of a cargo command.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::{is_installed, read_output, target};

/// From PyPI.
const ZIG: &str = "ziglang==0.17.0";

/// Creates its output file, empty.
const PLACEHOLDER_COMPILER: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
        -o) : > "$2"; shift ;;
        -o*) : > "${1#-o}" ;;
    esac
    shift
done
"#;

const PLACEHOLDER_ARCHIVER: &str = r#"#!/bin/sh
for file; do
    case $file in *.a) : > "$file" ;; esac
done
"#;

/// Leaves out the options with which the crate `cc` names the target to other compilers.
const ZIG_COMPILER: &str = r#"#!/bin/sh
left=$#
while [ $left -gt 0 ]; do
    option=$1
    shift
    left=$((left - 1))
    case $option in
        --target=* | -mmacosx-version-min=*) ;;
        -arch | -isysroot) shift; left=$((left - 1)) ;;
        *) set -- "$@" "$option" ;;
    esac
done
exec "@ZIG@" cc -target @TARGET@ "$@"
"#;

/// A C compiler and an archiver, and how to describe them.
pub struct Compilers {
    compiler: PathBuf,
    archiver: PathBuf,
    description: String,
    can_link: bool,
    /// A target folder of its own, for what placeholders made: cargo would link it into real programs.
    target_folder: Option<PathBuf>,
}

impl Compilers {
    /// Compilers that compile nothing.
    pub fn placeholders() -> Result<Self> {
        Ok(Self {
            compiler: script("no-cc", PLACEHOLDER_COMPILER)?,
            archiver: script("no-ar", PLACEHOLDER_ARCHIVER)?,
            description: "its C code was not compiled".to_owned(),
            can_link: false,
            target_folder: Some(folder()?.join("type-check")),
        })
    }

    /// The compilers for a target, or placeholders if there are none.
    pub fn for_target(target: &str) -> Result<Self> {
        let mingw = "x86_64-w64-mingw32-gcc";
        if target.ends_with("windows-gnu") && is_installed(mingw) {
            return Ok(Self {
                compiler: mingw.into(),
                archiver: "x86_64-w64-mingw32-ar".into(),
                description: "its C code with mingw-w64".to_owned(),
                can_link: true,
                target_folder: None,
            });
        }
        match zig() {
            Ok(zig) => Self::with_zig(&zig, target),
            Err(why) => {
                let placeholders = Self::placeholders()?;
                let description = format!("{}: {why}", placeholders.description);
                Ok(Self { description, ..placeholders })
            }
        }
    }

    fn with_zig(zig: &Path, target: &str) -> Result<Self> {
        let zig = zig.display().to_string();
        let compiler = ZIG_COMPILER.replace("@ZIG@", &zig).replace("@TARGET@", zig_target(target));
        Ok(Self {
            compiler: script(&format!("zig-cc-{target}"), &compiler)?,
            archiver: script("zig-ar", &format!("#!/bin/sh\nexec \"{zig}\" ar \"$@\"\n"))?,
            description: "its C code with Zig".to_owned(),
            can_link: false,
            target_folder: None,
        })
    }

    /// Makes a cargo command build for a target with these compilers. Comes before `--`.
    pub fn set(&self, cargo: &mut Command, target: &str) {
        let name = target.replace('-', "_");
        cargo.args(["--target", target]);
        cargo.env(format!("CC_{name}"), &self.compiler).env(format!("AR_{name}"), &self.archiver);
        // Otherwise the crate `cc` would ask Xcode.
        cargo.env("SDKROOT", "/");
        if let Some(folder) = &self.target_folder {
            cargo.env("CARGO_TARGET_DIR", folder);
        }
    }

    pub fn description(&self) -> &str {
        &self.description
    }

    /// Whether rustc can link programs for the target with what is installed.
    pub fn can_link(&self) -> bool {
        self.can_link
    }
}

fn zig_target(target: &str) -> &'static str {
    match target {
        "x86_64-apple-darwin" => "x86_64-macos",
        "aarch64-apple-darwin" => "aarch64-macos",
        "aarch64-unknown-linux-musl" => "aarch64-linux-musl",
        "x86_64-unknown-linux-musl" => "x86_64-linux-musl",
        _ => "x86_64-windows-gnu",
    }
}

/// The folder of scripts and of Zig.
fn folder() -> Result<PathBuf> {
    let folder = target()?.join("portability");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Writes a script, unless it exists with this content: a newer one would make cargo compile everything again.
fn script(name: &str, text: &str) -> Result<PathBuf> {
    let path = folder()?.join(name);
    if fs::read_to_string(&path).is_ok_and(|found| found == text) {
        return Ok(path);
    }
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// The path of Zig, downloaded on first use; the error says why there is none.
fn zig() -> Result<PathBuf> {
    let zig_folder = folder()?.join("zig");
    let zig = zig_folder.join("ziglang/zig");
    if !zig.is_file() {
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps", "--target"]);
        read_output(pip.arg(&zig_folder).arg(ZIG)).context("Zig cannot be installed from PyPI")?;
    }
    Ok(zig)
}
