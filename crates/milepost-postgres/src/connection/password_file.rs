//! The password file, `~/.pgpass` unless named otherwise: lines of `host:port:database:user:password` with
//! wildcards and escapes. Returns the password of the first line that matches. Must not be used if other users
//! have access to the file.

use std::path::Path;

use super::file;
use super::settings_error::SettingsWarning;

/// The text of a password file; nothing if there is no such file. A file that is ignored is a warning.
pub(super) fn read(path: &Path) -> Result<Option<String>, SettingsWarning> {
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(None) };
    let file = path.to_owned();
    if !metadata.is_file() {
        return Err(SettingsWarning::PasswordFileType { file });
    }
    match file::is_accessible_to_others(path) {
        Ok(false) => {}
        Ok(true) => return Err(SettingsWarning::PasswordFileAccess { file }),
        Err(e) => return Err(SettingsWarning::PasswordFileUnreadable { file, reason: e.to_string() }),
    }
    let text = file::read_text(path);
    text.map(Some).map_err(|e| SettingsWarning::PasswordFileUnreadable { file, reason: e.to_string() })
}

/// The password for a connection. A socket in a default folder has the host `localhost`.
pub(super) fn find(text: &str, host: &str, port: u16, database: &str, user: &str) -> Option<String> {
    let port = port.to_string();
    let wanted = [host, &port, database, user];
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut rest = line.trim_end_matches('\r');
        for value in wanted {
            let (field, is_wildcard, after) = field(rest)?;
            if !is_wildcard && field != value {
                return None;
            }
            rest = after;
        }
        let (password, ..) = unescape(rest, false);
        Some(password).filter(|password| !password.is_empty())
    })
}

/// The field before the next colon, whether it is a bare `*`, and the text after the colon.
fn field(text: &str) -> Option<(String, bool, &str)> {
    let (field, end) = unescape(text, true);
    let after = text.get(end..)?.strip_prefix(':')?;
    Some((field, &text[..end] == "*", after))
}

/// Removes the backslash before each escaped character, up to the next colon or to the end.
/// Returns the text and where it ended.
fn unescape(text: &str, stops_at_colon: bool) -> (String, usize) {
    let mut field = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            ':' if stops_at_colon => return (field, at),
            '\\' => field.push(chars.next().map_or('\\', |(_, escaped)| escaped)),
            c => field.push(c),
        }
    }
    (field, text.len())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "tests write plain files")]

    use super::*;

    #[test]
    fn the_first_matching_line_has_the_password() {
        for (text, expected) in [
            ("h:5432:d:u:secret", Some("secret")),
            ("*:*:*:*:any", Some("any")),
            ("h:5432:d:other:no\nh:*:d:u:second\n*:*:*:*:third", Some("second")),
            ("h:5433:d:u:no", None),
            ("# h:5432:d:u:comment\nh:5432:d:u:yes", Some("yes")),
            (r"h:5432:d:u:with\:colon\\and", Some(r"with:colon\and")),
            ("h:5432:d:u:with:colon", Some("with:colon")),
            ("h:5432:d:u:", None),
            ("h:5432:d:u", None),
            ("\\h:5432:d:u:escaped", Some("escaped")),
            (r"\*:5432:d:u:literal star", None),
            ("h:5432:d:u:crlf\r\n", Some("crlf")),
            ("\n\nh:5432:d:u: spaces ", Some(" spaces ")),
        ] {
            assert_eq!(find(text, "h", 5432, "d", "u").as_deref(), expected, "{text}");
        }
        assert_eq!(find(r"a\:b:5432:d:u:p", "a:b", 5432, "d", "u").as_deref(), Some("p"));
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_is_ignored() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pgpass");
        assert_eq!(read(&file), Ok(None));
        std::fs::write(&file, "text").unwrap();
        for (mode, is_used) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false), (0o620, false)]
        {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read(&file).is_ok(), is_used, "{mode:o}");
        }
        assert!(matches!(read(folder.path()), Err(SettingsWarning::PasswordFileType { .. })));
    }
}
