//! The result of `diff` with `--patch`, `--stat` or `--worktree`: the files that differ, as JSON, as a unified
//! diff, or as counts per file. A patch that goes to a file or a program has the exact bytes.

use std::fmt::Write as _;
use std::io;

use milepost::internal::diff::{PatchLine, PatchLineRole};
use milepost::model::PathText;
use milepost::{FilePatch, FilePatches, PatchStatus};
use serde::Serialize;
use unicode_width::UnicodeWidthStr as _;

use super::format::{bold, clean_lines, count, counted, cyan, green, path, plain_red, shorten_path, wrap};
use super::table::truncate;
use super::{Document, Note, Output};
use crate::error::{CommandError, Result};
use crate::error_advice::Exit;

/// How the differences are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchForm {
    /// A unified diff.
    Patch,
    /// Counts per file.
    Stat,
}

/// The files that differ.
#[derive(Serialize)]
#[serde(tag = "schema", rename = "milepost.patch/1")]
pub(crate) struct PatchDocument {
    from: String,
    to: String,
    differs: bool,
    files: Vec<FileEntry>,
    /// Number of added lines in all files.
    added: u64,
    /// Number of removed lines in all files.
    removed: u64,
    /// Number of files that differ and are not listed.
    left_out: u64,
    /// Number of lines from which secrets were redacted.
    redacted: u64,
    #[serde(skip)]
    patches: FilePatches,
    #[serde(skip)]
    form: PatchForm,
    /// Whether the exit code reports a difference (`--exit-code`).
    #[serde(skip)]
    exit_code: bool,
}

#[derive(Serialize)]
struct FileEntry {
    path: PathText,
    status: PatchStatus,
    old_mode: Option<&'static str>,
    new_mode: Option<&'static str>,
    added: u64,
    removed: u64,
    binary: bool,
    /// Why the lines were not compared.
    reason: Option<String>,
    /// The unified diff, if it is UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    /// The unified diff in base64, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_b64: Option<String>,
    /// Whether the unified diff was cut or left out because of a limit.
    #[cfg(feature = "mcp")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    cut: bool,
}

impl FileEntry {
    fn new(patch: &FilePatch, form: PatchForm) -> Self {
        let text = (form == PatchForm::Patch).then(|| String::from_utf8(patch.to_bytes()));
        let (text, base64) = match text {
            None => (None, None),
            Some(Ok(text)) => (Some(text), None),
            Some(Err(e)) => (None, Some(data_encoding::BASE64.encode(e.as_bytes()))),
        };
        Self {
            path: patch.path().clone(),
            status: patch.status(),
            old_mode: patch.old_mode(),
            new_mode: patch.new_mode(),
            added: patch.added(),
            removed: patch.removed(),
            binary: patch.is_binary(),
            reason: patch.not_compared().map(str::to_owned),
            patch: text,
            patch_b64: base64,
            #[cfg(feature = "mcp")]
            cut: false,
        }
    }
}

impl PatchDocument {
    pub(crate) fn new(
        from: String,
        to: String,
        patches: FilePatches,
        form: PatchForm,
        exit_code: bool,
    ) -> Self {
        let all = patches.patches();
        Self {
            from,
            to,
            differs: !patches.is_empty(),
            files: all.iter().map(|patch| FileEntry::new(patch, form)).collect(),
            added: all.iter().map(FilePatch::added).sum(),
            removed: all.iter().map(FilePatch::removed).sum(),
            left_out: patches.left_out(),
            redacted: patches.redacted(),
            patches,
            form,
            exit_code,
        }
    }
}

#[cfg(feature = "mcp")]
impl PatchDocument {
    /// Lists at most `max_files` files, and at most `max_bytes` of unified diffs, cut at the end of a line.
    pub(crate) fn bounded(mut self, max_files: usize, max_bytes: usize) -> Self {
        self.left_out += self.files.len().saturating_sub(max_files) as u64;
        self.files.truncate(max_files);
        let mut room = max_bytes;
        for (file, patch) in self.files.iter_mut().zip(self.patches.patches()) {
            if file.patch_b64.take().is_some() {
                file.patch = Some(String::from_utf8_lossy(&patch.to_bytes()).into_owned());
            }
            let Some(text) = &mut file.patch else { continue };
            if text.len() > room {
                let end = text[..text.floor_char_boundary(room)].rfind('\n').map_or(0, |end| end + 1);
                text.truncate(end);
                file.cut = true;
                // A diff without its first lines would be misread, so no later file gets a diff.
                room = 0;
            }
            room = room.saturating_sub(text.len());
            if text.is_empty() {
                file.patch = None;
            }
        }
        self
    }

    /// Number of listed files whose unified diff was cut or left out.
    pub(crate) fn cut(&self) -> usize {
        self.files.iter().filter(|file| file.cut).count()
    }

    /// The unified diff, or the counts per file, without styles.
    pub(crate) fn plain_text(&self) -> String {
        if !self.differs {
            return "No file differs.\n".to_owned();
        }
        if self.form == PatchForm::Patch {
            return self.files.iter().filter_map(|file| file.patch.as_deref()).collect();
        }
        let rows = self.files.iter().map(|file| {
            let remark = file.reason.as_ref().map_or(String::new(), |reason| format!(" ({reason})"));
            format!("+{} -{} {}{remark}\n", file.added, file.removed, path(&file.path))
        });
        rows.collect()
    }
}

impl Document for PatchDocument {
    fn render(&self, output: &Output) -> Result<()> {
        let all = self.patches.patches();
        if !self.differs {
            output.message("No file differs");
            return Ok(());
        }
        if self.form == PatchForm::Stat {
            return output.write_paged(&stat(all, output.width()));
        }
        if output.is_terminal() || output.colours(&io::stdout()) {
            let lines = all.iter().flat_map(FilePatch::lines);
            return output.write_paged(&lines.map(|line| styled(&line)).collect::<String>());
        }
        output.write_exact(&all.iter().flat_map(FilePatch::to_bytes).collect::<Vec<_>>())
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = Vec::new();
        if self.left_out > 0 {
            let more = counted(self.left_out, "more file");
            notes.push(Note::Message(format!("{more} not compared; name paths to compare fewer files")));
        }
        if self.redacted > 0 {
            let lines = counted(self.redacted, "line");
            notes.push(Note::Message(format!(
                "Secrets in {lines} were redacted because an agent runs this command: do not apply this patch"
            )));
        }
        notes
    }

    fn error(&self) -> Option<CommandError> {
        if self.left_out > 0 {
            return Some(CommandError::ExitOnly(Exit::Partly));
        }
        (self.exit_code && self.differs).then_some(CommandError::ExitOnly(Exit::Nothing))
    }
}

/// A line of a patch for a terminal, in git's colours.
fn styled(line: &PatchLine) -> String {
    let text = clean_lines(&String::from_utf8_lossy(&line.text));
    let text = match line.role {
        PatchLineRole::Header => bold(&text),
        PatchLineRole::HunkHeader => cyan(&text),
        PatchLineRole::Added => green(&text),
        PatchLineRole::Removed => plain_red(&text),
        PatchLineRole::Context | PatchLineRole::Remark => text,
    };
    text + "\n"
}

/// The counts per file with bars, and a total.
fn stat(patches: &[FilePatch], width: Option<usize>) -> String {
    const USUAL_WIDTH: usize = 80;
    let width = width.unwrap_or(USUAL_WIDTH);
    let changed = |patch: &FilePatch| patch.added() + patch.removed();
    let names: Vec<_> = patches.iter().map(|patch| path(patch.path())).collect();
    let name_width = names.iter().map(|name| name.width()).max().unwrap_or_default().min(width / 2);
    let most = patches.iter().map(changed).max().unwrap_or_default();
    let number_width = count(most).len();
    // ` NAME | NUMBER BAR`
    let room = width.saturating_sub(name_width + number_width + 5);
    let mut text = String::new();
    for (patch, name) in patches.iter().zip(&names) {
        let name = shorten_path(name, name_width);
        let padding = name_width.saturating_sub(name.width());
        let _ = write!(text, " {name}{:padding$} | ", "");
        let remark = match (patch.not_compared(), patch.old_mode(), patch.new_mode()) {
            (Some(_), ..) if patch.is_binary() => Some("Bin".to_owned()),
            (Some(reason), ..) => Some(format!("not compared: {}", clean_lines(reason))),
            (None, Some(old), Some(new)) if changed(patch) == 0 => Some(format!("mode {old} → {new}")),
            _ => None,
        };
        let _ = match remark {
            Some(remark) => writeln!(text, "{}", truncate(&remark, room + number_width + 1)),
            None => {
                let (added, removed) = bar(patch.added(), patch.removed(), most, room);
                let bar = format!(" {}{}", green(&"+".repeat(added)), plain_red(&"-".repeat(removed)));
                let bar = if changed(patch) == 0 { "" } else { &bar };
                writeln!(text, "{:>number_width$}{bar}", count(changed(patch)))
            }
        };
    }
    let _ = writeln!(text, " {}", wrap(&total(patches), 1, Some(width)));
    text
}

/// The lengths of the two parts of a bar. If the longest bar does not fit the room, all are scaled. A part is
/// empty only if there are no such lines.
fn bar(added: u64, removed: u64, most: u64, room: usize) -> (usize, usize) {
    let (added, removed, most) = (added as usize, removed as usize, most as usize);
    if most <= room {
        return (added, removed);
    }
    let scale = |n: usize, room: usize| if n == 0 { 0 } else { 1 + n * room.saturating_sub(1) / most };
    let whole = scale(added + removed, room);
    let shorter = scale(added.min(removed), room);
    let longer = whole.saturating_sub(shorter).max(usize::from(added + removed > 0));
    if added < removed { (shorter, longer) } else { (longer, shorter) }
}

/// The last line of the counts, worded as git does.
fn total(patches: &[FilePatch]) -> String {
    let mut paths: Vec<_> = patches.iter().map(FilePatch::path).collect();
    paths.dedup();
    let mut parts = vec![format!("{} changed", counted(paths.len() as u64, "file"))];
    let added = patches.iter().map(FilePatch::added).sum();
    let removed = patches.iter().map(FilePatch::removed).sum();
    parts.extend((added > 0).then(|| format!("{}(+)", counted(added, "insertion"))));
    parts.extend((removed > 0).then(|| format!("{}(-)", counted(removed, "deletion"))));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use milepost::internal::diff::compare_contents;

    use super::*;

    fn lines(n: usize) -> Option<Vec<u8>> {
        Some((0..n).flat_map(|n| format!("line {n}\n").into_bytes()).collect())
    }

    fn patches() -> Vec<FilePatch> {
        let long = format!("crates/{}src/lib.rs", "deeply-nested-folder/".repeat(4));
        let mut all = compare_contents("README.md", lines(3), lines(5));
        all.extend(compare_contents("build/logo.png", Some(b"\0a".to_vec()), Some(b"\0b".to_vec())));
        all.extend(compare_contents(&long, lines(0), lines(4000)));
        all.extend(compare_contents("removed.txt", lines(900), None));
        all.extend(compare_contents("data/dump.sql", lines(3), Some(vec![b'x'; 2 << 20])));
        all.extend(compare_contents("検索.md", None, lines(1)));
        all
    }

    #[test]
    fn counts_fit_80_columns() {
        for width in [40, 80, 120] {
            let text = anstream::adapter::strip_str(&stat(&patches(), Some(width))).to_string();
            assert!(text.lines().all(|line| line.width() <= width), "{width}: {text}");
        }
        let text = anstream::adapter::strip_str(&stat(&patches(), Some(80))).to_string();
        insta::assert_snapshot!(text, @r"
        README.md                                |     2 +
        build/logo.png                           | Bin
        …-folder/deeply-nested-folder/src/lib.rs | 4,000 ++++++++++++++++++++++++++++++
        removed.txt                              |   900 -------
        data/dump.sql                            | not compared: it is larger than 1 M…
        検索.md                                  |     1 +
        6 files changed, 4,003 insertions(+), 900 deletions(-)
        ");
    }

    #[test]
    fn a_bar_shows_both_parts() {
        assert_eq!(bar(3, 2, 5, 20), (3, 2));
        assert_eq!(bar(0, 0, 500, 20), (0, 0));
        assert_eq!(bar(1, 4000, 4001, 20), (1, 19));
        for (added, removed) in [(1, 0), (0, 1), (5000, 4999), (9999, 1), (1, 1)] {
            let (plus, minus) = bar(added, removed, 10_000, 30);
            assert!(plus + minus <= 31 && (plus > 0) == (added > 0) && (minus > 0) == (removed > 0));
        }
    }

    #[test]
    fn a_hostile_file_cannot_style_the_terminal() {
        let patch = compare_contents("x\x1b[2J", None, Some(b"tab\there\x1b]0;pwned\x07\r\n".to_vec()));
        let text: String = patch.iter().flat_map(FilePatch::lines).map(|line| styled(&line)).collect();
        let text = anstream::adapter::strip_str(&super::super::escape::clean_styled(&text)).to_string();
        let expected = "diff --git \"a/x\\033[2J\" \"b/x\\033[2J\"\nnew file mode 100644\n--- /dev/null\n\
            +++ \"b/x\\033[2J\"\n@@ -0,0 +1 @@\n+tab\there·]0;pwned··\n";
        assert_eq!(text, expected);
    }
}
