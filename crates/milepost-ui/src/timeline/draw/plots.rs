//! Draws the plots of memory and of changed files.

use maud::html;

use super::super::layout::columns;
use super::{Drawing, MARGIN, number};
use milepost::internal::humanize::{bytes, count};

impl Drawing<'_> {
    pub(super) fn memory(&mut self) {
        let columns = columns(&self.chart.memory, &self.axis);
        let Some(most) = columns.iter().map(|column| column.value).max().filter(|_| columns.len() > 1) else {
            return;
        };
        self.caption("Memory", None, &format!("peak {}", bytes(most)));
        let (top, height) = (self.y, 48.0);
        let scaled = |value: u64| top + height - value as f64 / most.max(1) as f64 * (height - 4.0);
        let bottom = number(top + height);
        let (mut lines, mut areas) = (String::new(), String::new());
        // Nothing is known about the memory during a break.
        for part in columns.chunk_by(|a, b| !self.axis.has_break_between(a.x, b.x)) {
            let [first, .., last] = part else { continue };
            let points: Vec<_> = part
                .iter()
                .map(|column| format!("{} {}", number(column.x), number(scaled(column.value))))
                .collect();
            let line = format!("M{}", points.join("L"));
            areas.push_str(&format!("{line}L{} {bottom}L{} {bottom}z", number(last.x), number(first.x)));
            lines.push_str(&line);
        }
        let markup = html! {
            g class="mp-memory" {
                title { "Memory, at most " (bytes(most)) }
                path class="mp-area" d=(areas) {}
                path class="mp-curve" d=(lines) {}
            }
            path class="mp-line" d=(format!("M{} {bottom}H{}", number(MARGIN), number(self.width - MARGIN))) {}
        };
        self.add(&markup);
        self.y += height + 8.0;
    }

    pub(super) fn files(&mut self) {
        let columns = columns(&self.chart.files, &self.axis);
        let Some(most) = columns.iter().map(|column| column.value).max().filter(|most| *most > 0) else {
            return;
        };
        self.caption("Changed files", None, &format!("at most {}", count(most)));
        let (top, height) = (self.y, 36.0);
        let mut path = String::new();
        for (index, column) in columns.iter().enumerate() {
            let scaled = column.value as f64 / most as f64 * (height - 4.0);
            let next = columns.get(index + 1).map_or(f64::MAX, |next| next.x);
            let width = (next - column.x - 1.0).clamp(1.0, 6.0);
            if scaled > 0.0 {
                let left = (column.x - width / 2.0).max(0.0);
                let bar = scaled.max(1.0);
                path.push_str(&format!(
                    "M{} {}h{}v{}h-{}z",
                    number(left),
                    number(top + height - bar),
                    number(width),
                    number(bar),
                    number(width)
                ));
            }
        }
        let bottom = number(top + height);
        let markup = html! {
            g class="mp-files" {
                title { "Changed files, at most " (count(most)) }
                path class="mp-bars" d=(path) {}
            }
            path class="mp-line" d=(format!("M{} {bottom}H{}", number(MARGIN), number(self.width - MARGIN))) {}
        };
        self.add(&markup);
        self.y += height + 4.0;
    }
}
