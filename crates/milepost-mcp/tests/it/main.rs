//! Compares the served tools with the files in `schemas/`, which make changes to tools visible in reviews.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::path::Path;

/// Every tool has a file in `schemas/` with its served definition. If a definition has changed, the test
/// writes it to a file, ready to be copied there.
#[test]
fn the_committed_schemas_are_those_that_are_served() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    let mut known: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let mut different = Vec::new();
    for tool in milepost_mcp::definitions() {
        let name = format!("{}.json", tool.name);
        let text = serde_json::to_string_pretty(&tool).unwrap() + "\n";
        if std::fs::read_to_string(folder.join(&name)).ok().as_ref() != Some(&text) {
            let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&name);
            #[allow(clippy::disallowed_methods, reason = "a test's own file")]
            std::fs::write(&new, text).unwrap();
            different.push(new.display().to_string());
        }
        known.retain(|file| *file != name);
    }
    assert!(different.is_empty(), "differs from {}: cp {} there", folder.display(), different.join(" "));
    assert!(known.is_empty(), "no tool for {known:?}");
}

/// Some agents do not support references, choices of types or null.
#[test]
fn arguments_are_described_plainly() {
    fn plain(value: &serde_json::Value, at: &str) {
        for banned in ["$ref", "anyOf", "oneOf", "allOf", "$defs"] {
            assert!(value.get(banned).is_none(), "{at}: {banned}");
        }
        assert!(!value["type"].is_array(), "{at}: {value}");
        for (name, member) in value["properties"].as_object().into_iter().flatten() {
            assert!(!member["description"].as_str().unwrap_or_default().is_empty(), "{at}/{name}");
            plain(member, &format!("{at}/{name}"));
        }
        if value.get("items").is_some() {
            plain(&value["items"], &format!("{at}/-"));
        }
    }
    for tool in milepost_mcp::definitions() {
        let tool = serde_json::to_value(&tool).unwrap();
        assert!(tool["description"].as_str().unwrap().len() > 40, "{tool}");
        plain(&tool["inputSchema"], tool["name"].as_str().unwrap());
    }
}
