//! Tables without frames that fit the terminal's width.

use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table, Width};
use milepost::model::Status;

use super::{Output, format};

/// Widths below this are not believed.
const NARROWEST: u16 = 20;
const USUAL: u16 = 80;
/// A column of text needs so much to be read.
const NARROW_TEXT: u16 = 16;

/// A table with a header line.
pub(crate) fn table(output: &Output, header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    // A terminal that does not know its width says 0.
    let width = table.width().map(|width| if width < NARROWEST { USUAL } else { width });
    if output.colours(&std::io::stdout()) {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    if let Some(width) = width {
        table.set_width(width);
    }
    table.set_header(header.iter().map(|name| Cell::new(name).add_attribute(Attribute::Bold)));
    table
}

/// Text of others in a cell.
pub(crate) fn cell(text: impl AsRef<str>) -> Cell {
    Cell::new(format::clean(text.as_ref()))
}

/// A status in its colour.
pub(crate) fn status(status: Status) -> Cell {
    let cell = Cell::new(status);
    match status {
        Status::Failed => cell.fg(Color::Red),
        Status::Completed => cell.fg(Color::Green),
        Status::Paused => cell.fg(Color::Yellow),
        Status::InProgress => cell,
    }
}

/// The table's lines, without blanks at their ends. Ids and words stay whole, so that they can be read and copied: texts
/// give way, and a window that is too narrow even then wraps the line.
pub(crate) fn lines(table: &Table) -> String {
    let mut table = table.clone();
    for (index, width) in table.column_max_content_widths().into_iter().enumerate() {
        let is_text = width > NARROW_TEXT
            && table.column_cells_iter(index).flatten().any(|cell| cell.content().contains(' '));
        if let Some(column) = table.column_mut(index) {
            column.set_constraint(match is_text {
                true => ColumnConstraint::LowerBoundary(Width::Fixed(NARROW_TEXT)),
                false => ColumnConstraint::ContentWidth,
            });
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_whole_in_a_narrow_window() {
        let mut table = Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(40);
        let (id, about) = ("cp_20261116T000602240Z_ysxnvj73tqd4", "a summary of several words that wraps");
        table.set_header(["ID", "STATUS", "SUMMARY"]);
        table.add_row([id, "in_progress", about]);
        let text = lines(&table);
        assert!(text.contains(id) && text.contains("in_progress"), "{text}");
        assert!(text.lines().count() > 2 && !text.contains(about), "{text}");
    }
}
