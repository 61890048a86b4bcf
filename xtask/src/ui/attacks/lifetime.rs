//! Where the server listens, and what ends it: signals, the death of its parent, the end of its terminal. Nothing may
//! remain. Also the link for the browser, which works once.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::super::http::{Client, request};
use super::super::sandbox::Sandbox;
use super::super::server::PageServer;

/// How soon the server must end.
const END: Duration = Duration::from_secs(3);

pub(super) fn run(sandbox: &Sandbox, project: &Path) -> Result<String> {
    listens_on_loopback(sandbox, project)?;
    for signal in ["-INT", "-HUP", "-TERM"] {
        let mut server = PageServer::start(sandbox, project)?;
        let client = server.client()?;
        // An open stream of live updates must not keep it.
        let _stream = open_stream(&client)?;
        server.signal(signal)?;
        let status = server.wait(END).with_context(|| format!("after {signal}"))?;
        ensure!(status.success(), "after {signal}: {status}");
        ensure!(request(server.port, "/", &[]).is_err(), "after {signal}, the port still answers");
    }
    parent_dies(sandbox, project)?;
    terminal(sandbox, project)?;
    Ok("ends with three signals, its parent and its terminal".to_owned())
}

fn open_stream(client: &Client) -> Result<std::net::TcpStream> {
    use std::io::{Read as _, Write as _};
    let mut stream = super::super::http::connect(client.port)?;
    write!(
        stream,
        "GET /live?view=overview HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nCookie: {}\r\n\r\n",
        client.port, client.cookie
    )?;
    let mut start = [0; 12];
    stream.read_exact(&mut start)?;
    ensure!(start.ends_with(b" 200"), "the stream is answered with {:?}", String::from_utf8_lossy(&start));
    Ok(stream)
}

/// Other addresses are refused, and the server listens on one address only.
fn listens_on_loopback(sandbox: &Sandbox, project: &Path) -> Result<()> {
    for address in ["0.0.0.0", "::", "192.0.2.1", "127.0.0.1.evil.example", "", "10.0.0.1", "::ffff:0.0.0.0"]
    {
        let mut command = sandbox.command(sandbox.milepost(), project);
        let output = command.args(["ui", "--no-open", "--listen", address]).stdin(Stdio::null()).output()?;
        ensure!(output.status.code() == Some(2), "--listen {address:?} ends with {}", output.status);
    }
    let server = PageServer::start(sandbox, project)?;
    let mut command = sandbox.command(sandbox.milepost(), project);
    let port = server.port.to_string();
    let taken = command.args(["ui", "--no-open", "--port", &port]).stdin(Stdio::null()).output()?;
    ensure!(taken.status.code() == Some(1), "a port that is in use ends with {}", taken.status);
    let listening = listening(server.child.id())?;
    let wanted = format!("0100007F:{:04X}", server.port);
    ensure!(listening == [wanted.clone()], "the server listens on {listening:?}, not only on {wanted}");
    Ok(())
}

/// The addresses on which a process listens, as in `/proc/net/tcp`.
fn listening(process: u32) -> Result<Vec<String>> {
    let mut sockets = Vec::new();
    for file in std::fs::read_dir(format!("/proc/{process}/fd"))? {
        if let Ok(target) = std::fs::read_link(file?.path()) {
            let target = target.to_string_lossy().into_owned();
            sockets
                .extend(target.strip_prefix("socket:[").and_then(|s| s.strip_suffix(']')).map(str::to_owned));
        }
    }
    let mut found = Vec::new();
    for table in ["tcp", "tcp6", "udp", "udp6"] {
        let text = std::fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<_> = line.split_whitespace().collect();
            if let [_, local, _, state, _, _, _, _, _, inode, ..] = fields[..]
                && (state == "0A" || table.starts_with("udp"))
                && sockets.iter().any(|own| own == inode)
            {
                found.push(local.to_owned());
            }
        }
    }
    Ok(found)
}

/// Kills the process that started the server.
fn parent_dies(sandbox: &Sandbox, project: &Path) -> Result<()> {
    let script = "
import subprocess, sys, time
child = subprocess.Popen([sys.argv[1], 'ui', '--no-open', '--json'], stdout=subprocess.PIPE, text=True)
print(child.pid, child.stdout.readline().strip(), flush=True)
time.sleep(600)
";
    let mut command = sandbox.command("python3", project);
    command
        .args(["-c", script])
        .arg(sandbox.milepost())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut parent = command.spawn()?;
    let mut line = String::new();
    let stdout = parent.stdout.take().context("no stdout")?;
    std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)?;
    let process = line.split(' ').next().unwrap_or_default().to_owned();
    parent.kill()?;
    parent.wait()?;
    wait_for_end(&process).context("after its parent was killed")
}

/// Waits until a process is gone or a zombie.
fn wait_for_end(process: &str) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < END {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        if matches!(state, None | Some('Z' | 'X')) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("the page is still running after {} s", END.as_secs())
}

/// Starts the page in a terminal with a browser, and closes the terminal.
fn terminal(sandbox: &Sandbox, project: &Path) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (browser, opened) = (folder.path().join("xdg-open"), folder.path().join("opened"));
    let source = format!("#!/bin/sh\nprintf %s \"$1\" > {0}.part\nmv {0}.part {0}\n", opened.display());
    std::fs::write(&browser, source)?;
    crate::shell::run_program(std::process::Command::new("chmod").arg("755").arg(&browser))?;
    let mut command = sandbox.command("python3", project);
    command.args(["-c", include_str!("terminal.py")]).arg(sandbox.milepost());
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", folder.path().display());
    command.env("PATH", path).env("DISPLAY", ":0").env("TERM", "xterm");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut terminal = command.spawn()?;
    let mut lines =
        std::io::BufRead::lines(std::io::BufReader::new(terminal.stdout.take().context("no stdout")?));
    let mut next = || -> Result<Value> {
        let line = lines.next().context("the terminal ended")??;
        serde_json::from_str(&line).with_context(|| line.clone())
    };
    let started = next()?;
    let url = started["url"].as_str().context("no url")?.to_owned();
    let process = started["process"].to_string();
    let port: u16 = url.split([':', '/']).nth(4).and_then(|port| port.parse().ok()).context("no port")?;
    let start = Instant::now();
    let link = loop {
        if let Ok(link) = std::fs::read_to_string(&opened) {
            break link;
        }
        ensure!(start.elapsed() < Duration::from_secs(5), "no browser was started");
        std::thread::sleep(Duration::from_millis(20));
    };
    one_time_link(port, &url, &link)?;
    drop(terminal.stdin.take());
    let closed = next()?;
    ensure!(closed["closed"] == true, "the terminal was not closed: {closed}");
    wait_for_end(&process).context("after its terminal was closed")?;
    terminal.wait()?;
    Ok(())
}

/// The link for the browser works once. If it is used again, the session that it began ends.
fn one_time_link(port: u16, url: &str, link: &str) -> Result<()> {
    ensure!(!link.contains("token="), "the command line of the browser contains the token");
    let path = link.split_once(&format!(":{port}")).map(|(_, path)| path).context("no path")?;
    let first = request(port, path, &[])?;
    ensure!(first.status == 200, "the link is answered with {}", first.status);
    let cookie =
        first.header("set-cookie").and_then(|cookie| cookie.split(';').next()).context("no cookie")?;
    let get = || request(port, "/", &[("Cookie", cookie)]);
    ensure!(get()?.status == 200, "the session of the link does not work");
    let second = request(port, path, &[])?;
    ensure!(second.status == 403, "a used link is answered with {}", second.status);
    ensure!(get()?.status == 403, "the session of a link that was used twice still works");
    let token = url.split_once("token=").map(|(_, token)| token.trim()).context("no token")?;
    ensure!(Client::open(port, token)?.get("/")?.status == 200, "the printed address does not work any more");
    Ok(())
}
