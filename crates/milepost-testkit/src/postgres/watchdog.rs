//! A small shell process that stops a server and removes its folder when this process ends, however it ends.
//! It waits for the end of a pipe whose other end only this process holds. Must not be reached by signals of
//! the terminal.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::{ServerError, programs};

/// Waits for the end of stdin, runs the command that stops the server, and removes the folder `$1`.
const SCRIPT: &str = r#"
trap '' INT HUP TERM QUIT
folder=$1
shift
cat >/dev/null
"$@"
rm -rf "$folder"
"#;

/// Stops a server and removes its folder when dropped, or when this process ends.
#[derive(Debug)]
pub(super) struct Watchdog(Child);

impl Watchdog {
    /// Watches a server below `folder`; `stop` is the command line that stops it.
    pub(super) fn start(folder: &Path, stop: &[String]) -> Result<Self, ServerError> {
        let mut command = Command::new("sh");
        programs::clean(&mut command);
        command.args(["-c", SCRIPT, "milepost-test-watchdog"]).arg(folder).args(stop);
        // A group of its own: an interrupt from the keyboard must not end the watchdog before its work.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn();
        child.map(Self).map_err(|e| ServerError::Failed(format!("cannot start a watchdog: {e}")))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
