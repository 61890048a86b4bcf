//! Secrets that a prefix gives away: how a place in a text is compared with the table of shapes.

use super::secret_likelihood;
use super::shape_table::SHAPES;
use super::text::{Class, Text};

/// What else has to be true of what follows the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Nothing: the prefix says enough.
    Prefix,
    /// No letter or digit stands before it.
    Edge,
    /// That, and it is not made of words.
    Mixed,
    /// An edge, and it is a UUID.
    Uuid,
    /// An edge, parts of these lengths with dots between them, and it is not made of words.
    Parts(&'static [usize]),
}

/// A prefix and what follows it.
pub(super) struct Shape {
    pub(super) rule: &'static str,
    /// At least two ASCII characters.
    pub(super) prefix: &'static [u8],
    pub(super) class: Class,
    /// How long what follows is at least, and at most; 0 for any length.
    pub(super) length: (usize, usize),
    pub(super) need: Need,
}

/// For each first byte where its shapes begin and end in the table; made when the program is compiled.
static FIRST: [(u16, u16); 256] = {
    let mut table = [(0, 0); 256];
    let mut n = 0;
    while n < SHAPES.len() {
        let first = SHAPES[n].prefix[0] as usize;
        if table[first].1 == 0 {
            table[first].0 = n as u16;
        }
        // A shape that stands apart from its first letter would take all between them along; a test looks for that.
        table[first].1 = n as u16 + 1;
        n += 1;
    }
    table
};

/// The second byte of each prefix, side by side: most shapes are ruled out by it.
static SECOND: [u8; SHAPES.len()] = {
    let mut table = [0; SHAPES.len()];
    let mut n = 0;
    while n < SHAPES.len() {
        table[n] = SHAPES[n].prefix[1];
        n += 1;
    }
    table
};

/// The bytes that follow this one in a prefix, one bit each.
pub(super) const fn follows(byte: u8) -> u128 {
    let mut set = 0;
    let mut n = 0;
    while n < SHAPES.len() {
        if SHAPES[n].prefix[0] == byte {
            set |= 1 << SHAPES[n].prefix[1];
        }
        n += 1;
    }
    set
}

/// A secret that begins here: where it ends, and its rule.
pub(super) fn find(text: &Text<'_>, at: usize, first: u8) -> Option<(usize, &'static str)> {
    let (from, to) = FIRST[usize::from(first)];
    let range = usize::from(from)..usize::from(to);
    let second = text.at(at + 1)?;
    SECOND[range.clone()].iter().zip(&SHAPES[range]).filter(|(byte, _)| **byte == second).find_map(
        |(_, shape)| {
            let end = shape.end(text, at)?;
            Some((end, shape.rule))
        },
    )
}

impl Shape {
    /// Where a secret of this shape ends that begins here.
    fn end(&self, text: &Text<'_>, at: usize) -> Option<usize> {
        if !text.starts(at, self.prefix) {
            return None;
        }
        let edge = !text.before(at).is_some_and(|byte| byte.is_ascii_alphanumeric());
        if self.need != Need::Prefix && !edge {
            return None;
        }
        let from = at + self.prefix.len();
        let mut end = text.run(self.class, from);
        // The full stop of a sentence is not a part of it.
        if matches!(self.need, Need::Parts(_)) && text.before(end) == Some(b'.') {
            end -= 1;
        }
        let (least, most) = self.length;
        let length = end.checked_sub(from)?;
        if length < least || most > 0 && length > most {
            return None;
        }
        // An exact length that goes on in letters was something else.
        let goes_on = text.at(end).is_some_and(|byte| byte.is_ascii_alphanumeric());
        if most > 0 && goes_on {
            return None;
        }
        let value = &text.text[from..end];
        let fits = match self.need {
            Need::Prefix | Need::Edge => true,
            Need::Mixed => secret_likelihood::is_mixed(value),
            Need::Uuid => is_uuid(value),
            Need::Parts(lengths) => {
                value.split('.').map(str::len).eq(lengths.iter().copied())
                    && secret_likelihood::is_mixed(value)
            }
        };
        fits.then_some(end)
    }
}

fn is_uuid(value: &str) -> bool {
    value.split('-').map(str::len).eq([8, 4, 4, 4, 12])
        && value.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

/// The rules of the table.
pub(super) fn rules() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().map(|shape| shape.rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_with_one_first_byte_stand_together() {
        for (byte, (from, to)) in FIRST.iter().enumerate() {
            for shape in &SHAPES[usize::from(*from)..usize::from(*to)] {
                assert_eq!(usize::from(shape.prefix[0]), byte, "{}", shape.rule);
            }
        }
    }

    /// Every line of the table finds something, and finds it under its own rule.
    #[test]
    fn no_shape_is_hidden_by_an_earlier_one() {
        for shape in &SHAPES {
            let (least, _) = shape.length;
            let noise = match shape.class {
                Class::Hex => "3f9a1c7e5b2d8046",
                Class::Upper => "Q7ZK2XW9LM4RT8VB",
                _ => "q7Zk2Xw9Lm4Rt8Vb",
            };
            let fill = |length: usize| noise.chars().cycle().take(length).collect::<String>();
            let rest = match shape.need {
                Need::Uuid => "3f9a1c7e-5b2d-4046-8f9a-1c7e5b2d8046".to_owned(),
                Need::Parts(lengths) => lengths.iter().map(|n| fill(*n)).collect::<Vec<_>>().join("."),
                _ => fill(least),
            };
            let secret = format!("{}{rest}", String::from_utf8_lossy(shape.prefix));
            let text = Text::new(&secret);
            assert_eq!(find(&text, 0, shape.prefix[0]), Some((secret.len(), shape.rule)), "{secret}");
        }
    }
}
