//! Draws sessions as bands, and the periods without work between and within them.

use jiff::Timestamp;
use maud::{Markup, html};
use milepost::model::InterruptionKind;

use super::super::chart::Chart;
use super::super::layout::{MergedBand, merge_bands};
use super::super::text::{between, pixels, short_count, zone_name};
use super::{Drawing, number};
use milepost::internal::humanize::{counted, duration};

impl Drawing<'_> {
    pub(super) fn sessions(&mut self) {
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
}

fn is_silence(chart: &Chart, from: Timestamp) -> bool {
    chart.gaps.iter().any(|gap| gap.from == from && !gap.between_sessions)
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
fn is_unexpected(kind: InterruptionKind) -> bool {
    use InterruptionKind as Kind;
    !matches!(kind, Kind::CleanStop | Kind::WaitingForUser | Kind::ContextReset | Kind::Unknown)
}
