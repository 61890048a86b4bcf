//! Too many and too slow clients. The user's requests must be answered within a second meanwhile, and memory and open
//! files must stay bounded.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::super::Environment;
use super::super::http::{Client, connect};
use super::super::server::PageServer;

/// Maximum time of a user's request.
const USER: Duration = Duration::from_secs(1);
/// Maximum memory of the server in KiB.
const MEMORY: u64 = 100 << 10;
/// Maximum number of open files of the server: its connections, stores and its own.
const FILES: usize = 320;
/// When a connection that sends nothing useful must be closed.
const SLOW: Duration = Duration::from_secs(13);

pub(super) fn run(env: &Environment, server: &PageServer) -> Result<String> {
    let user = server.client()?;
    let held = many(env.pick(2_000, 10_000), server, &user)?;
    let slow = slow_headers(server, &user)?;
    slow_readers(server, &user)?;
    let (memory, files) = (server.kib("VmHWM")?, server.open_files()?);
    ensure!(memory < MEMORY, "the server used {memory} KiB of memory");
    Ok(format!("{held}; {slow}; {} MiB of memory, {files} open files at the end", memory >> 10))
}

/// Times a request of the user.
fn user_request(user: &Client) -> Result<Duration> {
    let start = Instant::now();
    let answer = user.get("/")?;
    ensure!(answer.status == 200, "the user's page is answered with {} under load", answer.status);
    Ok(start.elapsed())
}

/// Opens many connections and holds them, while the user goes on.
fn many(count: usize, server: &PageServer, user: &Client) -> Result<String> {
    let is_done = AtomicBool::new(false);
    let mut files = 0;
    let (worst, held) = std::thread::scope(|scope| -> Result<_> {
        let requests = scope.spawn(|| -> Result<Duration> {
            let mut worst = Duration::ZERO;
            while !is_done.load(Ordering::Relaxed) {
                worst = worst.max(user_request(user)?);
                std::thread::sleep(Duration::from_millis(20));
            }
            Ok(worst)
        });
        let mut held = Vec::with_capacity(count);
        for number in 0..count {
            let Ok(mut stream) = TcpStream::connect(("127.0.0.1", server.port)) else { break };
            if number % 2 == 0 {
                let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: ");
            }
            held.push(stream);
            if number % 500 == 0 {
                files = files.max(server.open_files()?);
            }
        }
        files = files.max(server.open_files()?);
        std::thread::sleep(Duration::from_millis(500));
        is_done.store(true, Ordering::Relaxed);
        let worst = requests.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked")))?;
        Ok((worst, held.len()))
    })?;
    ensure!(held == count, "only {held} of {count} connections could be opened");
    ensure!(worst < USER, "the user waited {:.2} s beside {held} connections", worst.as_secs_f64());
    ensure!(files < FILES, "the server had {files} open files");
    Ok(format!("{held} connections: {files} open files, the user waits {} ms at most", worst.as_millis()))
}

/// Sends headers one byte at a time.
fn slow_headers(server: &PageServer, user: &Client) -> Result<String> {
    let mut streams: Vec<_> = (0..60).map(|_| connect(server.port)).collect::<Result<_>>()?;
    let text = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nX: {}", server.port, "x".repeat(4000));
    let start = Instant::now();
    let mut worst = Duration::ZERO;
    for byte in text.bytes() {
        streams.retain_mut(|stream| stream.write_all(&[byte]).is_ok());
        worst = worst.max(user_request(user)?);
        if streams.is_empty() {
            break;
        }
        ensure!(start.elapsed() < SLOW, "{} slow clients are still connected", streams.len());
        std::thread::sleep(Duration::from_millis(100));
    }
    ensure!(worst < USER, "the user waited {:.2} s beside slow clients", worst.as_secs_f64());
    Ok(format!("slow clients are closed after {:.1} s", start.elapsed().as_secs_f64()))
}

/// Requests large pages and reads nothing.
fn slow_readers(server: &PageServer, user: &Client) -> Result<()> {
    let page = user.get("/")?.text();
    let address = page.split('"').find(|text| text.starts_with("/p/") && text.ends_with("/r/work"));
    let address = address.unwrap_or("/").to_owned();
    let document = format!("{address}/c/2/document");
    let size = user.get(&document)?.body.len();
    ensure!(size > 400_000, "the document has only {size} bytes");
    let mut streams = Vec::new();
    for _ in 0..40 {
        let mut stream = connect(server.port)?;
        let text = format!(
            "GET {document} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nCookie: {}\r\n\r\n",
            server.port, user.cookie
        );
        stream.write_all(text.as_bytes())?;
        streams.push(stream);
    }
    // From now on, every answer waits to be read.
    for stream in &mut streams {
        stream.read_exact(&mut [0])?;
    }
    let took = user_request(user)?;
    ensure!(took < USER, "the user waited {:.2} s beside slow readers", took.as_secs_f64());
    Ok(())
}
