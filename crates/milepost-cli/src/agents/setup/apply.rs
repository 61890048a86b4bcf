//! Executes plans: backs up a file, writes the record, then changes the file. A crash at any moment leaves
//! every file complete, either old or new, and a second attempt finishes the work.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use milepost::internal::fs::atomic;

use super::super::Scope;
use super::plan::{Action, FileChange, Plan};
use super::record::Records;

/// The suffix of a backup's name.
const BACKUP_SUFFIX: &str = ".before-milepost";

/// Executes a plan. Returns the files that failed; the others are changed anyway.
pub(crate) fn apply(plan: &mut Plan, records: &mut Records) -> Vec<(PathBuf, io::Error)> {
    let mut failed = Vec::new();
    if !plan.is_possible() {
        return failed;
    }
    let mut folders = BTreeSet::new();
    for change in &mut plan.changes {
        if change.has_effect() {
            match apply_change(change, plan.action, plan.scope, records) {
                Ok(()) if change.after.is_none() => {
                    folders.extend(change.record.iter().flat_map(|record| record.folders.clone()));
                }
                Ok(()) => {}
                Err(e) => failed.push((change.path.clone(), e)),
            }
        } else if plan.action == Action::Uninstall {
            remove_backups(change);
            records.remove(&change.real);
        }
    }
    if plan.action == Action::Uninstall {
        // Innermost first. Folders that are not empty remain.
        for folder in folders.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
        records.remove_missing();
    }
    if let Err(e) = records.save() {
        failed.push((PathBuf::from("the record of installed files"), e));
    }
    failed
}

fn apply_change(
    change: &mut FileChange,
    action: Action,
    scope: Scope,
    records: &mut Records,
) -> io::Result<()> {
    let now = match fs::read(&change.real) {
        Ok(bytes) => Some(bytes),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
        Err(e) => return Err(e),
    };
    if now.as_deref() != change.before.as_deref().map(str::as_bytes) {
        return Err(io::Error::other("another program changed it in the meantime; try again"));
    }
    if let (true, Some(bytes)) = (change.needs_backup, &now) {
        change.backup = Some(back_up(&change.real, bytes)?);
    }
    match (action, change.after.clone()) {
        (Action::Install, Some(text)) => write_installed(change, &text, scope, records),
        (_, after) => write_uninstalled(change, after, records),
    }
}

/// Writes the record, then the file.
fn write_installed(
    change: &mut FileChange,
    text: &str,
    scope: Scope,
    records: &mut Records,
) -> io::Result<()> {
    let made = create_folders(&change.real)?;
    let Some(mut record) = change.record.clone() else { return Ok(()) };
    record.folders.extend(made);
    let known = record.backups.clone();
    record.backups.extend(change.backup.clone().filter(|backup| !known.contains(backup)));
    let folders = record.folders.clone();
    let earlier = records.get(&change.real).cloned();
    records.insert(record);
    let done = records.save().and_then(|()| write(&change.real, text, scope));
    if done.is_err() {
        records.remove(&change.real);
        earlier.into_iter().for_each(|record| records.insert(record));
        for folder in folders.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
        if let Some(backup) = change.backup.take() {
            let _ = fs::remove_file(backup);
        }
    }
    done
}

/// Restores the previous text, or removes the file.
fn write_uninstalled(
    change: &mut FileChange,
    after: Option<String>,
    records: &mut Records,
) -> io::Result<()> {
    match &after {
        Some(text) => write(&change.real, text, Scope::User)?,
        None => {
            fs::remove_file(&change.real)?;
            if let Some(folder) = change.real.parent() {
                let _ = atomic::sync_folder(folder);
            }
        }
    }
    remove_backups(change);
    records.remove(&change.real);
    Ok(())
}

/// Removes backups that equal the restored file. Any other backup remains and is reported.
fn remove_backups(change: &mut FileChange) {
    let now = change.after.as_deref().map(str::as_bytes);
    for backup in change.record.iter().flat_map(|record| &record.backups) {
        if fs::read(backup).is_ok_and(|bytes| Some(&bytes[..]) == now) {
            let _ = fs::remove_file(backup);
        } else if backup.exists() {
            change.backup = Some(backup.clone());
        }
    }
}

/// Replaces a file atomically. An existing file keeps its mode; a new one in the user's scope is private.
fn write(path: &Path, text: &str, scope: Scope) -> io::Result<()> {
    let private = scope == Scope::User && !path.exists();
    let mode = if private { atomic::Mode::Private } else { atomic::Mode::Shared };
    atomic::write(path, text.as_bytes(), mode)
}

/// Copies a file within its folder, with its permissions, to the first name that is free or has the same
/// content.
fn back_up(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let rights = fs::metadata(path)?.permissions();
    let mut n = 1;
    loop {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(BACKUP_SUFFIX);
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

/// Creates the folders that a file needs; returns those that were missing, outermost first.
fn create_folders(path: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(folder) = path.parent() else { return Ok(Vec::new()) };
    let mut missing: Vec<_> = folder.ancestors().take_while(|at| !at.exists()).map(Path::to_owned).collect();
    missing.reverse();
    fs::create_dir_all(folder)?;
    Ok(missing)
}
