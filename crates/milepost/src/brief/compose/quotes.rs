//! What the user said, as dated quotes in order. Takes messages and returns lines of Markdown. To
//! save space, parts of prompts can be left out in a fixed order, those with the least weight first.

use jiff::Timestamp;

use super::sentences::{Part, Weight, shorten_paste, split_prompt};
use crate::model::Message;

/// Number of newest prompts that are kept whole as long as possible.
const NEWEST: usize = 2;

/// A prompt, split into parts.
#[derive(Debug)]
struct Quote {
    at: Timestamp,
    parts: Vec<Part>,
}

/// All prompts, and the order in which their parts are left out.
#[derive(Debug)]
pub(super) struct Quotes {
    quotes: Vec<Quote>,
    /// Every part in the order in which they are left out: its weight, the index of its prompt, and its index
    /// in that prompt.
    order: Vec<(Weight, usize, usize)>,
}

impl Quotes {
    pub(super) fn of(messages: &[Message]) -> Self {
        let mut quotes: Vec<Quote> = Vec::new();
        for message in messages {
            let Message::Prompt { at, text } = message else { continue };
            quotes.push(Quote { at: *at, parts: split_prompt(text) });
        }
        let newest = quotes.len().saturating_sub(NEWEST);
        let mut order = Vec::new();
        for (quote, Quote { parts, .. }) in quotes.iter_mut().enumerate() {
            for (part, it) in parts.iter_mut().enumerate() {
                // The first part states the goal. It and the newest prompts count as much as rules.
                let is_goal = quote == 0 && part == 0;
                if (quote >= newest || is_goal) && it.weight > Weight::Acknowledgement {
                    it.weight = Weight::Rule;
                }
                order.push((it.weight, quote, part));
            }
        }
        // Among parts of equal weight: oldest prompts first, and within a prompt the last part first.
        order.sort_by_key(|(weight, quote, part)| (*weight, *quote, usize::MAX - part));
        Self { quotes, order }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.quotes.is_empty()
    }

    /// Number of parts up to a weight. That many can be left out without losing a heavier one.
    pub(super) fn count_up_to(&self, weight: Weight) -> usize {
        self.order.iter().take_while(|(of, ..)| *of <= weight).count()
    }

    /// The quotes without the first `left_out` parts of the order. `command` is the command that shows
    /// them in full.
    pub(super) fn lines(&self, left_out: usize, command: &str) -> Vec<String> {
        let mut gone = vec![Vec::new(); self.quotes.len()];
        for (_, quote, part) in self.order.iter().take(left_out) {
            gone[*quote].push(*part);
        }
        let (mut lines, mut missing, mut shortened) = (Vec::new(), 0, 0);
        let mut day = String::new();
        for (quote, gone) in self.quotes.iter().zip(&gone) {
            let text = quote.text(gone);
            let lost = |part: &usize| quote.parts[*part].weight > Weight::Acknowledgement;
            if text.is_empty() {
                missing += usize::from(gone.iter().any(lost));
                continue;
            }
            shortened +=
                usize::from(gone.iter().any(|part| quote.parts[*part].weight != Weight::Acknowledgement));
            let date = quote.at.strftime("%Y-%m-%d").to_string();
            let time = quote.at.strftime("%H:%M").to_string();
            let when = if date == day { time } else { format!("{date} {time}") };
            day = date;
            push_quote(&mut lines, &when, &text);
        }
        let count = |n: usize, one: &str| format!("{n} {one}{}", if n == 1 { "" } else { "s" });
        let notice = match (missing, shortened) {
            (0, 0) => None,
            (0, n) => Some(format!("{} shortened", count(n, "prompt"))),
            (n, 0) => Some(format!("{} left out", count(n, "older prompt"))),
            (n, m) => Some(format!("{} left out, {m} shortened", count(n, "older prompt"))),
        };
        lines.extend(notice.map(|notice| format!("- {notice}; in full: `{command}`")));
        lines
    }
}

impl Quote {
    /// The text without some of its parts. A paste is shortened instead of left out.
    fn text(&self, gone: &[usize]) -> String {
        let mut text = String::new();
        let mut gap = false;
        for (n, part) in self.parts.iter().enumerate() {
            let is_gone = gone.contains(&n);
            let shown = match (is_gone, part.weight) {
                (true, Weight::Paste) => shorten_paste(&part.text),
                (true, _) => {
                    gap = !text.is_empty();
                    continue;
                }
                (false, _) => part.text.clone(),
            };
            if !text.is_empty() {
                text.push_str(if std::mem::take(&mut gap) { " …" } else { "" });
                text.push(if part.starts_line { '\n' } else { ' ' });
            }
            text.push_str(&shown);
        }
        if gap {
            text.push_str(" …");
        }
        text
    }
}

/// Adds a dated quote. A text of several lines becomes a block quote, so that nothing in it affects what
/// follows.
pub(super) fn push_quote(lines: &mut Vec<String>, label: &str, text: &str) {
    let text = text.trim().replace('\t', "    ");
    let mut all = text.lines().filter(|line| !line.trim().is_empty());
    match (all.next(), all.next()) {
        (Some(only), None) => lines.push(format!("- {label}: {only}")),
        (Some(first), Some(second)) => {
            lines.push(format!("- {label}:"));
            let block = [first, second].into_iter().chain(all);
            lines.extend(block.map(|line| format!("  > {}", line.trim_end())));
        }
        (None, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompts(texts: &[&str]) -> Quotes {
        let prompt = |(n, text): (usize, &&str)| Message::Prompt {
            at: Timestamp::from_second(1_800_000_000 + n as i64 * 60).unwrap(),
            text: (*text).to_owned(),
        };
        let messages: Vec<_> = texts.iter().enumerate().map(prompt).collect();
        Quotes::of(&messages)
    }

    #[test]
    fn everything_is_quoted_with_its_time() {
        let quotes = prompts(&["Write a parser.\nIt reads INI.", "ok", "never touch billing"]);
        insta::assert_snapshot!(quotes.lines(0, "c").join("\n"), @r"
        - 2027-01-15 08:00:
          > Write a parser.
          > It reads INI.
        - 08:01: ok
        - 08:02: never touch billing
        ");
    }

    #[test]
    fn rules_and_the_newest_prompts_are_left_out_last() {
        let quotes = prompts(&[
            "Write a parser. It reads INI.",
            "Add tests. Never touch the billing folder. They may be slow.",
            "ok",
            "What about dates? Look at the lexer.",
            "Now the docs.",
            "And the changelog.",
        ]);
        let text = |weight| quotes.lines(quotes.count_up_to(weight), "cmd").join("\n");
        insta::assert_snapshot!(text(Weight::Sentence), @r"
        - 2027-01-15 08:00: Write a parser. …
        - 08:01: Add tests. Never touch the billing folder. …
        - 08:03: What about dates? …
        - 08:04: Now the docs.
        - 08:05: And the changelog.
        - 3 prompts shortened; in full: `cmd`
        ");
        insta::assert_snapshot!(text(Weight::Lead), @r"
        - 2027-01-15 08:00: Write a parser. …
        - 08:01: Never touch the billing folder. …
        - 08:04: Now the docs.
        - 08:05: And the changelog.
        - 1 older prompt left out, 2 shortened; in full: `cmd`
        ");
        assert_eq!(text(Weight::Rule), "- 5 older prompts left out; in full: `cmd`");
    }
}
