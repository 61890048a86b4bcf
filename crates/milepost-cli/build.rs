//! How the released command is linked. A hook lives for a millisecond or two, and much of that is its own start: a program
//! that brings its C library along and stands at a fixed address starts in half the time of one that the dynamic linker
//! puts together. Where the parts for that are missing, or `MILEPOST_LINK=dynamic` asks for it, the command is linked as
//! any other.

// Cargo speaks to a build script through the environment.
#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::process::Command;

/// What Rust's own library asks the linker for on Linux, and the static library that answers.
const LIBRARIES: [(&str, &str); 7] = [
    ("c", "c"),
    ("m", "m"),
    ("rt", "rt"),
    ("pthread", "pthread"),
    ("util", "util"),
    ("dl", "dl"),
    // Unwinding.
    ("gcc_s", "gcc_eh"),
];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MILEPOST_LINK");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let here = std::env::var("TARGET") == std::env::var("HOST");
    let glibc = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !is("PROFILE", "release") || !glibc || !here || is("MILEPOST_LINK", "dynamic") {
        return;
    }
    let Some(folder) = std::env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    if LIBRARIES.iter().any(|(asked, answer)| !gather(&folder, asked, answer)) {
        return;
    }
    // The linker looks here first, and finds what can be linked in under the names it is given.
    println!("cargo::rustc-link-search=native={}", folder.display());
    for argument in [
        "-static",
        "-no-pie",
        // These need each other, and some linkers look through a library once.
        "-Wl,--start-group,-lgcc_s,-lgcc,-lc,--end-group",
    ] {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
}

/// Copies a static library into the folder, if there is one.
fn gather(folder: &Path, asked: &str, answer: &str) -> bool {
    let find = || {
        let found = Command::new("cc").arg(format!("-print-file-name=lib{answer}.a")).output().ok()?;
        // A compiler that does not find it gives the bare name back.
        Some(PathBuf::from(String::from_utf8(found.stdout).ok()?.trim())).filter(|path| path.is_absolute())
    };
    find().is_some_and(|path| std::fs::copy(path, folder.join(format!("lib{asked}.a"))).is_ok())
}
