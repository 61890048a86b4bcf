//! Faults during `restore` and `undo`: killed before, or with a full disk at, every call that changes a file. Each
//! file then has its old or its new content, the next command completes the change or takes it back, everything
//! that was in the worktree is still there or comes back with `undo`, and no temporary file is left.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use super::project::{Project, StoreKind, scratch_folder, walk};
use super::{Environment, Outcome};
use crate::shell::{is_installed, read_output, run_program};

/// The calls that change files. A kill at any other call leaves the same files as one at the next of these.
const CALLS: [&str; 21] = [
    "openat",
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "rmdir",
    "ftruncate",
    "fallocate",
    "link",
    "linkat",
    "symlinkat",
    "fchmod",
    "fchown",
    "copy_file_range",
];
/// What happens at a call.
const FAULTS: [&str; 2] = ["signal=KILL", "error=ENOSPC"];
/// The exit code of a restore that kept files because of conflicts.
const CONFLICT: i32 = 3;
/// Snapshots do not contain larger files.
const SETTINGS: &str = "[capture]\nmax_file = \"20 KB\"\n";

pub fn sqlite(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Sqlite)
}

pub fn files(env: &Environment) -> Result<Outcome> {
    run(env, StoreKind::Files)
}

/// The content of a file, or the target of a symbolic link, and whether the file is executable.
type FileState = (Vec<u8>, bool);
/// All files of a worktree.
type Files = BTreeMap<PathBuf, FileState>;

/// A project in a state from which a command is run again and again.
struct Scenario {
    project: Project,
    /// A copy of the project's folder before the command.
    template: PathBuf,
    command: Vec<String>,
    before: Files,
    after: Files,
    _own: TempDir,
}

/// Which files a worktree contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorktreeState {
    Before,
    After,
    /// Each file is in one of the two states, because the command kept some files and said so.
    Mixed,
}

fn run(env: &Environment, kind: StoreKind) -> Result<Outcome> {
    if !is_installed("strace") {
        return Ok(Outcome::Skipped("strace is missing".into()));
    }
    let mut figures = Vec::new();
    for undo in [false, true] {
        let scenario = Scenario::create(env, kind, undo)?;
        let points = scenario.points()?;
        let (mut completed, mut partly, mut unchanged) = (0, 0, 0);
        // The short form tries three points with each fault, different ones.
        let step = env.pick(points.len().div_ceil(3) | 1, 1);
        for (number, fault) in FAULTS.iter().enumerate() {
            for (call, n) in points.iter().skip(number * step / 2).step_by(step) {
                let tried = scenario.try_fault(call, *n, fault);
                match tried.with_context(|| format!("{fault} at {call} number {n} ({kind:?})"))? {
                    WorktreeState::After => completed += 1,
                    WorktreeState::Mixed => partly += 1,
                    WorktreeState::Before => unchanged += 1,
                }
            }
        }
        let name = if undo { "undo" } else { "restore" };
        figures.push(format!(
            "{name}: {} of {} points, {completed} completed, {partly} partly, {unchanged} without a change",
            completed + partly + unchanged,
            points.len() * FAULTS.len()
        ));
    }
    Ok(Outcome::Passed(figures.join("; ")))
}

impl Scenario {
    /// Prepares a project in which `restore`, or `undo` after a restore, has all kinds of changes to make.
    fn create(env: &Environment, kind: StoreKind, undo: bool) -> Result<Self> {
        let own = scratch_folder()?;
        let folder = own.path().join("project");
        std::fs::create_dir(&folder)?;
        let project = Project::at(env, kind, &folder).with_settings(SETTINGS)?;
        write_committed_files(&folder)?;
        project.run(&["start", "--run", "r"])?.expect(0)?;
        write(&folder, "modified.txt", b"modified before the checkpoint")?;
        write(&folder, "untracked.txt", b"untracked")?;
        write(&folder, "grown.bin", b"small")?;
        let checkpoint = project.run(&["save", "--run", "r", "--summary", "to restore"])?.expect(0)?;
        let checkpoint = checkpoint.stdout.trim().to_owned();
        let restored = files_in(&folder)?;
        change_files(&folder)?;
        let changed = files_in(&folder)?;
        let restore = ["restore", &checkpoint, "--yes"].map(str::to_owned).to_vec();
        let template = own.path().join("template");
        let mut scenario =
            Self { project, template, command: restore, before: changed, after: restored, _own: own };
        if undo {
            scenario.run_again()?;
            std::mem::swap(&mut scenario.before, &mut scenario.after);
            ensure!(scenario.files()? == scenario.before, "the restore did not restore every file");
            scenario.command = ["undo", "--yes"].map(str::to_owned).to_vec();
        }
        copy(&scenario.project.folder, &scenario.template)?;
        Ok(scenario)
    }

    fn files(&self) -> Result<Files> {
        files_in(&self.project.folder)
    }

    fn command(&self) -> Vec<&str> {
        self.command.iter().map(String::as_str).collect()
    }

    /// Runs the command without a fault.
    fn run_again(&self) -> Result<()> {
        self.project.run(&self.command())?.expect(0)?;
        Ok(())
    }

    /// Every call of the command that changes a file, with its number among the calls of the same name. Checks
    /// that the command succeeds without a fault.
    fn points(&self) -> Result<Vec<(&'static str, usize)>> {
        let log = tempfile::NamedTempFile::new()?;
        let (trace, path) = (format!("trace={}", CALLS.join(",")), log.path().display().to_string());
        let strace = ["strace", "-qq", "-o", &path, "-e", &trace];
        self.project.run_wrapped(&strace, &self.command())?.expect(0)?;
        self.expect_state(WorktreeState::After)?;
        let log = std::fs::read_to_string(log.path())?;
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let mut points = Vec::new();
        for line in log.lines() {
            let name = line.split('(').next().unwrap_or_default();
            if let Some(call) = CALLS.iter().find(|call| **call == name) {
                let count = counts.entry(call).or_default();
                *count += 1;
                points.push((*call, *count));
            }
        }
        ensure!(points.len() > 50, "strace saw only {} calls", points.len());
        Ok(points)
    }

    /// Runs the command with a fault, and checks everything afterwards. Returns how it ended.
    fn try_fault(&self, call: &str, n: usize, fault: &str) -> Result<WorktreeState> {
        let inject = format!("inject={call}:{fault}:when={n}");
        std::fs::remove_dir_all(&self.project.folder)?;
        copy(&self.template, &self.project.folder)?;
        // Only the process itself is traced: the programs that it starts write nothing.
        let trace = format!("trace={call}");
        let strace = ["strace", "-qq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
        let output = self.project.command(&strace, &self.command()).output()?;
        self.expect_old_or_new(true).context("after the fault")?;
        self.project.run(&["status"])?.expect(0)?;
        let state = match self.state() {
            // A file that could not be moved aside is kept, and the command says so.
            Err(_) if output.status.code() == Some(CONFLICT) => {
                self.expect_old_or_new(false)?;
                Ok(WorktreeState::Mixed)
            }
            state => state,
        };
        let state = state.with_context(|| {
            let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
            format!("after the next command (the command ended with {}: {})", output.status, stderr.trim())
        })?;
        ensure!(
            !output.status.success() || state == WorktreeState::After,
            "the command reported success, but changed nothing"
        );
        self.expect_no_journal()?;
        self.project.run(&["verify"])?.expect(0)?;
        // Everything that was there comes back, or the command works when it is repeated.
        match state {
            WorktreeState::After | WorktreeState::Mixed => {
                self.project.run(&["undo", "--yes"])?.expect(0)?;
                self.expect_state(WorktreeState::Before).context("after `undo`")?;
            }
            WorktreeState::Before => {
                self.run_again()?;
                self.expect_state(WorktreeState::After).context("after the command was repeated")?;
            }
        }
        self.expect_no_journal()?;
        self.expect_no_temporary_file()?;
        Ok(state)
    }

    /// Checks that each file is as it was before or after the command. A temporary file may lie beside them until
    /// the next command.
    fn expect_old_or_new(&self, may_be_temporary: bool) -> Result<()> {
        let files = self.files()?;
        let paths = self.before.keys().chain(self.after.keys());
        for path in paths {
            let (now, before, after) = (files.get(path), self.before.get(path), self.after.get(path));
            ensure!(now == before || now == after, "{} is neither old nor new", path.display());
        }
        for path in files.keys() {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_known = self.before.contains_key(path) || self.after.contains_key(path);
            let is_temporary = may_be_temporary && name.contains("milepost");
            ensure!(is_known || is_temporary, "{} appeared", path.display());
        }
        Ok(())
    }

    /// The state of the worktree, which must be exactly the one before or the one after the command.
    fn state(&self) -> Result<WorktreeState> {
        let files = self.files()?;
        if files == self.before {
            return Ok(WorktreeState::Before);
        }
        if files == self.after {
            return Ok(WorktreeState::After);
        }
        let unlike = |other: &Files| {
            let paths = files.keys().chain(other.keys()).filter(|path| files.get(*path) != other.get(*path));
            paths.map(|path| path.display().to_string()).collect::<std::collections::BTreeSet<_>>()
        };
        bail!(
            "the worktree is in neither state; different from before: {:?}; from after: {:?}",
            unlike(&self.before),
            unlike(&self.after)
        )
    }

    fn expect_state(&self, expected: WorktreeState) -> Result<()> {
        let state = self.state()?;
        ensure!(state == expected, "the worktree is in the state {state:?}, not {expected:?}");
        Ok(())
    }

    /// Checks that no journal of an unfinished restore is left.
    fn expect_no_journal(&self) -> Result<()> {
        let mut journals = Vec::new();
        walk(&self.project.folder.join(".git/milepost"), &mut |path| {
            if path.file_name().is_some_and(|name| name == "journal.json") {
                journals.push(path.to_owned());
            }
        })?;
        ensure!(journals.is_empty(), "journals are left: {journals:?}");
        Ok(())
    }

    /// Checks that no temporary file is left. The next snapshot removes those of the snapshots, and
    /// `doctor --fix` removes those of the store.
    fn expect_no_temporary_file(&self) -> Result<()> {
        if !self.project.temporary_files()?.is_empty() {
            self.project.run(&["doctor", "--fix"])?.expect(0)?;
        }
        let left = self.project.temporary_files()?;
        ensure!(left.is_empty(), "temporary files remain after doctor --fix: {left:?}");
        Ok(())
    }
}

fn write_committed_files(folder: &Path) -> Result<()> {
    git(folder, &["init", "-q", "-b", "main"])?;
    for name in ["modified.txt", "clean.txt", "deleted.txt", "renamed.txt", "script.sh", "plain.sh"] {
        write(folder, name, format!("committed {name}").as_bytes())?;
    }
    set_executable(&folder.join("plain.sh"), true)?;
    std::fs::create_dir(folder.join("folder"))?;
    write(folder, "folder/inside.txt", b"committed inside")?;
    git(folder, &["add", "-A"])?;
    git(folder, &["commit", "-q", "-m", "all"])
}

/// Makes changes of every kind after the checkpoint.
fn change_files(folder: &Path) -> Result<()> {
    write(folder, "modified.txt", b"modified after the checkpoint")?;
    write(folder, "clean.txt", b"modified for the first time")?;
    write(folder, "untracked.txt", b"untracked, and modified")?;
    std::fs::remove_file(folder.join("deleted.txt"))?;
    std::fs::remove_dir_all(folder.join("folder"))?;
    std::fs::create_dir_all(folder.join("new/folder"))?;
    write(folder, "new/folder/created.txt", b"created")?;
    std::fs::rename(folder.join("renamed.txt"), folder.join("new/renamed.txt"))?;
    set_executable(&folder.join("script.sh"), true)?;
    set_executable(&folder.join("plain.sh"), false)?;
    std::os::unix::fs::symlink("clean.txt", folder.join("link"))?;
    // Snapshots contain neither of these.
    write(folder, "grown.bin", &vec![7; 100_000])?;
    write(folder, "created.bin", &vec![8; 100_000])?;
    write(folder, ".env", b"TOKEN=created")
}

fn write(folder: &Path, name: &str, content: &[u8]) -> Result<()> {
    std::fs::write(folder.join(name), content).with_context(|| name.to_owned())
}

fn set_executable(path: &Path, executable: bool) -> Result<()> {
    let mode = if executable { 0o755 } else { 0o644 };
    Ok(std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?)
}

fn git(folder: &Path, args: &[&str]) -> Result<()> {
    let user = ["-c", "user.name=t", "-c", "user.email=t@example.org"];
    read_output(Command::new("git").arg("-C").arg(folder).args(user).args(args)).map(|_| ())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    run_program(Command::new("cp").arg("-a").arg(from).arg(to))
}

/// All files of a worktree, without git's and Milepost's own folders.
fn files_in(folder: &Path) -> Result<Files> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if name == ".git" || name == ".milepost" || name == "store" {
            continue;
        }
        if path.is_dir() && !path.is_symlink() {
            walk(&path, &mut |path| paths.push(path.to_owned()))?;
        } else {
            paths.push(path);
        }
    }
    let mut files = Files::new();
    for path in paths {
        let about = path.symlink_metadata()?;
        let state = if about.is_symlink() {
            (std::fs::read_link(&path)?.to_string_lossy().into_owned().into_bytes(), false)
        } else {
            (std::fs::read(&path)?, about.permissions().mode() & 0o100 != 0)
        };
        files.insert(path.strip_prefix(folder)?.to_owned(), state);
    }
    Ok(files)
}
