//! Parses `host=… dbname='…'` with libpq's quoting rules. Errors never contain a value, nor a name that could
//! be the rest of an unquoted password.

use super::options::Options;
use super::settings_error::SettingsError;

pub(super) fn parse(text: &str, options: &mut Options) -> Result<(), SettingsError> {
    let mut rest = text.trim_start_matches(is_blank);
    let mut before = "";
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || is_blank(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let after = after.trim_start_matches(is_blank);
        // Other text before a `=` is no name. It may be a URL with a password and a misspelled scheme.
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        let Some(after) = after.strip_prefix('=').filter(|_| is_name) else {
            return Err(SettingsError::NotKeyValue { after: before.to_owned() });
        };
        let (value, after) = value(after.trim_start_matches(is_blank))
            .ok_or_else(|| SettingsError::UnterminatedQuote { option: printable(name, before) })?;
        if !options.set(name, value) {
            return Err(SettingsError::UnknownOption { option: printable(name, before) });
        }
        before = name;
        rest = after.trim_start_matches(is_blank);
    }
    Ok(())
}

/// The value at the start of a text, unescaped, and the text after it. None if a quote is not closed.
fn value(text: &str) -> Option<(String, &str)> {
    let (text, is_quoted) = match text.strip_prefix('\'') {
        Some(text) => (text, true),
        None => (text, false),
    };
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            '\'' if is_quoted => return Some((value, &text[at + 1..])),
            c if !is_quoted && is_blank(c) => return Some((value, &text[at..])),
            c => value.push(c),
        }
    }
    (!is_quoted).then_some((value, ""))
}

/// A name for an error message; empty if the option before it is the password, which may lack its quotes.
fn printable(name: &str, before: &str) -> String {
    if before == "password" { String::new() } else { name.to_owned() }
}

/// What C's `isspace` accepts.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Options, SettingsError> {
        let mut options = Options::default();
        parse(text, &mut options).map(|()| options)
    }

    #[test]
    fn values_are_unquoted_as_in_libpq() {
        for (text, name, expected) in [
            ("host=a", "host", Some("a")),
            ("  host = a  port\t=\n5", "port", Some("5")),
            ("dbname='two words' user=u", "dbname", Some("two words")),
            ("dbname='two words'user=u", "user", Some("u")),
            (r"password='it\'s \\ here'", "password", Some(r"it's \ here")),
            (r"password=a\ b", "password", Some("a b")),
            (r"password=a\", "password", Some("a")),
            ("password=a'b", "password", Some("a'b")),
            ("host='' user=u", "host", None),
            ("host= user=u", "host", Some("user=u")),
            ("host=a host=b", "host", Some("b")),
            ("", "host", None),
            ("dbname=größe", "dbname", Some("größe")),
        ] {
            let options = parsed(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(options.get(name), expected, "{text}");
        }
    }

    #[test]
    fn errors_name_the_option_but_never_the_rest_of_a_password() {
        for (text, expected) in [
            ("nonsense", "the connection string is neither a URL nor a list of `option=value`"),
            ("host=a nonsense", "the connection string has a word without a value after `host`"),
            (
                "postgress://u:secret@h/d?sslmode=require",
                "the connection string is neither a URL nor a list of `option=value`",
            ),
            ("host=a hots=b", "unknown connection option `hots`"),
            ("host='a", "the quote in the value of `host` is not closed"),
            ("password=top secret", "the connection string has a word without a value after `password`"),
            ("password=top secret=x", "unknown connection option after `password`"),
            ("password='top secret", "the quote in the value of `password` is not closed"),
        ] {
            let error = parsed(text).err().unwrap().to_string();
            assert_eq!(error, expected, "{text}");
        }
    }
}
