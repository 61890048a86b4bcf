//! The timeline of a run on its page: the SVG, and links to zoom it.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, PreEscaped, html};
use milepost::model::RunId;

use super::PageError;
use super::layout::{checkpoint_address, run_address};
use crate::facts::FactsCache;
use crate::projects::Project;
use crate::timeline::{Link, TimelineOptions, embedded};

/// The width if the browser's is not known.
const DEFAULT_WIDTH: u32 = 1240;
/// The shortest period that a timeline shows.
const MIN_PERIOD: SignedDuration = SignedDuration::from_secs(1);

/// Which part of a timeline to show.
#[derive(Debug, Default)]
pub(super) struct TimelineView {
    /// The start, in milliseconds since 1970.
    pub(super) from: Option<i64>,
    /// The end, in milliseconds since 1970.
    pub(super) to: Option<i64>,
    /// The width in pixels.
    pub(super) width: Option<u32>,
}

/// A period of time.
#[derive(Clone, Copy, PartialEq)]
struct Period {
    from: Timestamp,
    to: Timestamp,
}

impl Period {
    fn length(self) -> SignedDuration {
        self.to.duration_since(self.from).max(MIN_PERIOD)
    }

    /// The period between two times relative to this one: 0 is its start, 1 is its end.
    fn part(self, from: f64, to: f64) -> Self {
        let at = |part: f64| {
            let offset = SignedDuration::from_secs_f64(self.length().as_secs_f64() * part);
            self.from.saturating_add(offset).unwrap_or(self.from)
        };
        Self { from: at(from), to: at(to) }
    }

    fn query(self) -> String {
        format!("from={}&to={}", self.from.as_millisecond(), self.to.as_millisecond())
    }
}

impl TimelineView {
    /// The requested period within that of the run.
    fn period(&self, whole: Period) -> Option<Period> {
        let time = |ms: i64| Timestamp::from_millisecond(ms).ok();
        let from = self.from.and_then(time)?.clamp(whole.from, whole.to);
        let to = self.to.and_then(time)?.clamp(whole.from, whole.to);
        let to = to.max(from.saturating_add(MIN_PERIOD).unwrap_or(to));
        let period = Period { from, to };
        (period != whole).then_some(period)
    }
}

/// Renders a timeline. `reads_all` also reads the documents of the run, for the plots.
pub(super) fn render(
    facts: &FactsCache,
    project: &Project,
    run: &RunId,
    view: &TimelineView,
    reads_all: bool,
) -> Result<Markup, PageError> {
    let timeline = project.milepost.timeline(run)?;
    if timeline.checkpoints().is_empty() {
        return Ok(html! { p.empty { "This run has no checkpoints yet." } });
    }
    let whole = Period { from: timeline.started_at(), to: timeline.ended_at() };
    let period = view.period(whole);
    let width = view.width.unwrap_or(DEFAULT_WIDTH);
    let address = run_address(&project.key, run.as_str());
    let links = |link: Link| match link {
        Link::Checkpoint(sequence) => Some(checkpoint_address(&project.key, run.as_str(), sequence)),
        Link::Range(from, to) => Some(format!("{address}?{}", Period { from, to }.query())),
    };
    let redact = |text: &str| project.allow.redact_text(text).unwrap_or_else(|| text.to_owned());
    let options = TimelineOptions::new()
        .redact(&redact)
        .range(period.map(|period| (period.from, period.to)))
        .width(width)
        .time_zone(TimeZone::system())
        .links(&links);
    let svg = match reads_all {
        true => facts.with(project, run, |facts| embedded(&timeline, Some(facts), &options))?,
        false => embedded(&timeline, None, &options),
    };
    Ok(html! {
        (controls(&address, period, whole))
        div.timeline data-width=(width) data-incomplete[!reads_all] { (PreEscaped(svg)) }
    })
}

/// Links to other periods, which keys select as well.
fn controls(address: &str, period: Option<Period>, whole: Period) -> Markup {
    let shown = period.unwrap_or(whole);
    let to = |from: f64, to: f64| format!("{address}?{}", shown.part(from, to).query());
    html! {
        nav.zoom aria-label="Timeline" {
            a data-zoom-in href=(to(0.25, 0.75)) { "Zoom in" }
            @if period.is_some() {
                a data-zoom-out href=(to(-0.5, 1.5)) { "Zoom out" }
                a data-zoom-left href=(to(-0.33, 0.67)) aria-label="Earlier" { "←" }
                a data-zoom-right href=(to(0.33, 1.33)) aria-label="Later" { "→" }
                a data-zoom-all href=(address) { "Whole run" }
            }
        }
    }
}
