//! The id of a project, by which its clones on different machines find each other's runs on a server. Derived from
//! the address of the repository's remote `origin`, or from the folder if there is none. Pure, except for the id of
//! this machine.

use std::path::Path;

use crate::owner;

/// The address of a remote without scheme, user, password and `.git`, such as `github.com/acme/app`. The same for
/// the ways in which a repository is usually cloned; `None` for a path, which means nothing on other machines.
pub fn normalised_origin(url: &str) -> Option<String> {
    let url = url.trim();
    let (host, path) = match url.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => rest.split_once('/')?,
        // The form `user@host:path`. A colon after a slash, or after a single letter, belongs to a path.
        None => url.split_once(':').filter(|(host, _)| !host.contains(['/', '\\']) && host.len() > 1)?,
    };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let host = host.split_once(':').map_or(host, |(name, _)| name).to_ascii_lowercase();
    let path = path.split(['?', '#']).next().unwrap_or_default().trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path).trim_matches('/');
    let is_plain =
        |text: &str| !text.is_empty() && !text.chars().any(|c| c.is_control() || c.is_whitespace());
    (is_plain(&host) && is_plain(path)).then(|| format!("{host}/{path}"))
}

/// The id of a project with this normalised origin.
pub fn of_origin(origin: &str) -> String {
    format!("origin-{}", hash(&["origin", origin]))
}

/// The id of a project that is known by its folder on this machine only.
pub fn of_folder(folder: &Path) -> String {
    let machine = owner::machine_id().unwrap_or_default();
    format!("folder-{}", hash(&["folder", &machine, &folder.to_string_lossy()]))
}

fn hash(parts: &[&str]) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex()[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_ways_to_clone_have_one_origin() {
        for url in [
            "https://github.com/acme/app.git",
            "https://GitHub.com/acme/app/",
            "https://user:token@github.com/acme/app",
            "git@github.com:acme/app.git",
            "ssh://git@github.com:22/acme/app.git",
            "  git://github.com/acme/app  ",
        ] {
            assert_eq!(normalised_origin(url).as_deref(), Some("github.com/acme/app"), "{url}");
        }
        assert_ne!(of_origin("github.com/acme/app"), of_origin("github.com/acme/App"));
    }

    #[test]
    fn paths_and_nonsense_have_no_origin() {
        for url in [
            "",
            "/srv/git/app.git",
            "../app",
            "C:\\git\\app",
            "file:///srv/app",
            "https://github.com",
            "https:///app",
            "host:",
            "git@host:a b",
            "x:y",
        ] {
            assert_eq!(normalised_origin(url), None, "{url}");
        }
    }
}
