//! The changes of a file side by side.

use maud::{Markup, html};
use milepost::FilePatch;
use milepost::internal::diff::{PatchLine, PatchLineRole};

use crate::text::{cut, make_visible};

/// Maximum number of lines of all files on a page.
pub(super) const MAX_LINES: usize = 3_000;
/// Maximum number of characters of a line.
const MAX_LINE: usize = 600;

/// One row: a line of the earlier version, one of the later version, or both.
struct SideBySide {
    before: Option<(u64, String)>,
    after: Option<(u64, String)>,
    is_changed: bool,
}

/// What a table shows.
enum TableRow {
    Hunk(String),
    Lines(SideBySide),
    Remark(String),
}

/// Renders the patch of one file. Reduces `left`, the number of lines that may still be shown.
pub(super) fn render(patch: &FilePatch, left: &mut usize) -> Markup {
    let path = make_visible(&patch.path().key(), |_| false).into_owned();
    let status = serde_json::to_value(patch.status()).ok();
    let status = status.as_ref().and_then(|status| status.as_str()).unwrap_or_default().replace('_', " ");
    let rows = rows(&patch.lines());
    let shown = rows.len().min(*left);
    *left -= shown;
    html! {
        details.patch open {
            summary {
                bdi.path-text { (path) } " " span.tag { (status) }
                " " span.added { "+" (patch.added()) } " " span.removed { "−" (patch.removed()) }
            }
            @if let Some(why) = patch.not_compared() { p.empty { "Not compared: " (make_visible(why, |_| false)) } }
            @else if patch.is_binary() { p.empty { "Binary file" } }
            @else {
                div.scroll role="region" aria-label=(format!("Changes in {path}")) tabindex="0" { table.patch {
                    caption.hidden { "Changes in " (path) }
                    // The first row spans all columns, so it cannot set their widths.
                    colgroup { col.numbers; col; col.numbers; col; }
                    thead.hidden { tr {
                        th scope="col" { "Line before" } th scope="col" { "Before" }
                        th scope="col" { "Line after" } th scope="col" { "After" }
                    } }
                    tbody { @for row in rows.iter().take(shown) { (table_row(row)) } }
                } }
                @if shown < rows.len() { p.more { (rows.len() - shown) " more lines; `milepost diff --patch` prints all" } }
            }
        }
    }
}

fn table_row(row: &TableRow) -> Markup {
    let side = |line: &Option<(u64, String)>, class: &str, sign: &str| match line {
        Some((number, text)) => html! {
            td.line-number { (number) }
            td.(class) { @if !sign.is_empty() { span.sign { (sign) } } (text) }
        },
        None => html! { td.line-number {} td.absent {} },
    };
    match row {
        TableRow::Hunk(text) => html! { tr.hunk { td colspan="4" { (text) } } },
        TableRow::Remark(text) => html! { tr.remark { td colspan="4" { (text) } } },
        TableRow::Lines(SideBySide { before, after, is_changed }) => html! {
            tr {
                (side(before, if *is_changed { "removed" } else { "same" }, if *is_changed { "−" } else { "" }))
                (side(after, if *is_changed { "added" } else { "same" }, if *is_changed { "+" } else { "" }))
            }
        },
    }
}

/// Pairs removed with added lines, and numbers them.
fn rows(lines: &[PatchLine]) -> Vec<TableRow> {
    let mut rows = Vec::new();
    let (mut old, mut new) = (1, 1);
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    for line in lines {
        match line.role {
            PatchLineRole::Removed => {
                removed.push((old, text(line)));
                old += 1;
                continue;
            }
            PatchLineRole::Added => {
                added.push((new, text(line)));
                new += 1;
                continue;
            }
            _ => flush(&mut rows, &mut removed, &mut added),
        }
        match line.role {
            PatchLineRole::HunkHeader => {
                (old, new) = starts(&line.text).unwrap_or((old, new));
                rows.push(TableRow::Hunk(visible(&line.text)));
            }
            PatchLineRole::Context => {
                let text = text(line);
                rows.push(TableRow::Lines(SideBySide {
                    before: Some((old, text.clone())),
                    after: Some((new, text)),
                    is_changed: false,
                }));
                (old, new) = (old + 1, new + 1);
            }
            PatchLineRole::Remark => rows.push(TableRow::Remark(visible(&line.text))),
            _ => {}
        }
    }
    flush(&mut rows, &mut removed, &mut added);
    rows
}

/// Adds the lines of one change, each removed line beside an added one.
fn flush(rows: &mut Vec<TableRow>, removed: &mut Vec<(u64, String)>, added: &mut Vec<(u64, String)>) {
    let height = removed.len().max(added.len());
    let (mut removed, mut added) = (removed.drain(..), added.drain(..));
    for _ in 0..height {
        rows.push(TableRow::Lines(SideBySide {
            before: removed.next(),
            after: added.next(),
            is_changed: true,
        }));
    }
}

/// A line without the sign in its first column.
fn text(line: &PatchLine) -> String {
    visible(line.text.get(1..).unwrap_or_default())
}

fn visible(bytes: &[u8]) -> String {
    let start = bytes.get(..MAX_LINE * 4).unwrap_or(bytes);
    let text = String::from_utf8_lossy(start);
    let (shown, is_cut) = cut(&text, MAX_LINE);
    let mut visible = make_visible(shown, |c| c == '\t').into_owned();
    if is_cut || start.len() < bytes.len() {
        visible.push('…');
    }
    visible
}

/// The first line numbers in the header of a hunk: `@@ -3,7 +3,8 @@`.
fn starts(header: &[u8]) -> Option<(u64, u64)> {
    let text = std::str::from_utf8(header).ok()?;
    let mut ranges = text.split(' ').skip(1);
    let mut start = |sign: char| ranges.next()?.strip_prefix(sign)?.split(',').next()?.parse().ok();
    Some((start('-')?, start('+')?))
}

#[cfg(test)]
mod tests {
    use milepost::internal::diff::compare_contents;

    use super::*;

    #[test]
    fn changed_lines_are_beside_each_other() {
        let patches =
            compare_contents("a.rs", Some(b"1\n2\n3\n4\n".to_vec()), Some(b"1\ntwo\n3\n4\n5\n".to_vec()));
        let mut left = MAX_LINES;
        let html = render(&patches[0], &mut left).into_string();
        let pair = "<td class=\"line-number\">2</td><td class=\"removed\"><span class=\"sign\">−</span>2</td>\
                    <td class=\"line-number\">2</td><td class=\"added\"><span class=\"sign\">+</span>two</td>";
        assert!(html.contains(pair), "{html}");
        assert!(html.contains("<td class=\"line-number\">5</td><td class=\"added\">"), "{html}");
        assert!(left < MAX_LINES);
    }

    #[test]
    fn long_and_hostile_lines_are_bounded_and_escaped() {
        let new = format!("<script>\u{202e}\n{}\n", "x".repeat(1 << 19));
        let patches = compare_contents("<b>", Some(b"a\n".to_vec()), Some(new.into_bytes()));
        let html = render(&patches[0], &mut 100).into_string();
        assert!(!html.contains("<script>") && !html.contains("<b>") && !html.contains('\u{202e}'), "{html}");
        assert!(html.len() < 10_000);
        let many = "y\n".repeat(50_000);
        let patches = compare_contents("m", Some(Vec::new()), Some(many.into_bytes()));
        assert!(render(&patches[0], &mut 100).into_string().contains("more lines"));
    }
}
