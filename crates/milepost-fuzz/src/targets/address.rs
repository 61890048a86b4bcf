//! Addresses of stores, references and ids: what is parsed is written and parsed again as the same value, and no address
//! shows its password.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Once;

use milepost::Reference;
use milepost::internal::store::project_id;
use milepost::model::{BlobId, CheckpointId, RunId};
use milepost::store::{EventCursor, StoreUrl};
use milepost_postgres::connection::{Environment, Settings};

/// Stands for the password in an input.
const PLACEHOLDER: &str = "$PASSWORD";
/// A password that no input contains by chance.
const PASSWORD: &str = "pw-Zq81";

pub(super) fn run(data: &[u8]) {
    static REGISTER: Once = Once::new();
    REGISTER.call_once(|| assert!(milepost_postgres::register(Environment::new())));
    let Ok(text) = std::str::from_utf8(data) else { return };
    round_trip::<RunId>(text);
    round_trip::<CheckpointId>(text);
    round_trip::<BlobId>(text);
    round_trip::<EventCursor>(text);
    round_trip::<Reference>(text);
    round_trip::<StoreUrl>(text);
    if let Some(origin) = project_id::normalised_origin(text) {
        project_id::of_origin(&origin);
    }
    connect_to(text);
    if has_password(text) {
        hide_password(&text.replace(PLACEHOLDER, PASSWORD));
    }
}

/// Whether the placeholder is where an address has its password.
fn has_password(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, rest)| {
        let parts: Vec<_> = rest.split(PLACEHOLDER).collect();
        let [user, host] = parts.as_slice() else { return false };
        let is_scheme = scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_lowercase());
        is_scheme && user.contains(':') && !user.contains(['@', '/', '?']) && host.contains('@')
    })
}

fn hide_password(url: &str) {
    let shown = match url.parse::<StoreUrl>() {
        // The path of a file is shown as it is.
        Ok(url) if url.path().is_some() => String::new(),
        Ok(url) => format!("{url} {url:?}"),
        Err(e) => e.to_string(),
    };
    assert!(!shown.contains(PASSWORD), "{shown}");
    let shown = match Settings::parse(url, &Environment::new()) {
        Ok(settings) => settings.address(),
        Err(e) => e.to_string(),
    };
    assert!(!shown.contains(PASSWORD), "{shown}");
}

/// Parses an address of a PostgreSQL store.
fn connect_to(text: &str) {
    let Ok(settings) = Settings::parse(text, &Environment::new()) else { return };
    let address = settings.address();
    if let Ok(again) = Settings::parse(&address, &Environment::new()) {
        assert_eq!(again.address(), address, "an address is parsed as another one");
    }
}

fn round_trip<T: FromStr + Display + PartialEq + std::fmt::Debug>(text: &str) {
    let Ok(value) = text.parse::<T>() else { return };
    let written = value.to_string();
    let again = written.parse::<T>().ok();
    // An address without its password names the same store.
    assert_eq!(again.as_ref(), Some(&value), "{written} is another value than {text}");
}
