//! Requests that are refused, and what every response has.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use crate::client::{TestServer, cookie, path};

#[test]
fn a_session_needs_the_token() {
    let server = TestServer::start();
    assert_eq!(server.get("/").status, 200);
    for headers in [&[][..], &["Cookie: milepost=x"], &["Cookie: milepost-1=x; other"]] {
        let response = server.send(&server.request("/", headers));
        assert_eq!(response.status, 403, "{headers:?}");
        assert!(!response.body.contains("app"), "{}", response.body);
    }
    // All ports of a host share their cookies, so only the name with this port counts.
    let header = server.cookie_header();
    let id = header.rsplit_once('=').unwrap().1;
    let other_port = format!("Cookie: milepost-1={id}; milepost={id}");
    assert_eq!(server.send(&server.request("/", &[&other_port])).status, 403);
    for wrong in ["/open", "/open?token=", "/open?token=x", "/open?ticket=x", "/open?token[]=x"] {
        let response = server.send(&server.request(wrong, &[]));
        assert_eq!((response.status, cookie(&response)), (403, String::new()), "{wrong}");
    }
    let opened = server.send(&server.request(&path(&server.url), &[]));
    assert!(opened.head.contains("HttpOnly; SameSite=Strict"), "{}", opened.head);
    assert!(cookie(&opened).starts_with(&format!("milepost-{}=", server.port)));
    assert!(!opened.body.contains("token"), "the address must not stay on the page");
}

#[test]
fn a_ticket_that_is_used_twice_ends_both_sessions() {
    let server = TestServer::start();
    let first = server.send(&server.request(&path(&server.ticket), &[]));
    let session = format!("Cookie: {}", cookie(&first));
    assert_eq!(server.send(&server.request("/", &[&session])).status, 200);
    // The browser that has the session may load the address again.
    assert_eq!(server.send(&server.request(&path(&server.ticket), &[&session])).status, 200);
    assert_eq!(server.send(&server.request(&path(&server.ticket), &[])).status, 403);
    assert_eq!(server.send(&server.request("/", &[&session])).status, 403);
    assert!(server.notices.lock().unwrap().iter().any(|line| line.contains("used twice")));
    assert_eq!(server.get("/").status, 200, "the session of the token goes on");
}

#[test]
fn other_sites_and_other_names_are_refused() {
    let server = TestServer::start();
    let cookie = server.cookie_header();
    let port = server.port;
    for host in
        ["evil.example", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.example", "[::1]:80", "", "localhost"]
    {
        let request = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{cookie}\r\n\r\n");
        assert_eq!(server.send(&request).status, 403, "{host}");
    }
    let request = format!("GET / HTTP/1.1\r\nConnection: close\r\n{cookie}\r\n\r\n");
    assert_eq!(server.send(&request).status, 403, "without a host");
    let request =
        format!("GET / HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n{cookie}\r\n\r\n");
    assert_eq!(server.send(&request).status, 200, "localhost");
    for twice in ["Host: evil.example", &format!("Host: 127.0.0.1:{port}")] {
        assert_ne!(server.get_with("/", &[twice]).status, 200, "{twice}");
    }
    let absolute = format!(
        "GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{cookie}\r\n\r\n"
    );
    assert_eq!(server.send(&absolute).status, 403);
    for header in [
        "Origin: https://evil.example",
        "Origin: null",
        "Origin: http://127.0.0.1:1",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
        "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate",
    ] {
        assert_eq!(server.get_with("/", &[header]).status, 403, "{header}");
    }
    let own = format!("Origin: http://127.0.0.1:{port}");
    assert_eq!(server.get_with("/", &[&own, "Sec-Fetch-Site: same-origin"]).status, 200);
    // A local file or another program may open the page, but not read it.
    let opened =
        server.request(&path(&server.url), &["Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate"]);
    assert_eq!(server.send(&opened).status, 200);
    let read = server.request(&path(&server.url), &["Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors"]);
    assert_eq!(server.send(&read).status, 403);
}

#[test]
fn nothing_can_be_changed() {
    let server = TestServer::start();
    let cookie = server.cookie_header();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE", "X"] {
        for path in ["/", "/open", "/p/app", "/live", "/assets/x"] {
            let request = format!(
                "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nContent-Length: 0\r\n{cookie}\r\n\r\n",
                server.port
            );
            let status = server.send(&request).status;
            assert!(matches!(status, 400 | 405), "{method} {path}: {status}");
        }
    }
    let head = server.get("/").head.len();
    let request = server.request("/", &[&cookie]).replacen("GET", "HEAD", 1);
    let response = server.send(&request);
    assert!(response.status == 200 && response.body.is_empty() && response.head.len().abs_diff(head) < 20);
}

#[test]
fn every_response_has_the_security_headers() {
    let server = TestServer::start();
    for (path, status) in
        [("/", 200), ("/none", 404), ("/p/none", 404), ("/p/gone", 500), ("/assets/none", 404)]
    {
        let response = server.get(path);
        assert_eq!(response.status, status, "{path}");
        for header in
            ["content-security-policy: default-src 'none'", "x-frame-options: DENY", "no-referrer", "nosniff"]
        {
            assert!(response.head.contains(header), "{path}: {header} in {}", response.head);
        }
        assert!(!response.body.contains("<style") && !response.body.contains("style="), "{path}");
    }
    assert!(server.send(&server.request("/", &[])).head.contains("content-security-policy"));
}

#[test]
fn paths_cannot_leave_the_page() {
    let server = TestServer::start();
    for path in [
        "/../../etc/passwd",
        "/assets/../../../etc/passwd",
        "/assets/..%2f..%2fetc%2fpasswd",
        "/assets/%2e%2e/%2e%2e/etc/passwd",
        "/p/..%2f..",
        "/p/app/r/..%2f..%2fetc",
        "/p/app/r/x/c/..",
        "/p/app/r/x/c/99999999999999999999999",
        "/p/app/r/%00/c/1",
        "/p/%ff%fe",
        "/assets/",
        "/p/",
        "//evil.example/",
    ] {
        let response = server.get(path);
        assert!(matches!(response.status, 400 | 404), "{path}: {}", response.status);
        assert!(!response.body.contains("root:"), "{path}");
        assert!(!response.head.contains("location:"), "{path}");
    }
}

#[test]
fn large_and_slow_requests_are_bounded() {
    let server = TestServer::start();
    let long = format!("/{}", "x".repeat(1 << 20));
    assert!(matches!(server.send(&server.request(&long, &[])).status, 0 | 400 | 414 | 431));
    let header = format!("X-Long: {}", "x".repeat(1 << 20));
    assert!(matches!(server.send(&server.request("/", &[&header])).status, 0 | 400 | 431));
    let many = "X: y\r\n".repeat(1_000);
    assert!(matches!(server.send(&server.request("/", &[many.trim_end()])).status, 0 | 400 | 431));
    // A client that sends nothing more is disconnected.
    let mut slow = server.connect();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap();
    let start = Instant::now();
    let _ = slow.read(&mut [0; 64]);
    assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
    assert_eq!(server.get("/").status, 200);
}

#[test]
fn idle_connections_do_not_keep_the_user_out() {
    let server = TestServer::start();
    let idle: Vec<_> = (0..400).map(|_| server.connect()).collect();
    let start = Instant::now();
    assert_eq!(server.get("/").status, 200);
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    drop(idle);
}

#[test]
fn only_loopback_addresses_are_served() {
    for address in ["0.0.0.0", "::", "192.0.2.1", "8.8.8.8"] {
        let bound = milepost_ui::Server::bind(address.parse().unwrap(), None);
        assert_eq!(bound.unwrap_err().kind(), std::io::ErrorKind::InvalidInput, "{address}");
    }
}
