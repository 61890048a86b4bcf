//! The style sheet and the script of the page. Both are compiled in, and their addresses contain a digest of their
//! content, so that a browser keeps them until they change.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::LazyLock;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

const STYLE: &str = concat!(include_str!("../assets/milepost.css"), include_str!("../assets/timeline.css"));
const SCRIPT: &str = include_str!("../assets/milepost.js");
const ICON: &str = include_str!("../assets/icon.svg");

/// The start of the address of every asset. No session is needed to load one.
pub(crate) const PREFIX: &str = "/assets/";

/// One file.
struct Asset {
    name: String,
    kind: &'static str,
    content: &'static str,
}

impl Asset {
    fn new(stem: &str, ending: &str, kind: &'static str, content: &'static str) -> Self {
        let mut hasher = DefaultHasher::new();
        content.hash(&mut hasher);
        let digest = format!("{:016x}", hasher.finish());
        Self { name: format!("{stem}-{digest}.{ending}"), kind, content }
    }
}

static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    [
        Asset::new("milepost", "css", "text/css; charset=utf-8", STYLE),
        Asset::new("milepost", "js", "text/javascript; charset=utf-8", SCRIPT),
        Asset::new("icon", "svg", "image/svg+xml", ICON),
    ]
});

/// The addresses of the style sheet, the script and the icon.
pub(crate) fn addresses() -> [String; 3] {
    ASSETS.each_ref().map(|asset| format!("{PREFIX}{}", asset.name))
}

/// Answers a request for an asset.
pub(crate) fn answer(name: &str) -> Response {
    match ASSETS.iter().find(|asset| asset.name == name) {
        Some(asset) => respond(asset),
        None => (StatusCode::NOT_FOUND, "not found").into_response(),
    }
}

/// Answers a request for the icon under its usual address.
pub(crate) fn icon() -> Response {
    let [.., icon] = &*ASSETS;
    respond(icon)
}

fn respond(asset: &Asset) -> Response {
    let mut response = asset.content.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(asset.kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=31536000, immutable"));
    response
}
