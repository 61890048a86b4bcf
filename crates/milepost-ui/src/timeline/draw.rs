//! Draws a chart as SVG: lanes above each other, a common axis of time, and a legend. Text passes through maud's
//! escaping, and was bounded before. If the result is too large, it is drawn again with less detail.

use std::time::Duration;

use jiff::Timestamp;
use maud::{Markup, PreEscaped, html};

use super::axis::Axis;
use super::chart::{Chart, Mark, MarkKind};
use super::layout::{Group, MergedBand, columns, group, merge_bands};
use super::shapes::{FLAG, shape};
use super::text::{between, bytes, counted, duration, grouped, pixels, short_count, shorten, zone_name};
use super::ticks::{Tick, ticks};
use super::{Link, MAX_BYTES, STYLE, TimelineOptions};

/// Whether a timeline is part of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Embedded,
    StandAlone,
}

/// How much is shown: the width of a cell in pixels, and the length of a label in columns.
struct Detail {
    cell: f64,
    label: usize,
}

/// From the most detail to the least. The last one is always within the limit.
const DETAILS: [Detail; 4] = [
    Detail { cell: 20.0, label: 160 },
    Detail { cell: 24.0, label: 80 },
    Detail { cell: 40.0, label: 40 },
    Detail { cell: 80.0, label: 16 },
];

const MARGIN: f64 = 12.0;
const CAPTION: f64 = 20.0;
/// The distance of the first and the last instant from the ends of the lanes, so that marks fit.
const INSET: f64 = 10.0;

pub(super) fn svg(chart: &Chart, options: &TimelineOptions<'_>, form: Form) -> String {
    let mut drawn = String::new();
    for detail in &DETAILS {
        drawn = Drawing::new(chart, options, detail).svg(form);
        if drawn.len() <= MAX_BYTES {
            break;
        }
    }
    drawn
}

struct Drawing<'a> {
    chart: &'a Chart,
    options: &'a TimelineOptions<'a>,
    detail: &'a Detail,
    axis: Axis,
    width: f64,
    /// The elements so far.
    body: String,
    /// The upper end of the next lane.
    y: f64,
}

impl<'a> Drawing<'a> {
    fn new(chart: &'a Chart, options: &'a TimelineOptions<'a>, detail: &'a Detail) -> Self {
        let width = f64::from(options.width);
        let axis = Axis::new(chart.from, chart.to, &chart.gaps, MARGIN + INSET, width - MARGIN - INSET);
        Self { chart, options, detail, axis, width, body: String::new(), y: 0.0 }
    }

    fn svg(mut self, form: Form) -> String {
        if form == Form::StandAlone {
            self.heading();
        }
        let top = self.y + CAPTION;
        self.sessions();
        self.mark_lane("Checkpoints", &self.chart.checkpoints, 24.0, self.checkpoint_note());
        self.mark_lane("Messages", &self.chart.messages, 20.0, String::new());
        self.mark_lane("Failed commands", &self.chart.failures, 20.0, String::new());
        self.memory();
        self.files();
        let bottom = self.y;
        let grid = self.time_axis(top, bottom);
        self.legend();
        let height = (self.y + 4.0).ceil();
        let (summary, label) = (self.summary(), self.label());
        let is_linked = self.options.links.is_some();
        let drawn = html! {
            svg xmlns="http://www.w3.org/2000/svg" class="mp-timeline" width=(number(self.width)) height=(number(height))
                viewBox=(format!("0 0 {} {}", number(self.width), number(height)))
                role=(if is_linked { "graphics-document" } else { "img" })
                aria-roledescription=[is_linked.then_some("timeline")] aria-label=(label) {
                title { (label) }
                desc { (summary) }
                @if form == Form::StandAlone {
                    style { (PreEscaped(STYLE)) (PreEscaped(STAND_ALONE)) (PreEscaped(min_width(self.width))) }
                    rect class="mp-background" width="100%" height="100%" {}
                }
                defs {
                    pattern id="mp-hatch" width="6" height="6" patternUnits="userSpaceOnUse"
                        patternTransform="rotate(45)" {
                        path class="mp-hatch" d="M0 0V6" {}
                    }
                }
                (PreEscaped(grid))
                (PreEscaped(self.body))
            }
        };
        drawn.into_string()
    }

    fn add(&mut self, markup: &Markup) {
        self.body.push_str(&markup.0);
    }

    fn label(&self) -> String {
        let name = if self.chart.title.is_empty() { &self.chart.run } else { &self.chart.title };
        format!("Timeline of {}", shorten(name, 120))
    }

    /// The whole picture in one sentence.
    fn summary(&self) -> String {
        let chart = self.chart;
        let facts = [
            Some(counted(chart.checkpoints.len() as u64, "checkpoint")),
            Some(counted(chart.bands.len() as u64, "session")),
            (!chart.messages.is_empty()).then(|| counted(chart.messages.len() as u64, "message")),
            (!chart.failures.is_empty()).then(|| counted(chart.failures.len() as u64, "failed command")),
        ];
        let facts: Vec<_> = facts.into_iter().flatten().collect();
        let zone = &self.options.time_zone;
        let (from, to) = (full_time(chart.from, zone), full_time(chart.to, zone));
        format!("{} from {from} to {to}", facts.join(", "))
    }

    fn heading(&mut self) {
        let chart = self.chart;
        let columns = ((self.width - 2.0 * MARGIN) / 10.4) as usize;
        let title = if chart.title.is_empty() { &chart.run } else { &chart.title };
        let zone = &self.options.time_zone;
        let lasted = duration(between(chart.from, chart.to));
        let mut facts = Vec::new();
        if !chart.title.is_empty() {
            facts.push(chart.run.clone());
        }
        facts.extend(chart.status.map(|status| status.replace('_', " ")));
        facts.push(counted(chart.checkpoints.len() as u64, "checkpoint"));
        facts.push(lasted);
        facts.push(format!("{} – {}", full_time(chart.from, zone), full_time(chart.to, zone)));
        let facts = shorten(&facts.join(" · "), ((self.width - 2.0 * MARGIN) / 6.4) as usize);
        let heading = html! {
            text class="mp-title" x=(number(MARGIN)) y="28" { (shorten(title, columns)) }
            text class="mp-muted" x=(number(MARGIN)) y="48" { (facts) }
        };
        self.add(&heading);
        self.y = 60.0;
    }

    /// A caption on the left, and a note on the right. Moves to the beginning of the lane.
    fn caption(&mut self, name: &str, count: Option<usize>, note: &str) {
        let y = number(self.y + 14.0);
        let right = number(self.width - MARGIN);
        let markup = html! {
            text class="mp-caption" x=(number(MARGIN)) y=(y) {
                (name)
                @if let Some(count) = count { tspan class="mp-number" dx="6" { (grouped(count as u64)) } }
            }
            @if !note.is_empty() {
                text class="mp-muted" x=(right) y=(y) text-anchor="end" { (note) }
            }
        };
        self.add(&markup);
        self.y += CAPTION;
    }

    fn sessions(&mut self) {
        let chart = self.chart;
        let zone = zone_name(chart.to, &self.options.time_zone);
        let note = if chart.is_live { format!("running now · {zone}") } else { zone };
        self.caption("Sessions", Some(chart.bands.len()), &note);
        let (y, height) = (self.y, 20.0);
        let merged = merge_bands(&chart.bands, &self.axis);
        let breaks: Vec<_> = self.axis.parts().iter().filter(|part| part.is_break).copied().collect();
        let markup = html! {
            @for part in &breaks {
                (gap_box(part.left, part.right, y, height, &duration(between(part.from, part.to))))
            }
            @for gap in chart.gaps.iter().filter(|gap| gap.between_sessions) {
                @let (left, right) = (self.axis.position(gap.from), self.axis.position(gap.to));
                @if right - left >= 8.0 && !breaks.iter().any(|part| part.from == gap.from) {
                    (gap_box(left, right, y, height, &duration(between(gap.from, gap.to))))
                }
            }
            @for band in &merged { (session_band(band, y, height)) }
            // Silences within a session are drawn on top of it.
            @for part in breaks.iter().filter(|part| is_silence(chart, part.from)) {
                (gap_box(part.left, part.right, y, height, &duration(between(part.from, part.to))))
            }
        };
        self.add(&markup);
        self.y += height + 8.0;
    }

    fn checkpoint_note(&self) -> String {
        match self.chart.pending {
            0 => String::new(),
            n => format!("{} since the newest", counted(n, "change")),
        }
    }

    fn mark_lane(&mut self, name: &str, marks: &[Mark], height: f64, note: String) {
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
            kinds.iter().map(|(kind, count)| format!("{} {}", grouped(*count), kind.names().1)).collect();
        let zone = &self.options.time_zone;
        let times =
            group.period().map(|(from, to)| format!("{} – {}", full_time(from, zone), full_time(to, zone)));
        format!("{}, {}", times.unwrap_or_default(), kinds.join(", "))
    }

    fn memory(&mut self) {
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

    fn files(&mut self) {
        let columns = columns(&self.chart.files, &self.axis);
        let Some(most) = columns.iter().map(|column| column.value).max().filter(|most| *most > 0) else {
            return;
        };
        self.caption("Changed files", None, &format!("at most {}", grouped(most)));
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
                title { "Changed files, at most " (grouped(most)) }
                path class="mp-bars" d=(path) {}
            }
            path class="mp-line" d=(format!("M{} {bottom}H{}", number(MARGIN), number(self.width - MARGIN))) {}
        };
        self.add(&markup);
        self.y += height + 4.0;
    }

    /// Labels at the bottom. Returns the lines behind the lanes.
    fn time_axis(&mut self, top: f64, bottom: f64) -> String {
        let ticks = ticks(&self.axis, &self.options.time_zone);
        let mut path = String::new();
        for tick in &ticks {
            path.push_str(&format!("M{} {}V{}", number(tick.x), number(top), number(bottom + 4.0)));
        }
        let breaks: Vec<_> = self.axis.parts().iter().filter(|part| part.is_break).copied().collect();
        let grid = html! {
            path class="mp-grid" d=(path) {}
            @for part in &breaks {
                rect class="mp-break" x=(number(part.left)) y=(number(top)) width=(number(part.right - part.left))
                    height=(number(bottom - top)) {}
            }
            @if self.chart.is_live {
                @let x = number(self.axis.position(self.chart.to));
                path class="mp-now" d=(format!("M{x} {}V{}", number(top), number(bottom))) {}
            }
        };
        let markup = html! {
            g class="mp-axis" aria-hidden="true" {
                @for tick in &ticks { (tick_label(tick, bottom, self.width)) }
            }
        };
        self.add(&markup);
        self.y = bottom + 44.0;
        grid.into_string()
    }

    /// One entry for each kind that is shown.
    fn legend(&mut self) {
        let chart = self.chart;
        let all = chart.checkpoints.iter().chain(&chart.messages).chain(&chart.failures);
        let mut kinds: Vec<MarkKind> = Vec::new();
        for mark in all {
            if !kinds.contains(&mark.kind) {
                kinds.push(mark.kind);
            }
        }
        kinds.sort_unstable();
        let flagged = chart.checkpoints.iter().any(|mark| mark.flagged);
        let (mut x, mut y) = (MARGIN, self.y + 10.0);
        let mut place = |name: &str| {
            let width = pixels(name, 11.0) + 36.0;
            if x + width > self.width - MARGIN && x > MARGIN {
                (x, y) = (MARGIN, y + 20.0);
            }
            let at = (x, y);
            x += width;
            at
        };
        let entries: Vec<_> = kinds.iter().map(|kind| (*kind, place(kind.names().1))).collect();
        let flag = flagged.then(|| place("pinned or tagged"));
        let markup = html! {
            g class="mp-legend" aria-hidden="true" {
                @for (kind, (x, y)) in &entries {
                    g class=(kind.names().0) transform=(format!("translate({} {})", number(x + 8.0), number(*y))) {
                        (mark_shape(*kind))
                        text class="mp-muted" x="12" y="4" { (kind.names().1) }
                    }
                }
                @if let Some((x, y)) = flag {
                    g transform=(format!("translate({} {})", number(x + 4.0), number(y + 11.0))) {
                        path class="mp-flag" d=(FLAG) {}
                        text class="mp-muted" x="16" y="-7" { "pinned or tagged" }
                    }
                }
            }
        };
        if !entries.is_empty() {
            self.add(&markup);
            self.y = y + 14.0;
        }
    }
}

/// The rules that only a file of its own needs.
const STAND_ALONE: &str = ".mp-background{fill:var(--mp-surface)}svg.mp-timeline{max-width:100%;height:auto}";

/// A file of its own scrolls on a narrow screen, because smaller text could not be read.
fn min_width(width: f64) -> String {
    format!("svg.mp-timeline{{min-width:{}px}}", number(width.min(720.0)))
}

fn is_silence(chart: &Chart, from: Timestamp) -> bool {
    chart.gaps.iter().any(|gap| gap.from == from && !gap.between_sessions)
}

fn mark_shape(kind: MarkKind) -> Markup {
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

fn gap_box(left: f64, right: f64, y: f64, height: f64, label: &str) -> Markup {
    let width = right - left;
    // `2 d 5 h`, or only `2 d`.
    let largest_unit = label.match_indices(' ').nth(1).map_or(label, |(end, _)| &label[..end]);
    let shown = [label, largest_unit].into_iter().find(|text| pixels(text, 10.0) + 4.0 <= width);
    let label_y = number(y + height / 2.0 + 3.5);
    html! {
        g class="mp-gap" {
            title { "No work for " (label) }
            rect class="mp-gap-box" x=(number(left)) y=(number(y)) width=(number(width)) height=(number(height)) {}
            @if let Some(text) = shown {
                text class="mp-gap-text" x=(number(left + width / 2.0)) y=(label_y) text-anchor="middle" { (text) }
            }
        }
    }
}

fn session_band(band: &MergedBand<'_>, y: f64, height: f64) -> Markup {
    let width = band.right - band.left;
    let checkpoints = counted(band.sessions.iter().map(|session| session.checkpoints).sum(), "checkpoint");
    let (label, title) = match band.sessions.as_slice() {
        [session] => {
            let lasted = duration(between(session.from, session.to));
            let end = match (session.is_open, session.ended_by) {
                (true, _) => ", running".to_owned(),
                (_, Some(kind)) => format!(", ended by {}", kind.as_str().replace('_', " ")),
                _ => String::new(),
            };
            let label = format!("{} · {lasted}", session.number);
            (label, format!("Session {}, {lasted}, {checkpoints}{end}", session.number))
        }
        sessions => {
            let title = format!("{}, {checkpoints}", counted(sessions.len() as u64, "session"));
            (short_count(sessions.len()), title)
        }
    };
    let fits = pixels(&label, 11.0) + 12.0 <= width;
    let is_bad = band.sessions.iter().any(|session| session.ended_by.is_some_and(is_unexpected));
    html! {
        g class="mp-session" {
            title { (title) }
            rect class="mp-band" x=(number(band.left)) y=(number(y)) width=(number(width)) height=(number(height)) rx="3" {}
            @if is_bad && width >= 8.0 {
                rect class="mp-band-end" x=(number(band.right - 3.0)) y=(number(y)) width="3" height=(number(height)) rx="1.5" {}
            }
            @if fits {
                text class="mp-band-text" x=(number(band.left + 8.0)) y=(number(y + height / 2.0 + 4.0)) { (label) }
            }
        }
    }
}

/// Whether a session ended although its work was not done.
fn is_unexpected(kind: milepost::model::InterruptionKind) -> bool {
    use milepost::model::InterruptionKind as Kind;
    !matches!(kind, Kind::CleanStop | Kind::WaitingForUser | Kind::ContextReset | Kind::Unknown)
}

fn tick_label(tick: &Tick, bottom: f64, width: f64) -> Markup {
    let anchored = |text: &str, size: f64| {
        let half = pixels(text, size) / 2.0;
        tick.x.clamp(MARGIN + half, (width - MARGIN - half).max(MARGIN + half))
    };
    html! {
        @if !tick.time.is_empty() {
            text class="mp-muted" x=(number(anchored(&tick.time, 11.0))) y=(number(bottom + 18.0)) text-anchor="middle" { (tick.time) }
        }
        @if let Some(day) = &tick.day {
            @let y = if tick.time.is_empty() { 18.0 } else { 36.0 };
            text class="mp-day" x=(number(anchored(day, 12.0))) y=(number(bottom + y)) text-anchor="middle" { (day) }
        }
    }
}

/// A range that shows merged marks apart from each other.
fn widened(from: Timestamp, to: Timestamp) -> Link {
    let margin = (between(from, to) / 20).max(Duration::from_secs(1));
    Link::Range(from.checked_sub(margin).unwrap_or(from), to.checked_add(margin).unwrap_or(to))
}

fn full_time(at: Timestamp, zone: &jiff::tz::TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%-d %b %Y %H:%M:%S").to_string()
}

/// A coordinate with one decimal, and without one if it is 0.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}
