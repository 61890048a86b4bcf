//! The timeline of a run as SVG: an axis of time with checkpoints, prompts, failures, sessions and gaps, and plots of
//! memory and changed files. Takes a timeline and facts of the library; returns text. Pure: the same input gives the
//! same bytes. The size of the result does not depend on the size of the input.

mod axis;
mod chart;
mod draw;
mod layout;
mod shapes;
#[cfg(test)]
mod tests;
pub(crate) mod text;
mod ticks;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use milepost::{RunFacts, Timeline};

use chart::Chart;

/// The rules of style for timelines, to be served with the page that embeds them. Stand-alone files contain them.
pub const STYLE: &str = include_str!("../../assets/timeline.css");

/// The maximum size of a timeline in bytes, including its style.
pub const MAX_BYTES: usize = 120_000;

/// Where a mark leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Link {
    /// The checkpoint with this sequence number.
    Checkpoint(u64),
    /// The timeline between two times, to tell merged marks apart.
    Range(Timestamp, Timestamp),
}

/// Returns the address of a link; `None` if it leads nowhere.
pub type LinkAddress<'a> = &'a dyn Fn(Link) -> Option<String>;

/// How a timeline is drawn.
#[derive(Clone)]
#[must_use]
#[non_exhaustive]
pub struct TimelineOptions<'a> {
    range: Option<(Timestamp, Timestamp)>,
    width: u32,
    time_zone: TimeZone,
    links: Option<LinkAddress<'a>>,
    redact: Option<&'a dyn Fn(&str) -> String>,
}

impl Default for TimelineOptions<'_> {
    fn default() -> Self {
        Self { range: None, width: 1200, time_zone: TimeZone::UTC, links: None, redact: None }
    }
}

impl<'a> TimelineOptions<'a> {
    /// The default: the whole run, 1,200 pixels wide, in UTC, without links.
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows only this period. By default, a timeline shows the whole run.
    pub fn range(mut self, range: impl Into<Option<(Timestamp, Timestamp)>>) -> Self {
        self.range = range.into();
        self
    }

    /// The width in pixels for which the timeline is laid out, from 320 to 2,400.
    pub fn width(mut self, width: u32) -> Self {
        self.width = width.clamp(320, 2400);
        self
    }

    /// The time zone of the axis.
    pub fn time_zone(mut self, time_zone: TimeZone) -> Self {
        self.time_zone = time_zone;
        self
    }

    /// Passes every recorded text through a function that replaces secrets.
    pub fn redact(mut self, redact: &'a dyn Fn(&str) -> String) -> Self {
        self.redact = Some(redact);
        self
    }

    /// A recorded text without secrets.
    pub(crate) fn redacted(&self, text: &str) -> String {
        self.redact.map_or_else(|| text.to_owned(), |redact| redact(text))
    }

    pub(crate) fn zone(&self) -> &TimeZone {
        &self.time_zone
    }

    /// Makes marks links.
    pub fn links(mut self, links: LinkAddress<'a>) -> Self {
        self.links = Some(links);
        self
    }
}

/// Draws a timeline as an `svg` element for a page that has [`STYLE`] in its style sheets. The element contains no
/// script, no style, and no attribute that a strict content security policy forbids.
pub fn embedded(timeline: &Timeline, facts: Option<&RunFacts>, options: &TimelineOptions<'_>) -> String {
    draw::svg(&Chart::new(timeline, facts, options), options, draw::Form::Embedded)
}

/// Draws a timeline as an SVG file of its own, with a heading and its style, for light and dark backgrounds.
pub fn stand_alone(timeline: &Timeline, facts: Option<&RunFacts>, options: &TimelineOptions<'_>) -> String {
    draw::svg(&Chart::new(timeline, facts, options), options, draw::Form::StandAlone)
}
