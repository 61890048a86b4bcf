//! Commands on a terminal, which the program `script` provides.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::TestEnvironment;
use crate::environment::finished;

/// Prepares a shell command that runs in a terminal created by `script`. Prints a notice and returns `None` if
/// `script` or the command's program is not installed.
#[allow(clippy::print_stdout, reason = "the notice about a skipped test")]
fn in_terminal(env: &TestEnvironment, line: &str) -> Option<Command> {
    for needed in ["script", line.split(' ').next().unwrap()] {
        let find = format!("command -v {needed}");
        if !env.program("sh").args(["-c", &find]).output().unwrap().status.success() {
            println!("skipped: {needed} is not installed (`cargo xtask setup` installs it)");
            return None;
        }
    }
    let folder = Path::new(env!("CARGO_BIN_EXE_milepost")).parent().unwrap();
    let mut command = env.program("script");
    command.args(["-qefc", line, "/dev/null"]);
    let path =
        format!("{}:{}:/usr/local/bin:/usr/bin:/bin", env.path("home/bin").display(), folder.display());
    command.env("PATH", path).env("TERM", "xterm");
    Some(command)
}

/// Runs milepost in a terminal of this width, without colours, and returns what it shows. `None` if the test
/// has to be skipped.
pub(crate) fn shown_at_width(env: &TestEnvironment, columns: usize, args: &str) -> Option<String> {
    let line = format!("stty cols {columns} rows 50 && milepost {args}");
    let ran = finished(in_terminal(env, &line)?.env("NO_COLOR", "1"), None).exits(0);
    Some(ran.stdout.replace("\r\n", "\n"))
}

/// A shell on a terminal.
pub(crate) struct Terminal {
    child: Child,
    shown: Arc<Mutex<String>>,
}

impl Terminal {
    /// Starts a shell in a terminal created by `script`. Prints a notice and returns `None` if either program
    /// is not installed.
    pub(crate) fn start(env: &TestEnvironment, shell: &str) -> Option<Self> {
        let mut command = in_terminal(env, shell)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (shown, mut stdout) = (Arc::new(Mutex::new(String::new())), child.stdout.take().unwrap());
        let collected = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = stdout.read(&mut bytes) {
                collected.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..n]));
            }
        });
        Some(Self { child, shown })
    }

    pub(crate) fn send(&mut self, keys: &str) {
        self.shown.lock().unwrap().clear();
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Whether a text has appeared since the last keys.
    pub(crate) fn shows(&self, text: &str) -> bool {
        self.shown.lock().unwrap().contains(text)
    }

    /// Waits until a text appears on the terminal.
    #[track_caller]
    pub(crate) fn expect(&self, text: &str) {
        let end = Instant::now() + Duration::from_secs(30);
        while !self.shown.lock().unwrap().contains(text) {
            assert!(Instant::now() < end, "{text:?} is not in {:?}", self.shown.lock().unwrap());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
