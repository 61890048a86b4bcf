//! Decides which requests are answered: only reads, only for this server's own host names, not on behalf of other
//! sites, and only with a session. Adds the security headers to every response.

use std::net::SocketAddr;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use serde::Deserialize;
use tower_service::Service as _;

use super::sessions::{Sessions, TicketUse};
use crate::assets;
use crate::pages::message_page;

/// Nothing is loaded from elsewhere, and no script or style is written inside a page.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Headers of every response.
const HEADERS: [(HeaderName, &str); 8] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    (HeaderName::from_static("x-robots-tag"), "noindex"),
];

/// What is allowed on a server.
pub(super) struct Access {
    /// The values of `Host` under which the page can be opened.
    hosts: [String; 2],
    cookie: String,
    sessions: Sessions,
    notice: Box<dyn Fn(&str) + Send + Sync>,
}

/// What a browser exchanges for a session.
#[derive(Debug, Default, Deserialize)]
struct OpenQuery {
    token: Option<String>,
    ticket: Option<String>,
}

/// Why a request is not answered.
struct Refusal {
    status: StatusCode,
    title: &'static str,
    text: &'static str,
}

impl Access {
    pub(super) fn new(
        address: SocketAddr,
        sessions: Sessions,
        notice: Box<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        Self {
            hosts: [address.to_string(), format!("localhost:{}", address.port())],
            // All ports of a host share their cookies, so the name contains the port.
            cookie: format!("milepost-{}", address.port()),
            sessions,
            notice,
        }
    }

    /// Answers a request, or says why not. Calls `authenticated` before the answer to a request with a valid session.
    pub(super) async fn answer(
        &self,
        request: Request,
        mut router: Router,
        authenticated: impl FnOnce(),
    ) -> Response {
        let mut response = match self.check(&request) {
            Err(refusal) => refusal.into_response(),
            Ok(()) if request.uri().path() == "/open" => self.begin_session(&request),
            // The style sheet of a refusal must load as well.
            Ok(()) if request.uri().path().starts_with(assets::PREFIX) => route(request, &mut router).await,
            Ok(()) => match self.has_session(request.headers()) {
                false => Refusal::no_session().into_response(),
                true => {
                    authenticated();
                    route(request, &mut router).await
                }
            },
        };
        let headers = response.headers_mut();
        for (name, value) in HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        response
    }

    /// Refuses requests that change something, that another name for this machine was used for (a name that an
    /// attacker controls can point to the loopback address), or that another site makes a browser send.
    fn check(&self, request: &Request) -> Result<(), Refusal> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return Err(Refusal {
                status: StatusCode::METHOD_NOT_ALLOWED,
                title: "Only reading is possible",
                text: "This page changes nothing. Use the command line instead.",
            });
        }
        let headers = request.headers();
        let is_own_host = |host: &str| self.hosts.iter().any(|own| own == host);
        let has_one = |name: HeaderName| headers.get_all(name).iter().count() == 1;
        if !(has_one(header::HOST) && value(headers, header::HOST).is_some_and(is_own_host)) {
            return Err(Refusal::wrong_site("The Host header does not name this server."));
        }
        // A request with an absolute target names a host there, too.
        if request.uri().authority().is_some_and(|authority| !is_own_host(authority.as_str())) {
            return Err(Refusal::wrong_site("The request is for another host."));
        }
        let origin = headers.get(header::ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
        let is_own_origin = |origin: &str| origin.strip_prefix("http://").is_some_and(is_own_host);
        if origin.is_some_and(|origin| !is_own_origin(origin)) {
            return Err(Refusal::wrong_site("The request comes from another site."));
        }
        // `none` is the user: a typed address or a bookmark. A local file that redirects here is cross-site, and may
        // only open the page.
        let site = value(headers, HeaderName::from_static("sec-fetch-site"));
        let mode = value(headers, HeaderName::from_static("sec-fetch-mode"));
        let is_allowed_site = match site {
            None | Some("same-origin" | "none") => true,
            Some(_) => mode == Some("navigate") && request.uri().path() == "/open",
        };
        if !is_allowed_site {
            return Err(Refusal::wrong_site("The request comes from another site."));
        }
        Ok(())
    }

    fn has_session(&self, headers: &HeaderMap) -> bool {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        pairs.any(|(name, id)| name == self.cookie && self.sessions.contains(id))
    }

    /// Exchanges a token or a ticket for a session. Does not redirect: a cookie that is limited to this site is not
    /// sent after a redirect from elsewhere, but it is sent when a page of this site opens another one.
    fn begin_session(&self, request: &Request) -> Response {
        let query = Query::<OpenQuery>::try_from_uri(request.uri()).map(|query| query.0).unwrap_or_default();
        let begun = match (&query.token, &query.ticket) {
            (Some(token), _) => self.sessions.use_token(token),
            (None, Some(_)) if self.has_session(request.headers()) => return opened(None),
            (None, Some(ticket)) => match self.sessions.use_ticket(ticket) {
                Ok(TicketUse::Session(id)) => Ok(Some(id)),
                Ok(TicketUse::Unknown) => Ok(None),
                Ok(TicketUse::UsedTwice) => {
                    (self.notice)(
                        "Warning: the link for the browser was used twice, so both pages were closed. Another user of \
                         this machine may have seen it. Open the address above instead.",
                    );
                    return Refusal::used_twice().into_response();
                }
                Err(e) => Err(e),
            },
            (None, None) => Ok(None),
        };
        match begun {
            Ok(Some(id)) => opened(Some(format!("{}={id}; Path=/; HttpOnly; SameSite=Strict", self.cookie))),
            Ok(None) => Refusal::no_session().into_response(),
            Err(_) => Refusal {
                status: StatusCode::INTERNAL_SERVER_ERROR,
                title: "No session",
                text: "The system provided no random numbers.",
            }
            .into_response(),
        }
    }
}

async fn route(request: Request, router: &mut Router) -> Response {
    let Ok(response) = router.call(request).await;
    response
}

/// The value of a header; empty if it is not valid text.
fn value(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

/// A page that opens the first page at once, with the cookie of a new session.
fn opened(cookie: Option<String>) -> Response {
    let mut response = page(StatusCode::OK, message_page("Milepost", "Opening the page …", Some("/")));
    let cookie = cookie.and_then(|cookie| HeaderValue::from_str(&cookie).ok());
    if let Some(cookie) = cookie {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

fn page(status: StatusCode, text: String) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let html = HeaderValue::from_static("text/html; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, html);
    response
}

impl Refusal {
    fn no_session() -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            title: "Open the address from the terminal",
            text: "This browser has no session. Open the address that `milepost ui` printed when it started.",
        }
    }

    fn wrong_site(text: &'static str) -> Self {
        Self { status: StatusCode::FORBIDDEN, title: "Refused", text }
    }

    fn used_twice() -> Self {
        Self {
            status: StatusCode::FORBIDDEN,
            title: "This link was used already",
            text: "Links for the browser work once. Open the address that `milepost ui` printed in the terminal.",
        }
    }

    fn into_response(self) -> Response {
        page(self.status, message_page(self.title, self.text, None))
    }
}
