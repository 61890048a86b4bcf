//! Windows: keeps this process running while the program that it runs handles Ctrl-C, and ends the program's whole
//! process tree if this process is killed.
//! The console sends Ctrl-C to both processes, so it is not forwarded. There are no other signals.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use signal_hook::consts::SIGINT;
use win32job::{ExtendedLimitInfo, Job};

use super::ProgramExit;

/// Ctrl-Break, which is also how the console announces that its window is closed.
const SIGBREAK: i32 = 21;

/// A program that fails within this time after Ctrl-C was interrupted. A program that handles it and continues was not.
const INTERRUPTED: Duration = Duration::from_secs(10);

/// How often to check for Ctrl-C.
const INTERVAL: Duration = Duration::from_millis(50);

/// The exit code of a program that Ctrl-C ended.
const CONTROL_C_EXIT: u32 = 0xC000_013A;

/// The console's events that this process catches, and the job of its program.
pub(super) struct Signals {
    pressed: Arc<AtomicBool>,
    _job: Option<ProcessTree>,
}

impl Signals {
    /// Starts to catch Ctrl-C. Must be called before the program starts, so that the program belongs to the job.
    pub(super) fn catch() -> io::Result<Self> {
        let pressed = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGBREAK] {
            signal_hook::flag::register(signal, pressed.clone())?;
        }
        Ok(Self { pressed, _job: ProcessTree::new() })
    }

    /// Waits until the program exits.
    pub(super) fn wait_for(&mut self, child: &mut Child) -> io::Result<ProgramExit> {
        let pressed_at = Arc::new(Mutex::new((None, false)));
        let watcher = std::thread::spawn({
            let (pressed, pressed_at) = (self.pressed.clone(), pressed_at.clone());
            move || {
                loop {
                    let mut state = pressed_at.lock().unwrap_or_else(|e| e.into_inner());
                    if pressed.swap(false, Ordering::Relaxed) {
                        state.0 = Some(Instant::now());
                    }
                    if state.1 {
                        return state.0;
                    }
                    drop(state);
                    std::thread::park_timeout(INTERVAL);
                }
            }
        });
        let status = child.wait();
        pressed_at.lock().unwrap_or_else(|e| e.into_inner()).1 = true;
        watcher.thread().unpark();
        let interrupted_at: Option<Instant> = watcher.join().unwrap_or_default();
        let status = status?;
        Ok(ProgramExit { status, interrupted: is_interrupted(status, interrupted_at) })
    }
}

/// Whether a program ended because the user interrupted it.
fn is_interrupted(status: ExitStatus, interrupted_at: Option<Instant>) -> bool {
    let recently = interrupted_at.is_some_and(|at| at.elapsed() < INTERRUPTED);
    !status.success() && (recently || ended_by_control_c(status))
}

/// Whether Ctrl-C ended a program that does not handle it.
pub(super) fn ended_by_control_c(status: ExitStatus) -> bool {
    status.code().map(i32::cast_unsigned) == Some(CONTROL_C_EXIT)
}

/// A job object with this process and every process that it starts from now on. The system ends them when this process
/// is killed. Processes that outlive the program, such as a server that it started, remain if this process ends normally.
struct ProcessTree(Option<Job>);

impl ProcessTree {
    /// `None` if the system does not permit it, such as inside some sandboxes.
    fn new() -> Option<Self> {
        let job = Job::create().ok()?;
        job.set_extended_limit_info(ExtendedLimitInfo::new().limit_kill_on_job_close()).ok()?;
        // This process itself: a process that starts belongs to the job of its parent from its first instruction.
        match job.assign_current_process() {
            Ok(()) => Some(Self(Some(job))),
            Err(_) => None,
        }
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        if let Some(job) = self.0.take()
            && job.set_extended_limit_info(&ExtendedLimitInfo::new()).is_err()
        {
            // Closing the last handle would end this process.
            let _ = job.into_handle();
        }
    }
}
