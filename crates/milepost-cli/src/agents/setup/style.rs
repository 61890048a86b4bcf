//! Detects the layout of a JSON file (newlines, indentation, colons, one line or many) and formats values the
//! same way. Takes a text and a container in it, and returns the text to insert.

use super::json::{Kind, Node};

/// The layout around one container.
pub(super) struct Style {
    newline: &'static str,
    /// One level of indentation.
    unit: String,
    /// The text between a name and its value.
    colon: String,
    /// The text between two items on one line.
    gap: &'static str,
    /// Whether each item of the container starts a new line.
    lines: bool,
    /// The indentation of the container's items.
    indent: String,
    /// The indentation of the line on which the container starts.
    outer: String,
}

impl Style {
    /// Detects the layout from a container, and from the rest of the file if the container does not show it.
    pub(super) fn of(text: &str, root: &Node, path: &[usize], container: &Node) -> Self {
        let newline = match text.find('\n') {
            Some(at) if text[..at].ends_with('\r') => "\r\n",
            _ => "\n",
        };
        let unit = unit(text, root);
        let colon = colon(text, root).unwrap_or_else(|| ": ".to_owned());
        let gap = if colon.ends_with(' ') { " " } else { "" };
        let outer = match path.len() {
            0 => String::new(),
            _ => line_start(text, container.span.start).1.to_owned(),
        };
        let (lines, indent) = match container.items().last() {
            Some(item) => match line_start(text, item.span.start) {
                (true, indent) => (true, indent.to_owned()),
                (false, _) => (false, format!("{outer}{unit}")),
            },
            None => {
                let flat = !root.items().is_empty() && !text[root.span.clone()].contains('\n');
                (!flat, format!("{outer}{unit}"))
            }
        };
        Self { newline, unit, colon, gap, lines, indent, outer }
    }

    /// The white space before an item that follows others. A line comment must end first.
    pub(super) fn separator(&self, line_comment: bool) -> String {
        match self.lines || line_comment {
            true => format!("{}{}", self.newline, self.indent),
            false => self.gap.to_owned(),
        }
    }

    /// The content of a container with a single item.
    pub(super) fn only_item(&self, item: &str) -> String {
        match self.lines {
            true => format!("{}{}{item}{}{}", self.newline, self.indent, self.newline, self.outer),
            false => item.to_owned(),
        }
    }

    /// An item with its name, if it has one.
    pub(super) fn item(&self, name: Option<&str>, value: &Node) -> String {
        let mut text = String::new();
        if let Some(name) = name {
            text.push_str(&quote(name));
            text.push_str(&self.colon);
        }
        self.write(value, &self.indent, &mut text);
        text
    }

    /// A value that replaces the container itself.
    pub(super) fn replacement(&self, value: &Node) -> String {
        let mut text = String::new();
        self.write(value, &self.outer, &mut text);
        text
    }

    fn write(&self, value: &Node, indent: &str, into: &mut String) {
        match &value.kind {
            Kind::String(text) => into.push_str(&quote(text)),
            Kind::Literal(text) => into.push_str(text),
            Kind::Object(_) => self.write_items(["{", "}"], value, self.lines, indent, into),
            // Lists of strings are easier to read on one line.
            Kind::Array(items) => {
                let words = items.iter().all(|item| matches!(item.value.kind, Kind::String(_)));
                self.write_items(["[", "]"], value, self.lines && !words, indent, into);
            }
        }
    }

    fn write_items(
        &self,
        [open, close]: [&str; 2],
        value: &Node,
        lines: bool,
        indent: &str,
        into: &mut String,
    ) {
        let deeper = format!("{indent}{}", self.unit);
        into.push_str(open);
        for (index, item) in value.items().iter().enumerate() {
            if index > 0 {
                into.push(',');
            }
            match lines {
                true => into.push_str(&format!("{}{deeper}", self.newline)),
                false if index > 0 => into.push_str(self.gap),
                false => {}
            }
            if let Some(name) = &item.name {
                into.push_str(&format!("{}{}", quote(name), self.colon));
            }
            self.write(&item.value, &deeper, into);
        }
        if lines && !value.items().is_empty() {
            into.push_str(&format!("{}{indent}", self.newline));
        }
        into.push_str(close);
    }
}

/// Quotes a text as a JSON string.
pub(super) fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Whether only blanks precede a position on its line, and the blanks at the start of that line.
fn line_start(text: &str, at: usize) -> (bool, &str) {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let before = &text[start..at];
    let blanks = before.len() - before.trim_start_matches([' ', '\t']).len();
    (start > 0 && blanks == before.len(), &before[..blanks])
}

/// One level of indentation, taken from the first member that starts a line.
fn unit(text: &str, root: &Node) -> String {
    let starts = root.items().iter().map(|item| line_start(text, item.span.start));
    let found = starts.filter(|(own, _)| *own).map(|(_, indent)| indent).next();
    // Members without indentation do not show how nested values are indented.
    found.filter(|indent| !indent.is_empty()).unwrap_or("  ").to_owned()
}

/// The text that the file puts between a name and its value.
fn colon(text: &str, root: &Node) -> Option<String> {
    let first = root.items().first()?;
    let between = text.get(first.span.start..first.value.span.start)?;
    let colon = &between[between.rfind('"')? + 1..];
    let plain = colon.chars().all(|c| matches!(c, ' ' | '\t' | ':'));
    (plain && colon.len() <= 8).then(|| colon.to_owned())
}
