//! Reads lines of bounded length from an async reader. Returns one line at a time, without its line feed. A
//! line above the limit is reported once and skipped, and must not be held in memory.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// The next item of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A complete line. The last one may lack a line feed.
    Whole(Vec<u8>),
    /// A line that is longer than the limit.
    TooLong,
    /// The input has ended.
    End,
}

/// Reads lines. Dropping the future of [`LineReader::next`] loses no data: the bytes read so far are kept for
/// the next call.
pub(crate) struct LineReader<R> {
    input: R,
    limit: usize,
    partial: Vec<u8>,
    /// Whether the rest of a line that was too long must still be skipped.
    skipping: bool,
    ended: bool,
}

impl<R: AsyncBufRead + Unpin> LineReader<R> {
    pub(crate) fn new(input: R, limit: usize) -> Self {
        Self { input, limit, partial: Vec::new(), skipping: false, ended: false }
    }

    pub(crate) async fn next(&mut self) -> io::Result<Line> {
        while !self.ended {
            let available = self.input.fill_buf().await?;
            if available.is_empty() {
                self.ended = true;
                if self.partial.is_empty() {
                    break;
                }
                return Ok(Line::Whole(std::mem::take(&mut self.partial)));
            }
            let line_feed = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..line_feed.unwrap_or(available.len())];
            let too_long = !self.skipping && self.partial.len() + part.len() > self.limit;
            if too_long {
                self.partial = Vec::new();
            } else if !self.skipping {
                self.partial.extend_from_slice(part);
            }
            let consumed = part.len() + usize::from(line_feed.is_some());
            self.input.consume(consumed);
            let skipped = self.skipping && line_feed.is_some();
            self.skipping = (self.skipping || too_long) && line_feed.is_none();
            if too_long {
                return Ok(Line::TooLong);
            }
            if line_feed.is_some() && !skipped {
                return Ok(Line::Whole(std::mem::take(&mut self.partial)));
            }
        }
        Ok(Line::End)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// All lines of an input that arrives in pieces of `piece` bytes.
    fn lines(input: &[u8], limit: usize, piece: usize) -> Vec<Line> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut reader = LineReader::new(tokio::io::BufReader::with_capacity(piece, input), limit);
            let mut lines = Vec::new();
            loop {
                match reader.next().await.unwrap() {
                    Line::End => return lines,
                    line => lines.push(line),
                }
            }
        })
    }

    #[test]
    fn lines_end_at_line_feeds_and_at_the_end_of_input() {
        let whole = |text: &str| Line::Whole(text.into());
        for piece in [1, 2, 3, 100] {
            assert_eq!(lines(b"ab\n\ncd\n", 10, piece), [whole("ab"), whole(""), whole("cd")]);
            assert_eq!(lines(b"ab\ncd", 10, piece), [whole("ab"), whole("cd")]);
            assert_eq!(lines(b"", 10, piece), []);
        }
    }

    #[test]
    fn a_line_above_the_limit_is_reported_once_and_skipped() {
        let whole = |text: &str| Line::Whole(text.into());
        for piece in [1, 2, 3, 7, 100] {
            assert_eq!(lines(b"abcd\nabcde\nx\n", 4, piece), [whole("abcd"), Line::TooLong, whole("x")]);
            assert_eq!(lines(b"abcdefghijkl\n\nx", 4, piece), [Line::TooLong, whole(""), whole("x")]);
            assert_eq!(lines(b"abcdefghijkl", 4, piece), [Line::TooLong]);
            assert_eq!(lines(b"abcde\nabcdefgh\n", 4, piece), [Line::TooLong, Line::TooLong]);
        }
    }

    #[test]
    fn a_line_above_the_limit_is_not_held() {
        let mut reader = LineReader::new(&b"abcdefgh"[..], 4);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(reader.next()).unwrap(), Line::TooLong);
        assert_eq!(reader.partial.capacity(), 0);
    }
}
