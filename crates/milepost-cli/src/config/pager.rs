//! Chooses the user's pager, only from the user's environment: `MILEPOST_PAGER`, else `PAGER`, else `less`. An
//! empty variable or `cat` turns the pager off. Returns the program to start; starts nothing.

use std::ffi::OsString;
use std::path::PathBuf;

use super::environment;

/// A program that shows long output page by page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pager {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<OsString>,
    /// Variables to set for the program.
    pub(crate) variables: &'static [(&'static str, &'static str)],
}

/// Options of `less` for a user who has set none: quit if the text fits one screen, keep colours, and leave the
/// text on the screen.
const LESS: &[(&str, &str)] = &[("LESS", "FRX")];

/// The user's pager. `None` if there is none or if the user turned it off.
pub(crate) fn pager() -> Option<Pager> {
    let chosen = ["MILEPOST_PAGER", "PAGER"].into_iter().find_map(environment::variable_or_empty);
    let variables = if environment::variable_or_empty("LESS").is_some() { &[] } else { LESS };
    choose(chosen, variables, environment::find_program)
}

fn choose(
    chosen: Option<OsString>,
    variables: &'static [(&'static str, &'static str)],
    find: impl Fn(&str) -> Option<PathBuf>,
) -> Option<Pager> {
    /// Characters that only a shell understands.
    const SHELL: &str = "|&;<>()$`\\\"'*?[#~=%\n";
    let command = match chosen {
        Some(command) => command.into_string().ok()?,
        None => "less".to_owned(),
    };
    let mut words = command.split_whitespace();
    let program = words.next().filter(|word| *word != "cat")?;
    let (program, arguments) = if command.contains(|c| SHELL.contains(c)) {
        (find("sh")?, vec!["-c".into(), command.clone().into()])
    } else if program.contains('/') {
        (PathBuf::from(program), words.map(OsString::from).collect())
    } else {
        (find(program)?, words.map(OsString::from).collect())
    };
    Some(Pager { program, arguments, variables })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(command: Option<&str>) -> Option<String> {
        let find = |name: &str| (name != "missing").then(|| PathBuf::from(format!("/bin/{name}")));
        let pager = choose(command.map(OsString::from), LESS, find)?;
        let words = pager.arguments.iter().map(|word| word.to_string_lossy().into_owned());
        let program = pager.program.to_string_lossy().into_owned();
        Some(std::iter::once(program).chain(words).collect::<Vec<_>>().join("|"))
    }

    #[test]
    fn the_users_pager_is_chosen() {
        assert_eq!(chosen(None).unwrap(), "/bin/less");
        assert_eq!(chosen(Some("less -R  -S")).unwrap(), "/bin/less|-R|-S");
        assert_eq!(chosen(Some("/opt/my/pager -x")).unwrap(), "/opt/my/pager|-x");
        assert_eq!(chosen(Some("col -b | less")).unwrap(), "/bin/sh|-c|col -b | less");
        for none in ["", " ", "cat", "missing", "missing -x"] {
            assert_eq!(chosen(Some(none)), None, "{none:?}");
        }
    }
}
