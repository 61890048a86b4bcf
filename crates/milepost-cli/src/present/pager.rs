//! Shows long output on a terminal through the user's pager. Takes escaped text. Falls back to direct output if
//! the pager cannot be started. Does nothing special if the text fits the screen.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use unicode_width::UnicodeWidthStr as _;

use super::{Output, escape};
use crate::config::{Pager, pager};
use crate::error::Result;

/// Exit codes of a shell that could not start a program.
const NOT_STARTED: [i32; 2] = [126, 127];

impl Output {
    /// Writes styled lines like `write_text`, through the user's pager if they do not fit the terminal.
    pub(super) fn write_paged(&self, text: &str) -> Result<()> {
        let safe = escape::clean_styled(text);
        match self.pager_for(&safe) {
            Some(pager) if self.show_in(&pager, &safe) => Ok(()),
            _ => self.write_text(text),
        }
    }

    /// The pager for a text. `None` if the text is to be written directly.
    fn pager_for(&self, text: &str) -> Option<Pager> {
        if self.no_pager || !self.is_terminal() {
            return None;
        }
        let (terminal_size::Width(columns), terminal_size::Height(rows)) =
            terminal_size::terminal_size_of(io::stdout())?;
        if fits(&anstream::adapter::strip_str(text).to_string(), columns.into(), rows.into()) {
            return None;
        }
        pager()
    }

    /// Shows a text in a pager and waits until the user quits. Returns false if the pager did not start.
    fn show_in(&self, pager: &Pager, text: &str) -> bool {
        // Ctrl-C belongs to the pager: this process has to wait until the pager has reset the terminal.
        let interrupted = Arc::new(AtomicBool::new(false));
        let handler = signal_hook::flag::register(signal_hook::consts::SIGINT, interrupted);
        let shown = self.feed(pager, text);
        if let Ok(handler) = handler {
            signal_hook::low_level::unregister(handler);
        }
        shown.unwrap_or(false)
    }

    fn feed(&self, pager: &Pager, text: &str) -> io::Result<bool> {
        let mut command = Command::new(&pager.program);
        command.args(&pager.arguments).envs(pager.variables.iter().copied());
        let mut child = command.stdin(Stdio::piped()).spawn()?;
        if let Some(mut input) = child.stdin.take() {
            // The user may quit before the end of the text.
            let _ = match self.colours(&io::stdout()) {
                true => input.write_all(text.as_bytes()),
                false => write!(input, "{}", anstream::adapter::strip_str(text)),
            };
        }
        let status = child.wait()?;
        Ok(!status.code().is_some_and(|code| NOT_STARTED.contains(&code)))
    }
}

/// Whether a text without styles fits a terminal, with one row for the shell's prompt.
fn fits(text: &str, columns: usize, rows: usize) -> bool {
    let height = |line: &str| line.width().div_ceil(columns.max(1)).max(1);
    text.lines().map(height).sum::<usize>() < rows
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_text_that_fits_the_screen_is_not_paged() {
        assert!(fits("", 80, 24) && fits("a\nb\n", 80, 3));
        assert!(!fits("a\nb\n", 80, 2));
        assert!(!fits(&"x".repeat(200), 80, 3), "long lines are wrapped");
        assert!(!fits(&"検".repeat(41), 80, 2), "wide characters need two columns");
    }
}
