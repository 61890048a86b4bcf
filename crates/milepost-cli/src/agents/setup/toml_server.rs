//! The MCP server's entry in TOML settings: a table at the end of the file. Every other byte stays unchanged.
//! The table is added and removed as text, because `toml_edit` loses CRLF, a byte order mark and a missing
//! final newline. Every result is parsed again and compared with the intended value.

use toml::{Table, Value};

use super::content::{InstallState, Refusal};
use super::program::ProgramName;
use super::server::{NAME, classify_command};

const LIST: &str = "mcp_servers";
const HEADER: &str = "[mcp_servers.milepost]";
const BODY: &str = "command = \"milepost\"\nargs = [\"mcp\"]";

fn parse(text: &str) -> Result<Table, Refusal> {
    let text = text.trim_start_matches('\u{feff}');
    text.parse().map_err(|e: toml::de::Error| {
        let line = e.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
        Refusal::new(&format!("line {line}: {}", e.message()))
    })
}

pub(super) fn install_state(text: &str, program: &ProgramName) -> Result<InstallState, Refusal> {
    Ok(state_of(&parse(text)?, program))
}

fn state_of(table: &Table, program: &ProgramName) -> InstallState {
    let Some(entry) = table.get(LIST).and_then(|list| list.get(NAME)) else { return InstallState::Absent };
    let args = entry.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let command: Vec<_> = entry.get("command").and_then(Value::as_str).into_iter().chain(args).collect();
    classify_command(&command, program)
}

/// Returns the text with the entry.
pub(super) fn install(text: &str, program: &ProgramName) -> Result<String, Refusal> {
    let body = program.in_text(BODY);
    let before = parse(text)?;
    let base = match state_of(&before, program) {
        InstallState::Current | InstallState::Foreign(_) | InstallState::Invalid(_) => {
            return Ok(text.to_owned());
        }
        InstallState::Stale(_) => uninstall(text)?,
        InstallState::Absent => text.to_owned(),
    };
    let newline = if base.contains("\r\n") { "\r\n" } else { "\n" };
    let block = format!("{HEADER}{newline}{}", body.replace('\n', newline));
    // A file without a final newline stays without one, so that `uninstall` restores it exactly.
    let added = match base.as_str() {
        "" => format!("{block}{newline}"),
        text if text.ends_with('\n') => format!("{text}{newline}{block}{newline}"),
        text => format!("{text}{newline}{newline}{block}"),
    };
    let mut wanted = before;
    let entry: Table = body.parse().map_err(|_| unsafe_edit())?;
    let list = wanted.entry(LIST).or_insert_with(|| Value::Table(Table::new()));
    let Some(list) = list.as_table_mut() else { return Err(Refusal::new("mcp_servers is not a table")) };
    list.insert(NAME.to_owned(), Value::Table(entry));
    match parse(&added) {
        Ok(after) if after == wanted => Ok(added),
        // For example, `mcp_servers` is an inline table.
        _ => Err(unsafe_edit()),
    }
}

/// Returns the text without the entry and its sub-tables.
pub(super) fn uninstall(text: &str) -> Result<String, Refusal> {
    let mut wanted = parse(text)?;
    if matches!(state_of(&wanted, &ProgramName::OnPath), InstallState::Absent | InstallState::Foreign(_)) {
        return Ok(text.to_owned());
    }
    if let Some(Value::Table(list)) = wanted.get_mut(LIST) {
        list.remove(NAME);
        if list.is_empty() {
            wanted.remove(LIST);
        }
    }
    let removed = remove_table(text);
    let mut after = parse(&removed)?;
    // An empty `[mcp_servers]` header may remain.
    if after.get(LIST).and_then(Value::as_table).is_some_and(Table::is_empty) {
        after.remove(LIST);
    }
    if after == wanted { Ok(removed) } else { Err(unsafe_edit()) }
}

fn unsafe_edit() -> Refusal {
    Refusal::new(
        "mcp_servers is written in a way that cannot be edited safely; add or remove its entry milepost by hand",
    )
}

/// Removes the table and its sub-tables, each with the blank line before it.
fn remove_table(text: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut kept: Vec<&str> = Vec::with_capacity(lines.len());
    let mut at = 0;
    while at < lines.len() {
        if !is_entry_header(lines[at]) {
            kept.push(lines[at]);
            at += 1;
            continue;
        }
        let next =
            (at + 1..lines.len()).find(|n| lines[*n].trim_start().starts_with('[')).unwrap_or(lines.len());
        // Comments and blank lines before the next table belong to that table.
        let has_content = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let end = at + 1 + lines[at + 1..next].iter().rposition(has_content).map_or(0, |last| last + 1);
        if kept.last().is_some_and(|line| line.trim().is_empty()) {
            kept.pop();
        }
        // A file without a final newline stays without one.
        if let (true, Some(last)) = (end == lines.len() && !text.ends_with('\n'), kept.last_mut()) {
            *last = last.trim_end_matches(['\r', '\n']);
        }
        at = end;
    }
    kept.concat()
}

fn is_entry_header(line: &str) -> bool {
    let Some(name) = line.trim_start().strip_prefix('[').and_then(|rest| rest.split(']').next()) else {
        return false;
    };
    let mut parts = name.split('.').map(|part| part.trim().trim_matches(['"', '\'']));
    parts.next() == Some(LIST) && parts.next() == Some(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uninstalling_restores_the_text_before_installing() {
        for text in [
            "",
            "a = 1\n",
            "a = 1",
            "a = 1\r\n[b]\r\nc = 2\r\n",
            "# only a comment",
            "\n\n",
            "[mcp_servers.other]\ncommand = \"x\"  # why\n\n\n# end\n",
            "[mcp_servers]\n",
            "x = [\n  [1],\n]\n",
            "mcp_servers.other.command = \"x\"\n\u{0020}\n",
        ] {
            let installed = install(text, &ProgramName::OnPath).unwrap_or_else(|e| panic!("{text:?}: {e:?}"));
            assert!(
                matches!(install_state(&installed, &ProgramName::OnPath), Ok(InstallState::Current)),
                "{installed}"
            );
            assert_eq!(install(&installed, &ProgramName::OnPath).unwrap(), installed);
            assert_eq!(uninstall(&installed).unwrap(), text, "{installed}");
        }
    }

    #[test]
    fn an_error_after_a_byte_order_mark_is_located() {
        for text in ["\u{feff}[m{", "\u{feff}\u{feff}a"] {
            let Refusal(why) = install(text, &ProgramName::OnPath).unwrap_err();
            assert!(why.starts_with("line 1: "), "{why}");
        }
    }

    #[test]
    fn keeps_entries_of_the_user_and_of_others() {
        let text = "a = 1\n\n[mcp_servers.milepost]\ncommand = \"milepost\"\nargs = [\"mcp\"]\nstartup_timeout_sec = 9\n\n\
                    [mcp_servers.milepost.env]\nX = \"1\"\n\n# about b\n[b]\nc = 1\n";
        assert_eq!(install(text, &ProgramName::OnPath).unwrap(), text);
        assert_eq!(uninstall(text).unwrap(), "a = 1\n\n# about b\n[b]\nc = 1\n");
        let stale = "[mcp_servers.milepost]\ncommand = \"milepost\"\nargs = [\"serve\"]\n";
        assert!(matches!(install_state(stale, &ProgramName::OnPath), Ok(InstallState::Stale(_))));
        assert_eq!(install(stale, &ProgramName::OnPath).unwrap(), install("", &ProgramName::OnPath).unwrap());
        let foreign = "[mcp_servers.milepost]\ncommand = \"other\"\n";
        assert_eq!(install(foreign, &ProgramName::OnPath).unwrap(), foreign);
        assert_eq!(uninstall(foreign).unwrap(), foreign);
    }

    #[test]
    fn refuses_text_that_it_cannot_edit_safely() {
        for text in ["a = ", "mcp_servers = 3\n", "mcp_servers = { other = { command = \"x\" } }\n"] {
            assert!(install(text, &ProgramName::OnPath).is_err(), "{text}");
        }
        let inline = "mcp_servers = { milepost = { command = \"milepost\", args = [\"mcp\"] } }\n";
        assert_eq!(install(inline, &ProgramName::OnPath).unwrap(), inline);
        assert!(uninstall(inline).is_err());
    }
}
