//! Benchmarks of snapshots of files: `save` in a repository of 20,000 files with and without a snapshot, compared
//! with reading and compressing the same files, and with a commit into a shadow repository. Also a hook after an
//! edit, the cost of a late snapshot, and the size of many snapshots.

mod history;
pub(super) mod project;

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use milepost::Milepost;
use milepost::store::{OpenOptions, StoreUrl};

use self::project::{Project, ShadowRepository};
use super::measure::{Floor, Row, Sample, binary, folder, pairs};
use super::process::run_successfully;

/// How much longer a save may take with a snapshot of an unchanged worktree.
const ALLOWED: Duration = Duration::from_millis(10);
/// Number of files that change in each round.
const CHANGED: usize = 200;

/// Runs the binary with or without snapshots, each with a store of its own.
struct Saver {
    binary: PathBuf,
    root: PathBuf,
    /// The folder for stores, settings and state.
    folder: PathBuf,
    saves: u32,
}

impl Saver {
    fn new(binary: PathBuf, root: &Path, folder: &Path) -> Result<Self> {
        for (name, files) in [("with", true), ("without", false)] {
            let settings = folder.join(name).join("milepost");
            fs::create_dir_all(&settings)?;
            let text =
                format!("[capture]\nfiles = {files}\n[retain]\nkeep_last = \"all\"\nmax_files = \"0\"\n");
            fs::write(settings.join("config.toml"), text)?;
        }
        Ok(Self { binary, root: root.to_owned(), folder: folder.to_owned(), saves: 0 })
    }

    /// A store that is used with or without snapshots.
    fn store(&self, files: bool, store: &str) -> StoreUrl {
        let name = if files { "with" } else { "without" };
        StoreUrl::sqlite(self.folder.join(format!("{store}-{name}.db")))
    }

    /// The size of all contents in a store that is used with snapshots.
    fn blob_bytes(&self, store: &str) -> Result<u64> {
        let mp = Milepost::at(&self.store(true, store), &OpenOptions::new())?;
        Ok(mp.raw_store().blob_bytes()?)
    }

    /// A command with the settings that turn snapshots on or off.
    fn command(&self, files: bool, store: &str) -> Command {
        let name = if files { "with" } else { "without" };
        let mut command = Command::new(&self.binary);
        let store = self.store(files, store).to_string();
        command.arg("-C").arg(&self.root).args(["--store", &store]);
        command.env("XDG_CONFIG_HOME", self.folder.join(name)).env("XDG_STATE_HOME", &self.folder);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn save(&mut self, files: bool, store: &str) -> Result<()> {
        self.saves += 1;
        let summary = self.saves.to_string();
        let mut command = self.command(files, store);
        run_successfully(command.args(["save", "--run", "bench", "--summary", &summary]))
    }
}

/// Saves with snapshots.
pub fn saves(short: bool) -> Result<Vec<Row>> {
    let (binary, folder) = (binary(short)?, folder()?);
    let root = folder.path().join("repository");
    let mut project = Project::create(&root, if short { 2_000 } else { 20_000 })?;
    let mut saver = Saver::new(binary, &root, folder.path())?;
    let shadow = ShadowRepository::create(&root, &folder.path().join("shadow"))?;
    let rounds = if short { 5 } else { 20 };
    let mut rows = vec![first_snapshot(&mut project, &mut saver, rounds)?];
    rows.push(newly_changed(&mut project, &mut saver, rounds)?);
    rows.push(changed_beside_shadow(&mut project, &mut saver, &shadow, rounds)?);
    rows.extend(unchanged(saver, &shadow, rounds * 2)?);
    Ok(rows)
}

/// Many snapshots.
pub fn many_snapshots(short: bool) -> Result<Vec<Row>> {
    let folder = folder()?;
    let late = history::late_snapshot(folder.path(), if short { 60 } else { 1_000 })?;
    Ok(vec![late, history::space(folder.path(), short)?])
}

/// The medians of the parts of a snapshot of changed files.
#[derive(Default)]
struct Parts {
    with: Sample,
    without: Sample,
    compress: Sample,
    fsync: Sample,
}

impl Parts {
    /// A row with the bound: a save without a snapshot, reading and compressing the files with half as much
    /// again, and one fsync.
    fn row(&self, what: &str) -> Row {
        let (without, compress) = (self.without.median(), self.compress.median());
        let base = without + compress + self.fsync.median();
        let allowed = without + compress.mul_f64(1.5) + self.fsync.median();
        let bound = allowed.as_secs_f64() / base.as_secs_f64();
        let mut row = Row::times(what, self.with.median(), base, bound);
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        row.floor.push_str(&format!(
            " (a save without {:.0} µs, reading and compressing {:.0} µs, one fsync)",
            micros(without),
            micros(compress)
        ));
        row
    }
}

/// The first snapshot of a worktree in which files differ from the commit.
fn first_snapshot(project: &mut Project, saver: &mut Saver, rounds: usize) -> Result<Row> {
    let mut parts = Parts::default();
    let mut floor = Floor::new(&saver.folder)?;
    for round in 0..rounds {
        let changed = project.change(CHANGED)?;
        // Both create their store.
        let store = format!("first-{round}");
        time_alternately(round, saver, &store, &mut parts)?;
        ensure!(saver.blob_bytes(&store)? > 0, "the snapshot stored no file");
        parts.compress.time(|| project::read_and_compress(&changed))?;
        parts.fsync.time(|| floor.write(&[b'x'; 4096]))?;
    }
    Ok(parts.row("`save` with the first snapshot, 200 changed files"))
}

/// A snapshot of files that were equal to the commit in the previous snapshot. It also reads from git what they
/// contained, so that the previous snapshot stays complete.
fn newly_changed(project: &mut Project, saver: &mut Saver, rounds: usize) -> Result<Row> {
    let mut parts = Parts::default();
    let mut floor = Floor::new(&saver.folder)?;
    for round in 0..rounds {
        project.reset()?;
        let store = format!("newly-{round}");
        saver.save(true, &store)?;
        saver.save(false, &store)?;
        let changed = project.change(CHANGED)?;
        time_alternately(round, saver, &store, &mut parts)?;
        parts.compress.time(|| project.read_both_versions_and_compress(&changed))?;
        parts.fsync.time(|| floor.write(&[b'x'; 4096]))?;
    }
    Ok(parts.row("`save` after 200 files changed for the first time; both versions are stored"))
}

/// Times a save with and without a snapshot. The order alternates.
fn time_alternately(round: usize, saver: &mut Saver, store: &str, parts: &mut Parts) -> Result<()> {
    if round.is_multiple_of(2) {
        parts.with.time(|| saver.save(true, store))?;
        parts.without.time(|| saver.save(false, store))?;
    } else {
        parts.without.time(|| saver.save(false, store))?;
        parts.with.time(|| saver.save(true, store))?;
    }
    Ok(())
}

/// A snapshot of 200 files that changed again, compared with a commit into a shadow repository.
fn changed_beside_shadow(
    project: &mut Project,
    saver: &mut Saver,
    shadow: &ShadowRepository,
    rounds: usize,
) -> Result<Row> {
    let (mut ours, mut theirs) = (Sample::default(), Sample::default());
    // Both know the files: the comparison is between later snapshots and later commits.
    project.change(CHANGED)?;
    saver.save(true, "shadow")?;
    shadow.commit()?;
    for round in 0..rounds {
        project.change(CHANGED)?;
        if round.is_multiple_of(2) {
            ours.time(|| saver.save(true, "shadow"))?;
            theirs.time(|| shadow.commit())?;
        } else {
            theirs.time(|| shadow.commit())?;
            ours.time(|| saver.save(true, "shadow"))?;
        }
    }
    let what = "`save` after 200 files changed, vs `git add -A && git commit` into a shadow repository";
    Ok(Row::times(what, ours.median(), theirs.median(), 0.6))
}

/// A snapshot of an unchanged worktree, compared with a save without one, and then with a commit into a shadow
/// repository.
fn unchanged(saver: Saver, shadow: &ShadowRepository, rounds: usize) -> Result<Vec<Row>> {
    // Files that changed within the last two seconds are read again.
    std::thread::sleep(Duration::from_millis(2_100));
    let saver = RefCell::new(saver);
    let save = |files: bool| saver.borrow_mut().save(files, "shadow");
    for _ in 0..2 {
        save(true)?;
        save(false)?;
        shadow.commit()?;
    }
    let (with, without) = pairs(rounds, || save(true), || save(false))?;
    let base = without.median();
    let bound = (base + ALLOWED).as_secs_f64() / base.as_secs_f64();
    let what = "`save` with a snapshot of an unchanged worktree, vs without";
    let mut rows = vec![Row::times(what, with.median(), base, bound)];
    let (with, commit) = pairs(rounds, || save(true), || shadow.commit())?;
    let what = "`save` of an unchanged worktree, vs `git add -A && git commit` into a shadow repository";
    rows.push(Row::times(what, with.median(), commit.median(), 0.75));
    Ok(rows)
}

/// A hook after a tool edited a file, with and without storing the file.
pub fn hook_after_edit(short: bool) -> Result<Vec<Row>> {
    let (binary, folder) = (binary(short)?, folder()?);
    let root = folder.path().join("repository");
    let project = Project::create(&root, 2_000)?;
    let mut saver = Saver::new(binary, &root, folder.path())?;
    let rounds = if short { 20 } else { 100 };
    // A hook creates no store.
    saver.save(true, "hook")?;
    saver.save(false, "hook")?;
    let blobs_before = saver.blob_bytes("hook")?;
    let edited = project.root().join("src/part000/file00000.rs");
    let mut edits = 0_u32;
    let mut hook = |files: bool| -> Result<Duration> {
        edits += 1;
        fs::write(&edited, project::source_text(u64::from(edits) << 32, project::FILE_BYTES))?;
        let payload = saver.folder.join("edit.json");
        fs::write(&payload, edit_event(project.root(), &edited))?;
        let mut command = saver.command(files, "hook");
        command.args(["hook", "claude-code", "--strict"]).stdin(fs::File::open(&payload)?);
        let start = std::time::Instant::now();
        run_successfully(&mut command)?;
        Ok(start.elapsed())
    };
    for _ in 0..10 {
        hook(true)?;
        hook(false)?;
    }
    let (mut with, mut without) = (Sample::default(), Sample::default());
    for _ in 0..rounds {
        with.add(hook(true)?);
        without.add(hook(false)?);
    }
    ensure!(saver.blob_bytes("hook")? > blobs_before, "the hooks stored no file");
    let what = "`hook` after an edit, vs without storing the file";
    Ok(vec![Row::times(what, with.median(), without.median(), 1.5)])
}

/// What Claude Code sends after its tool `Edit`.
fn edit_event(root: &Path, edited: &Path) -> String {
    serde_json::json!({
        "session_id": "s1",
        "cwd": root,
        "hook_event_name": "PostToolUse",
        "tool_name": "Edit",
        "tool_input": { "file_path": edited, "old_string": "a", "new_string": "b" },
        "tool_response": { "filePath": edited, "oldString": "a", "newString": "b" },
    })
    .to_string()
}
