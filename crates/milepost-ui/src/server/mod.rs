//! The HTTP server: listens on the loopback address, limits connections, and passes requests that are allowed to the
//! pages. Runs until it is stopped.

mod access;
mod connections;
mod sessions;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use self::access::Access;
use self::connections::{Connection, Connections};
use self::sessions::Sessions;
use crate::pages;
use crate::projects::Projects;

/// Maximum time to send the header of a request.
const HEADER_TIME: Duration = Duration::from_secs(5);
/// Maximum size of the header of a request, in bytes. Browsers send less than 2 KiB.
const HEADER_BYTES: usize = 16 << 10;
/// Maximum number of header fields in a request.
const HEADER_FIELDS: usize = 64;
/// Maximum number of connections that wait to be accepted.
const QUEUE: i32 = 4096;
/// Maximum number of threads that read stores.
const READERS: usize = 8;
/// How long to wait if no connection can be accepted, for example because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// A server that listens, but does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: std::net::TcpListener,
    address: SocketAddr,
    sessions: Sessions,
}

/// Stops a server from another thread.
#[derive(Debug, Clone)]
pub struct StopHandle(Arc<watch::Sender<bool>>);

impl StopHandle {
    /// A handle that stops the server to which it is passed.
    pub fn new() -> Self {
        Self(Arc::new(watch::channel(false).0))
    }

    /// Stops the server: it closes its connections, and `Server::run` returns.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Default for StopHandle {
    fn default() -> Self {
        Self::new()
    }
}

impl Server {
    /// Listens on a port of a loopback address; any other address is refused. The system chooses the port if it is
    /// missing.
    pub fn bind(address: IpAddr, port: Option<u16>) -> io::Result<Self> {
        if !address.is_loopback() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a loopback address"));
        }
        let listener = listen(SocketAddr::new(address, port.unwrap_or(0)))?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, sessions: Sessions::new()? })
    }

    /// The port on which it listens.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The address to open in a browser. Whoever knows it can read everything that the page shows.
    pub fn url(&self) -> String {
        format!("http://{}/open?token={}", self.address, self.sessions.token())
    }

    /// An address that works only once. For the command line of a browser, which other users of the machine can see.
    pub fn one_time_url(&self) -> io::Result<String> {
        Ok(format!("http://{}/open?ticket={}", self.address, self.sessions.issue_ticket()?))
    }

    /// Answers requests until `stop` is used. Calls `notice` with lines that the user should read.
    pub fn run(
        self,
        projects: impl Projects,
        stop: &StopHandle,
        notice: impl Fn(&str) + Send + Sync + 'static,
    ) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(READERS)
            .build()?;
        let mut stopped = stop.0.subscribe();
        let access = Arc::new(Access::new(self.address, self.sessions, Box::new(notice)));
        let router = pages::router(projects);
        let result = runtime.block_on(async {
            let listener = TcpListener::from_std(self.listener)?;
            let connections = Connections::default();
            loop {
                let accepted = tokio::select! {
                    accepted = listener.accept() => accepted,
                    _ = stopped.wait_for(|stopped| *stopped) => return Ok(()),
                };
                match accepted {
                    Ok((stream, _)) => {
                        let (router, access) = (router.clone(), Arc::clone(&access));
                        connections.spawn(|connection| serve(stream, router, access, connection));
                        // Its request is read before newer connections are accepted, which might replace it.
                        tokio::task::yield_now().await;
                    }
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                }
            }
        });
        // Reads that are still running must not keep the process alive.
        runtime.shutdown_background();
        result
    }
}

/// Listens with a long queue: if it overflows, the system drops connections, and a browser repeats its own only after a
/// second.
fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A port that another server has just left can be used at once.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(QUEUE)?;
    Ok(socket.into())
}

/// Answers the requests of one connection.
async fn serve(stream: TcpStream, router: Router, access: Arc<Access>, connection: Connection) {
    let answer = service_fn(move |request: Request<hyper::body::Incoming>| {
        let (router, access, connection) = (router.clone(), Arc::clone(&access), connection.clone());
        async move {
            let request = request.map(axum::body::Body::new);
            // Before the page is built: until then, newer connections may replace this one.
            let response = access.answer(request, router, || connection.mark_authenticated()).await;
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(HEADER_BYTES)
        .max_headers(HEADER_FIELDS);
    // A client that breaks the protocol or disconnects is no problem of the server's.
    let _ = http.serve_connection(TokioIo::new(stream), answer).await;
}
