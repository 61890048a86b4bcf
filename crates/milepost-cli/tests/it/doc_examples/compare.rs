//! Compares the expected output of a command with its actual output, line by line, and rewrites the expected
//! output.

use super::values::{ELLIPSIS, Ids, Pattern};

/// A line of the page that matches the output, or a line that only one of them has.
enum Pair<'a> {
    Same { page: &'a str },
    OnlyPage { page: &'a str },
    OnlyOutput { output: &'a str },
}

/// Returns the ids of the page, bound to those of this output, or `None` if the output is not as expected.
pub(super) fn compare(expected: &[String], output: &str, ids: &Ids) -> Option<Ids> {
    let patterns: Vec<_> = trim(expected).iter().map(|line| pattern(line)).collect();
    let lines: Vec<_> = output.trim_end().lines().collect();
    search(&patterns, &lines, ids.clone())
}

/// `None` for an ellipsis, which matches any number of lines.
fn pattern(line: &str) -> Option<Pattern> {
    (line.trim() != ELLIPSIS).then(|| Pattern::new(line))
}

/// The expected output without trailing empty lines.
fn trim(expected: &[String]) -> &[String] {
    let end = expected.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |last| last + 1);
    &expected[..end]
}

fn search(patterns: &[Option<Pattern>], lines: &[&str], mut ids: Ids) -> Option<Ids> {
    for (at, pattern) in patterns.iter().enumerate() {
        let Some(pattern) = pattern else {
            return (at..=lines.len())
                .find_map(|start| search(&patterns[at + 1..], &lines[start..], ids.clone()));
        };
        ids = pattern.fits(lines.get(at)?, &ids)?;
    }
    (lines.len() == patterns.len()).then_some(ids)
}

/// The difference between the expected and the actual output, for people. Lines that the page elides are not
/// shown.
pub(super) fn difference(expected: &[String], output: &str, ids: &Ids) -> String {
    let mut ids = ids.clone();
    let mut text = String::new();
    for pair in align(trim(expected), output, &mut ids) {
        let (mark, line) = match pair {
            Pair::Same { page } => (' ', page),
            Pair::OnlyPage { page } => ('-', page),
            Pair::OnlyOutput { output } => ('+', output),
        };
        text += &format!("    {mark} {line}\n");
    }
    text
}

/// The new expected output: matching lines do not change, and the others are replaced with the actual output.
pub(super) fn rewrite(expected: &[String], output: &str, ids: &mut Ids) -> Vec<String> {
    let mut lines = Vec::new();
    for pair in align(trim(expected), output, ids) {
        match pair {
            Pair::Same { page } => lines.push(page.to_owned()),
            Pair::OnlyPage { .. } => {}
            Pair::OnlyOutput { output } => lines.push(ids.in_page(output.trim_end())),
        }
    }
    lines
}

/// The score of a pair of lines that match. Exceeds the total score of all pairs of similar lines.
const FITS: usize = 1_000_000;

/// Pairs the lines of the page with those of the output. Maximises the number of pairs that match, then the
/// similarity of the others. An ellipsis on the page covers all lines between the pairs around it.
fn align<'a>(expected: &'a [String], output: &'a str, ids: &mut Ids) -> Vec<Pair<'a>> {
    let lines: Vec<&str> = output.trim_end().lines().collect();
    let patterns: Vec<_> = expected.iter().map(|line| pattern(line)).collect();
    let fits =
        |page: usize, line: usize, ids: &Ids| patterns[page].as_ref().and_then(|p| p.fits(lines[line], ids));
    // The best score for the lines from here on, and the score of the pair here.
    let mut best = vec![vec![0; lines.len() + 1]; expected.len() + 1];
    let mut pair_here = vec![vec![0; lines.len()]; expected.len()];
    for page in (0..expected.len()).rev() {
        for line in (0..lines.len()).rev() {
            let here =
                if fits(page, line, ids).is_some() { FITS } else { similarity(&expected[page], lines[line]) };
            pair_here[page][line] = here;
            let both = if here > 0 { best[page + 1][line + 1] + here } else { 0 };
            best[page][line] = both.max(best[page + 1][line]).max(best[page][line + 1]);
        }
    }
    let (mut pairs, mut gap) = (Vec::new(), Gap::default());
    let (mut page, mut line) = (0, 0);
    while page < expected.len() || line < lines.len() {
        let both = page < expected.len() && line < lines.len();
        let here = if both { pair_here[page][line] } else { 0 };
        if here > 0 && best[page][line] == best[page + 1][line + 1] + here {
            gap.close(&mut pairs);
            // An earlier pair may have bound an id to another one.
            if let Some(bound) = fits(page, line, ids) {
                *ids = bound;
                pairs.push(Pair::Same { page: &expected[page] });
            } else {
                pairs.push(Pair::OnlyPage { page: &expected[page] });
                pairs.push(Pair::OnlyOutput { output: lines[line] });
            }
            (page, line) = (page + 1, line + 1);
        } else if line == lines.len() || both && best[page + 1][line] >= best[page][line + 1] {
            gap.page.push(&expected[page]);
            page += 1;
        } else {
            gap.output.push(lines[line]);
            line += 1;
        }
    }
    gap.close(&mut pairs);
    pairs
}

/// The percentage of words that two lines have in common; 0 if it is less than 50.
fn similarity(a: &str, b: &str) -> usize {
    let (a, mut b): (Vec<_>, Vec<_>) = (a.split_whitespace().collect(), b.split_whitespace().collect());
    let words = a.len() + b.len();
    let common = a
        .iter()
        .filter(|word| b.iter().position(|other| other == *word).map(|at| b.swap_remove(at)).is_some());
    let percent = (common.count() * 200).checked_div(words).unwrap_or(0);
    if percent < 50 { 0 } else { percent }
}

/// The lines between two pairs.
#[derive(Default)]
struct Gap<'a> {
    page: Vec<&'a str>,
    output: Vec<&'a str>,
}

impl<'a> Gap<'a> {
    fn close(&mut self, pairs: &mut Vec<Pair<'a>>) {
        let elided = self.page.iter().any(|line| line.trim() == ELLIPSIS);
        for page in self.page.drain(..) {
            pairs.push(if page.trim() == ELLIPSIS { Pair::Same { page } } else { Pair::OnlyPage { page } });
        }
        let output = self.output.drain(..).filter(|_| !elided);
        pairs.extend(output.map(|output| Pair::OnlyOutput { output }));
    }
}
