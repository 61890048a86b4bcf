//! Payloads of agents' hooks, and Codex transcripts: every agent's parser accepts any bytes, and what a run records is
//! bounded.

use std::path::Path;

use milepost_cli::internal::{agent_names, parse_hook, search_transcript};

use crate::scratch;

/// A name of a call in the transcripts of the corpus.
const CALL: &str = "call_1";

pub(super) fn run(data: &[u8]) {
    let mut is_json = false;
    for agent in agent_names() {
        let changes = parse_hook(agent, data, Path::new("/project"));
        is_json |= changes.is_some();
        let size: usize = changes.iter().flatten().map(|change| format!("{change:?}").len()).sum();
        // Debug output escapes characters, some of them with eight bytes.
        assert!(size <= 64 * data.len() + (64 << 10), "{size} bytes recorded for {agent}");
    }
    if !is_json && data.contains(&b'{') {
        let folder = scratch::folder();
        let file = folder.path().join("transcript.jsonl");
        assert!(scratch::write(&file, data));
        search_transcript(&file, CALL);
    }
}
