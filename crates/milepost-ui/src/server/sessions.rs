//! Who may use the page. The user gets a token, or a ticket that works only once; a browser exchanges either for a
//! session, whose id is in a cookie. All of them are random and end with the server.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard};

use data_encoding::BASE64URL_NOPAD;

/// Maximum number of sessions. The oldest one ends when there are more.
const MAX_SESSIONS: usize = 32;
/// Number of random bytes in a token.
const TOKEN_BYTES: usize = 24;

/// The tokens, tickets and sessions of a server.
#[derive(Debug)]
pub(super) struct Sessions {
    token: String,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Tickets that were not used yet.
    tickets: Vec<String>,
    /// Tickets that were used, each with the id of the session that it began.
    used: Vec<(String, String)>,
    /// The ids of the sessions, oldest first.
    sessions: VecDeque<String>,
}

/// The answer to a ticket.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum TicketUse {
    /// The ticket was valid, and this session begins.
    Session(String),
    /// The ticket was used before. The session that began with it has ended, because it is unknown which of the two is
    /// the user's.
    UsedTwice,
    /// There is no such ticket.
    Unknown,
}

impl Sessions {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { token: random()?, state: Mutex::default() })
    }

    /// The token, which works as often as needed.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// A new ticket, which works once.
    pub(super) fn issue_ticket(&self) -> io::Result<String> {
        let ticket = random()?;
        self.lock().tickets.push(ticket.clone());
        Ok(ticket)
    }

    /// Begins a session if the token is valid. Returns its id.
    pub(super) fn use_token(&self, token: &str) -> io::Result<Option<String>> {
        if !is_equal(token, &self.token) {
            return Ok(None);
        }
        let id = random()?;
        self.lock().begin(id.clone());
        Ok(Some(id))
    }

    /// Begins a session if the ticket is valid.
    pub(super) fn use_ticket(&self, ticket: &str) -> io::Result<TicketUse> {
        let id = random()?;
        let mut state = self.lock();
        if let Some(at) = state.tickets.iter().position(|known| is_equal(ticket, known)) {
            let ticket = state.tickets.swap_remove(at);
            state.used.push((ticket, id.clone()));
            state.begin(id.clone());
            return Ok(TicketUse::Session(id));
        }
        let Some((_, used_for)) = state.used.iter().find(|(used, _)| is_equal(ticket, used)).cloned() else {
            return Ok(TicketUse::Unknown);
        };
        state.sessions.retain(|session| *session != used_for);
        Ok(TicketUse::UsedTwice)
    }

    /// Whether a session with this id exists.
    pub(super) fn contains(&self, id: &str) -> bool {
        self.lock().sessions.iter().any(|session| is_equal(id, session))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl State {
    fn begin(&mut self, id: String) {
        self.sessions.push_back(id);
        if self.sessions.len() > MAX_SESSIONS {
            self.sessions.pop_front();
        }
    }
}

/// A random text that fits in a URL and in a cookie.
fn random() -> io::Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(BASE64URL_NOPAD.encode(&bytes))
}

/// Compares two texts in a time that does not depend on where they differ.
fn is_equal(a: &str, b: &str) -> bool {
    let differences = a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && differences == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_works_once_and_a_replay_ends_its_session() {
        let sessions = Sessions::new().unwrap();
        let ticket = sessions.issue_ticket().unwrap();
        let TicketUse::Session(id) = sessions.use_ticket(&ticket).unwrap() else { panic!("refused") };
        assert!(sessions.contains(&id) && !sessions.contains(&ticket) && !sessions.contains(""));
        assert_eq!(sessions.use_ticket(&ticket).unwrap(), TicketUse::UsedTwice);
        assert!(!sessions.contains(&id));
        assert_eq!(sessions.use_ticket(sessions.token()).unwrap(), TicketUse::Unknown);
        assert_eq!(sessions.use_ticket("").unwrap(), TicketUse::Unknown);
    }

    #[test]
    fn the_oldest_session_ends_when_there_are_too_many() {
        let sessions = Sessions::new().unwrap();
        let token = sessions.token().to_owned();
        let begin = || sessions.use_token(&token).unwrap().unwrap();
        let first = begin();
        for _ in 1..MAX_SESSIONS {
            begin();
        }
        assert!(sessions.contains(&first));
        begin();
        assert!(!sessions.contains(&first));
        assert_eq!(sessions.use_token("x").unwrap(), None);
    }
}
