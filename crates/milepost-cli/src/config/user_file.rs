//! Changes the user's configuration file: sets one key and keeps the rest, including comments, order and line
//! endings. Creates the file if it is missing. Does not change a file that the configuration would ignore.

use std::path::Path;

use milepost::Error;
use milepost::internal::fs::{atomic, bounded};
use toml_edit::{DocumentMut, Item, Table, Value};

use super::file::{File, FileLookup, LIMIT};
use crate::error::{CommandError, Result};

/// Sets `table.name` to a text.
pub(super) fn set(path: &Path, key: &str, value: &str) -> Result<()> {
    let before = match File::read(path.to_owned(), false)? {
        FileLookup::Missing => String::new(),
        FileLookup::File(_) => bounded::read_text(path, LIMIT).map_err(Error::file(path, "read"))?,
        FileLookup::Refused(why) => {
            return Err(CommandError::usage(format!("{} was not changed: {why}", path.display()))
                .with_hint("replace it with a regular file of your own"));
        }
    };
    let after = with_value(&before, key, value).ok_or_else(|| {
        CommandError::usage(format!("{} was not changed: it cannot be edited safely", path.display()))
            .with_hint(format!("set {key} = \"{value}\" in it by hand"))
    })?;
    if let Some(folder) = path.parent() {
        atomic::create_folder(folder).map_err(Error::file(folder, "written"))?;
    }
    Ok(atomic::write(path, after.as_bytes(), atomic::Mode::Shared).map_err(Error::file(path, "written"))?)
}

/// The text of a file with one value changed or added; `None` if anything else would change too.
fn with_value(before: &str, key: &str, value: &str) -> Option<String> {
    let (table, name) = key.split_once('.')?;
    let mut document: DocumentMut = before.parse().ok()?;
    let mut new_value = Value::from(value);
    let list = document.entry(table).or_insert_with(|| Item::Table(Table::new())).as_table_like_mut()?;
    match list.get_mut(name).and_then(Item::as_value_mut) {
        Some(present) => {
            // The decoration is the white space and the comment around the value.
            *new_value.decor_mut() = present.decor().clone();
            *present = new_value;
        }
        None => {
            list.insert(name, Item::Value(new_value));
        }
    }
    let after = document.to_string();
    // `toml_edit` writes every line ending as LF.
    let after =
        if before.contains("\r\n") { after.replace("\r\n", "\n").replace('\n', "\r\n") } else { after };
    let mut wanted: toml::Table = before.parse().ok()?;
    let list = wanted.entry(table).or_insert_with(|| toml::Value::Table(toml::Table::new()));
    list.as_table_mut()?.insert(name.to_owned(), toml::Value::String(value.to_owned()));
    (after.parse::<toml::Table>().ok()? == wanted).then_some(after)
}

#[cfg(test)]
mod tests {
    use super::with_value;

    #[test]
    fn only_the_value_changes() {
        for (before, after) in [
            ("", "[agents]\nrecord = \"all\"\n"),
            ("# mine\nwait = 5 # s\n", "# mine\nwait = 5 # s\n\n[agents]\nrecord = \"all\"\n"),
            (
                "[agents] # a\n# b\nrecord = \"initialised\" # c\n[x]\ny = 1\n",
                "[agents] # a\n# b\nrecord = \"all\" # c\n[x]\ny = 1\n",
            ),
            ("[agents]\n# none\n\n[x]\n", "[agents]\nrecord = \"all\"\n# none\n\n[x]\n"),
            ("agents.record = \"x\"\n", "agents.record = \"all\"\n"),
            ("agents = { record = 1 }", "agents = { record = \"all\" }\n"),
            ("wait = 5\r\n", "wait = 5\r\n\r\n[agents]\r\nrecord = \"all\"\r\n"),
        ] {
            assert_eq!(with_value(before, "agents.record", "all").as_deref(), Some(after), "{before}");
        }
        for invalid in ["agents = 3\n", "[agents\n", "[[agents]]\n"] {
            assert_eq!(with_value(invalid, "agents.record", "all"), None, "{invalid}");
        }
    }
}
