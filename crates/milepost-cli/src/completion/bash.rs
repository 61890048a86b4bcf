//! Completion for bash, which also splits words at `:`, `=` and `@`. The script joins the parts before it
//! calls milepost, and returns to bash only the rest of each candidate.

use std::ffi::OsString;
use std::io::{Error, Write};
use std::path::Path;

use clap_complete::env::EnvCompleter;

/// Characters that have a special meaning in bash unless they are quoted.
const SPECIAL: &str = " \t\"'\\$`&|;<>()*?[]!";

const SCRIPT: &str = include_str!("milepost.bash");

pub(super) struct Bash;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == self.name()
    }

    fn write_registration(
        &self,
        _variable: &str,
        _name: &str,
        _program: &str,
        _completer: &str,
        script: &mut dyn Write,
    ) -> Result<(), Error> {
        script.write_all(SCRIPT.as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut clap::Command,
        words: Vec<OsString>,
        current: Option<&Path>,
        output: &mut dyn Write,
    ) -> Result<(), Error> {
        // The script passes the words up to the cursor.
        let index = words.len().saturating_sub(1);
        for candidate in clap_complete::engine::complete(command, words, index, current)? {
            writeln!(output, "{}", quoted(&candidate.get_value().to_string_lossy()))?;
        }
        Ok(())
    }
}

fn quoted(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len());
    for c in value.chars() {
        if SPECIAL.contains(c) {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted
}
