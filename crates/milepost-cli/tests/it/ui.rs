//! `ui`: the real server, asked over sockets. `cargo xtask ui` tests the page in a browser.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::TestEnvironment;

/// A running server, stopped at the end.
struct Ui {
    child: Child,
    url: String,
    port: u16,
    cookie: String,
    _stdout: BufReader<ChildStdout>,
}

impl Ui {
    fn start(env: &TestEnvironment, args: &[&str]) -> Self {
        let mut command = env.command(&[&["ui", "--json", "--no-open"], args].concat());
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::null()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let document: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}"));
        let url = document["url"].as_str().unwrap().to_owned();
        let port = u16::try_from(document["port"].as_u64().unwrap()).unwrap();
        let mut ui = Self { child, url, port, cookie: String::new(), _stdout: stdout };
        let path = ui.url.splitn(4, '/').nth(3).map(|path| format!("/{path}")).unwrap();
        let opened = ui.get(&path);
        let cookie = opened.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        ui.cookie = cookie.split(';').next().unwrap().to_owned();
        ui
    }

    /// The whole response.
    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\nCookie: {}\r\n\r\n",
            self.port, self.cookie
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The address of the only project.
    fn project(&self) -> String {
        let page = self.get("/");
        let links = page.split("href=\"").filter_map(|rest| rest.split('"').next());
        let mut links: Vec<_> =
            links.filter(|link| link.starts_with("/p/") && link.matches('/').count() == 2).collect();
        links.sort_unstable();
        links.dedup();
        assert_eq!(links.len(), 1, "{page}");
        links[0].to_owned()
    }

    /// Sends a signal, and asserts that the server ends soon.
    #[track_caller]
    fn ends_on(mut self, signal: &str) {
        let sent =
            std::process::Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(5) {
            if let Some(status) = self.child.try_wait().unwrap() {
                assert!(status.success(), "{signal}: {status}");
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("still running after {signal}");
    }
}

impl Drop for Ui {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_page_shows_a_project_and_follows_its_runs() {
    let env = TestEnvironment::repository();
    env.save(&["Parse the configuration", "--run", "nightly"]);
    let ui = Ui::start(&env, &[]);
    let project = ui.project();
    assert!(ui.get(&project).contains("Parse the configuration"));
    env.write("new.rs", "fn added() {}\n");
    env.save(&["Write the report", "--run", "nightly"]);
    let run = ui.get(&format!("{project}/r/nightly"));
    assert!(run.contains("Write the report") && run.contains("@2"), "{run}");
    assert!(run.contains(" restore nightly@2"), "{run}");
    let diff = ui.get(&format!("{project}/diff?a=nightly@1&b=nightly@2"));
    assert!(diff.contains("fn added() {}") && diff.contains("new.rs"), "{diff}");
    env.run(&["delete", "nightly", "--yes"]).exits(0);
    assert!(ui.get(&format!("{project}/r/nightly")).starts_with("HTTP/1.1 404"));
}

#[test]
fn the_server_ends_with_signals_and_with_its_parent() {
    let env = TestEnvironment::repository();
    for signal in ["-INT", "-TERM", "-HUP"] {
        Ui::start(&env, &[]).ends_on(signal);
    }
    // The shell dies, and the server must not outlive it.
    let binary = env.command(&[]).get_program().to_owned();
    let script = format!("{} ui --json --no-open & echo $!; sleep 60", Path::new(&binary).display());
    let mut shell = env.program("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines().map_while(Result::ok);
    let mut started: Vec<String> = lines.by_ref().take(2).collect();
    started.sort_by_key(|line| line.starts_with('{'));
    let document: Value = serde_json::from_str(&started[1]).unwrap();
    let port = u16::try_from(document["port"].as_u64().unwrap()).unwrap();
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    shell.kill().unwrap();
    shell.wait().unwrap();
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(10), "the server outlives its parent");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn only_this_machine_is_served() {
    let env = TestEnvironment::repository();
    for address in ["0.0.0.0", "::", "192.0.2.1", "example.org"] {
        let ran = env.run(&["ui", "--json", "--no-open", "--listen", address]).exits(2);
        assert_eq!(ran.reason(), "usage", "{address}");
    }
    let ui = Ui::start(&env, &["--listen", "localhost"]);
    let taken = env.run(&["ui", "--json", "--no-open", "--port", &ui.port.to_string()]).exits(1);
    assert_eq!(taken.reason(), "listen_failed");
    assert!(taken.stderr.contains("--port"), "{taken:#?}");
    env.run(&["ui", "--port", "0"]).exits(2);
    env.run(&["ui", "--port", "70000"]).exits(2);
}

#[test]
fn an_empty_user_and_a_foreign_store_are_explained() {
    let env = TestEnvironment::repository();
    let ui = Ui::start(&env, &[]);
    assert!(ui.get("/").contains("No projects yet"));
    drop(ui);
    env.save(&["x", "--run", "theirs"]);
    // Without its record, the store came from someone else.
    std::fs::remove_dir_all(env.path("home").join(".local/state/milepost")).unwrap();
    let ui = Ui::start(&env, &[]);
    let page = ui.get(&ui.project());
    assert!(page.contains("not trusted") && page.contains("theirs"), "{page}");
}

#[test]
fn an_agent_is_not_shown_runs_from_elsewhere() {
    let mut env = TestEnvironment::repository();
    env.save(&["mine", "--run", "own"]);
    env.save(&["theirs", "--run", "foreign"]);
    let bundle = env.path("bundle.json");
    env.run(&["export", "bundle", "foreign", bundle.to_str().unwrap()]).exits(0);
    env.run(&["delete", "foreign", "--yes"]).exits(0);
    env.run(&["import", "bundle", bundle.to_str().unwrap()]).exits(0);
    let ui = Ui::start(&env, &[]);
    assert!(ui.get(&ui.project()).contains("foreign"));
    drop(ui);
    env.set("CLAUDECODE", "1");
    let ui = Ui::start(&env, &[]);
    let project = ui.project();
    assert!(!ui.get(&project).contains("foreign") && ui.get(&project).contains("own"));
    assert!(ui.get(&format!("{project}/r/foreign")).starts_with("HTTP/1.1 404"));
}
