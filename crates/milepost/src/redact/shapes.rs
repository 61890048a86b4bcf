//! Finds secrets with a known prefix. Takes a position in a text and returns the end of the secret there and
//! the rule of the matching table entry.

use super::secret_likelihood;
use super::shape_table::SHAPES;
use super::text::{ByteClass, Text};

/// A condition for a match in addition to prefix, class and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Requirement {
    /// None: the prefix is sufficient.
    Prefix,
    /// No letter or digit precedes the prefix.
    Edge,
    /// `Edge`, and the value looks random.
    Mixed,
    /// `Edge`, and the value is a UUID.
    Uuid,
    /// `Edge`, and the value looks random and consists of dot-separated parts of these lengths.
    Parts(&'static [usize]),
}

pub(super) struct Shape {
    pub(super) rule: &'static str,
    /// ASCII only. All start with the same two bytes.
    pub(super) prefixes: &'static [&'static str],
    pub(super) class: ByteClass,
    /// Minimum and maximum length of the value after the prefix. A maximum of 0 means no limit.
    pub(super) length: (usize, usize),
    pub(super) requirement: Requirement,
}

/// The range of [`SHAPES`] for each first byte. Built at compile time.
static SHAPES_BY_FIRST_BYTE: [(u16, u16); 256] = {
    let mut table = [(0, 0); 256];
    let mut n = 0;
    while n < SHAPES.len() {
        let first = SHAPES[n].first_bytes().0 as usize;
        if table[first].1 == 0 {
            table[first].0 = n as u16;
        }
        // Shapes with the same first byte must be adjacent. A test checks this.
        table[first].1 = n as u16 + 1;
        n += 1;
    }
    table
};

/// The second byte of each shape's prefixes, in a compact array. It rules out most shapes.
static SECOND_BYTES: [u8; SHAPES.len()] = {
    let mut table = [0; SHAPES.len()];
    let mut n = 0;
    while n < SHAPES.len() {
        table[n] = SHAPES[n].first_bytes().1;
        n += 1;
    }
    table
};

/// The bytes that may follow `byte` at the start of a prefix, as a bit set.
pub(super) const fn second_bytes(byte: u8) -> u128 {
    let mut set = 0;
    let mut n = 0;
    while n < SHAPES.len() {
        let (first, second) = SHAPES[n].first_bytes();
        if first == byte {
            set |= 1 << second;
        }
        n += 1;
    }
    set
}

/// Matches a secret that starts at `at`. Returns its end and its rule.
pub(super) fn match_shape(text: &Text<'_>, at: usize, first: u8) -> Option<(usize, &'static str)> {
    let (from, to) = SHAPES_BY_FIRST_BYTE[usize::from(first)];
    let range = usize::from(from)..usize::from(to);
    let second = text.byte_at(at + 1)?;
    SECOND_BYTES[range.clone()].iter().zip(&SHAPES[range]).filter(|(byte, _)| **byte == second).find_map(
        |(_, shape)| {
            let end = shape.prefixes.iter().find_map(|prefix| shape.match_end(prefix, text, at))?;
            Some((end, shape.rule))
        },
    )
}

impl Shape {
    const fn first_bytes(&self) -> (u8, u8) {
        let prefix = self.prefixes[0].as_bytes();
        (prefix[0], prefix[1])
    }

    fn match_end(&self, prefix: &str, text: &Text<'_>, at: usize) -> Option<usize> {
        if !text.starts_with(at, prefix.as_bytes()) {
            return None;
        }
        let edge = !text.byte_before(at).is_some_and(|byte| byte.is_ascii_alphanumeric());
        if self.requirement != Requirement::Prefix && !edge {
            return None;
        }
        let from = at + prefix.len();
        let mut end = text.run_end(self.class, from);
        // The full stop of a sentence is not part of the value.
        if matches!(self.requirement, Requirement::Parts(_)) && text.byte_before(end) == Some(b'.') {
            end -= 1;
        }
        let (least, most) = self.length;
        let length = end.checked_sub(from)?;
        if length < least || most > 0 && length > most {
            return None;
        }
        // If the length is limited, a value followed by more letters or digits is not a match.
        let goes_on = text.byte_at(end).is_some_and(|byte| byte.is_ascii_alphanumeric());
        if most > 0 && goes_on {
            return None;
        }
        let value = &text.text[from..end];
        let fits = match self.requirement {
            Requirement::Prefix | Requirement::Edge => true,
            Requirement::Mixed => secret_likelihood::looks_random(value),
            Requirement::Uuid => is_uuid(value),
            Requirement::Parts(lengths) => {
                value.split('.').map(str::len).eq(lengths.iter().copied())
                    && secret_likelihood::looks_random(value)
            }
        };
        fits.then_some(end)
    }
}

fn is_uuid(value: &str) -> bool {
    value.split('-').map(str::len).eq([8, 4, 4, 4, 12])
        && value.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

pub(super) fn rules() -> impl Iterator<Item = &'static str> {
    SHAPES.iter().map(|shape| shape.rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_with_one_first_byte_stand_together() {
        for (byte, (from, to)) in SHAPES_BY_FIRST_BYTE.iter().enumerate() {
            for shape in &SHAPES[usize::from(*from)..usize::from(*to)] {
                for prefix in shape.prefixes {
                    assert!(prefix.is_ascii());
                    assert_eq!(usize::from(prefix.as_bytes()[0]), byte, "{prefix}");
                    assert_eq!(prefix.as_bytes()[1], shape.first_bytes().1, "{prefix}");
                }
            }
        }
    }

    /// Every shape of the table matches an example of itself and reports its own rule.
    #[test]
    fn no_shape_is_hidden_by_an_earlier_one() {
        for shape in &SHAPES {
            let (least, _) = shape.length;
            let noise = match shape.class {
                ByteClass::Hex => "3f9a1c7e5b2d8046",
                ByteClass::Upper => "Q7ZK2XW9LM4RT8VB",
                _ => "q7Zk2Xw9Lm4Rt8Vb",
            };
            let fill = |length: usize| noise.chars().cycle().take(length).collect::<String>();
            let rest = match shape.requirement {
                Requirement::Uuid => "3f9a1c7e-5b2d-4046-8f9a-1c7e5b2d8046".to_owned(),
                Requirement::Parts(lengths) => lengths.iter().map(|n| fill(*n)).collect::<Vec<_>>().join("."),
                _ => fill(least),
            };
            for prefix in shape.prefixes {
                let secret = format!("{prefix}{rest}");
                let found = match_shape(&Text::new(&secret), 0, prefix.as_bytes()[0]);
                assert_eq!(found, Some((secret.len(), shape.rule)), "{secret}");
            }
        }
    }
}
