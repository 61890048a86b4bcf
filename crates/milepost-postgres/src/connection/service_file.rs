//! Service files: named groups of options in `~/.pg_service.conf` or the system's `pg_service.conf`.
//! Completes options that the connection string does not set.

use std::path::{Path, PathBuf};

use super::options::{Options, known};
use super::settings_error::SettingsError;
use super::{Environment, file};

pub(super) fn complete(options: &mut Options, environment: &Environment) -> Result<(), SettingsError> {
    let service = options.get("service").or_else(|| environment.variable("PGSERVICE"));
    let Some(service) = service.filter(|service| !service.is_empty()).map(str::to_owned) else {
        return Ok(());
    };
    let files: Vec<PathBuf> = files(environment).filter(|file| file.exists()).collect();
    for file in &files {
        let text =
            file::read_text(file).map_err(|source| SettingsError::File { file: file.clone(), source })?;
        let lines = section(&text, &service).map_err(|(line, problem)| error(file, line, problem))?;
        let Some(lines) = lines else { continue };
        for (line, name, value) in lines {
            match known(name) {
                Some("service") => {
                    return Err(error(file, line, "a service cannot refer to another service"));
                }
                Some(name) => options.set_default(name, value),
                None => return Err(error(file, line, "unknown connection option")),
            }
        }
        return Ok(());
    }
    Err(SettingsError::UnknownService { service, files })
}

/// The files in the order they are searched.
fn files(environment: &Environment) -> impl Iterator<Item = PathBuf> {
    let user = match environment.variable("PGSERVICEFILE").filter(|file| !file.is_empty()) {
        Some(file) => Some(PathBuf::from(file)),
        None => environment.home.as_ref().map(|home| home.join(".pg_service.conf")),
    };
    let system = match environment.variable("PGSYSCONFDIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => vec![PathBuf::from(folder)],
        None => environment.system_folders.clone(),
    };
    user.into_iter().chain(system.into_iter().map(|folder| folder.join("pg_service.conf")))
}

fn error(file: &Path, line: usize, problem: &'static str) -> SettingsError {
    SettingsError::ServiceFile { file: file.to_owned(), line, problem }
}

type Lines<'a> = Vec<(usize, &'a str, &'a str)>;

/// The lines of one section with their numbers; none if there is no such section.
fn section<'a>(text: &'a str, service: &str) -> Result<Option<Lines<'a>>, (usize, &'static str)> {
    let mut found: Option<Lines<'a>> = None;
    for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[') {
            if found.is_some() {
                break;
            }
            if name.strip_suffix(']').unwrap_or(name) == service {
                found = Some(Vec::new());
            }
        } else if let Some(lines) = &mut found {
            let (name, value) =
                line.split_once('=').ok_or((number, "not a line of the form `option=value`"))?;
            lines.push((number, name, value));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "tests write plain files")]

    use std::fs;

    use super::*;

    const USER: &str = "# comment\n[one]\nhost=first\nport=1\nhost=second\n\n[two]\n host=indented \n[bad]\nhost\n[unknown]\nx=1\n[nested]\nservice=one\n";
    const SYSTEM: &str = "[one]\nhost=system\n[three]\nhost=third\n";

    fn environment(folder: &Path) -> Environment {
        fs::write(folder.join(".pg_service.conf"), USER).unwrap();
        fs::create_dir(folder.join("etc")).unwrap();
        fs::write(folder.join("etc/pg_service.conf"), SYSTEM).unwrap();
        Environment {
            home: Some(folder.to_owned()),
            system_folders: vec![folder.join("etc")],
            ..Environment::default()
        }
    }

    fn host(text: &str, environment: &Environment) -> Result<String, String> {
        let options = Options::collect(text, environment).map_err(|e| e.to_string())?;
        Ok(format!("{}:{}", options.get("host").unwrap_or("-"), options.get("port").unwrap_or("-")))
    }

    #[test]
    fn services_are_found_in_the_users_file_first_and_only_complete() {
        let folder = tempfile::tempdir().unwrap();
        let mut environment = environment(folder.path());
        for (text, expected) in [
            ("service=one", "first:1"),
            ("service=one host=mine", "mine:1"),
            ("postgres://mine/?service=one", "mine:1"),
            ("service=two", "indented:-"),
            ("service=three", "third:-"),
            ("", "-:-"),
        ] {
            assert_eq!(host(text, &environment).as_deref(), Ok(expected), "{text}");
        }
        environment.variables.insert("PGSERVICE".into(), "one".into());
        environment.variables.insert("PGHOST".into(), "environment".into());
        environment.variables.insert("PGPORT".into(), "9".into());
        assert_eq!(host("", &environment).as_deref(), Ok("first:1"));
        assert_eq!(host("service=two", &environment).as_deref(), Ok("indented:9"));
        let other = folder.path().join("other.conf");
        fs::write(&other, "[one]\nhost=other\n").unwrap();
        environment.variables.insert("PGSERVICEFILE".into(), other.to_str().unwrap().into());
        assert_eq!(host("", &environment).as_deref(), Ok("other:9"));
        environment.variables.insert("PGSYSCONFDIR".into(), "/nonexistent".into());
        assert!(host("service=three", &environment).unwrap_err().contains("`three` is not defined in"));
    }

    #[test]
    fn errors_name_the_file_and_the_line() {
        let folder = tempfile::tempdir().unwrap();
        let environment = environment(folder.path());
        let file = folder.path().join(".pg_service.conf");
        for (text, expected) in [
            ("service=bad", "line 10 of FILE: not a line of the form `option=value`"),
            ("service=unknown", "line 12 of FILE: unknown connection option"),
            ("service=nested", "line 14 of FILE: a service cannot refer to another service"),
        ] {
            let error = host(text, &environment).unwrap_err();
            assert_eq!(error.replace(file.to_str().unwrap(), "FILE"), expected);
        }
        let error = host("service=none", &Environment::default()).unwrap_err();
        assert_eq!(error, "the service `none` is not defined in any file: there is no service file");
    }
}
