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
    let with_password = text.replace("$PASSWORD", PASSWORD);
    if with_password != text {
        let shown = match with_password.parse::<StoreUrl>() {
            Ok(url) => format!("{url} {url:?}"),
            Err(e) => e.to_string(),
        };
        // Anything else is the path of a file, which is shown.
        let is_server = text.starts_with("postgres://") || text.starts_with("postgresql://");
        assert!(!is_server || !shown.contains(PASSWORD), "{shown}");
        let shown = match Settings::parse(&with_password, &Environment::new()) {
            Ok(settings) => settings.address(),
            Err(e) => e.to_string(),
        };
        assert!(!shown.contains(PASSWORD), "{shown}");
    }
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
