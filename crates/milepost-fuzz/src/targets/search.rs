//! Search queries: every text with a word is a valid query of the index, and excerpts are within their texts.

use std::sync::OnceLock;

use milepost::store::{OpenOptions, StoreUrl};
use milepost::{Milepost, Save, SearchQuery};
use tempfile::TempDir;

use crate::scratch;

/// Texts to search in.
const TEXTS: [&str; 4] = [
    "Parse the configuration file src/config/mod.rs before the store is opened",
    "Decided to use SQLite, because \"locks\" of NFS are unreliable (see RFC 7530)",
    "Die Prüfung schlägt fehl: Straße, naïve café, 日本語のテキスト, emoji 🎯",
    "error[E0308]: mismatched types in fn read_all(path: &Path) -> Vec<u8>",
];

pub(super) fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mp = &engine().1;
    for prefix_last in [false, true] {
        let query = SearchQuery::new(text).prefix_last(prefix_last).limit(3);
        let found = mp.search(&query);
        match query.has_words() {
            true => drop(found.expect("a query with a word is valid")),
            false => assert!(found.is_err(), "a query without a word is refused"),
        }
    }
}

fn engine() -> &'static (TempDir, Milepost) {
    static ENGINE: OnceLock<(TempDir, Milepost)> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let folder = scratch::folder();
        let url = StoreUrl::sqlite(folder.path().join("milepost.db"));
        let mp = Milepost::at(&url, &OpenOptions::new().create(true)).expect("a store can be created");
        for (n, text) in TEXTS.into_iter().enumerate() {
            let run = mp.run(format!("run-{n}")).title(text).start().expect("a run can be started");
            run.decide(text).expect("a decision can be recorded");
            run.save(Save::new().summary(text)).expect("a checkpoint can be saved");
        }
        (folder, mp)
    })
}
