//! A server with two projects, and a client that speaks HTTP/1.1 over a socket.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use milepost::{AllowList, Milepost, Redaction, Settings};
use milepost_ui::{
    Overview, OverviewGroup, OverviewRun, Project, ProjectSummary, Projects, Server, StopHandle,
};

/// The project `app`, whose store is open, and `gone`, which cannot be opened.
struct TestProjects {
    app: Arc<Project>,
}

impl Projects for TestProjects {
    fn search(
        &self,
        query: &milepost::SearchQuery,
    ) -> (Vec<(ProjectSummary, milepost::SearchResults)>, Vec<milepost_ui::UnreadableProject>) {
        let project = self.overview().projects.remove(0);
        (vec![(project, self.app.milepost.search(query).unwrap())], Vec::new())
    }

    fn overview(&self) -> Overview {
        let runs = self.app.milepost.runs(&milepost::RunsQuery::default()).unwrap_or_default();
        let runs = runs.iter().map(|run| OverviewRun {
            project: "app".to_owned(),
            root: self.app.root.to_string_lossy().into_owned(),
            run: run.run_id().to_string(),
            state: "open",
            why: String::new(),
            about: run.intact().and_then(|record| record.title().clone()).unwrap_or_default(),
            updated_at: None,
            next: "milepost resume".to_owned(),
        });
        Overview {
            groups: vec![OverviewGroup { name: "Open", runs: runs.collect() }],
            projects: vec![ProjectSummary {
                key: "app".to_owned(),
                root: "/srv/app".to_owned(),
                store: "sqlite:milepost.db".to_owned(),
                runs: 1,
            }],
            unreadable: Vec::new(),
        }
    }

    fn open(&self, key: &str) -> Result<Option<Arc<Project>>, String> {
        match key {
            "app" => Ok(Some(Arc::clone(&self.app))),
            "gone" => Err("the store cannot be read".to_owned()),
            _ => Ok(None),
        }
    }
}

/// A running server.
pub(crate) struct TestServer {
    pub(crate) mp: Milepost,
    pub(crate) port: u16,
    pub(crate) url: String,
    pub(crate) ticket: String,
    pub(crate) notices: Arc<Mutex<Vec<String>>>,
    /// The cookie of a session.
    cookie: String,
    stop: StopHandle,
    thread: Option<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

/// A response, read to its end.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl TestServer {
    pub(crate) fn start() -> Self {
        Self::start_with(|_| ())
    }

    /// A server whose project `app` was changed.
    pub(crate) fn start_with(change: impl FnOnce(&mut Project)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let settings = Settings::default().redaction(Redaction::On).keep_newest(10_000);
        let mp = Milepost::open(folder.path()).unwrap().with_settings(settings);
        let mut app = Project {
            key: "app".to_owned(),
            name: "app".to_owned(),
            root: folder.path().to_owned(),
            store: "sqlite:milepost.db".to_owned(),
            command: "milepost -C /srv/app".to_owned(),
            milepost: mp.clone(),
            allow: AllowList::EMPTY,
            hides_foreign_runs: false,
            untrusted: None,
        };
        change(&mut app);
        let server = Server::bind(IpAddr::V4(Ipv4Addr::LOCALHOST), None).unwrap();
        let (port, url, ticket) = (server.port(), server.url(), server.one_time_url().unwrap());
        let (stop, notices) = (StopHandle::new(), Arc::<Mutex<Vec<String>>>::default());
        let (stopped, noted) = (stop.clone(), Arc::clone(&notices));
        let thread = std::thread::spawn(move || {
            let notice = move |line: &str| noted.lock().unwrap().push(line.to_owned());
            server.run(TestProjects { app: Arc::new(app) }, &stopped, notice).unwrap();
        });
        let mut started = Self {
            mp,
            port,
            url,
            ticket,
            notices,
            cookie: String::new(),
            stop,
            thread: Some(thread),
            _folder: folder,
        };
        let opened = started.send(&started.request(&path(&started.url), &[]));
        started.cookie = cookie(&opened);
        started
    }

    /// A request with the right `Host`.
    pub(crate) fn request(&self, path: &str, headers: &[&str]) -> String {
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n{headers}\r\n", self.port)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    }

    /// Sends bytes and reads the response to its end.
    pub(crate) fn send(&self, request: &str) -> Response {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        // A refused request may be answered with a reset.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Response { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// A request of the session.
    pub(crate) fn get(&self, path: &str) -> Response {
        self.get_with(path, &[])
    }

    pub(crate) fn get_with(&self, path: &str, headers: &[&str]) -> Response {
        let cookie = self.cookie_header();
        let headers: Vec<_> = [cookie.as_str()].into_iter().chain(headers.iter().copied()).collect();
        self.send(&self.request(path, &headers))
    }

    pub(crate) fn cookie_header(&self) -> String {
        format!("Cookie: {}", self.cookie)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// The path and the query of an address.
pub(crate) fn path(url: &str) -> String {
    url.splitn(4, '/').nth(3).map(|path| format!("/{path}")).unwrap()
}

/// The cookie that a response sets.
pub(crate) fn cookie(response: &Response) -> String {
    let line = response.head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    line.and_then(|line| line.split(';').next()).unwrap_or_default().to_owned()
}
