//! The results: tables, bounds, and the section of `docs/benchmarks.md` that contains them. Pure, except for
//! `write_section`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use crate::bench::chart::{Bar, Group, Owner};

const BEGIN: &str = "<!-- begin peers -->";
const END: &str = "<!-- end peers -->";

/// How a figure is formatted, and which direction is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Seconds,
    Bytes,
    /// Bytes per byte.
    Factor,
    /// Saves per second: more is better.
    Rate,
}

impl Unit {
    pub fn format(self, value: f64) -> String {
        match self {
            Self::Seconds if value < 1e-3 => format!("{} µs", digits(value * 1e6)),
            Self::Seconds if value < 1.0 => format!("{} ms", digits(value * 1e3)),
            Self::Seconds => format!("{} s", digits(value)),
            Self::Bytes if value < 1e4 => format!("{value:.0} B"),
            Self::Bytes if value < 1e6 => format!("{} KB", digits(value / 1e3)),
            Self::Bytes => format!("{} MB", digits(value / 1e6)),
            Self::Factor => digits(value),
            Self::Rate => format!("{}/s", thousands(value)),
        }
    }

    /// By which factor `ours` is better than `theirs`.
    fn advantage(self, ours: f64, theirs: f64) -> f64 {
        if self == Self::Rate { ours / theirs } else { theirs / ours }
    }
}

/// Three digits that matter.
fn digits(value: f64) -> String {
    match value {
        v if v >= 1000.0 => thousands(v),
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

pub fn thousands(value: f64) -> String {
    let plain = format!("{value:.0}");
    let mut text = String::new();
    for (n, digit) in plain.chars().enumerate() {
        if n > 0 && (plain.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A row of a table.
pub struct TableRow {
    pub name: String,
    pub owner: Owner,
    /// The name of the row with which this one is compared: for a peer a row of Milepost, for Milepost the floor.
    pub reference: Option<String>,
    /// One figure per column; `None` where there is nothing to measure.
    pub cells: Vec<Option<f64>>,
    /// What a reader must know about this row.
    pub note: Option<String>,
}

/// A table of one kind of measurement.
pub struct Table {
    pub heading: &'static str,
    /// What was measured, and how.
    pub about: String,
    pub columns: Vec<(String, Unit)>,
    pub rows: Vec<TableRow>,
    /// The file name of a chart and its text for people who cannot see it.
    pub chart: Option<(&'static str, &'static str)>,
}

impl Table {
    pub fn new(heading: &'static str, about: impl Into<String>) -> Self {
        Self { heading, about: about.into(), columns: Vec::new(), rows: Vec::new(), chart: None }
    }

    fn row(&self, name: &str) -> Option<&TableRow> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// By which factor the reference of a row is better. For a row of Milepost: how many times the floor it needs.
    pub fn ratio(&self, row: &TableRow, column: usize) -> Option<f64> {
        let (theirs, other) = (row.cells[column]?, self.row(row.reference.as_ref()?)?.cells[column]?);
        let unit = self.columns[column].1;
        // Zero where nothing was measured in so little time.
        if theirs <= 0.0 || other <= 0.0 {
            return None;
        }
        Some(match row.owner {
            Owner::Milepost => unit.advantage(theirs, other).recip(),
            _ => unit.advantage(other, theirs),
        })
    }

    fn cell(&self, row: &TableRow, column: usize) -> String {
        let Some(value) = row.cells[column] else { return "–".to_owned() };
        let figure = self.columns[column].1.format(value);
        match (self.ratio(row, column), row.owner) {
            (Some(ratio), Owner::Milepost) => format!("{figure} ({} × the floor)", digits(ratio)),
            (Some(ratio), _) if ratio < 0.995 => {
                format!("{figure} ({} ×, **behind**)", digits(ratio))
            }
            (Some(ratio), _) => format!("{figure} ({} ×)", digits(ratio)),
            (None, _) => figure,
        }
    }

    /// The heading, the explanation, the chart and the table as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("### {}\n\n{}\n\n", self.heading, wrap(&self.about));
        if let Some((file, alternative)) = self.chart {
            let _ = writeln!(text, "![{alternative}]({file})\n");
        }
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        let _ = writeln!(text, "| system | {} |", names.join(" | "));
        let _ = writeln!(text, "|---|{}", "---|".repeat(names.len()));
        for row in &self.rows {
            let cells: Vec<String> = (0..names.len()).map(|column| self.cell(row, column)).collect();
            let name =
                if row.owner == Owner::Milepost { format!("**{}**", row.name) } else { row.name.clone() };
            let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
        }
        let notes: Vec<_> =
            self.rows.iter().filter_map(|row| Some((&row.name, row.note.as_ref()?))).collect();
        if !notes.is_empty() {
            text.push('\n');
        }
        for (name, note) in notes {
            let _ = writeln!(text, "- {name}: {note}");
        }
        text
    }

    /// One group of bars per column, in the order of the rows.
    pub fn bars(&self) -> Vec<Group> {
        let bar = |row: &TableRow, column: usize| {
            let value = row.cells[column]?;
            let label = self.columns[column].1.format(value);
            Some(Bar { name: row.name.clone(), value, label, owner: row.owner })
        };
        let group = |column: usize| Group {
            heading: self.columns[column].0.clone(),
            bars: self.rows.iter().filter_map(|row| bar(row, column)).collect(),
        };
        (0..self.columns.len()).map(group).collect()
    }
}

/// A bound that `--check` verifies.
pub struct Bound {
    pub what: String,
    pub measured: f64,
    pub limit: f64,
    /// Whether `limit` is a maximum.
    pub is_maximum: bool,
}

impl Bound {
    pub fn holds(&self) -> bool {
        if self.is_maximum { self.measured <= self.limit } else { self.measured >= self.limit }
    }

    pub fn markdown(&self) -> String {
        let kind = if self.is_maximum { "at most" } else { "at least" };
        let verdict = if self.holds() { "" } else { "**missed**" };
        format!(
            "| {} | {} × | {kind} {} × | {verdict} |",
            self.what,
            digits(self.measured),
            digits(self.limit)
        )
    }
}

/// Bounds on how far Milepost is ahead: of each peer except `exempt`, in each column.
pub fn at_least(table: &Table, columns: &[usize], limit: f64, exempt: &str) -> Vec<Bound> {
    let mut bounds = Vec::new();
    for row in table.rows.iter().filter(|row| row.owner == Owner::Peer && row.name != exempt) {
        for &column in columns {
            if let Some(measured) = table.ratio(row, column) {
                let what = format!("{}, {}: {}", table.heading, table.columns[column].0, row.name);
                bounds.push(Bound { what, measured, limit, is_maximum: false });
            }
        }
    }
    bounds
}

/// Breaks a paragraph into lines of at most 100 characters.
fn wrap(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| line.chars().count() + word.chars().count() < 100);
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(word.to_owned()),
        }
    }
    lines.join("\n")
}

/// Replaces what is between the markers of a page.
fn replace_section(page: &str, section: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).with_context(|| format!("the page has no {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("the page has no {END}"))?;
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", section.trim()))
}

/// Replaces the section of a file that this command writes.
pub fn write_section(path: &Path, section: &str) -> Result<()> {
    let page = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    std::fs::write(path, replace_section(&page, section)?).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, owner: Owner, reference: Option<&str>, value: f64) -> TableRow {
        let reference = reference.map(str::to_owned);
        TableRow { name: name.to_owned(), owner, reference, cells: vec![Some(value)], note: None }
    }

    fn table(unit: Unit, ours: f64, theirs: f64) -> Table {
        let mut table = Table::new("Saves", "Time of a save.");
        table.columns.push(("4 KB".to_owned(), unit));
        table.rows.push(row("floor", Owner::Floor, None, ours / 2.0));
        table.rows.push(row("Milepost", Owner::Milepost, Some("floor"), ours));
        table.rows.push(row("other", Owner::Peer, Some("Milepost"), theirs));
        table
    }

    #[test]
    fn a_row_says_where_milepost_is_behind() {
        let text = table(Unit::Seconds, 0.002, 0.001).markdown();
        assert!(text.contains("| **Milepost** | 2.00 ms (2.00 × the floor) |"), "{text}");
        assert!(text.contains("| other | 1.00 ms (0.50 ×, **behind**) |"), "{text}");
        assert!(table(Unit::Seconds, 0.002, 0.04).markdown().contains("| other | 40.0 ms (20.0 ×) |"));
    }

    #[test]
    fn more_saves_per_second_are_better() {
        let text = table(Unit::Rate, 2000.0, 500.0).markdown();
        assert!(text.contains("| other | 500/s (4.00 ×) |"), "{text}");
        let bounds = at_least(&table(Unit::Rate, 2000.0, 500.0), &[0], 5.0, "git");
        assert_eq!((bounds.len(), bounds[0].holds()), (1, false));
    }

    #[test]
    fn only_the_section_between_the_markers_is_replaced() -> Result<()> {
        let page = format!("# Title\n{BEGIN}\nold\n{END}\nrest\n");
        let new = replace_section(&page, "new\n")?;
        assert_eq!(new, format!("# Title\n{BEGIN}\nnew\n{END}\nrest\n"));
        assert!(replace_section("# Title", "new").is_err());
        Ok(())
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(Unit::Seconds.format(0.000_412_3), "412 µs");
        assert_eq!(Unit::Seconds.format(0.012_34), "12.3 ms");
        assert_eq!(Unit::Bytes.format(123_456.0), "123 KB");
        assert_eq!(Unit::Rate.format(12_345.0), "12,345/s");
    }
}
