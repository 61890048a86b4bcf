//! File systems for a while: a mount that is undone at the end, also when a case fails.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::shell::{is_root, read_output, run_program};

/// A mounted folder.
pub struct Mount {
    pub folder: PathBuf,
}

impl Mount {
    /// A file system in memory, or why there is none.
    pub fn memory(folder: &Path, size: &str) -> Result<Self, String> {
        if !is_root() {
            return Err("mounting needs root".into());
        }
        Self::with(folder, &["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "tmpfs"])
    }

    /// What `mount` gets beside the folder.
    pub fn with(folder: &Path, args: &[&str]) -> Result<Self, String> {
        let said =
            read_output(Command::new("mount").args(args).arg(folder)).map_err(|e| format!("no mount: {e:#}"));
        said.map(|_| Self { folder: folder.to_owned() })
    }

    /// Mounts it anew, `ro` or `rw`.
    pub fn remount(&self, mode: &str) -> Result<()> {
        run_program(Command::new("mount").args(["-o", &format!("remount,{mode}")]).arg(&self.folder))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // A file system that was shut down needs no more than to go.
        let _ = read_output(Command::new("umount").arg("--lazy").arg(&self.folder));
    }
}
