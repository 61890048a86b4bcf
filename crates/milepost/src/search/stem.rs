//! Reduces a word to its stem with the Snowball algorithms, so that "migrations" finds "migrated". The script of a word
//! decides the language: Latin letters without accents are stemmed as English, Cyrillic ones as Russian, Arabic ones as
//! Arabic. Pure.

use rust_stemmers::{Algorithm, Stemmer};

/// The stem of a word in lower case, before its accents are removed; `None` if the language has no stems here.
pub(super) fn stem(word: &str) -> Option<String> {
    let consists_of = |letters: std::ops::RangeInclusive<char>| word.chars().all(|c| letters.contains(&c));
    let algorithm = if word.len() > 2 && consists_of('a'..='z') {
        Algorithm::English
    } else if consists_of('\u{400}'..='\u{4ff}') {
        Algorithm::Russian
    } else if consists_of('\u{600}'..='\u{6ff}') {
        Algorithm::Arabic
    } else {
        return None;
    };
    Some(Stemmer::create(algorithm).stem(word).into_owned())
}

#[cfg(test)]
mod tests {
    fn stem(word: &str) -> String {
        super::stem(word).unwrap_or_else(|| word.to_owned())
    }

    #[test]
    fn forms_of_a_word_have_the_same_stem() {
        for (one, other) in [
            ("migrations", "migrated"),
            ("retries", "retry"),
            ("controlling", "control"),
            ("hopping", "hop"),
            ("adjustment", "adjust"),
            ("миграции", "миграцией"),
            ("сервера", "серверами"),
            ("الخادم", "خادم"),
        ] {
            assert_eq!(stem(one), stem(other), "{one}, {other}");
        }
    }

    #[test]
    fn other_words_stay() {
        for word in ["is", "utf8", "as", "b2b", "größe", ""] {
            assert_eq!(stem(word), word);
        }
    }
}
