//! Finds how a command ended, in Codex's transcript of the session. Codex passes only the output to its
//! hooks, but writes the exit code and times to the transcript before it runs them. Only the end of the file
//! is read.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use serde_json::Value;

/// Bytes read from the end of the file, at first and at most. The last lines include the command's whole
/// output.
const FIRST_WINDOW: u64 = 64 << 10;
const LARGEST_WINDOW: u64 = 4 << 20;

/// How a command ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CommandEnd {
    pub(crate) exit_code: i64,
    pub(crate) duration_ms: u64,
    /// The folder in which it ran.
    pub(crate) folder: Option<String>,
}

/// Finds the plan that the agent proposed in its last message; `None` if it proposed none.
pub(crate) fn find_proposed_plan(transcript: &Path) -> Option<String> {
    const TAGS: (&str, &str) = ("<proposed_plan>", "</proposed_plan>");
    let size = std::fs::metadata(transcript).ok().filter(std::fs::Metadata::is_file)?.len();
    let mut file = File::open(transcript).ok()?;
    file.seek(SeekFrom::Start(size.saturating_sub(FIRST_WINDOW))).ok()?;
    let mut end = Vec::new();
    (&mut file).take(FIRST_WINDOW).read_to_end(&mut end).ok()?;
    for line in end.split(|byte| *byte == b'\n').rev() {
        let contains = |text: &str| line.windows(text.len()).any(|part| part == text.as_bytes());
        // A prompt ends the search: an earlier plan belongs to an earlier turn.
        if contains("\"role\":\"user\"") || contains("\"type\":\"user_message\"") {
            return None;
        }
        if !contains(TAGS.0) || !contains("\"assistant\"") {
            continue;
        }
        let line = super::payload::read(line).ok()?;
        let content = line.get("payload")?.get("content")?.as_array()?;
        let text: String =
            content.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect();
        let (_, plan) = text.split_once(TAGS.0)?;
        return Some(plan.split(TAGS.1).next().unwrap_or(plan).trim().to_owned());
    }
    None
}

/// Finds how a call ended. Returns `None` if the transcript does not show it.
pub(crate) fn find_command_end(transcript: &Path, call: &str) -> Option<CommandEnd> {
    // Opening a pipe could block forever.
    let size = std::fs::metadata(transcript).ok().filter(std::fs::Metadata::is_file)?.len();
    let mut file = File::open(transcript).ok()?;
    let mut window = FIRST_WINDOW;
    loop {
        file.seek(SeekFrom::Start(size.saturating_sub(window))).ok()?;
        let mut end = Vec::new();
        (&mut file).take(window).read_to_end(&mut end).ok()?;
        let found = end.split(|byte| *byte == b'\n').rev().find_map(|line| parse_line(line, call));
        if found.is_some() || window >= size.min(LARGEST_WINDOW) {
            return found;
        }
        window *= 4;
    }
}

fn parse_line(line: &[u8], call: &str) -> Option<CommandEnd> {
    // Skip unrelated lines without parsing them, because some are long.
    let contains = |text: &str| line.windows(text.len()).any(|part| part == text.as_bytes());
    if call.is_empty() || !contains(call) || !contains("exit_code") {
        return None;
    }
    let line = super::payload::read(line).ok()?;
    let payload = line.get("payload")?;
    let item = payload.get("item").filter(|item| item.get("id").and_then(Value::as_str) == Some(call))?;
    let time = |key: &str| payload.get(key).and_then(Value::as_u64);
    let duration = time("completed_at_ms").zip(time("started_at_ms"));
    Some(CommandEnd {
        exit_code: item.get("exit_code")?.as_i64()?,
        duration_ms: duration.map_or(0, |(end, start)| end.saturating_sub(start)),
        folder: item
            .get("cwd")
            .and_then(Value::as_str)
            .map(|cwd| cwd.trim_start_matches("file://").to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use milepost::internal::fs::atomic;

    use super::*;

    fn line(call: &str, code: &str, output: &str) -> String {
        format!(
            "{{\"type\":\"event_msg\",\"payload\":{{\"type\":\"item_completed\",\"item\":{{\"type\":\"CommandExecution\",\
             \"id\":\"{call}\",\"aggregated_output\":\"{output}\",\"exit_code\":{code}}},\
             \"started_at_ms\":1000,\"completed_at_ms\":1250}}}}\n"
        )
    }

    fn write(file: &Path, text: &str) {
        atomic::write(file, text.as_bytes(), atomic::Mode::Private).unwrap();
    }

    #[test]
    fn the_end_of_a_call_is_found_however_long_its_output_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rollout.jsonl");
        let large = "x".repeat(900_000);
        let text =
            [line("call_1", "3", "no"), line("call_2", "0", &large), "{\"type\":\"token_count\"}\n".into()];
        write(&file, &text.concat());
        assert_eq!(
            find_command_end(&file, "call_1"),
            Some(CommandEnd { exit_code: 3, duration_ms: 250, folder: None })
        );
        assert_eq!(
            find_command_end(&file, "call_2"),
            Some(CommandEnd { exit_code: 0, duration_ms: 250, folder: None })
        );
        assert_eq!(find_command_end(&file, "call_3"), None);
    }

    #[test]
    fn what_cannot_be_read_tells_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rollout.jsonl");
        assert_eq!(find_command_end(&file, "call_1"), None);
        assert_eq!(find_command_end(folder.path(), "call_1"), None);
        let odd = "call_1 exit_code\n{\"call_1\":\"exit_code\"";
        write(&file, &(line("call_1", "null", "") + odd));
        assert_eq!(find_command_end(&file, "call_1"), None);
        assert_eq!(find_command_end(&file, ""), None);
    }
}
