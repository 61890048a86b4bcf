//! Stops the server when the terminal that started it is closed, so that no forgotten server keeps running.

use std::io;
use std::time::Duration;

use milepost_ui::StopHandle;

/// How often to check whether the process that started this one still exists.
const PARENT_INTERVAL: Duration = Duration::from_secs(1);

/// Stops the server on Ctrl-C, when the terminal is closed, and when the process that started it ends. A closed
/// terminal counts even under `nohup`.
pub(super) fn stop_with_terminal(stop: StopHandle) -> io::Result<()> {
    stop_on_signal(stop.clone())?;
    let has_parent = parent_check();
    std::thread::spawn(move || {
        while has_parent() {
            std::thread::sleep(PARENT_INTERVAL);
        }
        stop.stop();
    });
    Ok(())
}

#[cfg(unix)]
fn stop_on_signal(stop: StopHandle) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            stop.stop();
        }
    });
    Ok(())
}

/// Ctrl-C, Ctrl-Break and a closed window are the only signals of this platform.
#[cfg(not(unix))]
fn stop_on_signal(stop: StopHandle) -> io::Result<()> {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use signal_hook::consts::SIGINT;

    const SIGBREAK: i32 = 21;
    let pressed = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGBREAK] {
        signal_hook::flag::register(signal, pressed.clone())?;
    }
    std::thread::spawn(move || {
        while !pressed.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(100));
        }
        stop.stop();
    });
    Ok(())
}

/// A function that tells whether the process that started this one still exists.
#[cfg(unix)]
fn parent_check() -> impl Fn() -> bool + Send + 'static {
    use rustix::process::getppid;
    let parent = getppid();
    move || getppid() == parent
}

/// A function that tells whether the process that started this one still exists. If that is unknown, it counts as existing.
#[cfg(not(unix))]
fn parent_check() -> impl Fn() -> bool + Send + 'static {
    use milepost::internal::owner::{Liveness, describe, liveness, parent};
    let parent = parent().and_then(describe);
    move || parent.as_ref().is_none_or(|parent| liveness(parent, None, None) != Liveness::Dead)
}
