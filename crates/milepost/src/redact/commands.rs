//! Passwords in command lines: `mysql -pX`, `sshpass -p X`, `docker login -p X` and the like, in texts and in lists of
//! arguments. A command is taken apart once, from its program to its end, so that the time is linear in the text.

use super::secret_likelihood;
use super::text::{Class, Text};

/// How a flag takes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    /// In the same word.
    Attached,
    /// As the next word.
    Next,
    /// Either way.
    Either,
    /// As the next word, which begins with `pass:`.
    Source,
}

/// A program that takes a password as an argument.
struct Program {
    /// The first word, in lower case. A trailing `*` stands for any end of the word.
    name: &'static str,
    /// The word after it, if it has to be a particular one.
    subcommand: &'static str,
    rule: &'static str,
    flags: &'static [(&'static str, Takes)],
}

const fn program(
    name: &'static str,
    subcommand: &'static str,
    rule: &'static str,
    flags: &'static [(&'static str, Takes)],
) -> Program {
    Program { name, subcommand, rule, flags }
}

use Takes::{Attached, Either, Next, Source};

/// The program that runs another command.
const WRAPPER: &str = "sshpass";
const LOGIN: &[(&str, Takes)] = &[("-p", Next), ("--password", Next)];
const DATABASE: &[(&str, Takes)] = LOGIN;

static PROGRAMS: [Program; 29] = [
    program("7z*", "", "archive_password", &[("-p", Attached)]),
    program("az", "login", "login_password", LOGIN),
    program("bcp", "", "sqlcmd_password", &[("-P", Either)]),
    program("buildah", "login", "login_password", LOGIN),
    program("cf", "login", "login_password", LOGIN),
    program("cqlsh", "", "database_password", DATABASE),
    program("docker", "login", "login_password", LOGIN),
    program("htpasswd", "", "htpasswd_password", &[]),
    program("keytool", "", "keytool_password", &[("-storepass", Next), ("-keypass", Next)]),
    program("ldap*", "", "ldap_password", &[("-w", Either)]),
    program("mariadb*", "", "mysql_password", &[("-p", Attached)]),
    program("mongo", "", "database_password", DATABASE),
    program("mongodump", "", "database_password", DATABASE),
    program("mongoexport", "", "database_password", DATABASE),
    program("mongoimport", "", "database_password", DATABASE),
    program("mongorestore", "", "database_password", DATABASE),
    program("mongosh", "", "database_password", DATABASE),
    program("mysql*", "", "mysql_password", &[("-p", Attached)]),
    program("nerdctl", "login", "login_password", LOGIN),
    program("oc", "login", "login_password", LOGIN),
    program(
        "openssl",
        "",
        "openssl_password",
        &[("-passin", Source), ("-passout", Source), ("-pass", Source)],
    ),
    program("podman", "login", "login_password", LOGIN),
    program("redis-cli", "", "redis_password", &[("-a", Next), ("--pass", Next)]),
    program("registry", "login", "login_password", LOGIN),
    program("skopeo", "login", "login_password", LOGIN),
    program("sqlcmd", "", "sqlcmd_password", &[("-P", Either)]),
    program(WRAPPER, "", "sshpass_password", &[("-p", Either)]),
    program("unzip", "", "archive_password", &[("-P", Either)]),
    program("zip", "", "archive_password", &[("-P", Either)]),
];

/// The bytes that follow this one in the name of a program, one bit each.
pub(super) const fn follows(byte: u8) -> u128 {
    let mut set = 0;
    let mut n = 0;
    while n < PROGRAMS.len() {
        let name = PROGRAMS[n].name.as_bytes();
        if name[0] == byte {
            set |= 1 << name[1];
        }
        n += 1;
    }
    set
}

pub(super) fn rules() -> impl Iterator<Item = &'static str> {
    PROGRAMS.iter().map(|program| program.rule)
}

impl Program {
    fn is_called(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == self.name,
        }
    }
}

/// The words of one command, in order; says which of them is a password.
#[derive(Default)]
pub(super) struct Arguments {
    /// The name of the program that was the last word, if it needs a subcommand.
    before: Option<&'static str>,
    program: Option<&'static Program>,
    /// What the next word is, after a flag.
    next: Option<Takes>,
    /// Flags of `htpasswd`: whether the password is an argument, and how many names stand before it.
    batch: bool,
    names: usize,
}

impl Arguments {
    /// Where the password begins in this word, and its rule.
    pub(super) fn take(&mut self, word: &str) -> Option<(usize, &'static str)> {
        if let (Some(takes), Some(program)) = (self.next.take(), self.program) {
            let from = match takes {
                Source => word.strip_prefix("pass:").map(|_| "pass:".len()),
                _ => (!word.starts_with('-')).then_some(0),
            };
            return from.filter(|from| is_value(&word[*from..])).map(|from| (from, program.rule));
        }
        if self.names_program(word) {
            return None;
        }
        let program = self.program?;
        if program.name == WRAPPER && !word.starts_with('-') {
            // What follows are the words of another command.
            self.program = None;
            return None;
        }
        if program.flags.is_empty() {
            return self.htpasswd(word).then_some((0, program.rule));
        }
        for (flag, takes) in program.flags {
            let Some(value) = word.strip_prefix(flag) else { continue };
            if value.is_empty() && *takes != Attached {
                self.next = Some(*takes);
                return None;
            }
            if !value.is_empty() && matches!(takes, Attached | Either) && is_value(value) {
                return Some((flag.len(), program.rule));
            }
        }
        None
    }

    /// Whether this word is the name of a program, or the subcommand of one.
    fn names_program(&mut self, word: &str) -> bool {
        let before = self.before.take();
        let name = word.rsplit('/').next().unwrap_or_default();
        let name = name.strip_suffix(".exe").unwrap_or(name);
        let found = PROGRAMS.iter().find(|program| match before {
            Some(before) => program.name == before && program.subcommand == word,
            None => program.is_called(name),
        });
        match found {
            Some(program) if before.is_none() && !program.subcommand.is_empty() => {
                self.before = Some(program.name);
                true
            }
            Some(program) => {
                *self = Self { program: Some(program), names: 2, ..Self::default() };
                true
            }
            None => false,
        }
    }

    /// Takes a word of `htpasswd -b [FILE] USER PASSWORD`.
    fn htpasswd(&mut self, word: &str) -> bool {
        if let Some(flags) = word.strip_prefix('-') {
            self.batch |= flags.contains('b');
            // Without a file only the user stands before it.
            self.names -= usize::from(flags.contains('n') && self.names == 2);
            return false;
        }
        if self.names > 0 {
            self.names -= 1;
            return false;
        }
        std::mem::take(&mut self.batch) && is_value(word)
    }
}

fn is_value(word: &str) -> bool {
    // Ports that a container publishes: `-p 8080:80`.
    let ports = word.contains(':') && word.bytes().all(|b| b.is_ascii_digit() || b == b':' || b == b'.');
    !word.is_empty() && !ports && !secret_likelihood::is_stand_in(word)
}

/// Whether the name of a program begins here.
pub(super) fn may_begin(text: &Text<'_>, at: usize) -> bool {
    let edge = text.before(at).is_none_or(|b| b" \t\n\r;|&(`'\"/$\\=".contains(&b));
    if !edge {
        return false;
    }
    let end = text.run(Class::Word, at);
    const LONGEST: usize = 24;
    let name = text.text.get(at..end).filter(|name| name.len() <= LONGEST);
    name.is_some_and(|name| PROGRAMS.iter().any(|program| program.is_called(name)))
}

/// Takes the command apart whose program begins here, and notes the passwords in it.
pub(super) fn note(text: &Text<'_>, at: usize) {
    if at < text.commands_end.get() || !may_begin(text, at) {
        return;
    }
    let mut arguments = Arguments::default();
    let mut at = at;
    while let Some((start, end)) = word(text.bytes, at) {
        at = end;
        // A quote that closes the command belongs to what stands around it.
        let (from, to) = unquoted(text.bytes, start, end);
        let Some(value) = text.text.get(from..to) else { break };
        if let Some((offset, rule)) = arguments.take(value) {
            let (from, to) = unquoted(text.bytes, from + offset, to);
            let quoted = text.bytes.get(to).is_some_and(|b| b"\"'".contains(b));
            let to = if quoted { to } else { to.min(text.run(Class::Value, from)) };
            if to > from && is_value(&text.text[from..to]) {
                text.commands.borrow_mut().push((from, to, rule));
            }
        }
    }
    text.commands_end.set(at.max(text.commands_end.get()));
}

/// The next word of a command; `None` at its end.
fn word(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    loop {
        match bytes.get(at)? {
            b' ' | b'\t' => at += 1,
            // A command goes on after a line that ends so.
            b'\\' if bytes.get(at + 1) == Some(&b'\n') => at += 2,
            _ => break,
        }
    }
    let start = at;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | b';' | b'|' | b'&' => break,
            b'"' | b'\'' => at += closing(&bytes[at + 1..], *byte).map_or(1, |n| n + 2),
            _ => at += 1,
        }
    }
    (at > start).then_some((start, at))
}

/// How far away the quote closes, on the same line.
fn closing(bytes: &[u8], quote: u8) -> Option<usize> {
    bytes.iter().take_while(|b| **b != b'\n').position(|b| *b == quote)
}

/// What stands between quotes.
fn unquoted(bytes: &[u8], start: usize, end: usize) -> (usize, usize) {
    match (bytes.get(start), bytes.get(end.saturating_sub(1))) {
        (Some(first @ (b'"' | b'\'')), Some(last)) if first == last && end - start >= 2 => {
            (start + 1, end - 1)
        }
        _ => (start, end),
    }
}
