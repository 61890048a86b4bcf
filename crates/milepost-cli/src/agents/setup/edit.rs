//! Edits JSON settings in place: adds, replaces and removes items, and leaves every other byte unchanged.
//! Takes a text and a path in it, and returns the text in its own style. `jsonc-parser` provides the
//! positions. Its own editing is not used, because it changes line breaks around insertions. Every result is
//! parsed again and compared with the intended value.

use std::ops::Range;

use super::json::{self, Comment, Dialect, Item, Kind, Node, SyntaxError};
use super::style::Style;

/// A document that can be edited.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    has_bom: bool,
    text: String,
    root: Node,
    comments: Vec<Comment>,
    dialect: Dialect,
}

/// The position of a value: the index of an item at each level.
pub(crate) type ItemPath = Vec<usize>;

const BOM: char = '\u{feff}';

impl Document {
    /// Parses a document. A blank one becomes an empty object.
    pub(crate) fn parse(text: &str, dialect: Dialect) -> Result<Self, SyntaxError> {
        let (has_bom, text) = text.strip_prefix(BOM).map_or((false, text), |rest| (true, rest));
        let text = if text.trim().is_empty() { "{}\n".to_owned() } else { text.to_owned() };
        let (root, comments) = json::parse(&text, dialect)?;
        match root.kind {
            Kind::Object(_) => Ok(Self { has_bom, text, root, comments, dialect }),
            _ => Err(SyntaxError { line: 1, message: "expected an object".into() }),
        }
    }

    pub(crate) fn text(&self) -> String {
        let bom = if self.has_bom { BOM.to_string() } else { String::new() };
        format!("{bom}{}", self.text)
    }

    /// The path of a member by its names. If several members have the same name, the last one counts, as in
    /// most programs.
    pub(crate) fn find(&self, names: &[&str]) -> Option<ItemPath> {
        self.find_from(&[], names)
    }

    /// The path of a member by its names, relative to a value.
    pub(crate) fn find_from(&self, from: &[usize], names: &[&str]) -> Option<ItemPath> {
        let mut path = from.to_vec();
        let mut node = self.node(from)?;
        for name in names {
            let Kind::Object(items) = &node.kind else { return None };
            let index = items.iter().rposition(|item| item.name.as_deref() == Some(name))?;
            path.push(index);
            node = &items[index].value;
        }
        Some(path)
    }

    fn node(&self, path: &[usize]) -> Option<&Node> {
        path.iter().try_fold(&self.root, |node, index| Some(&node.items().get(*index)?.value))
    }

    /// The items of an object or array: the path of each, and its name in an object.
    pub(crate) fn children(&self, path: &[usize]) -> Vec<(Option<&str>, ItemPath)> {
        let items = self.node(path).map_or(&[][..], Node::items).iter().enumerate();
        items.map(|(index, item)| (item.name.as_deref(), [path, &[index]].concat())).collect()
    }

    pub(crate) fn is_object(&self, path: &[usize]) -> bool {
        matches!(self.node(path), Some(Node { kind: Kind::Object(_), .. }))
    }

    pub(crate) fn is_array(&self, path: &[usize]) -> bool {
        matches!(self.node(path), Some(Node { kind: Kind::Array(_), .. }))
    }

    pub(crate) fn is_empty(&self, path: &[usize]) -> bool {
        self.node(path).is_none_or(|node| node.items().is_empty())
    }

    pub(crate) fn string(&self, path: &[usize]) -> Option<&str> {
        match &self.node(path)?.kind {
            Kind::String(text) => Some(text),
            _ => None,
        }
    }

    /// The source text of a value.
    pub(crate) fn source(&self, path: &[usize]) -> Option<&str> {
        self.text.get(self.node(path)?.span.clone())
    }

    /// Adds a member (with a name) or an element at the end of an object or array. `value` is JSON.
    pub(crate) fn push(
        &mut self,
        into: &[usize],
        name: Option<&str>,
        value: &str,
    ) -> Result<(), SyntaxError> {
        let (value, _) = json::parse(value, Dialect::Json)?;
        let container = self.node(into).ok_or_else(unsafe_edit)?;
        let style = Style::of(&self.text, &self.root, into, container);
        let text = self.append(container, &style, &style.item(name, &value));
        let item = Item { name: name.map(str::to_owned), span: 0..0, value, comma: None };
        let mut wanted = self.root.clone();
        node_mut(&mut wanted, into).and_then(Node::items_mut).ok_or_else(unsafe_edit)?.push(item);
        self.set_text(text, &wanted)
    }

    /// Replaces a value. The new `value` is JSON.
    pub(crate) fn replace(&mut self, path: &[usize], value: &str) -> Result<(), SyntaxError> {
        let (value, _) = json::parse(value, Dialect::Json)?;
        let node = self.node(path).ok_or_else(unsafe_edit)?;
        let style = Style::of(&self.text, &self.root, path, node);
        let text = splice(&self.text, &[(node.span.clone(), style.replacement(&value))]);
        let mut wanted = self.root.clone();
        *node_mut(&mut wanted, path).ok_or_else(unsafe_edit)? = value;
        self.set_text(text, &wanted)
    }

    /// Removes a member or an element.
    pub(crate) fn remove(&mut self, path: &[usize]) -> Result<(), SyntaxError> {
        let (index, parent) = path.split_last().ok_or_else(unsafe_edit)?;
        let container = self.node(parent).ok_or_else(unsafe_edit)?;
        let [tidy, careful] = [false, true].map(|keep_space| self.without(container, *index, keep_space));
        let mut wanted = self.root.clone();
        let items = node_mut(&mut wanted, parent).and_then(Node::items_mut).ok_or_else(unsafe_edit)?;
        if *index >= items.len() {
            return Err(unsafe_edit());
        }
        items.remove(*index);
        // If removing the white space makes the next item part of a comment, keep the white space.
        self.set_text(tidy, &wanted).or_else(|_| self.set_text(careful, &wanted))
    }

    /// Accepts a text if it parses to the intended value.
    fn set_text(&mut self, text: String, wanted: &Node) -> Result<(), SyntaxError> {
        let (root, comments) = json::parse(&text, self.dialect)?;
        if root != *wanted {
            return Err(unsafe_edit());
        }
        (self.text, self.root, self.comments) = (text, root, comments);
        Ok(())
    }

    /// The end of the comments that follow on the same line, and whether the last one is a line comment.
    fn skip_comments(&self, from: usize) -> (usize, bool) {
        let mut end = from;
        for comment in self.comments.iter().filter(|comment| comment.span.start >= from) {
            if !self.text[end..comment.span.start].chars().all(|c| matches!(c, ' ' | '\t')) {
                break;
            }
            end = comment.span.end;
            if comment.is_line {
                return (end, true);
            }
        }
        (end, false)
    }

    /// The end of the last comment in a range, and whether it is a line comment. Without one, the start of
    /// the range.
    fn last_comment(&self, between: &Range<usize>) -> (usize, bool) {
        let last = self.comments.iter().rfind(|comment| between.contains(&comment.span.start));
        last.map_or((between.start, false), |comment| (comment.span.end, comment.is_line))
    }

    /// The text with an item at the end of a container: after the last item and the comments on its line.
    fn append(&self, container: &Node, style: &Style, item: &str) -> String {
        let text = &self.text;
        let Some(last) = container.items().last() else {
            let inner = container.span.start + 1..container.span.end - 1;
            if text[inner.clone()].trim().is_empty() {
                return splice(text, &[(inner, style.only_item(item))]);
            }
            // The container has only comments: the item goes after the last one.
            let (end, is_line) = self.last_comment(&inner);
            return splice(text, &[(end..end, format!("{}{item}", style.separator(is_line)))]);
        };
        match last.comma {
            Some(comma) => {
                let (end, is_line) = self.skip_comments(comma + 1);
                splice(text, &[(end..end, format!("{}{item},", style.separator(is_line)))])
            }
            None => {
                let value = last.span.end;
                let (end, is_line) = self.skip_comments(value);
                let comma = (value..value, ",".to_owned());
                splice(text, &[comma, (end..end, format!("{}{item}", style.separator(is_line)))])
            }
        }
    }

    /// The text without an item. Undoes `append` for the last item. `keep_space` keeps the white space before
    /// the item.
    fn without(&self, container: &Node, index: usize, keep_space: bool) -> String {
        let (text, items) = (&self.text, container.items());
        let Some(item) = items.get(index) else { return text.clone() };
        let inner = container.span.start + 1..container.span.end - 1;
        let is_blank = |range: Range<usize>| text[range].trim().is_empty();
        let end = item.comma.map_or(item.span.end, |comma| comma + 1);
        if items.len() == 1 && is_blank(inner.start..item.span.start) && is_blank(end..inner.end) {
            return splice(text, &[(inner, String::new())]);
        }
        let previous = index.checked_sub(1).and_then(|previous| items[previous].comma);
        let before = previous.map_or(inner.start, |comma| comma + 1)..item.span.start;
        let start = if keep_space { item.span.start } else { self.last_comment(&before).0 };
        let mut cuts = vec![(start..item.span.end, String::new())];
        match (item.comma, previous) {
            (Some(comma), _) => {
                // If the first item is on the line of its bracket, the next one moves up to that line.
                let rest = &text[comma + 1..inner.end];
                let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
                let gap = if start == inner.start { blanks } else { 0 };
                cuts.push((comma..comma + 1 + gap, String::new()));
            }
            (None, Some(comma)) => cuts.insert(0, (comma..comma + 1, String::new())),
            (None, None) => {}
        }
        splice(text, &cuts)
    }
}

/// The error for an edit whose result would differ from the intended value.
fn unsafe_edit() -> SyntaxError {
    SyntaxError { line: 1, message: "it cannot be edited safely".into() }
}

fn node_mut<'n>(root: &'n mut Node, path: &[usize]) -> Option<&'n mut Node> {
    path.iter().try_fold(root, |node, index| Some(&mut node.items_mut()?.get_mut(*index)?.value))
}

/// Replaces each range with its new text. The ranges must be in order and must not overlap.
fn splice(text: &str, edits: &[(Range<usize>, String)]) -> String {
    let mut result = String::with_capacity(text.len() + 256);
    let mut at = 0;
    for (range, new) in edits {
        result.push_str(&text[at..range.start]);
        result.push_str(new);
        at = range.end;
    }
    result.push_str(&text[at..]);
    result
}
