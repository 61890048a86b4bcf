//! Checks blocks that are not run: the options of `milepost` commands in shell scripts, settings in TOML, and
//! JSON. Rust code must be compiled by the documentation tests of the library.

use serde_json::Value;

use crate::TestEnvironment;

/// Lets the binary parse every `milepost` command of a script without running it. Returns the number of
/// commands.
pub(super) fn check_script(script: &str) -> Result<usize, String> {
    let commands = milepost_commands(script);
    for arguments in &commands {
        check_arguments(arguments)?;
    }
    Ok(commands.len())
}

/// With `--help` at the end, the binary parses the arguments and then prints help instead of running the
/// command.
fn check_arguments(arguments: &[String]) -> Result<(), String> {
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // A variable may contain a number.
    arguments.iter_mut().filter(|word| word.starts_with('$')).for_each(|word| *word = "1");
    let shown = arguments.join(" ");
    if !matches!(arguments.first(), Some(&"help" | &"man" | &"completions")) {
        let end = arguments.iter().position(|word| *word == "--").unwrap_or(arguments.len());
        arguments.insert(end, "--help");
    }
    let ran = TestEnvironment::new().run(&arguments);
    if ran.code == 0 {
        Ok(())
    } else {
        Err(format!("`milepost {shown}` is not valid: {}", ran.stderr.trim()))
    }
}

/// The arguments of the `milepost` commands in a shell script, including those after `cargo run --`.
fn milepost_commands(script: &str) -> Vec<Vec<String>> {
    const BEFORE_COMMANDS: [&str; 10] =
        ["if", "then", "else", "elif", "while", "until", "do", "!", "exec", "export"];
    let is_assignment = |word: &str| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        })
    };
    let arguments = |words: Vec<String>| {
        let mut words = words
            .into_iter()
            .skip_while(|word| BEFORE_COMMANDS.contains(&word.as_str()) || is_assignment(word));
        match words.next()?.as_str() {
            "milepost" => Some(words.collect()),
            "cargo" if words.next()? == "run" => {
                Some(words.skip_while(|word| word != "--").skip(1).collect())
            }
            _ => None,
        }
    };
    simple_commands(script).into_iter().filter_map(arguments).collect()
}

/// The words of each simple command of a script, including those in `$(…)`, without redirections.
fn simple_commands(script: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut redirected = false;
    let mut chars = script.chars().peekable();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match (c, quote) {
            ('\\', None | Some('"')) => match chars.next() {
                Some('\n') | None => {}
                Some(next) => word.get_or_insert_default().push(next),
            },
            ('$', None | Some('"')) if chars.peek() == Some(&'(') => {
                chars.next();
                let mut depth = 1;
                let inner: String = chars
                    .by_ref()
                    .take_while(|c| {
                        depth += i32::from(*c == '(') - i32::from(*c == ')');
                        depth > 0
                    })
                    .collect();
                commands.extend(simple_commands(&inner));
                word.get_or_insert_default().push_str("$(…)");
            }
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, Some(open)) if c == open => quote = None,
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('#', None) if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            (' ' | '\t' | '\n' | ';' | '|' | '&' | '(' | ')' | '<' | '>', None) => {
                let ended =
                    word.take().filter(|word| !(matches!(c, '<' | '>') && word.parse::<u8>().is_ok()));
                if let Some(ended) = ended
                    && !std::mem::take(&mut redirected)
                {
                    words.push(ended);
                }
                if matches!(c, '<' | '>') {
                    // `>>`, `<<` and `>&` are one operator.
                    while chars.next_if(|c| matches!(c, '<' | '>' | '&')).is_some() {}
                    redirected = true;
                } else if !matches!(c, ' ' | '\t') {
                    commands.push(std::mem::take(&mut words));
                    redirected = false;
                }
            }
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word.filter(|_| !redirected));
    commands.push(words);
    commands.retain(|words| !words.is_empty());
    commands
}

/// Loads TOML with Milepost settings as the project's file, or as the user's file if it contains settings
/// that are allowed only there. Other TOML must only parse.
pub(super) fn check_toml(text: &str) -> Result<(), String> {
    let table: toml::Table = text.parse().map_err(|e| format!("invalid TOML: {e}"))?;
    let mut env = TestEnvironment::new();
    env.trust_project();
    let settings = env.json(&["config", "show"])["settings"].clone();
    let known = |name: &String| {
        let mut keys =
            settings.as_array().into_iter().flatten().filter_map(|setting| setting["key"].as_str());
        name == "trust" || keys.any(|key| key.split('.').next() == Some(name))
    };
    if !table.keys().any(known) {
        return Ok(());
    }
    if table.contains_key("trust") {
        std::fs::create_dir_all(env.path("home/.config/milepost")).unwrap();
        env.write("../home/.config/milepost/config.toml", text);
    } else {
        env.write("milepost.toml", text);
    }
    let ran = env.run(&["config", "show"]);
    if ran.code == 0 && ran.stderr.is_empty() {
        Ok(())
    } else {
        Err(format!("invalid settings: {}", ran.stderr.trim()))
    }
}

/// Checks one JSON document, or one per line.
pub(super) fn check_json(text: &str) -> Result<(), String> {
    let whole = serde_json::from_str::<Value>(text);
    let lines = || {
        text.lines().filter(|line| !line.trim().is_empty()).all(|l| serde_json::from_str::<Value>(l).is_ok())
    };
    whole.map(drop).or_else(|e| if lines() { Ok(()) } else { Err(format!("invalid JSON: {e}")) })
}

/// Rust code of a page is compiled if the library includes the page in its documentation tests.
pub(super) fn check_rust(page: &str) -> Result<(), String> {
    let library = include_str!("../../../../milepost/src/lib.rs");
    let included = library.contains(&format!("include_str!(\"../../../{page}\")"));
    if included {
        Ok(())
    } else {
        Err(format!("crates/milepost/src/lib.rs does not include {page} as a doc test"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_found_in_scripts() {
        let found = |script: &str| {
            let commands = milepost_commands(script).into_iter();
            commands.map(|words| words.join("|")).collect::<Vec<_>>().join("\n")
        };
        for (script, commands) in [
            ("milepost save --summary 'a b' # why", "save|--summary|a b"),
            ("make && A=1 milepost list --limit 3 > out 2>&1 | head", "list|--limit|3"),
            (
                "if ! milepost task is a done; then\n  milepost task run a -- make \\\n    all\nfi",
                "task|is|a|done\ntask|run|a|--|make|all",
            ),
            ("export R=$(milepost start --title \"x; y\")", "start|--title|x; y"),
            ("cargo run --release -- -C \"$(mktemp -d)\" save", "-C|$(…)|save"),
            ("command -v milepost >/dev/null 2>&1 && milepost hook gemini || cat >/dev/null", "hook|gemini"),
            ("echo milepost; # milepost save\nmilepost", ""),
        ] {
            assert_eq!(found(script), commands, "{script}");
        }
    }

    #[test]
    fn scripts_are_parsed_by_the_binary() {
        assert_eq!(check_script("milepost run --every 1s -- ls --nope\nmilepost help save\nls\n"), Ok(2));
        assert_eq!(check_script("milepost start --owner-pid $$"), Ok(1));
        for (script, problem) in [
            ("milepost save --sumary x", "unknown flag `--sumary`"),
            ("milepost frobnicate", "frobnicate"),
            ("milepost help frobnicate", "frobnicate"),
            ("milepost list --limit many", "invalid value `many`"),
        ] {
            let error = check_script(script).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn settings_are_loaded() {
        assert_eq!(check_toml("[retain]\nkeep_last = 20\n"), Ok(()));
        assert_eq!(check_toml("store = \"files:checkpoints\"\n"), Ok(()));
        assert_eq!(check_toml("[trust]\npaths = [\"~/work\"]\n"), Ok(()));
        assert_eq!(check_toml("[mcp_servers.milepost]\ncommand = \"milepost\"\n"), Ok(()));
        for (text, problem) in [
            ("[retain]\nkeep_lst = 20\n", "keep_lst"),
            ("[retain]\nkeep_last = -1\n", "retain.keep_last"),
            ("[retain\n", "invalid TOML"),
        ] {
            let error = check_toml(text).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn json_is_a_document_or_lines() {
        assert_eq!(check_json("{\"a\": 1,\n \"b\": 2}\n"), Ok(()));
        assert_eq!(check_json("{\"a\": 1}\n{\"b\": 2}\n"), Ok(()));
        assert!(check_json("{\"a\": 1,}").unwrap_err().contains("invalid JSON"));
    }

    #[test]
    fn rust_is_compiled_with_the_library() {
        assert_eq!(check_rust("docs/library.md"), Ok(()));
        assert!(check_rust("docs/none.md").unwrap_err().contains("does not include docs/none.md"));
    }
}
