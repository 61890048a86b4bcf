//! Carries plans out: what is there is kept beside its place, what will be is written down first, then files change.
//! A crash at any moment leaves every file whole, old or new, and a second try does the rest.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use milepost::fs::atomic;

use super::Scope;
use super::plan::{Action, Change, Plan};
use super::record::Records;

/// The end of a backup's name.
const BACKUP: &str = ".before-milepost";

/// Carries out what a plan says. Each failure names its file; the others are done all the same.
pub(crate) fn apply(plan: &mut Plan, records: &mut Records) -> Vec<(PathBuf, io::Error)> {
    let mut failed = Vec::new();
    if !plan.is_possible() {
        return failed;
    }
    let mut folders = BTreeSet::new();
    for change in &mut plan.changes {
        if change.is_one() {
            match one(change, plan.action, plan.scope, records) {
                Ok(()) if change.after.is_none() => {
                    folders.extend(change.record.iter().flat_map(|record| record.folders.clone()));
                }
                Ok(()) => {}
                Err(e) => failed.push((change.path.clone(), e)),
            }
        } else if plan.action == Action::Uninstall {
            drop_backups(change);
            records.forget(&change.real);
        }
    }
    if plan.action == Action::Uninstall {
        // Innermost first; what is not empty stays.
        for folder in folders.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
        records.forget_what_is_gone();
    }
    if let Err(e) = records.save() {
        failed.push((PathBuf::from("the record of what is installed"), e));
    }
    failed
}

fn one(change: &mut Change, action: Action, scope: Scope, records: &mut Records) -> io::Result<()> {
    let now = match fs::read(&change.real) {
        Ok(bytes) => Some(bytes),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
        Err(e) => return Err(e),
    };
    if now.as_deref() != change.before.as_deref().map(str::as_bytes) {
        return Err(io::Error::other("another program has changed it meanwhile; try again"));
    }
    if let (true, Some(bytes)) = (change.keep, &now) {
        change.backup = Some(keep(&change.real, bytes)?);
    }
    match (action, change.after.clone()) {
        (Action::Install, Some(text)) => installed(change, &text, scope, records),
        (_, after) => removed(change, after, records),
    }
}

/// Writes a file, and the record of it before.
fn installed(change: &mut Change, text: &str, scope: Scope, records: &mut Records) -> io::Result<()> {
    let made = make_folders(&change.real)?;
    let Some(mut record) = change.record.clone() else { return Ok(()) };
    record.folders.extend(made);
    let known = record.backups.clone();
    record.backups.extend(change.backup.clone().filter(|backup| !known.contains(backup)));
    let folders = record.folders.clone();
    let earlier = records.of(&change.real).cloned();
    records.put(record);
    let done = records.save().and_then(|()| write(&change.real, text, scope));
    if done.is_err() {
        records.forget(&change.real);
        earlier.into_iter().for_each(|record| records.put(record));
        for folder in folders.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
        if let Some(backup) = change.backup.take() {
            let _ = fs::remove_file(backup);
        }
    }
    done
}

/// Puts back what was there before, or removes the file.
fn removed(change: &mut Change, after: Option<String>, records: &mut Records) -> io::Result<()> {
    match &after {
        Some(text) => write(&change.real, text, Scope::User)?,
        None => {
            fs::remove_file(&change.real)?;
            if let Some(folder) = change.real.parent() {
                let _ = atomic::sync_folder(folder);
            }
        }
    }
    drop_backups(change);
    records.forget(&change.real);
    Ok(())
}

/// Removes copies of what is in the file again; one that holds something else stays, and is named.
fn drop_backups(change: &mut Change) {
    let now = change.after.as_deref().map(str::as_bytes);
    for backup in change.record.iter().flat_map(|record| &record.backups) {
        if fs::read(backup).is_ok_and(|bytes| Some(&bytes[..]) == now) {
            let _ = fs::remove_file(backup);
        } else if backup.exists() {
            change.backup = Some(backup.clone());
        }
    }
}

/// Writes a file whole, with the rights that it had. A new one of the user's is the user's alone.
fn write(path: &Path, text: &str, scope: Scope) -> io::Result<()> {
    // A file that is there keeps its mode; a new one of the user's is private.
    let private = scope == Scope::User && !path.exists();
    let mode = if private { atomic::Mode::Private } else { atomic::Mode::Shared };
    atomic::write(path, text.as_bytes(), mode)
}

/// Keeps a copy beside a file, with its rights, under the first name that is free or holds the same.
fn keep(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let rights = fs::metadata(path)?.permissions();
    let mut n = 1;
    loop {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(BACKUP);
        if n > 1 {
            name.push(format!("-{n}"));
        }
        let copy = path.with_file_name(name);
        match fs::read(&copy) {
            Ok(there) if there == bytes => return Ok(copy),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                atomic::write(&copy, bytes, atomic::Mode::Private)?;
                fs::set_permissions(&copy, rights)?;
                return Ok(copy);
            }
            _ => n += 1,
        }
    }
}

/// Makes the folders that a file needs; gives those that were not there, outermost first.
fn make_folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(folder) = path.parent() else { return Ok(Vec::new()) };
    let mut missing: Vec<_> = folder.ancestors().take_while(|at| !at.exists()).map(Path::to_owned).collect();
    missing.reverse();
    fs::create_dir_all(folder)?;
    Ok(missing)
}
