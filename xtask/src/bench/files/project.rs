//! A repository whose files change, its contents, and a shadow repository of the same folder. Contents look like
//! source code: they compress about as well, and no two versions are equal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::bench::process::run_successfully;
use crate::shell::read_output;

/// The size of a file.
pub(in crate::bench) const FILE_BYTES: usize = 4 * 1024;
/// The level with which the store compresses.
const LEVEL: i32 = 3;

/// A git command in a folder.
pub(in crate::bench) fn git(root: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(root).stdout(Stdio::null()).stderr(Stdio::null());
    command.args(["-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "gc.auto=0"]);
    command
}

/// Text that looks like source code, from a seed.
pub(in crate::bench) fn source_text(seed: u64, bytes: usize) -> String {
    const WORDS: [&str; 32] = [
        "let", "mut", "fn", "self", "match", "return", "if", "else", "Result", "Option", "String", "Vec",
        "path", "file", "line", "count", "name", "value", "entry", "index", "(", ")", "{", "}", ";", " = ",
        ".", "&", "::", "=>", "?", "0",
    ];
    let mut state = seed ^ 0x9E37_79B9_7F4A_7C15;
    let mut text = String::with_capacity(bytes + 32);
    while text.len() < bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        for part in 0..6 {
            text.push_str(WORDS[(state >> (part * 5) & 31) as usize]);
            text.push(' ');
        }
        // Names and numbers that occur only once.
        text.push_str(&format!("{:x}\n", state >> 40));
    }
    text.truncate(bytes);
    text
}

/// A repository whose files are changed between snapshots.
pub(in crate::bench) struct Project {
    root: PathBuf,
    changes: u64,
}

impl Project {
    /// Creates a repository with this many committed files.
    pub(in crate::bench) fn create(root: &Path, tracked: usize) -> Result<Self> {
        fs::create_dir_all(root)?;
        run_successfully(git(root).args(["init", "-q", "-b", "main"]))?;
        for n in 0..tracked {
            let folder = root.join(format!("src/part{:03}", n % 200));
            if n < 200 {
                fs::create_dir_all(&folder)?;
            }
            fs::write(folder.join(format!("file{n:05}.rs")), source_text(n as u64, FILE_BYTES))?;
        }
        run_successfully(git(root).args(["add", "-A"]))?;
        run_successfully(git(root).args(["commit", "-q", "-m", "all"]))?;
        // An agent reports absolute paths without `..`.
        let mut project = Self { root: root.canonicalize()?, changes: 0 };
        project.reset()?;
        Ok(project)
    }

    pub(in crate::bench) fn root(&self) -> &Path {
        &self.root
    }

    /// Writes new contents to this many files, the same ones each time. Returns their paths.
    pub(in crate::bench) fn change(&mut self, count: usize) -> Result<Vec<PathBuf>> {
        self.changes += 1;
        let path = |n: usize| self.root.join(format!("src/part{:03}/file{n:05}.rs", n % 200));
        let paths: Vec<PathBuf> = (0..count).map(path).collect();
        for (n, path) in paths.iter().enumerate() {
            fs::write(path, source_text((self.changes << 32) + n as u64, FILE_BYTES + 64))?;
        }
        Ok(paths)
    }

    /// Brings all files back to the commit.
    pub(in crate::bench) fn reset(&mut self) -> Result<()> {
        run_successfully(git(&self.root).args(["checkout", "-q", "--", "."]))?;
        // Git reads files again that changed in the same second as the index.
        std::thread::sleep(std::time::Duration::from_millis(1_100));
        run_successfully(git(&self.root).args(["update-index", "-q", "--refresh"]))
    }

    /// Reads and compresses files, and what the commit contains for them.
    pub(in crate::bench) fn read_both_versions_and_compress(&self, files: &[PathBuf]) -> Result<()> {
        read_and_compress(files)?;
        let relative = files.iter().filter_map(|path| path.strip_prefix(&self.root).ok());
        let input: String = relative.map(|path| format!("HEAD:{}\n", path.display())).collect();
        let list = self.root.join(".git/bench-list");
        fs::write(&list, input)?;
        let mut command = git(&self.root);
        command.args(["cat-file", "--batch"]).stdin(fs::File::open(&list)?).stdout(Stdio::piped());
        let output = command.output()?;
        let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
        for part in output.stdout.chunks(FILE_BYTES) {
            compressor.compress(part)?;
        }
        Ok(())
    }
}

/// Reads and compresses each file.
pub(in crate::bench) fn read_and_compress(files: &[PathBuf]) -> Result<()> {
    let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
    for path in files {
        compressor.compress(&fs::read(path)?)?;
    }
    Ok(())
}

/// The size of a content after compression.
pub(in crate::bench) fn compressed_size(content: &str) -> Result<u64> {
    Ok(zstd::bulk::compress(content.as_bytes(), LEVEL)?.len() as u64)
}

/// A repository beside the project's own into which its files are committed.
pub(in crate::bench) struct ShadowRepository {
    root: PathBuf,
    folder: PathBuf,
}

impl ShadowRepository {
    /// Creates a shadow repository that contains all files.
    pub(in crate::bench) fn create(root: &Path, folder: &Path) -> Result<Self> {
        run_successfully(git(root).args(["init", "-q", "--bare"]).arg(folder))?;
        let shadow = Self { root: root.to_owned(), folder: folder.to_owned() };
        shadow.commit()?;
        Ok(shadow)
    }

    fn git(&self) -> Command {
        let mut command = git(&self.root);
        command.arg("--git-dir").arg(&self.folder).arg("--work-tree").arg(&self.root);
        command
    }

    /// `git add -A && git commit`
    pub(in crate::bench) fn commit(&self) -> Result<()> {
        run_successfully(self.git().args(["add", "-A"]))?;
        run_successfully(self.git().args(["commit", "-q", "--allow-empty", "-m", "snapshot"]))
    }

    /// The newest commit.
    pub(in crate::bench) fn head(&self) -> Result<String> {
        let mut command = self.git();
        Ok(read_output(command.stdout(Stdio::piped()).args(["rev-parse", "HEAD"]))?.trim().to_owned())
    }

    /// Brings all files back to a commit.
    pub(in crate::bench) fn checkout(&self, commit: &str) -> Result<()> {
        run_successfully(self.git().args(["checkout", "-q", commit, "--", "."]))
    }
}
