//! Reads language, package manager and test command from manifest files. Takes a folder, and returns the
//! facts of each known file or why it could not be read. Must not follow a symbolic link out of the folder.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use crate::fs::bounded;
use crate::model::Manifest;

/// Maximum number of bytes read from one file.
const READ_LIMIT: u64 = 1 << 20;

/// A file name, the facts that its presence implies, and the function that extracts more from its text.
type KnownManifest =
    (&'static str, &'static [(&'static str, &'static str)], fn(&str) -> Vec<(String, String)>);

const LANGUAGE: &str = "Language";
const PACKAGES: &str = "Package manager";
const TESTS: &str = "Test command";

const KNOWN_MANIFESTS: [KnownManifest; 22] = [
    ("Cargo.toml", &[(LANGUAGE, "Rust"), (PACKAGES, "cargo"), (TESTS, "cargo test")], cargo),
    ("package.json", &[(LANGUAGE, "JavaScript")], package_json),
    ("tsconfig.json", &[(LANGUAGE, "TypeScript")], no_facts),
    ("package-lock.json", &[(PACKAGES, "npm")], no_facts),
    ("pnpm-lock.yaml", &[(PACKAGES, "pnpm")], no_facts),
    ("yarn.lock", &[(PACKAGES, "yarn")], no_facts),
    ("bun.lock", &[(PACKAGES, "bun")], no_facts),
    ("deno.json", &[(LANGUAGE, "TypeScript (Deno)"), (TESTS, "deno test")], no_facts),
    ("pyproject.toml", &[(LANGUAGE, "Python")], pyproject),
    ("requirements.txt", &[(LANGUAGE, "Python"), (PACKAGES, "pip")], no_facts),
    ("poetry.lock", &[(PACKAGES, "poetry")], no_facts),
    ("uv.lock", &[(PACKAGES, "uv")], no_facts),
    ("go.mod", &[(LANGUAGE, "Go"), (PACKAGES, "go"), (TESTS, "go test ./...")], go),
    ("pom.xml", &[(LANGUAGE, "Java"), (PACKAGES, "maven"), (TESTS, "mvn test")], no_facts),
    ("build.gradle", &[(PACKAGES, "gradle"), (TESTS, "gradle test")], no_facts),
    ("build.gradle.kts", &[(PACKAGES, "gradle"), (TESTS, "gradle test")], no_facts),
    ("Gemfile", &[(LANGUAGE, "Ruby"), (PACKAGES, "bundler")], no_facts),
    ("composer.json", &[(LANGUAGE, "PHP"), (PACKAGES, "composer")], composer),
    ("mix.exs", &[(LANGUAGE, "Elixir"), (PACKAGES, "mix"), (TESTS, "mix test")], no_facts),
    ("Package.swift", &[(LANGUAGE, "Swift"), (TESTS, "swift test")], no_facts),
    ("CMakeLists.txt", &[("Build", "cmake")], no_facts),
    ("Makefile", &[], make),
];

/// Reads the manifest files in a folder.
pub(super) fn read_manifests(folder: &Path) -> Vec<Manifest> {
    let mut found = Vec::new();
    for (file, stated, parse) in KNOWN_MANIFESTS {
        let manifest = match read(folder, file) {
            Ok(None) => continue,
            Ok(Some(text)) => {
                let pair = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
                let mut facts: Vec<_> = stated.iter().map(pair).collect();
                for (key, value) in parse(&text) {
                    facts.retain(|(known, _)| *known != key);
                    facts.push((key, value));
                }
                Manifest { file: file.to_owned(), facts, error: None }
            }
            Err(e) => Manifest { file: file.to_owned(), facts: Vec::new(), error: Some(e) },
        };
        if !manifest.facts.is_empty() || manifest.error.is_some() {
            found.push(manifest);
        }
    }
    found
}

/// Returns the text of a file, or `None` if it does not exist. Opens only regular files, and follows a
/// symbolic link only within the folder.
fn read(folder: &Path, name: &str) -> Result<Option<String>, String> {
    let mut path = folder.join(name);
    let message = |e: std::io::Error| e.to_string();
    match std::fs::symlink_metadata(&path) {
        Ok(about) if about.is_symlink() => {
            path = crate::fs::canonicalize(&path).map_err(message)?;
            if !path.starts_with(crate::fs::canonicalize(folder).map_err(message)?) {
                return Err("the link points outside the project".to_owned());
            }
        }
        Ok(_) => {}
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(message(e)),
    }
    let mut bytes = Vec::new();
    let file = bounded::open(&path).map_err(message)?;
    let size = file.metadata().map_err(message)?.len();
    file.take(READ_LIMIT).read_to_end(&mut bytes).map_err(message)?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Some(text)),
        // A truncated file may end in the middle of a character.
        Err(e) if size > READ_LIMIT => {
            let valid = e.utf8_error().valid_up_to();
            let bytes = e.into_bytes();
            Ok(Some(String::from_utf8_lossy(bytes.get(..valid).unwrap_or_default()).into_owned()))
        }
        Err(e) => Err(format!("invalid UTF-8 at byte {}", e.utf8_error().valid_up_to())),
    }
}

fn no_facts(_: &str) -> Vec<(String, String)> {
    Vec::new()
}

/// The value of `key = "value"` in a table, if it is on one line.
fn toml_value<'t>(text: &'t str, table: &str, key: &str) -> Option<&'t str> {
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line.trim_matches(['[', ']']) == table;
        } else if inside && let Some(rest) = line.strip_prefix(key) {
            let value = rest.trim_start().strip_prefix('=')?.trim();
            return value.strip_prefix('"').and_then(|v| v.split('"').next());
        }
    }
    None
}

fn cargo(text: &str) -> Vec<(String, String)> {
    let value = |key: &str| {
        let of = |table: &str| toml_value(text, table, key);
        of("package").or_else(|| of("workspace.package")).map(str::to_owned)
    };
    let mut facts = Vec::new();
    let edition = value("edition").map(|edition| format!("Rust, edition {edition}"));
    facts.extend(edition.map(|language| (LANGUAGE.to_owned(), language)));
    facts.extend(value("rust-version").map(|version| ("Rust version".to_owned(), version)));
    facts.extend(value("name").map(|name| ("Package".to_owned(), name)));
    facts
}

fn object(text: &str) -> BTreeMap<String, serde_json::Value> {
    serde_json::from_str(text).unwrap_or_default()
}

fn package_json(text: &str) -> Vec<(String, String)> {
    let all = object(text);
    let mut facts = Vec::new();
    let mut add = |key: &str, value: Option<&serde_json::Value>| {
        let text = value.and_then(|value| value.as_str()).filter(|text| !text.is_empty());
        facts.extend(text.map(|text| (key.to_owned(), text.to_owned())));
    };
    add("Package", all.get("name"));
    add(PACKAGES, all.get("packageManager"));
    let script = |name: &str| all.get("scripts").and_then(|scripts| scripts.get(name));
    add(TESTS, script("test"));
    add("Build command", script("build"));
    add("Node", all.get("engines").and_then(|engines| engines.get("node")));
    if all.is_empty() && !text.trim().is_empty() {
        facts.push(("package.json".to_owned(), "not a JSON object".to_owned()));
    }
    facts
}

fn composer(text: &str) -> Vec<(String, String)> {
    let all = object(text);
    let script = all.get("scripts").and_then(|scripts| scripts.get("test")).and_then(|test| test.as_str());
    script.map(|test| (TESTS.to_owned(), test.to_owned())).into_iter().collect()
}

fn pyproject(text: &str) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let python = toml_value(text, "project", "requires-python");
    facts.extend(python.map(|version| (LANGUAGE.to_owned(), format!("Python {version}"))));
    let name = toml_value(text, "project", "name").or_else(|| toml_value(text, "tool.poetry", "name"));
    facts.extend(name.map(|name| ("Package".to_owned(), name.to_owned())));
    if text.contains("[tool.pytest") {
        facts.push((TESTS.to_owned(), "pytest".to_owned()));
    }
    facts
}

fn go(text: &str) -> Vec<(String, String)> {
    let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(|v| v.trim().to_owned());
    let mut facts = Vec::new();
    facts.extend(line("go ").map(|version| (LANGUAGE.to_owned(), format!("Go {version}"))));
    facts.extend(line("module ").map(|name| ("Module".to_owned(), name)));
    facts
}

fn make(text: &str) -> Vec<(String, String)> {
    let tests = text.lines().any(|line| line.starts_with("test:") || line.starts_with("test "));
    tests.then(|| (TESTS.to_owned(), "make test".to_owned())).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn write(folder: &Path, name: &str, text: &str) {
        #[allow(clippy::disallowed_methods, reason = "a test's own file")]
        std::fs::write(folder.join(name), text).unwrap();
    }

    #[test]
    fn files_say_what_they_say_and_a_bad_one_hides_no_other() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_manifests(dir.path()), []);
        write(dir.path(), "Cargo.toml", "[workspace.package]\nedition = \"2024\"\nrust-version = \"1.95\"\n");
        write(
            dir.path(),
            "package.json",
            r#"{"name":"x","scripts":{"test":"vitest run"},"engines":{"node":">=22"}}"#,
        );
        write(dir.path(), "pnpm-lock.yaml", "lockfileVersion: 9\n");
        write(dir.path(), "go.mod", "module example.org/x\n\ngo 1.24\n");
        write(dir.path(), "Makefile", "all:\n\ntest: all\n");
        std::fs::create_dir(dir.path().join("pyproject.toml")).unwrap();
        #[allow(clippy::disallowed_methods, reason = "a test's own file")]
        std::fs::write(dir.path().join("Gemfile"), b"\xff\xfe").unwrap();
        let found = read_manifests(dir.path());
        let fact = |file: &str, key: &str| {
            let manifest = found.iter().find(|m| m.file == file).unwrap();
            manifest.facts.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
        };
        assert_eq!(fact("Cargo.toml", "Language"), Some("Rust, edition 2024"));
        assert_eq!(fact("package.json", "Test command"), Some("vitest run"));
        assert_eq!(fact("pnpm-lock.yaml", "Package manager"), Some("pnpm"));
        assert_eq!(fact("go.mod", "Language"), Some("Go 1.24"));
        assert_eq!(fact("Makefile", "Test command"), Some("make test"));
        let errors: Vec<_> =
            found.iter().filter_map(|m| Some((m.file.as_str(), m.error.as_deref()?))).collect();
        assert_eq!(
            errors,
            [("pyproject.toml", "not a regular file"), ("Gemfile", "invalid UTF-8 at byte 0")]
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_followed_within_the_folder_alone() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let (outside, project) = (dir.path().join("outside"), dir.path().join("project"));
        for folder in [&outside, &project, &project.join("deep")] {
            std::fs::create_dir(folder).unwrap();
        }
        write(&outside, "Cargo.toml", "[package]\nname = \"secret\"\n");
        write(&project.join("deep"), "go.mod", "module inside\n");
        symlink("../outside/Cargo.toml", project.join("Cargo.toml")).unwrap();
        symlink("deep/go.mod", project.join("go.mod")).unwrap();
        // Larger than the read limit.
        File::create(project.join("package-lock.json")).unwrap().set_len(READ_LIMIT + 1).unwrap();
        let found = read_manifests(&project);
        let errors: Vec<_> = found.iter().map(|m| (m.file.as_str(), m.error.as_deref())).collect();
        let expected = [
            ("Cargo.toml", Some("the link points outside the project")),
            ("package-lock.json", None),
            ("go.mod", None),
        ];
        assert_eq!(errors, expected);
    }
}
