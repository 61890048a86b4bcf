//! Viewing changes no file, apart from what `milepost status` itself changes and the derived search index.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use super::super::sandbox::Sandbox;
use super::super::server::PageServer;

pub(super) fn run(sandbox: &Sandbox, project: &Path) -> Result<String> {
    sandbox.run(project, &["status", "--all"])?;
    let before = files(&sandbox.home)?;
    let mut server = PageServer::start(sandbox, project)?;
    let client = server.client()?;
    let mut waiting = vec!["/".to_owned(), "/search?q=first".to_owned()];
    let mut seen = Vec::new();
    while let Some(path) = waiting.pop() {
        if seen.contains(&path) || seen.len() > 40 {
            continue;
        }
        let page = client.get(&path)?;
        ensure!(page.status == 200, "{path} is answered with {}", page.status);
        let text = page.text();
        let links = text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        waiting.extend(links.filter(|link| link.starts_with('/')).map(|link| link.replace("&amp;", "&")));
        seen.push(path);
    }
    server.signal("-TERM")?;
    server.wait(std::time::Duration::from_secs(3))?;
    let after = files(&sandbox.home)?;
    let changed: Vec<String> = after
        .iter()
        .filter(|(path, content)| before.get(*path) != Some(content))
        .map(|(path, _)| path)
        .chain(before.keys().filter(|path| !after.contains_key(*path)))
        .filter(|path| !is_derived(path))
        .map(|path| path.display().to_string())
        .collect();
    ensure!(changed.is_empty(), "viewing {} pages changed {}", seen.len(), changed.join(", "));
    Ok(format!("{} pages viewed without changing a file", seen.len()))
}

/// The search index, and SQLite's files for readers, which contain no data of their own.
fn is_derived(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.ends_with("-shm") || name.contains(".db-search")
}

/// Every file with its content; folders and links without.
fn files(root: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder)? {
            let (path, kind) =
                entry.map_err(anyhow::Error::from).and_then(|e| Ok((e.path(), e.file_type()?)))?;
            match kind {
                kind if kind.is_dir() => waiting.push(path),
                kind if kind.is_file() => {
                    let content = std::fs::read(&path)?;
                    found.insert(path, content);
                }
                _ => drop(found.insert(path, Vec::new())),
            }
        }
    }
    Ok(found)
}
