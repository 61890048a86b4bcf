//! Temporary mounts, unmounted on drop, even if a case fails.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::shell::{is_root, read_output, run_program};

/// A mounted folder.
pub struct Mount {
    pub folder: PathBuf,
}

impl Mount {
    /// Mounts a file system in memory, or returns why it cannot.
    pub fn memory(folder: &Path, size: &str) -> Result<Self, String> {
        if !is_root() {
            return Err("mounting needs root".into());
        }
        Self::with(folder, &["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "tmpfs"])
    }

    /// Calls `mount` with these arguments and the folder, or returns why it failed.
    pub fn with(folder: &Path, args: &[&str]) -> Result<Self, String> {
        let said = read_output(Command::new("mount").args(args).arg(folder))
            .map_err(|e| format!("cannot mount: {e:#}"));
        said.map(|_| Self { folder: folder.to_owned() })
    }

    /// Remounts it as `ro` or `rw`.
    pub fn remount(&self, mode: &str) -> Result<()> {
        run_program(Command::new("mount").args(["-o", &format!("remount,{mode}")]).arg(&self.folder))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A lazy unmount is enough, even for a file system that was shut down.
        let _ = read_output(Command::new("umount").arg("--lazy").arg(&self.folder));
    }
}
