//! Renders a patch of a file as a unified diff that `git apply` accepts. Takes a patch and returns lines, each
//! with its role, or the bytes of all lines. A change that cannot be rendered makes `git apply` fail instead of
//! applying only a part. Pure.

use super::patch::{ContentChange, FilePatch, LineSide, PatchStatus};

/// What a line of a unified diff is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchLineRole {
    /// Describes the file.
    Header,
    /// Starts a hunk.
    HunkHeader,
    /// An unchanged line.
    Context,
    /// An added line.
    Added,
    /// A removed line.
    Removed,
    /// A remark, such as the one about a missing newline.
    Remark,
}

/// A line of a unified diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchLine {
    /// What the line is.
    pub role: PatchLineRole,
    /// The bytes, without the newline.
    pub text: Vec<u8>,
}

impl FilePatch {
    /// The patch as a unified diff, which `git apply` accepts. It refuses a patch of a file whose lines were
    /// not compared.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for line in self.lines() {
            bytes.extend_from_slice(&line.text);
            bytes.push(b'\n');
        }
        bytes
    }

    /// The lines of the unified diff.
    #[cfg_attr(feature = "internal", visibility::make(pub))]
    pub(crate) fn lines(&self) -> Vec<PatchLine> {
        let mut lines = Vec::new();
        let mut push = |role, parts: &[&[u8]]| lines.push(PatchLine { role, text: parts.concat() });
        let path = self.path.to_bytes().unwrap_or_default();
        let (old, new) = (quoted(b"a/", &path), quoted(b"b/", &path));
        push(PatchLineRole::Header, &[b"diff --git ", &old, b" ", &new]);
        let mode =
            |name: &str, mode: Option<&str>| format!("{name} {}", mode.unwrap_or_default()).into_bytes();
        match self.status {
            PatchStatus::Added => push(PatchLineRole::Header, &[&mode("new file mode", self.new_mode)]),
            PatchStatus::Deleted => push(PatchLineRole::Header, &[&mode("deleted file mode", self.old_mode)]),
            PatchStatus::Unavailable => {}
            PatchStatus::Modified | PatchStatus::ModeChanged if self.old_mode == self.new_mode => {}
            PatchStatus::Modified | PatchStatus::ModeChanged => {
                push(PatchLineRole::Header, &[&mode("old mode", self.old_mode)]);
                push(PatchLineRole::Header, &[&mode("new mode", self.new_mode)]);
            }
        }
        let old_name = if self.status == PatchStatus::Added { b"/dev/null".to_vec() } else { old };
        let new_name = if self.status == PatchStatus::Deleted { b"/dev/null".to_vec() } else { new };
        let has_mode_line = match self.status {
            PatchStatus::Added | PatchStatus::Deleted => true,
            PatchStatus::Modified | PatchStatus::ModeChanged => self.old_mode != self.new_mode,
            PatchStatus::Unavailable => false,
        };
        // `git apply` refuses a file with a line that starts and ends like these. Without a header, it would
        // ignore the file instead.
        let mut differ = |start: &str, end: &str| {
            if !has_mode_line {
                push(PatchLineRole::Header, &[b"index 0000000..0000000"]);
            }
            let parts = [start.as_bytes(), &old_name, b" and ", &new_name, end.as_bytes(), b" differ"];
            push(PatchLineRole::Remark, &parts);
        };
        let hunks = match &self.content {
            ContentChange::Hunks(hunks) => hunks,
            ContentChange::Binary => {
                differ("Binary files ", "");
                return lines;
            }
            ContentChange::TooLarge => {
                differ("Files ", ", of which one is larger than 1 MiB,");
                return lines;
            }
            ContentChange::Unavailable(reason) => {
                differ("Files ", &format!(" cannot be compared ({}) and may", one_line(reason)));
                return lines;
            }
        };
        if !hunks.is_empty() {
            push(PatchLineRole::Header, &[b"--- ", &with_end_mark(old_name)]);
            push(PatchLineRole::Header, &[b"+++ ", &with_end_mark(new_name)]);
        }
        for hunk in hunks {
            let header = format!("@@ -{} +{} @@", range(&hunk.old), range(&hunk.new));
            push(PatchLineRole::HunkHeader, &[header.as_bytes()]);
            for line in &hunk.lines {
                let (role, sign) = match line.side {
                    LineSide::Both => (PatchLineRole::Context, b" "),
                    LineSide::Added => (PatchLineRole::Added, b"+"),
                    LineSide::Removed => (PatchLineRole::Removed, b"-"),
                };
                push(role, &[sign, &line.text]);
                if !line.has_newline {
                    push(PatchLineRole::Remark, &[b"\\ No newline at end of file"]);
                }
            }
        }
        lines
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The range of lines in the header of a hunk. An empty range starts at the line before it.
fn range(lines: &std::ops::Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        n => format!("{},{n}", lines.start + 1),
    }
}

/// Adds the tab that marks the end of a name with spaces.
fn with_end_mark(mut name: Vec<u8>) -> Vec<u8> {
    if !name.starts_with(b"\"") && name.contains(&b' ') {
        name.push(b'\t');
    }
    name
}

/// A path with its prefix, quoted as git does with `core.quotePath=false`: if it has control characters,
/// quotes or backslashes. A path that is not UTF-8 is quoted too.
fn quoted(prefix: &[u8], path: &[u8]) -> Vec<u8> {
    let is_utf8 = std::str::from_utf8(path).is_ok();
    let is_special =
        |byte: u8| byte < 0x20 || matches!(byte, 0x7f | b'"' | b'\\') || byte >= 0x80 && !is_utf8;
    if !path.iter().copied().any(is_special) {
        return [prefix, path].concat();
    }
    let mut name = [b"\"", prefix].concat();
    for byte in path.iter().copied() {
        match byte {
            b'"' | b'\\' => name.extend([b'\\', byte]),
            b'\t' => name.extend(b"\\t"),
            b'\n' => name.extend(b"\\n"),
            b'\r' => name.extend(b"\\r"),
            byte if is_special(byte) => name.extend(format!("\\{byte:03o}").bytes()),
            byte => name.push(byte),
        }
    }
    name.push(b'"');
    name
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsStr;
    use std::io::Write as _;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::process::{Command, Stdio};

    use super::super::patch::{FileVersion, compare};

    fn text(bytes: &[u8]) -> FileVersion {
        FileVersion::File { bytes: bytes.to_vec(), executable: false }
    }

    fn program(bytes: &[u8]) -> FileVersion {
        FileVersion::File { bytes: bytes.to_vec(), executable: true }
    }

    fn link(target: &[u8]) -> FileVersion {
        FileVersion::Symlink { target: target.to_vec() }
    }

    type Tree = BTreeMap<Vec<u8>, FileVersion>;

    fn write_tree(folder: &Path, tree: &Tree) {
        for (path, version) in tree {
            let path = folder.join(OsStr::from_bytes(path));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            match version {
                FileVersion::File { bytes, executable } => {
                    #[allow(clippy::disallowed_methods, reason = "a test's own file")]
                    std::fs::write(&path, bytes).unwrap();
                    let mode = if *executable { 0o755 } else { 0o644 };
                    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
                }
                FileVersion::Symlink { target } => {
                    std::os::unix::fs::symlink(OsStr::from_bytes(target), &path).unwrap();
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn read_tree(root: &Path, folder: &Path, tree: &mut Tree) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let about = std::fs::symlink_metadata(&path).unwrap();
            let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            if about.is_dir() {
                if name != b".git" {
                    read_tree(root, &path, tree);
                }
            } else if about.is_symlink() {
                tree.insert(name, link(std::fs::read_link(&path).unwrap().as_os_str().as_bytes()));
            } else {
                let bytes = std::fs::read(&path).unwrap();
                let executable = about.permissions().mode() & 0o100 != 0;
                tree.insert(name, FileVersion::File { bytes, executable });
            }
        }
    }

    /// Applies the patch from one tree to another with git. Returns the result, or git's message.
    fn applied(old: &Tree, new: &Tree) -> Result<Tree, String> {
        let folder = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| {
            let mut command = Command::new("git");
            command.args(args).current_dir(folder.path()).env("GIT_CONFIG_GLOBAL", "/dev/null");
            command.env("GIT_CONFIG_NOSYSTEM", "1").stdin(Stdio::piped());
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            command
        };
        write_tree(folder.path(), old);
        let absent = FileVersion::Absent;
        let paths: std::collections::BTreeSet<_> = old.keys().chain(new.keys()).collect();
        let versions = |tree: &Tree, path| tree.get(path).unwrap_or(&absent).clone();
        let patches = paths
            .into_iter()
            .flat_map(|path| compare(path, &versions(old, path), &versions(new, path), None));
        let patch: Vec<u8> = patches.flat_map(|patch| patch.to_bytes()).collect();
        let mut child = git(&["apply", "--allow-empty", "--whitespace=nowarn", "-"]).spawn().unwrap();
        child.stdin.take().unwrap().write_all(&patch).unwrap();
        let output = child.wait_with_output().unwrap();
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("{message}\n{}", String::from_utf8_lossy(&patch)));
        }
        let mut tree = Tree::new();
        read_tree(folder.path(), folder.path(), &mut tree);
        Ok(tree)
    }

    fn tree(files: &[(&[u8], FileVersion)]) -> Tree {
        files.iter().map(|(path, version)| (path.to_vec(), version.clone())).collect()
    }

    const NAMES: [&[u8]; 10] = [
        b"plain",
        b"folder/with space",
        b"with \"quotes\" and 'more'",
        b"tab\tbed",
        b"new\nline",
        b"\xc3\xbcml\xc3\xa4ut",
        b"not \xff\xfe utf-8",
        b"-dash",
        b"back\\slash",
        b"a b/a b",
    ];

    #[test]
    fn git_applies_every_kind_of_change() {
        let long: String = (0..100).map(|n| format!("line {n}\n")).collect();
        let changed =
            long.replace("line 3\n", "line 3\nand more\n").replace("line 50\n", "").replace('9', "nine");
        let with = |version: FileVersion| {
            let mut tree: Tree = NAMES.iter().map(|name| (name.to_vec(), version.clone())).collect();
            tree.insert(b"other".to_vec(), text(b"stays\n"));
            tree
        };
        let versions = [
            tree(&[(b"other", text(b"stays\n"))]),
            with(text(b"")),
            with(text(long.as_bytes())),
            with(program(long.as_bytes())),
            with(text(changed.as_bytes())),
            with(program(long.trim_end().as_bytes())),
            with(text(b"one line")),
            with(text(b"one line\n")),
            with(text(b"crlf\r\nlines\r\n\r\n")),
            with(text(b"caf\xe9 in Latin-1, with enough other text\n")),
            with(link(b"other")),
            with(link(b"plain text\nwith a newline")),
        ];
        for old in &versions {
            for new in &versions {
                let result = applied(old, new).unwrap_or_else(|message| panic!("{message}"));
                assert_eq!(result, *new);
            }
        }
    }

    #[test]
    fn git_refuses_what_was_not_compared() {
        let binary = text(b"\0binary");
        let large = text(&vec![b'x'; (1 << 20) + 1]);
        for new in [&binary, &large] {
            for old in [Tree::new(), tree(&[(b"f", text(b"a\n"))]), tree(&[(b"f", program(b"a\n"))])] {
                let refused = applied(&old, &tree(&[(b"f", new.clone())])).unwrap_err();
                assert!(refused.contains("cannot apply binary patch"), "{refused}");
            }
        }
        let gone = FileVersion::Unavailable { reason: "git no longer\nhas it".into() };
        let refused = applied(&tree(&[(b"f", text(b"a\n"))]), &tree(&[(b"f", gone)])).unwrap_err();
        assert!(refused.contains("cannot apply binary patch"), "{refused}");
    }

    #[test]
    fn a_patch_reads_like_one_of_git() {
        let old: String = (1..=9).map(|n| format!("{n}\n")).collect();
        let new = old.replace("5\n", "five\n").trim_end().to_owned() + " and the end";
        let patch = compare(b"my file", &text(old.as_bytes()), &program(new.as_bytes()), None);
        let expected = "diff --git a/my file b/my file\nold mode 100644\nnew mode 100755\n\
            --- a/my file\t\n+++ b/my file\t\n@@ -2,8 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n-9\n\
            +9 and the end\n\\ No newline at end of file\n";
        assert_eq!(String::from_utf8(patch[0].to_bytes()).unwrap(), expected);
        let gone = FileVersion::Unavailable { reason: "it is larger than 10 MiB".into() };
        let patch = compare(b"a\tb", &gone, &text(b"x"), None);
        let expected = "diff --git \"a/a\\tb\" \"b/a\\tb\"\nindex 0000000..0000000\nFiles \"a/a\\tb\" and \
            \"b/a\\tb\" cannot be compared (it is larger than 10 MiB) and may differ\n";
        assert_eq!(String::from_utf8(patch[0].to_bytes()).unwrap(), expected);
    }
}
