//! What changes between two texts, line by line, as a unified diff has it. Pure.

/// A line of a diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Where the lines that follow stand: first line and number, before and after.
    At {
        before: (usize, usize),
        after: (usize, usize),
    },
    Same(&'a str),
    Gone(&'a str),
    New(&'a str),
}

/// How many unchanged lines stand around a change.
const AROUND: usize = 3;

/// The changes, with some lines around them.
pub(crate) fn unified<'a>(before: &'a str, after: &'a str) -> Vec<Line<'a>> {
    let (a, b): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let all = script(&a, &b);
    let changed = |line: &Line<'_>| !matches!(line, Line::Same(_));
    let mut shown = vec![false; all.len()];
    for (at, _) in all.iter().enumerate().filter(|(_, line)| changed(line)) {
        let end = (at + AROUND + 1).min(all.len());
        shown[at.saturating_sub(AROUND)..end].fill(true);
    }
    let mut lines = Vec::new();
    let (mut x, mut y, mut at) = (0, 0, 0);
    while at < all.len() {
        let end = (at..all.len()).find(|n| shown[*n] != shown[at]).unwrap_or(all.len());
        let old = all[at..end].iter().filter(|line| !matches!(line, Line::New(_))).count();
        let new = all[at..end].iter().filter(|line| !matches!(line, Line::Gone(_))).count();
        if shown[at] {
            // A side without lines is named by the line before it.
            let start = |from: usize, n: usize| if n == 0 { (from, 0) } else { (from + 1, n) };
            lines.push(Line::At { before: start(x, old), after: start(y, new) });
            lines.extend_from_slice(&all[at..end]);
        }
        (x, y, at) = (x + old, y + new, end);
    }
    lines
}

/// The shortest way from one text to the other (Myers), after what both begin and end with is set aside.
fn script<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<Line<'a>> {
    let head = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let tail = a[head..].iter().rev().zip(b[head..].iter().rev()).take_while(|(x, y)| x == y).count();
    let mut lines: Vec<_> = a[..head].iter().copied().map(Line::Same).collect();
    lines.extend(middle(&a[head..a.len() - tail], &b[head..b.len() - tail]));
    lines.extend(a[a.len() - tail..].iter().copied().map(Line::Same));
    lines
}

fn middle<'a>(a: &[&'a str], b: &[&'a str]) -> Vec<Line<'a>> {
    let (n, m) = (a.len() as isize, b.len() as isize);
    let offset = n + m;
    // The furthest place in `a` on each diagonal, and how it was before each round.
    let mut furthest = vec![0isize; usize::try_from(2 * offset + 2).unwrap_or(2)];
    let at = |k: isize| usize::try_from(k + offset).unwrap_or(0);
    let mut rounds = Vec::new();
    'search: for d in 0..=offset {
        rounds.push(furthest.clone());
        for k in (-d..=d).step_by(2) {
            let down = k == -d || k != d && furthest[at(k - 1)] < furthest[at(k + 1)];
            let mut x = if down { furthest[at(k + 1)] } else { furthest[at(k - 1)] + 1 };
            while x < n && x - k < m && a[x as usize] == b[(x - k) as usize] {
                x += 1;
            }
            furthest[at(k)] = x;
            if x >= n && x - k >= m {
                break 'search;
            }
        }
    }
    let (mut x, mut y) = (n, m);
    let mut lines = Vec::new();
    for (d, known) in rounds.iter().enumerate().rev() {
        let (d, k) = (d as isize, x - y);
        let down = k == -d || k != d && known[at(k - 1)] < known[at(k + 1)];
        let from = if down { k + 1 } else { k - 1 };
        let start = if d == 0 { 0 } else { known[at(from)] };
        while x > start + isize::from(d > 0 && !down)
            && y > (start - from) + isize::from(d > 0 && down)
            && x > 0
            && y > 0
        {
            (x, y) = (x - 1, y - 1);
            lines.push(Line::Same(a[x as usize]));
        }
        if d > 0 {
            if down {
                y -= 1;
                lines.push(Line::New(b[y as usize]));
            } else {
                x -= 1;
                lines.push(Line::Gone(a[x as usize]));
            }
        }
    }
    lines.reverse();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes a script back to the two texts that it speaks of.
    fn sides<'a>(lines: &[Line<'a>]) -> (Vec<&'a str>, Vec<&'a str>) {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for line in lines {
            match line {
                Line::Same(text) => {
                    a.push(*text);
                    b.push(*text);
                }
                Line::Gone(text) => a.push(text),
                Line::New(text) => b.push(text),
                Line::At { .. } => {}
            }
        }
        (a, b)
    }

    #[test]
    fn a_script_holds_both_texts_and_no_more_than_it_needs() {
        for (before, after, changes) in [
            ("", "", 0),
            ("a b c", "a b c", 0),
            ("", "a b", 2),
            ("a b", "", 2),
            ("a b c a b b a", "c b a b a c", 5),
            ("a x b y c", "a b c", 2),
            ("x", "y", 2),
            ("a a a a", "a b a a c a", 2),
        ] {
            let (a, b): (Vec<_>, Vec<_>) = (before.split(' ').collect(), after.split(' ').collect());
            let (a, b) =
                (if before.is_empty() { vec![] } else { a }, if after.is_empty() { vec![] } else { b });
            let lines = script(&a, &b);
            assert_eq!(sides(&lines), (a, b), "{before} / {after}");
            let changed = lines.iter().filter(|line| !matches!(line, Line::Same(_))).count();
            assert_eq!(changed, changes, "{before} / {after}: {lines:?}");
        }
    }

    #[test]
    fn hunks_have_lines_around_them_and_their_places() {
        let before: Vec<_> = (1..=20).map(|n| n.to_string()).collect();
        let mut after = before.clone();
        after.insert(10, "new".into());
        let (before, after) = (before.join("\n"), after.join("\n"));
        let lines = unified(&before, &after);
        assert_eq!(lines[0], Line::At { before: (8, 6), after: (8, 7) });
        assert_eq!(lines.len(), 8);
        assert_eq!(lines[4], Line::New("new"));
        assert_eq!(unified("", "a\n")[0], Line::At { before: (0, 0), after: (1, 1) });
    }
}
