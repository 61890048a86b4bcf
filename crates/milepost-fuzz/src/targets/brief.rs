//! Briefs: parsing keeps every byte, fitting stays within the budget, and what is composed from any text is a brief with
//! safe lines. The input is a brief, optionally followed by a form feed and an update.

use milepost::brief::{Brief, FitOptions, Overflow};
use milepost::internal::brief::{BriefFacts, compose, is_unsafe, one_line};
use milepost::model::Message;

pub(super) fn run(data: &[u8]) {
    let Ok(brief) = Brief::from_bytes(data.to_vec()) else { return };
    assert_eq!(brief.markdown().as_bytes(), data, "parsing keeps every byte");
    for section in brief.sections() {
        assert!(brief.source(section).ends_with(brief.content(section)));
    }
    brief.check();
    assert!(!one_line(brief.text()).chars().any(is_unsafe), "one line contains an unsafe character");
    let (first, second) = brief.text().split_once('\u{c}').unwrap_or((brief.text(), brief.text()));
    let merged = Brief::parse(first).merge(&Brief::parse(second)).brief;
    assert_eq!(merged, Brief::parse(merged.text()), "a merged brief is parsed as it was merged");
    for budget in [20, 200, 2000] {
        for overflow in [Overflow::Error, Overflow::Shrink, Overflow::Exceed] {
            fit(&brief, budget, overflow);
        }
    }
    compose_from(brief.text());
}

fn fit(brief: &Brief, budget: u64, overflow: Overflow) {
    let Ok(fitted) = brief.fit(&FitOptions::default().budget(budget).overflow(overflow)) else { return };
    let is_within = fitted.tokens() <= budget || fitted.exceeds();
    assert!(is_within, "{} tokens in a budget of {budget}", fitted.tokens());
    assert!(overflow == Overflow::Exceed || !fitted.exceeds());
}

fn compose_from(text: &str) {
    let (at, text) = (jiff::Timestamp::UNIX_EPOCH, text.to_owned());
    let messages = [
        Message::Prompt { at, text: text.clone() },
        Message::Answer { at, question: text.clone(), text: text.clone() },
        Message::Plan { at, text: text.clone(), is_approved: true },
        Message::Reply { at, text },
    ];
    let facts = BriefFacts { id: "b".into(), messages: &messages, ..BriefFacts::default() };
    let composed = Brief::parse(compose(&facts));
    assert_eq!(composed.id(), Some("b"), "recorded text changes the front matter");
    assert!(composed.text().lines().all(|line| !line.contains(|c| is_unsafe(c) && c != '\n')));
}
