//! Draws a chart as SVG: lanes above each other, a common axis of time, and a legend. Text passes through maud's
//! escaping, and was bounded before. If the result is too large, it is drawn again with less detail.

mod bands;
mod marks;
mod plots;

use jiff::Timestamp;
use maud::{Markup, PreEscaped, html};

use super::axis::Axis;
use super::chart::{Chart, MarkKind};
use super::shapes::FLAG;
use super::text::{between, pixels, shorten};
use super::ticks::{Tick, ticks};
use super::{MAX_BYTES, STYLE, TimelineOptions};
use marks::mark_shape;
use milepost::internal::humanize::{count, counted, duration};

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
    fn caption(&mut self, name: &str, entries: Option<usize>, note: &str) {
        let y = number(self.y + 14.0);
        let right = number(self.width - MARGIN);
        let markup = html! {
            text class="mp-caption" x=(number(MARGIN)) y=(y) {
                (name)
                @if let Some(entries) = entries { tspan class="mp-number" dx="6" { (count(entries as u64)) } }
            }
            @if !note.is_empty() {
                text class="mp-muted" x=(right) y=(y) text-anchor="end" { (note) }
            }
        };
        self.add(&markup);
        self.y += CAPTION;
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

fn full_time(at: Timestamp, zone: &jiff::tz::TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%-d %b %Y %H:%M:%S").to_string()
}

/// A coordinate with one decimal, and without one if it is 0.
fn number(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}
