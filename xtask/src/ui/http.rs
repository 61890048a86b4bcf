//! A minimal HTTP client on plain sockets, which can also send what no browser sends.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Maximum time to wait for a response.
const WAIT: Duration = Duration::from_secs(20);

/// A response.
#[derive(Debug)]
pub(super) struct Response {
    /// 0 if the server closed the connection without a response.
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: Vec<u8>,
}

impl Response {
    /// Parses what a server sent before it closed the connection.
    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let head = String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let body = end.map_or(&[][..], |end| &bytes[end + 4..]).to_vec();
        Self { status, head, body }
    }

    /// The value of a header.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut pairs = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        pairs.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Connects to a port of the loopback address.
pub(super) fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port)).context("cannot connect to the page")?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.set_write_timeout(Some(WAIT))?;
    Ok(stream)
}

/// Sends bytes and reads until the server closes the connection.
pub(super) fn send(port: u16, bytes: &[u8]) -> Result<Response> {
    let mut stream = connect(port)?;
    // A server that refuses may close the connection before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    match stream.read_to_end(&mut answer) {
        Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
            anyhow::bail!("the connection is still open after {} s", WAIT.as_secs())
        }
        _ => Ok(Response::parse(&answer)),
    }
}

/// A user with a session.
#[derive(Debug, Clone)]
pub(super) struct Client {
    pub(super) port: u16,
    /// The cookie, as `NAME=VALUE`.
    pub(super) cookie: String,
}

impl Client {
    /// Begins a session with the token.
    pub(super) fn open(port: u16, token: &str) -> Result<Self> {
        let opened = request(port, &format!("/open?token={token}"), &[])?;
        ensure!(opened.status == 200, "the printed address is answered with {}", opened.status);
        let cookie = opened.header("set-cookie").context("no cookie was set")?;
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        Ok(Self { port, cookie })
    }

    /// Requests a page with the session.
    pub(super) fn get(&self, path: &str) -> Result<Response> {
        request(self.port, path, &[("Cookie", &self.cookie)])
    }
}

/// Sends a GET request with the right `Host` and these headers.
pub(super) fn request(port: u16, path: &str, headers: &[(&str, &str)]) -> Result<Response> {
    let mut text = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    send(port, text.as_bytes())
}
