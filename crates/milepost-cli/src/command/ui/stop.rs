//! Stops the server when the terminal that started it is closed, so that no forgotten server keeps running.

use std::io;
use std::time::Duration;

use milepost_ui::StopHandle;
use rustix::process::getppid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// How often to check whether the process that started this one still exists.
const PARENT_INTERVAL: Duration = Duration::from_secs(1);

/// Stops the server on Ctrl-C, when the terminal is closed, and when the process that started it ends. A closed
/// terminal counts even under `nohup`.
pub(super) fn stop_with_terminal(stop: StopHandle) -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let on_signal = stop.clone();
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            on_signal.stop();
        }
    });
    let parent = getppid();
    std::thread::spawn(move || {
        while getppid() == parent {
            std::thread::sleep(PARENT_INTERVAL);
        }
        stop.stop();
    });
    Ok(())
}
