//! Requests that must be refused: without a session, for other hosts, from other sites, with other methods, and such
//! that break the protocol.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::super::http::{Client, Response, request, send};
use super::super::server::PageServer;
use super::PROJECT;

/// Maximum time until a refusal.
const TIME: Duration = Duration::from_secs(12);
/// Headers that every response must have.
const HEADERS: [&str; 5] = [
    "content-security-policy",
    "x-content-type-options",
    "x-frame-options",
    "referrer-policy",
    "cross-origin-resource-policy",
];

/// A request and what may answer it.
struct Attack {
    name: String,
    bytes: Vec<u8>,
    allowed: &'static [u16],
}

/// The status codes of a refusal. 0 is a closed connection.
const REFUSED: &[u16] = &[400, 403, 404, 405];
/// The status codes for what is no valid HTTP.
const INVALID: &[u16] = &[0, 400, 403, 405, 413, 414, 431, 501, 505];

pub(super) fn run(server: &PageServer) -> Result<String> {
    let client = server.client()?;
    let mut attacks = without_session(server, &client);
    attacks.extend(other_hosts_and_sites(server, &client));
    attacks.extend(methods_and_paths(server, &client));
    attacks.extend(broken(server, &client));
    let mut problems = Vec::new();
    let mut slowest = Duration::ZERO;
    for attack in &attacks {
        let start = Instant::now();
        let answer = send(server.port, &attack.bytes)?;
        slowest = slowest.max(start.elapsed());
        if let Some(problem) = judge(attack, &answer, start.elapsed()) {
            problems.push(format!("{}: {problem}", attack.name));
        }
        let own = client.get("/")?;
        if own.status != 200 || !own.text().contains(PROJECT) {
            problems.push(format!("after {}, the user's page is answered with {}", attack.name, own.status));
        }
    }
    sessions(server, &mut problems)?;
    ensure!(problems.is_empty(), "{}", problems.join("\n"));
    Ok(format!("{} requests refused, at most {:.1} s each", attacks.len(), slowest.as_secs_f64()))
}

/// What is wrong with an answer.
fn judge(attack: &Attack, answer: &Response, took: Duration) -> Option<String> {
    let text = answer.text();
    if !attack.allowed.contains(&answer.status) {
        return Some(format!("answered with {}", answer.status));
    }
    if text.contains(PROJECT) || text.contains("root:x:0") {
        return Some("the answer shows data".to_owned());
    }
    // A second response means that the body of the request was taken for a request.
    if text.contains("HTTP/1.1 200") {
        return Some("a request inside the request was answered".to_owned());
    }
    if answer.head.to_ascii_lowercase().contains("set-cookie") {
        return Some("a session began".to_owned());
    }
    if took > TIME {
        return Some(format!("took {:.1} s", took.as_secs_f64()));
    }
    // Answers of the HTTP library itself have no body.
    if !text.is_empty()
        && let Some(missing) = HEADERS.iter().find(|name| answer.header(name).is_none())
    {
        return Some(format!("the answer has no {missing}"));
    }
    None
}

/// A GET request with these lines after the first one.
fn get(name: &str, target: &str, lines: &[&str], allowed: &'static [u16]) -> Attack {
    let mut text = format!("GET {target} HTTP/1.1\r\n");
    for line in lines {
        text.push_str(line);
        text.push_str("\r\n");
    }
    text.push_str("Connection: close\r\n\r\n");
    Attack { name: name.to_owned(), bytes: text.into_bytes(), allowed }
}

fn without_session(server: &PageServer, client: &Client) -> Vec<Attack> {
    let host = format!("Host: 127.0.0.1:{}", server.port);
    let token = server.token();
    let (name, value) = client.cookie.split_once('=').unwrap_or_default();
    let mut attacks = Vec::new();
    for path in ["/", "/search?q=one", "/live?view=overview", "/p/x", "/p/x/r/work", "/p/x/diff?a=a&b=b"] {
        attacks.push(get(&format!("{path} without a cookie"), path, &[&host], &[403]));
    }
    for cookie in [
        format!("{name}="),
        format!("{name}={token}"),
        format!("{name}={}", &value[..value.len() - 1]),
        format!("{name}={value}x"),
        format!("{name}x={value}"),
        format!("{name}=\"{value}\""),
        format!("{}={value}", name.to_uppercase()),
        format!("milepost={value}"),
    ] {
        attacks.push(get(&cookie, "/", &[&host, &format!("Cookie: {cookie}")], &[403]));
    }
    for query in [
        String::new(),
        "token=".to_owned(),
        "token=x".to_owned(),
        format!("token={}", &token[..token.len() - 1]),
        format!("token={token}x"),
        format!("Token={token}"),
        format!("ticket={token}"),
        "ticket=".to_owned(),
        format!("token[]={token}"),
        format!("token=x&token={token}"),
    ] {
        attacks.push(get(&format!("/open?{query}"), &format!("/open?{query}"), &[&host], &[403]));
    }
    attacks
}

fn other_hosts_and_sites(server: &PageServer, client: &Client) -> Vec<Attack> {
    let port = server.port;
    let host = format!("Host: 127.0.0.1:{port}");
    let cookie = format!("Cookie: {}", client.cookie);
    let mut attacks = Vec::new();
    for other in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        "127.0.0.1".to_owned(),
        "127.0.0.1:1".to_owned(),
        format!("127.0.0.1:{port}.evil.example"),
        format!("localhost.:{port}"),
        format!("127.1:{port}"),
        format!("0.0.0.0:{port}"),
        format!("[::1]:{port}"),
        format!("user@127.0.0.1:{port}"),
        String::new(),
    ] {
        attacks.push(get(&format!("Host: {other}"), "/", &[&format!("Host: {other}"), &cookie], REFUSED));
    }
    attacks.push(get("no Host", "/", &[&cookie], REFUSED));
    attacks.push(get("two hosts", "/", &[&host, "Host: evil.example", &cookie], REFUSED));
    attacks.push(get("the same host twice", "/", &[&host, &host, &cookie], REFUSED));
    attacks.push(get(
        "an absolute target",
        &format!("http://evil.example:{port}/"),
        &[&host, &cookie],
        REFUSED,
    ));
    attacks.push(get(
        "a target with a user",
        &format!("http://a@127.0.0.1:{port}/"),
        &[&host, &cookie],
        REFUSED,
    ));
    for origin in [
        "http://evil.example".to_owned(),
        "null".to_owned(),
        String::new(),
        "http://127.0.0.1".to_owned(),
        "http://127.0.0.1:1".to_owned(),
        format!("https://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}.evil.example"),
        format!("http://evil.example http://127.0.0.1:{port}"),
    ] {
        attacks.push(get(
            &format!("Origin: {origin}"),
            "/",
            &[&host, &cookie, &format!("Origin: {origin}")],
            &[403],
        ));
    }
    for (site, mode, path) in [
        ("cross-site", "no-cors", "/"),
        ("cross-site", "cors", "/search?q=one"),
        ("cross-site", "navigate", "/"),
        ("same-site", "no-cors", "/"),
        ("same-site", "navigate", "/p/x"),
        ("cross-site", "websocket", "/live?view=overview"),
        ("cross-site", "no-cors", "/open?token=x"),
        ("x", "navigate", "/"),
    ] {
        let lines = [&*host, &cookie, &format!("Sec-Fetch-Site: {site}"), &format!("Sec-Fetch-Mode: {mode}")];
        attacks.push(get(&format!("{site} {mode} {path}"), path, &lines, &[403]));
    }
    attacks
}

fn methods_and_paths(server: &PageServer, client: &Client) -> Vec<Attack> {
    let host = format!("Host: 127.0.0.1:{}", server.port);
    let cookie = format!("Cookie: {}", client.cookie);
    let mut attacks = Vec::new();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "PROPFIND", "get"] {
        let text = format!(
            "{method} / HTTP/1.1\r\n{host}\r\n{cookie}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        );
        attacks.push(Attack { name: method.to_owned(), bytes: text.into_bytes(), allowed: REFUSED });
    }
    for path in [
        "/../../../../etc/passwd",
        "/assets/../../../../etc/passwd",
        "/assets/%2e%2e/%2e%2e/%2e%2e/etc/passwd",
        "/assets/..%2f..%2f..%2f..%2fetc%2fpasswd",
        "/assets/%252e%252e%252fetc%252fpasswd",
        "/assets/..%5c..%5cetc%5cpasswd",
        "/assets/%00",
        "/assets/%c0%ae%c0%ae/etc/passwd",
        "//etc/passwd",
        "/p/..%2f..%2f..%2fetc",
        "/p/%2fetc%2fpasswd",
        "/p/%00/r/%00",
        "/p/x/r/..%2f..%2fetc%2fpasswd/c/1",
        "/p/x/r/nightly/c/-1",
        "/p/x/r/nightly/c/99999999999999999999999",
        "/p/x/r/nightly/c/1/document/../../../../../etc/passwd",
        "/.git/config",
        "/p/x/diff?a=../../etc/passwd&b=/etc/passwd",
        "/live?view=run&project=../..&run=x",
        "/live?view=nothing",
    ] {
        // A stream about something that does not exist reports that and stays open.
        if !path.starts_with("/live?view=run") {
            attacks.push(get(path, path, &[&host, &cookie], REFUSED));
        }
    }
    attacks
}

/// What no browser sends.
fn broken(server: &PageServer, client: &Client) -> Vec<Attack> {
    let host = format!("Host: 127.0.0.1:{}", server.port);
    let cookie = format!("Cookie: {}", client.cookie);
    let inner = format!("GET / HTTP/1.1\r\n{host}\r\n{cookie}\r\n\r\n");
    let long = "a".repeat(1 << 20);
    let raw = |name: &str, bytes: Vec<u8>| Attack { name: name.to_owned(), bytes, allowed: INVALID };
    let with = |name: &str, lines: &str, body: &str| {
        raw(name, format!("POST / HTTP/1.1\r\n{host}\r\n{lines}\r\n\r\n{body}").into_bytes())
    };
    let many: String = (0..10_000).map(|n| format!("X-{n}: 1\r\n")).collect();
    vec![
        raw("a header of 1 MB", format!("GET / HTTP/1.1\r\n{host}\r\nX: {long}\r\n\r\n").into_bytes()),
        raw("10,000 headers", format!("GET / HTTP/1.1\r\n{host}\r\n{many}\r\n").into_bytes()),
        raw("a target of 1 MB", format!("GET /{long} HTTP/1.1\r\n{host}\r\n\r\n").into_bytes()),
        raw("a method of 1 MB", format!("{long} / HTTP/1.1\r\n{host}\r\n\r\n").into_bytes()),
        raw("1 MB without a line break", long.clone().into_bytes()),
        raw("1 MB of line breaks", vec![b'\n'; 1 << 20]),
        raw("NUL in the target", format!("GET /\0 HTTP/1.1\r\n{host}\r\n{cookie}\r\n\r\n").into_bytes()),
        raw("NUL in a header", format!("GET / HTTP/1.1\r\n{host}\r\nX: a\0b\r\n\r\n").into_bytes()),
        raw("NUL bytes", vec![0; 4096]),
        raw("a TLS greeting", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".repeat(40)),
        raw(
            "an HTTP/2 preface",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00".to_vec(),
        ),
        raw("HTTP/0.9", b"GET /\r\n\r\n".to_vec()),
        raw("HTTP/9.9", format!("GET / HTTP/9.9\r\n{host}\r\n\r\n").into_bytes()),
        raw(
            "a folded header",
            format!("GET / HTTP/1.1\r\n{host}\r\nX: a\r\n b\r\nConnection: close\r\n\r\n").into_bytes(),
        ),
        raw(
            "a space before the colon",
            format!("GET / HTTP/1.1\r\nHost : 127.0.0.1:{}\r\n\r\n", server.port).into_bytes(),
        ),
        with(
            "a length and chunks",
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            &format!("0\r\n\r\n{inner}"),
        ),
        with("two lengths", "Content-Length: 5\r\nContent-Length: 200", &format!("12345{inner}")),
        with("a signed length", "Content-Length: +5", &format!("12345{inner}")),
        with("a list of lengths", "Content-Length: 5, 6", &format!("12345{inner}")),
        with("an unknown encoding", "Transfer-Encoding: xchunked", &inner),
        with("chunks that are not last", "Transfer-Encoding: chunked, identity", &inner),
        with(
            "a request as the body",
            &format!("Connection: close\r\nContent-Length: {}", inner.len()),
            &inner,
        ),
        with("a body that never comes", "Content-Length: 99999999999", ""),
        with("a length that is too large", "Content-Length: 99999999999999999999999999", &inner),
        with(
            "a chunk that is too large",
            "Transfer-Encoding: chunked",
            &format!("ffffffffffffffffff\r\n{inner}"),
        ),
        with("a request to change the protocol", "Connection: Upgrade\r\nUpgrade: h2c", ""),
    ]
}

/// A session works for its cookie on both names of the server, and begins with the token as often as needed.
fn sessions(server: &PageServer, problems: &mut Vec<String>) -> Result<()> {
    let client = server.client()?;
    let port = server.port;
    let mut check = |name: &str, answer: &Response, wanted: u16| {
        if answer.status != wanted {
            problems.push(format!("{name}: answered with {}, not {wanted}", answer.status));
        }
    };
    check("the page", &client.get("/")?, 200);
    let cookie = &*client.cookie;
    let localhost =
        format!("GET / HTTP/1.1\r\nHost: localhost:{port}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    check("localhost", &send(port, localhost.as_bytes())?, 200);
    let own = format!("http://127.0.0.1:{port}");
    check("the own origin", &request(port, "/", &[("Cookie", cookie), ("Origin", &own)])?, 200);
    let absolute = format!(
        "GET {own}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    );
    check("an absolute target of its own", &send(port, absolute.as_bytes())?, 200);
    let site = [("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Mode", "navigate")];
    check(
        "the address from another program",
        &request(port, &format!("/open?token={}", server.token()), &site)?,
        200,
    );
    let head =
        format!("HEAD / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n");
    let head = send(port, head.as_bytes())?;
    check("HEAD", &head, 200);
    if !head.body.is_empty() {
        problems.push("HEAD is answered with a body".to_owned());
    }
    let opened = request(port, &format!("/open?token={}", server.token()), &[])?;
    let cookie = opened.header("set-cookie").unwrap_or_default().to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        if !cookie.contains(part) {
            problems.push(format!("the cookie lacks {part}: {cookie}"));
        }
    }
    if opened.text().contains(server.token()) {
        problems.push("the page that opens contains the token".to_owned());
    }
    Ok(())
}
