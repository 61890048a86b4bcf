//! Parts that several pages have: times, states, commands with a copy button.

use jiff::Timestamp;
use maud::{Markup, html};
use milepost::internal::humanize::age;

use crate::text::local_time;

/// A time: how long ago it was, and the exact time as a tooltip.
pub(super) fn time(at: Timestamp, now: Timestamp) -> Markup {
    html! { time datetime=(at) title=(local_time(at)) { (age(at, now)) } }
}

/// A time in full.
pub(super) fn exact_time(at: Timestamp) -> Markup {
    html! { time datetime=(at) { (local_time(at)) } }
}

/// The state of a run or the status of a checkpoint. Its text says what its colour means.
pub(super) fn state(name: &str) -> Markup {
    let tone = match name {
        "live" | "in_progress" | "running" => "live",
        "waiting" | "stalled" | "unseen" | "paused" | "continued" | "blocked" => "waiting",
        "completed" | "done" | "pass" | "passed" => "done",
        "stopped" | "failed" | "damaged" | "fail" | "interrupted" => "failed",
        _ => "plain",
    };
    html! { span.state.(tone) { (name.replace('_', " ")) } }
}

/// A command with a button that copies it.
pub(super) fn command(label: &str, text: &str) -> Markup {
    html! {
        div.command {
            span.label { (label) }
            code { (text) }
            button.copy type="button" data-copy=(text) aria-label=(format!("Copy the command to {label}")) { "Copy" }
        }
    }
}

/// A name and a value in a list of facts.
pub(super) fn fact(name: &str, value: impl maud::Render) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}
