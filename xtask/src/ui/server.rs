//! The real `milepost ui` as a child process: its address, and what it uses.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::http::Client;
use super::sandbox::Sandbox;

pub(super) struct PageServer {
    pub(super) child: Child,
    /// The printed address, with the token.
    pub(super) url: String,
    pub(super) port: u16,
}

impl PageServer {
    /// Starts the page in a folder and waits for its address.
    pub(super) fn start(sandbox: &Sandbox, folder: &Path) -> Result<Self> {
        let mut command = sandbox.command(sandbox.milepost(), folder);
        command.args(["ui", "--no-open", "--json"]);
        Self::spawn(command)
    }

    /// Starts the page with this command, which must print JSON.
    pub(super) fn spawn(mut command: Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
        let mut text = String::new();
        // The document may have several lines.
        let document = loop {
            let Some(line) = lines.next() else { bail!("the page did not start: {text}") };
            text.push_str(&line?);
            if let Ok(document) = serde_json::from_str::<Value>(&text) {
                break document;
            }
        };
        let url = document["url"].as_str().context("no url")?.to_owned();
        let port = document["port"].as_u64().and_then(|port| port.try_into().ok()).context("no port")?;
        Ok(Self { child, url, port })
    }

    /// The address without a path.
    pub(super) fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The token in the printed address.
    pub(super) fn token(&self) -> &str {
        self.url.split_once("token=").map_or("", |(_, token)| token)
    }

    /// A client with a session.
    pub(super) fn client(&self) -> Result<Client> {
        Client::open(self.port, self.token())
    }

    /// A number of KiB from `/proc/PID/status`, for example `VmHWM`, the maximum memory so far.
    pub(super) fn kib(&self, name: &str) -> Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(&path).with_context(|| path.clone())?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)).context("no such line")?;
        let number = line.trim_start_matches(':').split_whitespace().next().unwrap_or_default();
        number.parse().with_context(|| format!("{name} is {number:?}"))
    }

    /// The number of open files.
    pub(super) fn open_files(&self) -> Result<usize> {
        Ok(std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))?.count())
    }

    /// Sends a signal, such as `-TERM`.
    pub(super) fn signal(&self, name: &str) -> Result<()> {
        crate::shell::run_program(Command::new("kill").arg(name).arg(self.child.id().to_string()))
    }

    /// Waits until the process has ended.
    pub(super) fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if start.elapsed() > limit {
                bail!("the page is still running after {:.1} s", limit.as_secs_f64());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
