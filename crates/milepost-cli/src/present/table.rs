//! Tables with one line per entry that fit the terminal. If a table is too wide, text columns are truncated
//! with `…`, then optional columns are omitted. Ids, states and times are never truncated, so they can be
//! copied. Output without a width limit is not truncated.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use milepost::model::{CheckpointId, RunId, Status};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use super::{Output, format};

/// Spaces between two columns.
const GAP: usize = 2;
/// Number of characters shown of a short id. More are shown if they are needed to identify it.
const SHORT_ID: usize = 8;

/// A column of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    heading: &'static str,
    /// Minimum width after truncation. `None` if the content must not be truncated.
    min_width: Option<usize>,
    /// The column with the lowest rank is omitted first. A column without a rank is never omitted.
    rank: Option<u8>,
    right: bool,
}

impl Column {
    /// A column whose content is never truncated.
    pub(crate) const fn new(heading: &'static str) -> Self {
        Self { heading, min_width: None, rank: None, right: false }
    }

    /// A text column that may be truncated down to `min_width`.
    pub(crate) const fn text(heading: &'static str, min_width: usize) -> Self {
        Self { min_width: Some(min_width), ..Self::new(heading) }
    }

    /// Omits the column if it is empty or the table is too wide. The lowest rank is omitted first.
    pub(crate) const fn optional(self, rank: u8) -> Self {
        Self { rank: Some(rank), ..self }
    }

    /// Right-aligns the column.
    pub(crate) const fn right(self) -> Self {
        Self { right: true, ..self }
    }
}

/// A cell: escaped text and its style.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    text: String,
    /// Follows the text and is never truncated.
    suffix: String,
    style: Style,
    /// The byte offset of the content, after text such as the lines of a tree.
    start: usize,
    /// Number of bytes at the start of the content in bold. The rest is dimmed.
    emphasised: Option<usize>,
}

impl Cell {
    /// Sets the colour.
    pub(crate) fn colour(self, colour: AnsiColor) -> Self {
        Self { style: colour.on_default(), ..self }
    }

    /// Puts plain text before the content.
    pub(crate) fn behind(self, before: &str) -> Self {
        Self { text: format!("{before}{}", self.text), start: before.len(), ..self }
    }

    fn width(&self) -> usize {
        self.text.width() + self.suffix.width()
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.suffix.is_empty()
    }

    /// The styled content, truncated to `width` columns.
    pub(crate) fn render(&self, width: usize) -> String {
        let text = truncate(&self.text, width.saturating_sub(self.suffix.width()));
        let suffix = &self.suffix;
        match self.emphasised {
            Some(n) => {
                let (before, id) = text.split_at_checked(self.start).unwrap_or(("", &text));
                let (unique, rest) = id.split_at_checked(n).unwrap_or((id, ""));
                format!("{before}{}{}{suffix}", format::bold(unique), format::dim(rest))
            }
            None if self.style == Style::new() => format!("{text}{suffix}"),
            None => format!("{}{text}{suffix}{:#}", self.style, self.style),
        }
    }
}

/// A cell with recorded text, escaped.
pub(crate) fn cell(text: impl AsRef<str>) -> Cell {
    Cell { text: format::clean(text.as_ref()), ..Cell::default() }
}

/// A cell with a status in its colour.
pub(crate) fn status(status: Status) -> Cell {
    state(status.as_str())
}

/// A cell with a run state or a status in its colour.
pub(crate) fn state(name: &str) -> Cell {
    match name {
        "failed" | "damaged" | "stopped" | "stalled" | "presumed dead" => cell(name).colour(AnsiColor::Red),
        "live" | "completed" => cell(name).colour(AnsiColor::Green),
        "paused" | "waiting" => cell(name).colour(AnsiColor::Yellow),
        _ => cell(name),
    }
}

/// A cell with the short id of a checkpoint. Its first `unique` characters, which identify it, are in bold.
/// An id without a short form is shown in full.
pub(crate) fn checkpoint(id: &CheckpointId, unique: Option<usize>) -> Cell {
    match (id.short(), unique) {
        (Some(short), Some(unique)) => {
            let text = short.get(..unique.max(SHORT_ID)).unwrap_or(short).to_owned();
            Cell { text, emphasised: Some(unique), ..Cell::default() }
        }
        _ => cell(id.as_str()),
    }
}

/// A cell with the short form of a generated run id, or the name that the user chose.
pub(crate) fn run(id: &RunId) -> Cell {
    cell(id.short().unwrap_or(id.as_str()))
}

/// A cell with `RUN@NUMBER`. The number is kept if the name of the run is truncated.
pub(crate) fn numbered(id: &RunId, sequence: u64) -> Cell {
    Cell { suffix: format!("@{sequence}"), ..run(id) }
}

/// Truncates text to `width` columns, with `…` at the end if anything is missing.
pub(crate) fn truncate(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 0;
    for part in text.graphemes(true) {
        used += part.width();
        if used + 1 > width {
            break;
        }
        short.push_str(part);
    }
    format!("{}…", short.trim_end())
}

/// A table with a header line.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    width: Option<usize>,
}

impl Table {
    /// Creates an empty table that fits the width of the output.
    pub(crate) fn new(output: &Output, columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new(), width: output.width() }
    }

    /// Adds a row. Missing cells at the end are empty.
    pub(crate) fn add_row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut row: Vec<_> = cells.into_iter().collect();
        row.resize(self.columns.len(), Cell::default());
        self.rows.push(row);
    }

    /// The table as text, without trailing spaces.
    pub(crate) fn lines(&self) -> String {
        let widths = self.layout();
        let mut text = String::new();
        let heading = |column: &Column| Cell {
            text: column.heading.to_owned(),
            style: Style::new().bold(),
            ..Cell::default()
        };
        self.push_line(&mut text, &widths, &self.columns.iter().map(heading).collect::<Vec<_>>());
        self.rows.iter().for_each(|row| self.push_line(&mut text, &widths, row));
        text
    }

    fn push_line(&self, text: &mut String, widths: &[Option<usize>], row: &[Cell]) {
        let mut pending_blanks = 0;
        for ((column, width), cell) in self.columns.iter().zip(widths).zip(row) {
            let Some(width) = *width else { continue };
            let shown = cell.render(width);
            let blanks = width.saturating_sub(cell.width().min(width));
            let (before, after) = if column.right { (blanks, 0) } else { (0, blanks) };
            if cell.is_empty() {
                pending_blanks += width + GAP;
                continue;
            }
            let _ = write!(text, "{:1$}{shown}", "", pending_blanks + before);
            pending_blanks = after + GAP;
        }
        text.push('\n');
    }

    /// The width of each column. `None` for omitted columns.
    fn layout(&self) -> Vec<Option<usize>> {
        let widest = |i: usize| self.rows.iter().map(|row| row[i].width()).max().unwrap_or_default();
        let is_empty = |i: usize| self.rows.iter().all(|row| row[i].is_empty());
        let natural: Vec<_> =
            (0..self.columns.len()).map(|i| widest(i).max(self.columns[i].heading.width())).collect();
        let mut shown: Vec<usize> =
            (0..self.columns.len()).filter(|&i| self.columns[i].rank.is_none() || !is_empty(i)).collect();
        let smallest = |i: usize| self.columns[i].min_width.map_or(natural[i], |min| min.min(natural[i]));
        let mut widths = vec![None; self.columns.len()];
        let Some(width) = self.width else {
            shown.iter().for_each(|&i| widths[i] = Some(natural[i]));
            return widths;
        };
        let gaps = |shown: &[usize]| GAP * shown.len().saturating_sub(1);
        while shown.iter().map(|&i| smallest(i)).sum::<usize>() + gaps(&shown) > width {
            let dropped = shown.iter().filter(|&&i| self.columns[i].rank.is_some());
            let Some(dropped) = dropped.min_by_key(|&&i| self.columns[i].rank).copied() else { break };
            shown.retain(|&i| i != dropped);
        }
        // Every column gets its minimum width. The remaining space is shared, smallest needs first.
        let mut left = width.saturating_sub(shown.iter().map(|&i| smallest(i)).sum::<usize>() + gaps(&shown));
        let mut growing = shown.clone();
        growing.sort_by_key(|&i| natural[i] - smallest(i));
        for (at, &i) in growing.iter().enumerate() {
            let share = left / (growing.len() - at);
            let more = share.min(natural[i] - smallest(i));
            widths[i] = Some(smallest(i) + more);
            left -= more;
        }
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(width: Option<usize>, columns: &[Column], rows: &[&[&str]]) -> String {
        let mut table = Table { columns: columns.to_vec(), rows: Vec::new(), width };
        for row in rows {
            table.add_row(row.iter().map(cell));
        }
        anstream::adapter::strip_str(&table.lines()).to_string()
    }

    const COLUMNS: [Column; 4] = [
        Column::new("ID"),
        Column::text("RUN", 6),
        Column::new("SOURCE").optional(1),
        Column::text("SUMMARY", 10),
    ];

    #[test]
    fn text_is_truncated_and_ids_stay_whole() {
        let row = &["wwcy5t21", "claude-code-79e631f5", "manual", "a summary of several words"][..];
        insta::assert_snapshot!(table(Some(50), &COLUMNS, &[row]), @r"
        ID        RUN            SOURCE  SUMMARY
        wwcy5t21  claude-code-…  manual  a summary of sev…
        ");
        insta::assert_snapshot!(table(Some(30), &COLUMNS, &[row]), @r"
        ID        RUN      SUMMARY
        wwcy5t21  claude…  a summary…
        ");
        assert!(table(None, &COLUMNS, &[row]).contains("a summary of several words"));
    }

    #[test]
    fn every_row_fits_the_width_in_any_script() {
        let rows: [&[&str]; 3] = [
            &["a", "夜間ビルド夜間ビルド", "manual", "検索インデックスを再構築して、テストを実行する"],
            &["b", "👩‍💻👩‍💻👩‍💻👩‍💻", "", "🚀 release 🚀 release 🚀 release 🚀 release"],
            &["c", "x", "timer", ""],
        ];
        for width in 24..90 {
            for line in table(Some(width), &COLUMNS, &rows).lines() {
                assert!(line.width() <= width, "{width}: {line:?} is {} wide", line.width());
            }
        }
    }

    #[test]
    fn optional_columns_that_are_empty_are_left_out() {
        insta::assert_snapshot!(table(None, &COLUMNS, &[&["a", "r", "", "s"]]), @r"
        ID  RUN  SUMMARY
        a   r    s
        ");
    }

    #[test]
    fn the_number_of_a_checkpoint_survives_truncation() {
        let id: RunId = "claude-code-79e631f5-30a2".parse().unwrap();
        assert_eq!(numbered(&id, 12).render(16), "claude-code-…@12");
        assert_eq!(numbered(&id, 12).render(80), "claude-code-79e631f5-30a2@12");
        let generated: RunId = "run_20261115T205418Z_c1r64az8".parse().unwrap();
        assert_eq!(numbered(&generated, 2).render(80), "c1r64az8@2");
    }

    #[test]
    fn a_short_id_shows_what_identifies_it() {
        let id: CheckpointId = "cp_20261115T205418518Z_wwcy5t21yvj9".parse().unwrap();
        let plain = |unique| anstream::adapter::strip_str(&checkpoint(&id, unique).render(80)).to_string();
        assert_eq!(plain(Some(3)), "wwcy5t21");
        assert_eq!(plain(Some(10)), "wwcy5t21yv");
        assert_eq!(plain(None), id.as_str());
        assert!(checkpoint(&id, Some(3)).render(80).starts_with(&format::bold("wwc")));
    }
}
