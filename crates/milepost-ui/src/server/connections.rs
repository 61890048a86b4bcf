//! Limits the connections of the server. A new connection replaces the oldest one that has not authenticated, so that
//! no number of connections keeps the user's browser out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::task::AbortHandle;

/// Maximum number of open connections. A browser opens six at most, and one more for each page that is updated live.
/// The more there are, the longer a new connection has time to authenticate while others are opened quickly.
const MAX_CONNECTIONS: usize = 256;
/// How long a connection may stay open without having authenticated.
const UNAUTHENTICATED_TIME: Duration = Duration::from_secs(10);

/// One connection.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    is_authenticated: Arc<AtomicBool>,
}

impl Connection {
    /// Notes that a request of this connection had a valid session.
    pub(super) fn mark_authenticated(&self) {
        self.is_authenticated.store(true, Ordering::Relaxed);
    }

    fn is_authenticated(&self) -> bool {
        self.is_authenticated.load(Ordering::Relaxed)
    }
}

/// The open connections, oldest first.
#[derive(Debug, Default)]
struct Open {
    next: u64,
    connections: BTreeMap<u64, (Connection, AbortHandle)>,
}

/// All connections of a server.
#[derive(Debug, Clone, Default)]
pub(super) struct Connections(Arc<Mutex<Open>>);

impl Connections {
    /// Serves a connection in a task of its own. Closes an older connection if there are too many.
    pub(super) fn spawn<F: Future<Output = ()> + 'static + Send>(&self, serve: impl FnOnce(Connection) -> F) {
        let connection = Connection { is_authenticated: Arc::default() };
        let mut open = self.lock();
        if open.connections.len() >= MAX_CONNECTIONS {
            open.close_oldest();
        }
        let id = open.next;
        open.next += 1;
        let (all, served) = (self.clone(), serve(connection.clone()));
        let watched = connection.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = served => {}
                () = unauthenticated_timeout(&watched) => {}
            }
            all.lock().connections.remove(&id);
        });
        open.connections.insert(id, (connection, task.abort_handle()));
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Open {
    /// Closes the oldest connection that has not authenticated, or else the oldest one.
    fn close_oldest(&mut self) {
        let strangers = self.connections.iter().filter(|(_, (connection, _))| !connection.is_authenticated());
        let oldest = strangers.map(|(id, _)| *id).next();
        let oldest = oldest.or_else(|| self.connections.keys().next().copied());
        if let Some((_, task)) = oldest.and_then(|id| self.connections.remove(&id)) {
            task.abort();
        }
    }
}

/// Ends after the permitted time, unless the connection has authenticated by then.
async fn unauthenticated_timeout(connection: &Connection) {
    tokio::time::sleep(UNAUTHENTICATED_TIME).await;
    if connection.is_authenticated() {
        std::future::pending::<()>().await;
    }
}
