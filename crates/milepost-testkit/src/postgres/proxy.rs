//! A TCP proxy on the loopback for fault tests: forwards bytes to a server and, on command, closes every
//! connection or stops forwarding at an exact byte, or loses one request that contains a text. Must not
//! interpret anything else that it forwards.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

/// How long the server has to answer a request whose reply is lost.
const REPLY_TIME: Duration = Duration::from_millis(100);
/// How much later than the end of its connection a late request arrives.
const DELAY: Duration = Duration::from_millis(60);
/// How long the network stops before a delayed request is forwarded.
const LONG_DELAY: Duration = Duration::from_millis(500);

/// What a proxy connects to.
#[derive(Clone, Debug)]
pub enum Target {
    /// A TCP address.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// Which way bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

/// What happens to one request and its connection. Other connections are not affected, except by `NetworkDown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFault {
    /// The request is lost, and the connection ends.
    Lost,
    /// The server gets the request, but the connection ends before the client gets the reply.
    ReplyLost,
    /// The connection ends for the client, and a little later the server gets the request.
    Late,
    /// Nothing is forwarded any more, and the connection stays open.
    Stalled,
    /// The server gets the request, but the client gets nothing any more, and the connection stays open.
    ReplyStalled,
    /// Nothing is forwarded any more, on this and on all other connections, as by [`Proxy::pause`].
    NetworkDown,
    /// The request is forwarded a little later.
    Delayed,
}

/// Which request a fault happens to.
#[derive(Clone, Debug)]
enum FaultyRequest {
    /// The next one that contains this text.
    Containing(Vec<u8>),
    /// The one with this number.
    Numbered(u64),
}

/// What happens at a chosen byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Cut,
    Pause,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes forwarded so far, to the server and to the client.
    forwarded: [u64; 2],
    /// For each direction, the count of forwarded bytes at which a fault happens.
    faults: [Option<(u64, Fault)>; 2],
    /// The fault of a request that is still to come.
    request_fault: Option<(RequestFault, FaultyRequest)>,
    /// The number of requests so far, over all connections.
    requests: u64,
    /// The requests of all connections, while they are recorded.
    recorded: Option<Vec<Vec<u8>>>,
    /// The numbers of connections whose clients get nothing any more.
    muted: Vec<u64>,
    is_paused: bool,
    is_refusing: bool,
    is_stopped: bool,
    /// Increases with every cut; connections of an earlier number are closed.
    cuts: u64,
    /// The number of connections so far.
    connections: u64,
    /// Both ends of each open connection, with its number.
    open: Vec<(u64, [Stream; 2])>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic holds the lock")
    }

    /// Takes the fault of this request, if one is planned, and mutes the connection.
    fn request_fault(&self, connection: u64, direction: Direction, bytes: &[u8]) -> Option<RequestFault> {
        if direction == Direction::ToClient || bytes.is_empty() {
            return None;
        }
        let mut state = self.lock();
        state.requests += 1;
        if let Some(recorded) = &mut state.recorded {
            recorded.push(bytes.to_owned());
        }
        let (fault, request) = state.request_fault.as_ref()?;
        let (fault, is_hit) = (
            *fault,
            match request {
                FaultyRequest::Containing(text) => bytes.windows(text.len()).any(|window| window == text),
                FaultyRequest::Numbered(number) => state.requests == *number,
            },
        );
        if !is_hit {
            return None;
        }
        state.request_fault = None;
        match fault {
            RequestFault::Delayed => {}
            RequestFault::NetworkDown => state.is_paused = true,
            _ => state.muted.push(connection),
        }
        Some(fault)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

/// A running proxy; dropping it closes its port and every connection.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    address: SocketAddr,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1 and forwards every connection to the target.
    pub fn start(target: Target) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let state = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming() {
                let is_refusing = {
                    let state = state.lock();
                    if state.is_stopped {
                        break;
                    }
                    state.is_refusing
                };
                // A connection that fails is closed; the proxy goes on.
                if let (Ok(client), false) = (client, is_refusing) {
                    let _ = serve(&state, client, &target);
                }
            }
        });
        Ok(Self { shared, address })
    }

    /// The address that clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many bytes were forwarded so far, over all connections.
    pub fn forwarded(&self, direction: Direction) -> u64 {
        self.shared.lock().forwarded[direction as usize]
    }

    /// Closes every connection now. New connections are forwarded.
    pub fn cut(&self) {
        self.shared.change(State::cut);
    }

    /// Forwards this many more bytes in this direction. When another byte arrives, every connection is closed.
    /// With `ToClient` and 0, the server executes the request and the reply is lost.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        self.fault_after(direction, bytes, Fault::Cut);
    }

    /// Stops forwarding, in both directions, until [`Self::resume`]. Connections stay open.
    pub fn pause(&self) {
        self.shared.change(|state| state.is_paused = true);
    }

    /// Forwards this many more bytes in this direction. When another byte arrives, the proxy pauses.
    pub fn pause_after(&self, direction: Direction, bytes: u64) {
        self.fault_after(direction, bytes, Fault::Pause);
    }

    /// Forwards again, beginning with the bytes that wait.
    pub fn resume(&self) {
        self.shared.change(|state| state.is_paused = false);
    }

    /// Whether the proxy is paused, by command or because a chosen byte arrived.
    pub fn is_paused(&self) -> bool {
        self.shared.lock().is_paused
    }

    /// Closes new connections at once, or forwards them again.
    pub fn refuse_connections(&self, refuse: bool) {
        self.shared.change(|state| state.is_refusing = refuse);
    }

    /// Lets a fault happen to the next request that contains the text within its first 16 KiB.
    pub fn fault_request(&self, fault: RequestFault, text: &[u8]) {
        let request = FaultyRequest::Containing(text.to_owned());
        self.shared.change(|state| state.request_fault = Some((fault, request)));
    }

    /// Lets a fault happen to one of the requests that follow: 1 is the next one. A request is what a client sends at
    /// once; messages that begin a connection count too.
    pub fn fault_request_number(&self, fault: RequestFault, number: u64) {
        self.shared.change(|state| {
            let request = FaultyRequest::Numbered(state.requests + number);
            state.request_fault = Some((fault, request));
        });
    }

    /// Records requests from now on.
    pub fn record_requests(&self) {
        self.shared.change(|state| state.recorded = Some(Vec::new()));
    }

    /// The requests that were recorded; up to 16 KiB of each.
    pub fn take_recorded(&self) -> Vec<Vec<u8>> {
        self.shared.lock().recorded.take().unwrap_or_default()
    }

    /// Whether a fault of a request is still to come.
    pub fn is_request_fault_pending(&self) -> bool {
        self.shared.lock().request_fault.is_some()
    }

    fn fault_after(&self, direction: Direction, bytes: u64, fault: Fault) {
        self.shared.change(|state| {
            let at = direction as usize;
            state.faults[at] = Some((state.forwarded[at] + bytes, fault));
        });
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.change(|state| {
            state.is_stopped = true;
            state.cut();
        });
        // Wakes the thread that accepts connections, so that it ends.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn cut(&mut self) {
        self.cuts += 1;
        self.is_paused = false;
        for (_, ends) in self.open.drain(..) {
            ends.iter().for_each(Stream::close);
        }
    }

    /// How many of `len` bytes may be forwarded now; 0 if a fault is due.
    fn allowed(&self, direction: Direction, len: usize) -> usize {
        match self.faults[direction as usize] {
            None => len,
            Some((at, _)) => {
                let left = at.saturating_sub(self.forwarded[direction as usize]);
                usize::try_from(left).map_or(len, |left| left.min(len))
            }
        }
    }
}

fn serve(shared: &Arc<Shared>, client: TcpStream, target: &Target) -> io::Result<()> {
    client.set_nodelay(true)?;
    let client = Stream::Tcp(client);
    let server = match target {
        Target::Tcp(address) => {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            Stream::Tcp(stream)
        }
        Target::Unix(path) => Stream::Unix(UnixStream::connect(path)?),
    };
    let ends = [client.copy()?, server.copy()?];
    let (connection, cuts) = {
        let mut state = shared.lock();
        state.connections += 1;
        let connection = state.connections;
        state.open.push((connection, ends));
        (connection, state.cuts)
    };
    let both = [(Direction::ToServer, client.copy()?, server.copy()?), (Direction::ToClient, server, client)];
    for (direction, from, to) in both {
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            let _ = forward(&shared, (connection, cuts), direction, &from, &to);
            from.close();
            to.close();
            shared.change(|state| state.open.retain(|(open, _)| *open != connection));
        });
    }
    Ok(())
}

fn forward(
    shared: &Shared,
    (connection, cuts): (u64, u64),
    direction: Direction,
    mut from: &Stream,
    mut to: &Stream,
) -> io::Result<()> {
    let mut buffer = [0; 16 * 1024];
    loop {
        let len = from.read(&mut buffer)?;
        let mut rest = &buffer[..len];
        match shared.request_fault(connection, direction, rest) {
            Some(RequestFault::Delayed) => thread::sleep(LONG_DELAY),
            Some(RequestFault::ReplyStalled | RequestFault::NetworkDown) | None => {}
            Some(fault) => return apply(fault, shared, cuts, rest, from, to),
        }
        if direction == Direction::ToClient && len > 0 && shared.lock().muted.contains(&connection) {
            continue;
        }
        loop {
            let mut state = shared.lock();
            while state.is_paused && state.cuts == cuts {
                state = shared.changed.wait(state).expect("no panic holds the lock");
            }
            if state.cuts != cuts || len == 0 {
                return Ok(());
            }
            let allowed = state.allowed(direction, rest.len());
            if allowed == 0 {
                match state.faults[direction as usize].take() {
                    Some((_, Fault::Cut)) => state.cut(),
                    _ => state.is_paused = true,
                }
                shared.changed.notify_all();
                continue;
            }
            state.forwarded[direction as usize] += allowed as u64;
            drop(state);
            let (now, later) = rest.split_at(allowed);
            to.write_all(now)?;
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
    }
}

/// Applies the fault of a request. The connection is closed when this returns.
fn apply(
    fault: RequestFault,
    shared: &Shared,
    cuts: u64,
    request: &[u8],
    client: &Stream,
    mut server: &Stream,
) -> io::Result<()> {
    match fault {
        // Requests with the last three faults are forwarded like any other.
        RequestFault::Lost
        | RequestFault::ReplyStalled
        | RequestFault::NetworkDown
        | RequestFault::Delayed => {}
        RequestFault::ReplyLost => {
            server.write_all(request)?;
            thread::sleep(REPLY_TIME);
        }
        RequestFault::Late => {
            client.close();
            thread::sleep(DELAY);
            server.write_all(request)?;
            thread::sleep(REPLY_TIME);
        }
        RequestFault::Stalled => {
            let mut state = shared.lock();
            while state.cuts == cuts {
                state = shared.changed.wait(state).expect("no panic holds the lock");
            }
        }
    }
    Ok(())
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn copy(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
        })
    }

    fn close(&self) {
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for &Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).read(buffer),
            Stream::Unix(stream) => (&mut &*stream).read(buffer),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => (&mut &*stream).write(buffer),
            Stream::Unix(stream) => (&mut &*stream).write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
