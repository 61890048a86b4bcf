//! The connections of one store handle: made when first needed, reused, and replaced when they are lost. Runs
//! reads again on a new connection until the store's waiting time is over. Knows nothing about tables.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::connection::Settings;
use crate::error::PostgresError;
use crate::session::Session;

/// Maximum number of idle connections.
const MAX_IDLE: usize = 8;

/// Longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// How long a handle that was never connected waits for a server that refuses connections, because it may be
/// restarting. After that it is taken for a wrong address or a server that does not run.
const RESTART_WAIT: Duration = Duration::from_secs(1);

/// Connections of one process.
pub(crate) struct Pool {
    settings: Settings,
    was_connected: AtomicBool,
    /// When the wait began in which the server has not answered so far; `None` if it answered last.
    silent_since: Mutex<Option<Instant>>,
    idle: Mutex<Idle>,
}

struct Idle {
    pid: u32,
    sessions: Vec<Session>,
}

/// The end of a store's waiting time, with pauses that grow.
#[derive(Debug, Clone)]
pub(crate) struct Deadline {
    started: Instant,
    end: Instant,
    pauses: u32,
}

impl Deadline {
    pub(crate) fn after(wait: Duration) -> Self {
        let started = Instant::now();
        Self { started, end: started + wait, pauses: 0 }
    }

    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// Time left, and at least a little, so that a statement without any waiting time can still succeed.
    pub(crate) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now()).max(Duration::from_millis(50))
    }

    pub(crate) fn waited(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Waits before the next attempt: longer each time, and by a random part, so that writers do not collide
    /// again. Returns false if the time is over.
    pub(crate) fn pause(&mut self) -> bool {
        let longest = Duration::from_millis(1 << self.pauses.min(8)).min(MAX_PAUSE);
        self.pauses += 1;
        let left = self.end.saturating_duration_since(Instant::now());
        let pause = longest.mul_f64(0.25 + 0.75 * random_fraction()).min(left);
        std::thread::sleep(pause);
        !self.is_over()
    }
}

fn random_fraction() -> f64 {
    let mut bytes = [0; 4];
    // Without randomness the pauses are merely equal.
    let _ = getrandom::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

impl Pool {
    pub(crate) fn new(settings: Settings) -> Self {
        let idle = Mutex::new(Idle { pid: std::process::id(), sessions: Vec::new() });
        Self { settings, was_connected: AtomicBool::new(false), silent_since: Mutex::new(None), idle }
    }

    /// When the wait began in which the server has not answered so far.
    pub(crate) fn silent_since(&self) -> Option<Instant> {
        *self.silent_since.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Remembers that the server did not answer before a deadline, so that the next operations do not wait as long
    /// again.
    pub(crate) fn note_silence(&self, deadline: &Deadline) {
        let mut since = self.silent_since.lock().unwrap_or_else(|e| e.into_inner());
        since.get_or_insert(deadline.started);
    }

    /// An idle connection, or a new one. A server that is starting or restarting is waited for.
    pub(crate) fn take(&self, deadline: &mut Deadline) -> Result<Session, PostgresError> {
        if let Some(session) = self.idle_session() {
            return Ok(session);
        }
        loop {
            match Session::connect(&self.settings, deadline.end()) {
                Err(e) if self.is_worth_waiting(&e, deadline) && deadline.pause() => {}
                connected => {
                    if connected.as_ref().is_err_and(PostgresError::is_temporary) {
                        self.note_silence(deadline);
                    }
                    self.was_connected.fetch_or(connected.is_ok(), Ordering::Relaxed);
                    return connected;
                }
            }
        }
    }

    fn is_worth_waiting(&self, e: &PostgresError, deadline: &Deadline) -> bool {
        let is_restart = || self.was_connected.load(Ordering::Relaxed) || deadline.waited() < RESTART_WAIT;
        e.is_temporary() && (!e.is_refused_connection() || is_restart())
    }

    fn idle_session(&self) -> Option<Session> {
        let mut idle = self.idle.lock().unwrap_or_else(|e| e.into_inner());
        if idle.pid != std::process::id() {
            // After a fork the connections belong to the parent: closing them would end them there too.
            idle.sessions.drain(..).for_each(std::mem::forget);
            idle.pid = std::process::id();
        }
        while let Some(session) = idle.sessions.pop() {
            if !session.is_closed() {
                return Some(session);
            }
        }
        None
    }

    /// Makes a connection available again. It must not be in a transaction.
    pub(crate) fn return_to_pool(&self, session: Session) {
        *self.silent_since.lock().unwrap_or_else(|e| e.into_inner()) = None;
        let mut idle = self.idle.lock().unwrap_or_else(|e| e.into_inner());
        if idle.pid == std::process::id() && idle.sessions.len() < MAX_IDLE && !session.is_closed() {
            idle.sessions.push(session);
        }
    }

    /// Drops all idle connections. After one was lost, the others usually are too.
    pub(crate) fn forget_idle(&self) {
        let mut idle = self.idle.lock().unwrap_or_else(|e| e.into_inner());
        if idle.pid == std::process::id() {
            idle.sessions.clear();
        }
    }

    /// Runs work that may be repeated. It is repeated on a new connection if one is lost, and after conflicts
    /// with other transactions, until the deadline.
    pub(crate) fn run<T, E: From<PostgresError>>(
        &self,
        deadline: &mut Deadline,
        mut work: impl FnMut(&mut Session, &Deadline) -> Result<T, Failed<E>>,
    ) -> Result<T, E> {
        loop {
            let mut session = self.take(deadline)?;
            match work(&mut session, deadline) {
                Ok(value) => {
                    self.return_to_pool(session);
                    return Ok(value);
                }
                Err(Failed::Final(e)) => {
                    self.return_to_pool(session);
                    return Err(e);
                }
                Err(Failed::Statement(e)) => {
                    if e.is_temporary() {
                        self.forget_idle();
                    } else if matches!(e, PostgresError::Refused { .. }) {
                        self.return_to_pool(session);
                    }
                    if !(e.is_temporary() || e.is_conflict()) || !deadline.pause() {
                        if e.is_temporary() || matches!(e, PostgresError::TimedOut { .. }) {
                            self.note_silence(deadline);
                        }
                        return Err(e.into());
                    }
                }
            }
        }
    }
}

/// Why work on a connection ended early.
#[derive(Debug)]
pub(crate) enum Failed<E> {
    /// A statement failed. The work may be repeated.
    Statement(PostgresError),
    /// The work has a result that repeating would not change. The connection is intact.
    Final(E),
}

impl<E> From<PostgresError> for Failed<E> {
    fn from(e: PostgresError) -> Self {
        Self::Statement(e)
    }
}
