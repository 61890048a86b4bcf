//! Measurement of file snapshots: `milepost save` and `milepost restore` beside a shadow git repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};

use super::open_stores::seconds;
use super::processes::{MILEPOST, sync_commits};
use super::report::{Table, TableRow, Unit};
use super::space::GIT;
use super::systems::Tools;
use crate::bench::chart::Owner;
use crate::bench::files::project::{Project, ShadowRepository};
use crate::bench::measure::{Sample, folder};
use crate::bench::process::run_successfully;
use crate::shell::read_output;

const GIT_UNSYNCED: &str = "shadow git repository, not synced";
/// Number of files that change between two snapshots.
const CHANGED: usize = 200;

/// Milepost with a store and settings of its own that keep every file.
struct Snapshots {
    binary: PathBuf,
    root: PathBuf,
    folder: PathBuf,
    saves: u32,
}

impl Snapshots {
    fn new(binary: &Path, root: &Path, folder: &Path) -> Result<Self> {
        let settings = folder.join("settings/milepost");
        fs::create_dir_all(&settings)?;
        let text = "[capture]\nfiles = true\n[retain]\nkeep_last = \"all\"\nmax_files = \"0\"\n";
        fs::write(settings.join("config.toml"), text)?;
        Ok(Self { binary: binary.to_owned(), root: root.to_owned(), folder: folder.to_owned(), saves: 0 })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        let store = format!("sqlite:{}", self.folder.join("store.db").display());
        command.arg("-C").arg(&self.root).args(["--store", &store]);
        command.env("XDG_CONFIG_HOME", self.folder.join("settings")).env("XDG_STATE_HOME", &self.folder);
        command.stderr(Stdio::null());
        command
    }

    /// Saves with a snapshot and returns the checkpoint's id.
    fn save(&mut self) -> Result<String> {
        self.saves += 1;
        let summary = self.saves.to_string();
        let id =
            read_output(self.command().args(["save", "--quiet", "--run", "bench", "--summary", &summary]))?;
        Ok(id.trim().to_owned())
    }

    fn restore(&self, id: &str) -> Result<()> {
        run_successfully(
            self.command().args(["restore", id, "--all", "--force", "--yes"]).stdout(Stdio::null()),
        )
    }
}

/// Snapshots and restores of 200 changed files among 2,000 and 20,000.
pub fn snapshots(tools: &Tools, is_short: bool) -> Result<Table> {
    let mut table = Table::new(
        "Snapshot and restore of files",
        format!(
            "A repository of files of 4 KB, of which {CHANGED} change. A snapshot is a whole `milepost save`, or \
             `git add -A && git commit` in a shadow repository. By default git does not sync the contents that it commits, \
             so one shadow repository is told to, and one is not. A restore brings \
             back the files of the snapshot after they changed again: `milepost restore --all`, or `git checkout COMMIT \
             -- .`. `milepost restore` first saves the present files in a checkpoint, so that it can be undone, and \
             syncs what it writes. `git checkout` does neither."
        ),
    );
    let sizes: &[usize] = if is_short { &[400] } else { &[2_000, 20_000] };
    let row = |name: &str, owner, reference: Option<&str>| TableRow {
        name: name.to_owned(),
        owner,
        reference: reference.map(str::to_owned),
        cells: Vec::new(),
        note: None,
    };
    table.rows = vec![
        row(MILEPOST, Owner::Milepost, None),
        row(GIT, Owner::Peer, Some(MILEPOST)),
        row(GIT_UNSYNCED, Owner::Peer, Some(MILEPOST)),
    ];
    for &files in sizes {
        let name = super::thousands(files);
        for verb in ["snapshot", "restore"] {
            table.columns.push((format!("{verb}, {name} files"), Unit::Seconds));
        }
        for (row, samples) in table.rows.iter_mut().zip(measure(tools, files, is_short)?) {
            row.cells.extend([seconds(&samples.0), seconds(&samples.1)]);
        }
    }
    Ok(table)
}

/// The times of snapshots and restores of Milepost and of two shadow repositories, of which only the first syncs.
fn measure(tools: &Tools, files: usize, is_short: bool) -> Result<[(Sample, Sample); 3]> {
    let folder = folder()?;
    let root = folder.path().join("repository");
    let mut project = Project::create(&root, files)?;
    let mut ours = Snapshots::new(&tools.binary, project.root(), folder.path())?;
    let shadows = [
        ShadowRepository::create(&root, &folder.path().join("synced"))?,
        ShadowRepository::create(&root, &folder.path().join("default"))?,
    ];
    sync_commits(&folder.path().join("synced"))?;
    let mut samples = [(); 3].map(|()| (Sample::default(), Sample::default()));
    // All know the files before the first round.
    project.change(CHANGED)?;
    ours.save()?;
    shadows.iter().try_for_each(ShadowRepository::commit)?;
    for round in 0..if is_short { 2 } else { 8 } {
        let changed = project.change(CHANGED)?;
        let expected = fs::read(&changed[0])?;
        let mut snapshots = [(); 3].map(|()| String::new());
        for turn in 0..3 {
            let which = (round + turn) % 3;
            let times = &mut samples[which].0;
            snapshots[which] = match which {
                0 => times.time(|| ours.save())?,
                _ => times.time(|| shadows[which - 1].commit()).and_then(|()| shadows[which - 1].head())?,
            };
        }
        for turn in 0..3 {
            let changed = project.change(CHANGED)?;
            let which = (round + turn) % 3;
            let times = &mut samples[which].1;
            match which {
                0 => times.time(|| ours.restore(&snapshots[0]))?,
                _ => times.time(|| shadows[which - 1].checkout(&snapshots[which]))?,
            }
            ensure!(fs::read(&changed[0])? == expected, "the files were not restored");
        }
    }
    Ok(samples)
}
