//! Live updates.

use std::io::{BufRead as _, BufReader, Write as _};
use std::time::{Duration, Instant};

use milepost::Save;

use crate::client::TestServer;

#[test]
fn a_page_is_told_of_a_save_within_a_second() {
    let server = TestServer::start();
    let run: milepost::model::RunId = "nightly".parse().unwrap();
    let save = |text: &str| server.mp.save(&run, Save::new().summary(text)).unwrap();
    save("one");
    let mut stream = server.connect();
    let request = server.request("/live?view=run&project=app&run=nightly", &[&server.cookie_header()]);
    stream.write_all(request.replace("Connection: close\r\n", "").as_bytes()).unwrap();
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let mut next = || lines.find_map(|line| line.strip_prefix("data: ").map(str::to_owned)).unwrap();
    let first = next();
    for n in 2..5 {
        save(&format!("save {n}"));
        let start = Instant::now();
        assert_ne!(next(), first);
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    }
}

#[test]
fn a_stream_needs_a_known_view() {
    let server = TestServer::start();
    for query in ["", "?view=none", "?view=run", "?view=run&project=app"] {
        assert_eq!(server.get(&format!("/live{query}")).status, 400, "{query}");
    }
}
