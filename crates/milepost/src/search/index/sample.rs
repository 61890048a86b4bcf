//! Detects an index that lost words. FTS5 notices some damage only as words that are in no document, so a few random
//! documents are searched by one of their words. Reads only.

use rusqlite::OptionalExtension as _;

use super::{IndexError, SearchIndex};
use crate::search::query::quoted;
use crate::search::tokens::tokenize;

/// Number of documents that are looked up.
const SAMPLED: usize = 8;

impl SearchIndex {
    /// Looks up some random documents. Fails with `Unusable` if one of them is not found by one of its words.
    pub(crate) fn check_sample(&self) -> Result<(), IndexError> {
        // Another process can remove a document between two statements.
        let snapshot = self.connection.unchecked_transaction()?;
        let pick = "SELECT d.n, c.text, random() FROM document d LEFT JOIN content c USING (n) \
                    WHERE d.n >= (SELECT 1 + abs(random() % max(n)) FROM document) ORDER BY d.n LIMIT 1";
        let find = "SELECT 1 FROM word WHERE word MATCH ?1 AND rowid = ?2";
        let (mut pick, mut find) = (snapshot.prepare_cached(pick)?, snapshot.prepare_cached(find)?);
        for _ in 0..SAMPLED {
            let read =
                |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get::<_, Option<String>>(1)?, row.get(2)?));
            let picked: Option<(i64, _, i64)> = pick.query_row([], read).optional()?;
            let Some((n, text, random)) = picked else { return Ok(()) };
            let Some(text) = text else {
                return Err(IndexError::Unusable("a document has no text".to_owned()));
            };
            let mut words: Vec<String> = tokenize(&text).into_iter().map(|token| token.text).collect();
            words.retain(|word| word.chars().all(is_surely_indexed));
            let chosen = usize::try_from(random.unsigned_abs() % (words.len().max(1) as u64)).unwrap_or(0);
            let Some(word) = words.get(chosen) else { continue };
            if !find.exists((quoted(word, false), n))? {
                return Err(IndexError::Unusable("a document is not found by its words".to_owned()));
            }
        }
        Ok(())
    }
}

/// Whether a letter or digit is known to every version of FTS5, which ignores characters that are newer than itself.
fn is_surely_indexed(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || matches!(c, 'а'..='я' | '\u{3041}'..='\u{3096}' | '\u{4e00}'..='\u{9fbf}' | '\u{ac00}'..='\u{d7a3}')
}
