//! Compares the expected output of a command with its output, line by line, and rewrites the expected output.

use super::values::{ELLIPSIS, Ids, Pattern};

/// A line of the page beside a line of the output; both where they fit.
enum Pair<'a> {
    Same { page: &'a str },
    OnlyPage { page: &'a str },
    OnlyOutput { output: &'a str },
}

/// Whether the output is as expected. Then returns the ids of the page with those of this output.
pub(super) fn compare(expected: &[String], output: &str, ids: &Ids) -> Option<Ids> {
    let patterns: Vec<_> = trim(expected).iter().map(|line| pattern(line)).collect();
    let lines: Vec<_> = output.trim_end().lines().collect();
    search(&patterns, &lines, ids.clone())
}

/// `None` for a line that stands for any number of lines.
fn pattern(line: &str) -> Option<Pattern> {
    (line.trim() != ELLIPSIS).then(|| Pattern::new(line))
}

/// Expected output without empty lines at its end.
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

/// The difference between expected output and output, for people. Lines that the page leaves out are not shown.
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

/// New expected output: lines that fit stay as they are, others become those of the output.
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

/// What a pair of lines that fit is worth; more than all pairs of similar lines.
const FITS: usize = 1_000_000;

/// Pairs the lines of the page with those of the output so that as many as possible fit, then so that those that do not
/// are as similar as possible. An ellipsis of the page takes the place of all lines between the pairs around it.
fn align<'a>(expected: &'a [String], output: &'a str, ids: &mut Ids) -> Vec<Pair<'a>> {
    let lines: Vec<&str> = output.trim_end().lines().collect();
    let patterns: Vec<_> = expected.iter().map(|line| pattern(line)).collect();
    let fits =
        |page: usize, line: usize, ids: &Ids| patterns[page].as_ref().and_then(|p| p.fits(lines[line], ids));
    // The worth of the best pairs of the lines from here on, and of the pair that is first here.
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
            // An id may be bound to another by now.
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

/// How many of the words of two lines are the same, in percent; 0 if it is less than half of them.
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
