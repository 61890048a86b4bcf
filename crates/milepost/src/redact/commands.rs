//! Finds passwords in command lines such as `mysql -pX`, `sshpass -p X` and `docker login -p X`, in text and
//! in argument lists. Scans each command once, from the program name to the end of the command, so the time
//! is linear in the length of the text.

use super::secret_likelihood;
use super::text::{ByteClass, Text};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlagValue {
    Attached,
    Next,
    Either,
    /// In the next word, after `pass:`.
    Source,
}

struct Program {
    /// Names of the program, in lower case. A trailing `*` matches any suffix.
    names: &'static [&'static str],
    /// The word that must follow the program name. Empty if any word may follow.
    subcommand: &'static str,
    rule: &'static str,
    flags: &'static [(&'static str, FlagValue)],
}

const fn program(
    names: &'static [&'static str],
    subcommand: &'static str,
    rule: &'static str,
    flags: &'static [(&'static str, FlagValue)],
) -> Program {
    Program { names, subcommand, rule, flags }
}

use FlagValue::{Attached, Either, Next, Source};

const WRAPPER: &str = "sshpass";
const PASSWORD_FLAGS: &[(&str, FlagValue)] = &[("-p", Next), ("--password", Next)];
/// Programs that log in to a registry or a platform.
const LOGIN_PROGRAMS: [&str; 9] =
    ["az", "buildah", "cf", "docker", "nerdctl", "oc", "podman", "registry", "skopeo"];
const DATABASE_PROGRAMS: [&str; 7] =
    ["cqlsh", "mongo", "mongodump", "mongoexport", "mongoimport", "mongorestore", "mongosh"];
const OPENSSL_FLAGS: &[(&str, FlagValue)] = &[("-passin", Source), ("-passout", Source), ("-pass", Source)];

static PROGRAMS: [Program; 12] = [
    program(&["7z*"], "", "archive_password", &[("-p", Attached)]),
    program(&["unzip", "zip"], "", "archive_password", &[("-P", Either)]),
    program(&DATABASE_PROGRAMS, "", "database_password", PASSWORD_FLAGS),
    program(&["htpasswd"], "", "htpasswd_password", &[]),
    program(&["keytool"], "", "keytool_password", &[("-storepass", Next), ("-keypass", Next)]),
    program(&["ldap*"], "", "ldap_password", &[("-w", Either)]),
    program(&LOGIN_PROGRAMS, "login", "login_password", PASSWORD_FLAGS),
    program(&["mariadb*", "mysql*"], "", "mysql_password", &[("-p", Attached)]),
    program(&["openssl"], "", "openssl_password", OPENSSL_FLAGS),
    program(&["redis-cli"], "", "redis_password", &[("-a", Next), ("--pass", Next)]),
    program(&["bcp", "sqlcmd"], "", "sqlcmd_password", &[("-P", Either)]),
    program(&[WRAPPER], "", "sshpass_password", &[("-p", Either)]),
];

/// The bytes that may follow `byte` at the start of a program name, as a bit set.
pub(super) const fn second_bytes(byte: u8) -> u128 {
    let mut set = 0;
    let mut n = 0;
    while n < PROGRAMS.len() {
        let names = PROGRAMS[n].names;
        let mut i = 0;
        while i < names.len() {
            let name = names[i].as_bytes();
            if name[0] == byte {
                set |= 1 << name[1];
            }
            i += 1;
        }
        n += 1;
    }
    set
}

pub(super) fn rules() -> impl Iterator<Item = &'static str> {
    PROGRAMS.iter().map(|program| program.rule)
}

impl Program {
    fn matches_name(&self, word: &str) -> bool {
        self.names.iter().any(|name| match name.strip_suffix('*') {
            Some(start) => word.starts_with(start),
            None => word == *name,
        })
    }
}

/// Scans the words of one command in order and reports passwords.
#[derive(Default)]
pub(super) struct ArgumentScanner {
    /// The program that the previous word named, if it requires a subcommand.
    pending_program: Option<&'static Program>,
    program: Option<&'static Program>,
    pending_flag: Option<FlagValue>,
    /// `htpasswd` only: the password is an argument.
    batch: bool,
    /// `htpasswd` only: the number of names that precede the password.
    names_left: usize,
}

impl ArgumentScanner {
    /// Returns the offset of the password in this word and its rule.
    pub(super) fn scan_word(&mut self, word: &str) -> Option<(usize, &'static str)> {
        if let (Some(flag_value), Some(program)) = (self.pending_flag.take(), self.program) {
            let from = match flag_value {
                Source => word.strip_prefix("pass:").map(|_| "pass:".len()),
                _ => (!word.starts_with('-')).then_some(0),
            };
            return from.filter(|from| is_password_value(&word[*from..])).map(|from| (from, program.rule));
        }
        if self.enter_program(word) {
            return None;
        }
        let program = self.program?;
        if program.names == [WRAPPER] && !word.starts_with('-') {
            // The following words belong to another command.
            self.program = None;
            return None;
        }
        if program.flags.is_empty() {
            return self.scan_htpasswd_word(word).then_some((0, program.rule));
        }
        for (flag, flag_value) in program.flags {
            let Some(value) = word.strip_prefix(flag) else { continue };
            if value.is_empty() && *flag_value != Attached {
                self.pending_flag = Some(*flag_value);
                return None;
            }
            if !value.is_empty() && matches!(flag_value, Attached | Either) && is_password_value(value) {
                return Some((flag.len(), program.rule));
            }
        }
        None
    }

    /// Records the program if this word is its name or its required subcommand. Returns whether it is.
    fn enter_program(&mut self, word: &str) -> bool {
        let found = if let Some(program) = self.pending_program.take() {
            Some(program).filter(|program| program.subcommand == word)
        } else {
            let name = word.rsplit('/').next().unwrap_or_default();
            let name = name.strip_suffix(".exe").unwrap_or(name);
            let found = PROGRAMS.iter().find(|program| program.matches_name(name));
            self.pending_program = found.filter(|program| !program.subcommand.is_empty());
            found
        };
        if let (Some(program), None) = (found, self.pending_program) {
            *self = Self { program: Some(program), names_left: 2, ..Self::default() };
        }
        found.is_some()
    }

    /// Reads a word of `htpasswd -b [FILE] USER PASSWORD`. Returns whether it is the password.
    fn scan_htpasswd_word(&mut self, word: &str) -> bool {
        if let Some(flags) = word.strip_prefix('-') {
            self.batch |= flags.contains('b');
            // `-n` omits the file, so only the user precedes the password.
            self.names_left -= usize::from(flags.contains('n') && self.names_left == 2);
            return false;
        }
        if self.names_left > 0 {
            self.names_left -= 1;
            return false;
        }
        std::mem::take(&mut self.batch) && is_password_value(word)
    }
}

fn is_password_value(word: &str) -> bool {
    // Published ports of a container, such as `-p 8080:80`.
    let ports = word.contains(':') && word.bytes().all(|b| b.is_ascii_digit() || b == b':' || b == b'.');
    !word.is_empty() && !ports && !secret_likelihood::is_placeholder(word)
}

pub(super) fn starts_program_name(text: &Text<'_>, at: usize) -> bool {
    let edge = text.byte_before(at).is_none_or(|b| b" \t\n\r;|&(`'\"/$\\=".contains(&b));
    if !edge {
        return false;
    }
    let end = text.run_end(ByteClass::Word, at);
    const MAX_LENGTH: usize = 24;
    let name = text.text.get(at..end).filter(|name| name.len() <= MAX_LENGTH);
    name.is_some_and(|name| PROGRAMS.iter().any(|program| program.matches_name(name)))
}

/// Scans the command whose program name starts at `at` and records its passwords in `text`.
pub(super) fn scan_command(text: &Text<'_>, at: usize) {
    if at < text.commands_scanned_to.get() || !starts_program_name(text, at) {
        return;
    }
    let mut arguments = ArgumentScanner::default();
    let mut at = at;
    while let Some((start, end)) = next_word(text.bytes, at) {
        at = end;
        // A quote that closes the command belongs to the surrounding text.
        let (from, to) = strip_quotes(text.bytes, start, end);
        let Some(value) = text.text.get(from..to) else { break };
        if let Some((offset, rule)) = arguments.scan_word(value) {
            let (from, to) = strip_quotes(text.bytes, from + offset, to);
            let quoted = text.bytes.get(to).is_some_and(|b| b"\"'".contains(b));
            let to = if quoted { to } else { to.min(text.run_end(ByteClass::Value, from)) };
            if to > from && is_password_value(&text.text[from..to]) {
                text.command_secrets.borrow_mut().push((from, to, rule));
            }
        }
    }
    text.commands_scanned_to.set(at.max(text.commands_scanned_to.get()));
}

/// Returns the range of the command's next word, or `None` at the end of the command.
fn next_word(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    loop {
        match bytes.get(at)? {
            b' ' | b'\t' => at += 1,
            // A backslash at the end of a line continues the command.
            b'\\' if bytes.get(at + 1) == Some(&b'\n') => at += 2,
            _ => break,
        }
    }
    let start = at;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | b';' | b'|' | b'&' => break,
            b'"' | b'\'' => at += find_closing_quote(&bytes[at + 1..], *byte).map_or(1, |n| n + 2),
            _ => at += 1,
        }
    }
    (at > start).then_some((start, at))
}

/// Returns the offset of the closing quote if it is on the same line.
fn find_closing_quote(bytes: &[u8], quote: u8) -> Option<usize> {
    bytes.iter().take_while(|b| **b != b'\n').position(|b| *b == quote)
}

fn strip_quotes(bytes: &[u8], start: usize, end: usize) -> (usize, usize) {
    match (bytes.get(start), bytes.get(end.saturating_sub(1))) {
        (Some(first @ (b'"' | b'\'')), Some(last)) if first == last && end - start >= 2 => {
            (start + 1, end - 1)
        }
        _ => (start, end),
    }
}
