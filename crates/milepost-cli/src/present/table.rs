//! Tables without frames that fit the terminal's width.

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table};
use milepost::model::Status;

use super::{Screen, words};

/// Widths below this are not believed.
const NARROWEST: u16 = 20;
const USUAL: u16 = 80;

/// A table with a header line.
pub(crate) fn table(screen: &Screen, header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::NOTHING);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    // A terminal that does not know its width says 0.
    let width = table.width().map(|width| if width < NARROWEST { USUAL } else { width });
    if screen.colours() {
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
    Cell::new(words::clean(text.as_ref()))
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

/// The table's lines, without blanks at their ends.
pub(crate) fn lines(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
