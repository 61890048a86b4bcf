//! Changes JSON settings in place: adds, replaces and removes items, and leaves every other byte as it is.
//! In: a text and where. Out: the text in its own style. What it writes is read again and compared before it counts,
//! so that an edit either does exactly what was asked, or nothing.

use super::json::{self, Dialect, Kind, Node, Wrong, comment};
use super::style::{Style, Tree};

/// A document, and the places in it.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    text: String,
    root: Node,
    dialect: Dialect,
}

/// Where a value is: the index of an item at each level.
pub(crate) type Place = Vec<usize>;

/// What a document says, without its white space and comments.
#[derive(Debug, Clone, PartialEq)]
enum Meaning {
    Object(Vec<(String, Meaning)>),
    Array(Vec<Meaning>),
    Text(String),
    Plain(String),
}

impl Document {
    /// Reads a document. A blank one becomes an empty object.
    pub(crate) fn read(text: &str, dialect: Dialect) -> Result<Self, Wrong> {
        let blank = text[json::bom(text)..].trim().is_empty();
        let text = if blank { format!("{}{{}}\n", &text[..json::bom(text)]) } else { text.to_owned() };
        let root = json::read(&text, dialect)?;
        match root.kind {
            Kind::Object(_) => Ok(Self { text, root, dialect }),
            _ => Err(Wrong { line: 1, what: "an object is needed".into() }),
        }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The place of a member by its names; of several with one name the last, as programs take it.
    pub(crate) fn find(&self, names: &[&str]) -> Option<Place> {
        self.find_from(&[], names)
    }

    /// The same, from a place on.
    pub(crate) fn find_from(&self, from: &[usize], names: &[&str]) -> Option<Place> {
        let mut place = from.to_vec();
        let mut node = self.node(from)?;
        for name in names {
            let Kind::Object(items) = &node.kind else { return None };
            let index = items.iter().rposition(|item| item.name.as_deref() == Some(name))?;
            place.push(index);
            node = &items[index].value;
        }
        Some(place)
    }

    fn node(&self, place: &[usize]) -> Option<&Node> {
        place.iter().try_fold(&self.root, |node, index| Some(&node.items().get(*index)?.value))
    }

    /// The places of what is in an object or an array, with their names in an object.
    pub(crate) fn children(&self, place: &[usize]) -> Vec<(Option<&str>, Place)> {
        let items = self.node(place).map_or(&[][..], Node::items).iter().enumerate();
        items.map(|(index, item)| (item.name.as_deref(), [place, &[index]].concat())).collect()
    }

    pub(crate) fn is_object(&self, place: &[usize]) -> bool {
        matches!(self.node(place), Some(Node { kind: Kind::Object(_), .. }))
    }

    pub(crate) fn is_array(&self, place: &[usize]) -> bool {
        matches!(self.node(place), Some(Node { kind: Kind::Array(_), .. }))
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self, place: &[usize]) -> bool {
        self.node(place).is_none_or(|node| node.items().is_empty())
    }

    /// A string.
    pub(crate) fn string(&self, place: &[usize]) -> Option<&str> {
        match &self.node(place)?.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The text of a value.
    pub(crate) fn source(&self, place: &[usize]) -> Option<&str> {
        self.text.get(self.node(place)?.span.clone())
    }

    /// Adds a member (with a name) or an element at the end of an object or array.
    pub(crate) fn push(&mut self, into: &[usize], name: Option<&str>, value: &Tree) -> Result<(), Wrong> {
        let Some(container) = self.node(into) else { return Err(lost()) };
        let style = Style::of(&self.text, &self.root, into, container);
        let mut wanted = self.meaning();
        let meant = Meaning::of_tree(value);
        match wanted.at(into) {
            Some(Meaning::Object(members)) => members.push((name.unwrap_or_default().to_owned(), meant)),
            Some(Meaning::Array(elements)) => elements.push(meant),
            _ => return Err(lost()),
        }
        let text = appended(&self.text, container, &style, &style.item(name, value));
        self.become_text(text, &wanted)
    }

    /// Puts another value in a value's place.
    pub(crate) fn replace(&mut self, place: &[usize], value: &Tree) -> Result<(), Wrong> {
        let Some(node) = self.node(place) else { return Err(lost()) };
        let style = Style::of(&self.text, &self.root, place, node);
        let mut wanted = self.meaning();
        match wanted.at(place) {
            Some(meaning) => *meaning = Meaning::of_tree(value),
            None => return Err(lost()),
        }
        let text = spliced(&self.text, &[(node.span.clone(), style.instead(value))]);
        self.become_text(text, &wanted)
    }

    /// Removes a member or an element.
    pub(crate) fn remove(&mut self, place: &[usize]) -> Result<(), Wrong> {
        let Some((index, parent)) = place.split_last() else { return Err(lost()) };
        let mut wanted = self.meaning();
        match wanted.at(parent) {
            Some(Meaning::Object(members)) if *index < members.len() => drop(members.remove(*index)),
            Some(Meaning::Array(elements)) if *index < elements.len() => drop(elements.remove(*index)),
            _ => return Err(lost()),
        }
        let Some(container) = self.node(parent) else { return Err(lost()) };
        let tidy = without(&self.text, container, *index, Leave::Nothing);
        let careful = without(&self.text, container, *index, Leave::Space);
        match self.become_text(tidy, &wanted) {
            // What follows on its line would end up in a comment.
            Err(_) => self.become_text(careful, &wanted),
            done => done,
        }
    }

    fn become_text(&mut self, text: String, wanted: &Meaning) -> Result<(), Wrong> {
        let root = json::read(&text, self.dialect)?;
        let next = Self { text, root, dialect: self.dialect };
        if next.meaning() != *wanted {
            return Err(lost());
        }
        *self = next;
        Ok(())
    }

    fn meaning(&self) -> Meaning {
        Meaning::of(&self.text, &self.root)
    }
}

/// An edit that would not have done what was asked.
fn lost() -> Wrong {
    Wrong { line: 1, what: "it cannot be edited safely".into() }
}

impl Meaning {
    fn of(text: &str, node: &Node) -> Self {
        match &node.kind {
            Kind::Object(items) => Self::Object(
                items
                    .iter()
                    .map(|item| (item.name.clone().unwrap_or_default(), Self::of(text, &item.value)))
                    .collect(),
            ),
            Kind::Array(items) => Self::Array(items.iter().map(|item| Self::of(text, &item.value)).collect()),
            Kind::Text(string) => Self::Text(string.clone()),
            Kind::Plain => Self::Plain(text.get(node.span.clone()).unwrap_or_default().to_owned()),
        }
    }

    fn of_tree(tree: &Tree) -> Self {
        match tree {
            Tree::Object(members) => Self::Object(
                members.iter().map(|(name, value)| ((*name).to_owned(), Self::of_tree(value))).collect(),
            ),
            Tree::Array(elements) => Self::Array(elements.iter().map(Self::of_tree).collect()),
            Tree::Text(text) => Self::Text(text.clone()),
            Tree::Number(number) => Self::Plain(number.to_string()),
            Tree::Truth(truth) => Self::Plain(truth.to_string()),
        }
    }

    fn at(&mut self, place: &[usize]) -> Option<&mut Self> {
        place.iter().try_fold(self, |meaning, index| match meaning {
            Self::Object(members) => members.get_mut(*index).map(|(_, value)| value),
            Self::Array(elements) => elements.get_mut(*index),
            Self::Text(_) | Self::Plain(_) => None,
        })
    }
}

/// Puts texts in the place of ranges, which are in order and apart.
fn spliced(text: &str, edits: &[(std::ops::Range<usize>, String)]) -> String {
    let mut result = String::with_capacity(text.len() + 256);
    let mut at = 0;
    for (range, new) in edits {
        result.push_str(text.get(at..range.start).unwrap_or_default());
        result.push_str(new);
        at = range.end;
    }
    result.push_str(text.get(at..).unwrap_or_default());
    result
}

/// The end of the comments that follow on the same line, and whether the last of them takes the rest of it.
fn after_comments(text: &[u8], from: usize) -> (usize, bool) {
    let (mut end, mut at) = (from, from);
    loop {
        while matches!(text.get(at), Some(b' ' | b'\t')) {
            at += 1;
        }
        match comment(text, at) {
            Some((stop, true)) => return (stop, true),
            Some((stop, false)) => (end, at) = (stop, stop),
            None => return (end, false),
        }
    }
}

/// The end of the last comment between two tokens, and whether it takes its line; the start where there is none.
fn last_comment(text: &[u8], between: std::ops::Range<usize>) -> (usize, bool) {
    let (mut end, mut at, mut line) = (between.start, between.start, false);
    while at < between.end {
        match comment(text, at) {
            Some((stop, whole)) => (end, at, line) = (stop, stop, whole),
            None => at += 1,
        }
    }
    (end, line)
}

/// The text with an item at the end of a container: behind the last item and what is said about it.
fn appended(text: &str, container: &Node, style: &Style, item: &str) -> String {
    let bytes = text.as_bytes();
    let Some(last) = container.items().last() else {
        let inner = container.span.start + 1..container.span.end - 1;
        let inside = text.get(inner.clone()).unwrap_or_default();
        if inside.trim().is_empty() {
            return spliced(text, &[(inner, style.alone(item))]);
        }
        // Only comments are in it: the item goes behind the last of them.
        let (end, line) = last_comment(bytes, inner);
        return spliced(text, &[(end..end, format!("{}{item}", style.before(line)))]);
    };
    match last.comma {
        Some(comma) => {
            let (end, line) = after_comments(bytes, comma + 1);
            spliced(text, &[(end..end, format!("{}{item},", style.before(line)))])
        }
        None => {
            let value = last.span.end;
            let (end, line) = after_comments(bytes, value);
            let comma = (value..value, ",".to_owned());
            spliced(text, &[comma, (end..end, format!("{}{item}", style.before(line)))])
        }
    }
}

/// What stays of the white space before an item that goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Leave {
    Nothing,
    Space,
}

/// The text without an item: the inverse of `appended` for the last one.
fn without(text: &str, container: &Node, index: usize, leave: Leave) -> String {
    let items = container.items();
    let Some(item) = items.get(index) else { return text.to_owned() };
    let inner = container.span.start + 1..container.span.end - 1;
    let blank = |range: std::ops::Range<usize>| text.get(range).is_some_and(|part| part.trim().is_empty());
    let end = item.comma.map_or(item.span.end, |comma| comma + 1);
    if items.len() == 1 && blank(inner.start..item.span.start) && blank(end..inner.end) {
        return spliced(text, &[(inner, String::new())]);
    }
    let previous = index.checked_sub(1).and_then(|previous| items[previous].comma);
    let start = match leave {
        Leave::Nothing => {
            last_comment(text.as_bytes(), previous.map_or(inner.start, |c| c + 1)..item.span.start).0
        }
        Leave::Space => item.span.start,
    };
    let mut cuts = vec![(start..item.span.end, String::new())];
    match (item.comma, previous) {
        (Some(comma), _) => {
            // A first item on the line of its bracket: the next one takes its place.
            let rest = text.get(comma + 1..inner.end).unwrap_or_default();
            let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
            let gap = if start == inner.start { blanks } else { 0 };
            cuts.push((comma..comma + 1 + gap, String::new()));
        }
        (None, Some(comma)) => cuts.insert(0, (comma..comma + 1, String::new())),
        (None, None) => {}
    }
    spliced(text, &cuts)
}
