//! Parses `postgres://user:password@host:port,host2/database?option=value` as libpq does. Stricter in one
//! point: a bare `@` after the user is refused, because it is nearly always part of a password that was not
//! percent-encoded, and would otherwise show up as a host, a database or an option.

use super::options::Options;
use super::settings_error::SettingsError;

const PREFIXES: [&str; 2] = ["postgresql://", "postgres://"];

pub(super) fn is_url(text: &str) -> bool {
    PREFIXES.iter().any(|prefix| text.starts_with(prefix))
}

pub(super) fn parse(text: &str, options: &mut Options) -> Result<(), SettingsError> {
    let rest = PREFIXES.iter().find_map(|prefix| text.strip_prefix(prefix)).unwrap_or(text);
    let end_of_user = rest.find(['@', '/']).filter(|at| rest[*at..].starts_with('@'));
    let rest = match end_of_user {
        Some(at) => {
            let (user, password) = match rest[..at].split_once(':') {
                Some((user, password)) => (user, Some(password)),
                None => (&rest[..at], None),
            };
            set_part(options, "user", Some(user).filter(|user| !user.is_empty()))?;
            set_part(options, "password", password)?;
            &rest[at + 1..]
        }
        None => rest,
    };
    if rest.contains('@') {
        return Err(SettingsError::PasswordNotEncoded);
    }
    let (address, query) = match rest.split_once('?') {
        Some((address, query)) => (address, Some(query)),
        None => (rest, None),
    };
    let (hosts, database) = match address.split_once('/') {
        Some((hosts, database)) => (hosts, Some(database).filter(|database| !database.is_empty())),
        None => (address, None),
    };
    set_hosts(options, hosts)?;
    set_part(options, "dbname", database)?;
    query.map_or(Ok(()), |query| set_query(options, query))
}

fn set_part(options: &mut Options, name: &'static str, value: Option<&str>) -> Result<(), SettingsError> {
    if let Some(value) = value {
        let value = decode(value).ok_or(SettingsError::PercentEncoding { part: name.to_owned() })?;
        options.set(name, value);
    }
    Ok(())
}

fn set_hosts(options: &mut Options, hosts: &str) -> Result<(), SettingsError> {
    if hosts.is_empty() {
        return Ok(());
    }
    let mut names = Vec::new();
    let mut ports = Vec::new();
    for host in hosts.split(',') {
        let (name, port) = match host.strip_prefix('[') {
            Some(rest) => {
                let (name, after) = rest.split_once(']').ok_or(SettingsError::Ipv6Bracket)?;
                let port = after.strip_prefix(':');
                if name.is_empty() || port.is_none() && !after.is_empty() {
                    return Err(SettingsError::Ipv6Bracket);
                }
                (name, port)
            }
            None => match host.split_once(':') {
                Some((name, port)) => (name, Some(port)),
                None => (host, None),
            },
        };
        names.push(name);
        ports.push(port.unwrap_or_default());
    }
    set_part(options, "host", Some(&names.join(",")).filter(|names| !names.is_empty()).map(String::as_str))?;
    if ports.iter().any(|port| !port.is_empty()) {
        set_part(options, "port", Some(&ports.join(",")))?;
    }
    Ok(())
}

fn set_query(options: &mut Options, query: &str) -> Result<(), SettingsError> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').ok_or(SettingsError::QueryWithoutValue)?;
        let name = decode(name).ok_or(SettingsError::PercentEncoding { part: "?".to_owned() })?;
        let value = decode(value).ok_or_else(|| SettingsError::PercentEncoding { part: name.clone() })?;
        // The form of JDBC's URLs, which libpq accepts too.
        let (name, value) = match (name.as_str(), value.as_str()) {
            ("ssl", "true") => ("sslmode".to_owned(), "require".to_owned()),
            _ => (name, value),
        };
        if !options.set(&name, value) {
            return Err(SettingsError::UnknownOption { option: name });
        }
    }
    Ok(())
}

/// Decodes percent-encoded bytes. None if a code is incomplete or zero, or if the result is not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let code = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(code).ok().filter(|code| *code != 0)?);
    }
    String::from_utf8(bytes).ok()
}

/// Encodes everything but letters, digits and a few harmless characters.
pub(super) fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Options, SettingsError> {
        let mut options = Options::default();
        parse(text, &mut options).map(|()| options)
    }

    #[test]
    fn urls_are_taken_apart_as_in_libpq() {
        let names = ["user", "password", "host", "port", "dbname", "sslmode"];
        for (text, expected) in [
            ("postgres://", ["", "", "", "", "", ""]),
            ("postgresql://localhost", ["", "", "localhost", "", "", ""]),
            ("postgres://u@h", ["u", "", "h", "", "", ""]),
            ("postgres://u:p@h:1/d", ["u", "p", "h", "1", "d", ""]),
            ("postgres://u:p:q@h", ["u", "p:q", "h", "", "", ""]),
            ("postgres://:p@h", ["", "p", "h", "", "", ""]),
            ("postgres:///d", ["", "", "", "", "d", ""]),
            ("postgres://u@/d", ["u", "", "", "", "d", ""]),
            ("postgres://h?sslmode=require", ["", "", "h", "", "", "require"]),
            ("postgres://h/?ssl=true", ["", "", "h", "", "", "require"]),
            ("postgres://a:1,b:2/d", ["", "", "a,b", "1,2", "d", ""]),
            ("postgres://a,b:2/d", ["", "", "a,b", ",2", "d", ""]),
            ("postgres://[::1]:5/d", ["", "", "::1", "5", "d", ""]),
            ("postgres://[2001:db8::1],h/d", ["", "", "2001:db8::1,h", "", "d", ""]),
            ("postgres://%2Fvar%2Frun:5/d", ["", "", "/var/run", "5", "d", ""]),
            ("postgres://u%40x:p%2Fw%3A@h/d%20e", ["u@x", "p/w:", "h", "", "d e", ""]),
            ("postgres:///d?host=/tmp&port=7", ["", "", "/tmp", "7", "d", ""]),
            ("postgres://h/d?user=u&password=a+b", ["u", "a+b", "h", "", "d", ""]),
            ("postgres://h:1/d?host=other", ["", "", "other", "1", "d", ""]),
            ("postgres://:5433/d", ["", "", "", "5433", "d", ""]),
        ] {
            let options = parsed(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(names.map(|name| options.get(name).unwrap_or_default()), expected, "{text}");
        }
    }

    #[test]
    fn errors_do_not_contain_a_password() {
        for text in [
            "postgres://u:se/cret@h/d",
            "postgres://u:se@cret@h/d",
            "postgres://u:se?cret@h@/d",
            "postgres://u:1/se?cret=1@h/d",
            "postgres://u:@?secret=1@h/d",
            "postgres://u:se%zzcret@h/d",
            "postgres://u:se%00cret@h/d",
            "postgres://u:se%ffcret@h/d",
        ] {
            let error = parsed(text).err().unwrap_or_else(|| panic!("{text} is accepted")).to_string();
            assert!(!error.contains("se") || !error.contains("cret"), "{text}: {error}");
        }
    }

    #[test]
    fn malformed_urls_are_refused() {
        for (text, expected) in [
            ("postgres://h/d?sslmode", "an option in the URL has no value"),
            ("postgres://h/d?sslmoed=x", "unknown connection option `sslmoed`"),
            ("postgres://h/d%2", "the percent-encoding of `dbname` in the URL is invalid"),
            ("postgres://h/d?user=%g0", "the percent-encoding of `user` in the URL is invalid"),
            ("postgres://[::1/d", "the IPv6 address in the URL is not enclosed in brackets"),
            ("postgres://[::1]x/d", "the IPv6 address in the URL is not enclosed in brackets"),
            ("postgres://[]/d", "the IPv6 address in the URL is not enclosed in brackets"),
        ] {
            assert_eq!(parsed(text).err().unwrap().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn encoding_is_undone_by_decoding() {
        for text in ["plain", "a b/c:d@e%f", "größe", "%41", "?&="] {
            assert_eq!(decode(&encode(text)).as_deref(), Some(text));
        }
    }
}
