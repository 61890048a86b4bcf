//! Draws lanes of marks: checkpoints, messages and failures. Marks that would overlap are one box with their number.

use std::time::Duration;

use jiff::Timestamp;
use maud::{Markup, html};

use super::super::Link;
use super::super::chart::{Mark, MarkKind};
use super::super::layout::{Group, group};
use super::super::shapes::{FLAG, shape};
use super::super::text::{between, pixels, short_count, shorten};
use super::{Drawing, MARGIN, full_time, number};
use milepost::internal::humanize::{count, counted};

impl Drawing<'_> {
    pub(super) fn checkpoint_note(&self) -> String {
        match self.chart.pending {
            0 => String::new(),
            n => format!("{} since the newest", counted(n, "change")),
        }
    }

    pub(super) fn mark_lane(&mut self, name: &str, marks: &[Mark], height: f64, note: String) {
        if marks.is_empty() && name != "Checkpoints" {
            return;
        }
        self.caption(name, Some(marks.len()), &note);
        let has_flags = marks.iter().any(|mark| mark.flagged);
        self.y += if has_flags { 8.0 } else { 0.0 };
        let middle = self.y + height / 2.0;
        let groups = self.groups(marks);
        let right = number(self.width - MARGIN);
        let markup = html! {
            path class="mp-line" d=(format!("M{} {}H{right}", number(MARGIN), number(middle))) {}
            g role="group" aria-label=(name) {
                @for group in &groups { (self.mark(group, middle)) }
            }
        };
        self.add(&markup);
        self.y += height + 4.0;
    }

    /// Groups of marks that do not overlap: large numbers need wider cells.
    fn groups<'m>(&self, marks: &'m [Mark]) -> Vec<Group<'m>> {
        let mut cell = self.detail.cell;
        loop {
            let groups = group(marks, &self.axis, cell);
            let longest = groups.iter().map(|group| short_count(group.marks.len()).len()).max().unwrap_or(0);
            let needed = longest as f64 * 6.0 + 10.0;
            if longest < 2 || cell >= needed {
                return groups;
            }
            cell = needed;
        }
    }

    fn mark(&self, group: &Group<'_>, y: f64) -> Markup {
        let kind = group.kind();
        let class = if group.marks.len() > 1 { "mp-group" } else { kind.names().0 };
        let at = format!("translate({} {})", number(group.x), number(y));
        let (label, link) = match group.marks {
            [mark] => (self.mark_label(mark), mark.sequence.map(Link::Checkpoint)),
            _ => (self.group_label(group), group.period().map(|(from, to)| widened(from, to))),
        };
        let address = link.and_then(|link| (self.options.links?)(link));
        let content = html! {
            title { (label) }
            @if group.marks.len() > 1 {
                (count_box(group.marks.len(), &count_kinds(group.marks)))
            } @else {
                (mark_shape(kind))
            }
            @if group.is_flagged() { path class="mp-flag" d=(FLAG) {} }
        };
        match address {
            Some(address) => html! {
                a class=(class) transform=(at) href=(address) aria-label=(label) { (content) }
            },
            None => html! { g class=(class) transform=(at) { (content) } },
        }
    }

    fn mark_label(&self, mark: &Mark) -> String {
        let time = full_time(mark.at, &self.options.time_zone);
        let detail = shorten(&mark.detail, self.detail.label);
        let separator = if detail.is_empty() { "" } else { ": " };
        format!("{time}, {}{separator}{detail}", mark.name)
    }

    fn group_label(&self, group: &Group<'_>) -> String {
        let kinds = count_kinds(group.marks);
        let kinds: Vec<_> =
            kinds.iter().map(|(kind, marks)| format!("{} {}", count(*marks), kind.names().1)).collect();
        let zone = &self.options.time_zone;
        let times =
            group.period().map(|(from, to)| format!("{} – {}", full_time(from, zone), full_time(to, zone)));
        // The label must contain the number that is visible.
        let number = short_count(group.marks.len());
        let is_said = kinds.len() == 1 && number == count(group.marks.len() as u64);
        let marks = if is_said { String::new() } else { format!("{number} marks: ") };
        format!("{}, {marks}{}", times.unwrap_or_default(), kinds.join(", "))
    }
}

pub(super) fn mark_shape(kind: MarkKind) -> Markup {
    let (outline, sign) = shape(kind);
    html! {
        path class="mp-shape" d=(outline) {}
        @if let Some(sign) = sign { path class="mp-sign" d=(sign) {} }
    }
}

/// A box with the number of merged marks, above a bar that shows the share of each kind.
fn count_box(count: usize, kinds: &[(MarkKind, u64)]) -> Markup {
    let text = short_count(count);
    let width = (pixels(&text, 10.0) + 7.0).max(14.0);
    let mut left = -width / 2.0;
    let bars: Vec<_> = kinds
        .iter()
        .map(|(kind, part)| {
            let bar = (left, *part as f64 / count.max(1) as f64 * width);
            left += bar.1;
            (kind.names().0, bar)
        })
        .collect();
    html! {
        rect class="mp-count" x=(number(-width / 2.0)) y="-9" width=(number(width)) height="14" rx="3" {}
        text class="mp-count-text" y="1.5" text-anchor="middle" { (text) }
        @for (class, (left, width)) in &bars {
            rect class=(format!("{class} mp-share")) x=(number(*left)) y="6" width=(number(*width)) height="3" {}
        }
    }
}

/// The number of marks of each kind, the most important kind first.
fn count_kinds(marks: &[Mark]) -> Vec<(MarkKind, u64)> {
    let mut kinds: Vec<(MarkKind, u64)> = Vec::new();
    for mark in marks {
        match kinds.iter_mut().find(|(kind, _)| *kind == mark.kind) {
            Some((_, count)) => *count += 1,
            None => kinds.push((mark.kind, 1)),
        }
    }
    kinds.sort_by_key(|(kind, _)| std::cmp::Reverse(*kind));
    kinds
}

/// A range that shows merged marks apart from each other.
fn widened(from: Timestamp, to: Timestamp) -> Link {
    let margin = (between(from, to) / 20).max(Duration::from_secs(1));
    Link::Range(from.checked_sub(margin).unwrap_or(from), to.checked_add(margin).unwrap_or(to))
}
