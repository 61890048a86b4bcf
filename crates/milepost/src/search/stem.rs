//! Reduces a folded word to its stem, so that "migrations" finds "migrated". English words are reduced with
//! Porter's algorithm, Russian and Arabic words by their most common endings. Pure.

/// The stem of a folded word; `None` if it is the word itself.
pub(super) fn stem(word: &str) -> Option<String> {
    let stem = if word.is_ascii() {
        let is_plain = word.len() > 2 && word.bytes().all(|b| b.is_ascii_lowercase());
        if is_plain { porter(word) } else { return None }
    } else if word.chars().all(|c| ('\u{400}'..='\u{4ff}').contains(&c)) {
        without_ending(word, RUSSIAN_ENDINGS, 3)
    } else if word.chars().all(|c| ('\u{600}'..='\u{6ff}').contains(&c)) {
        let rest = ARABIC_PREFIXES.iter().find_map(|prefix| word.strip_prefix(prefix));
        let rest = rest.filter(|rest| rest.chars().count() > 2).unwrap_or(word);
        without_ending(rest, ARABIC_ENDINGS, 3)
    } else {
        return None;
    };
    (stem != word && !stem.is_empty()).then_some(stem)
}

/// Endings of inflected Russian words, longest first. Folding has replaced `ё` and `й`.
const RUSSIAN_ENDINGS: &[&str] = &[
    "ированиями",
    "ированием",
    "ированию",
    "ирования",
    "ирование",
    "ировать",
    "ировали",
    "ировал",
    "ениями",
    "ением",
    "ениях",
    "аниями",
    "анием",
    "аниях",
    "ению",
    "ения",
    "ение",
    "ании",
    "анию",
    "ания",
    "ание",
    "иями",
    "иеи",
    "ием",
    "ыми",
    "ими",
    "ого",
    "его",
    "ому",
    "ему",
    "ами",
    "ями",
    "иях",
    "ать",
    "ить",
    "еть",
    "ыть",
    "али",
    "или",
    "ала",
    "ила",
    "ает",
    "яет",
    "ают",
    "яют",
    "ует",
    "уют",
    "ах",
    "ях",
    "ов",
    "ев",
    "еи",
    "ои",
    "ыи",
    "ии",
    "ая",
    "яя",
    "ое",
    "ее",
    "ые",
    "ие",
    "ую",
    "юю",
    "ом",
    "ем",
    "ам",
    "ям",
    "ых",
    "их",
    "ию",
    "ия",
    "ал",
    "ил",
    "ют",
    "ут",
    "ят",
    "ет",
    "ит",
    "а",
    "я",
    "о",
    "е",
    "ы",
    "и",
    "у",
    "ю",
    "ь",
];

const ARABIC_PREFIXES: &[&str] = &["وال", "بال", "كال", "فال", "ال", "لل"];
const ARABIC_ENDINGS: &[&str] = &["ها", "ان", "ات", "ون", "ين", "يه", "ه", "ي"];

/// The word without the first ending that leaves at least `shortest` characters.
fn without_ending(word: &str, endings: &[&str], shortest: usize) -> String {
    let stem = endings
        .iter()
        .find_map(|ending| word.strip_suffix(ending).filter(|stem| stem.chars().count() >= shortest));
    stem.unwrap_or(word).to_owned()
}

/// Whether the letter at `at` is a consonant. `y` is one at the start and after a vowel.
fn is_consonant(word: &[u8], at: usize) -> bool {
    match word[at] {
        b'a' | b'e' | b'i' | b'o' | b'u' => false,
        b'y' => at == 0 || !is_consonant(word, at - 1),
        _ => true,
    }
}

/// Number of sequences of vowels that consonants follow.
fn measure(word: &[u8]) -> usize {
    let kinds: Vec<bool> = (0..word.len()).map(|at| is_consonant(word, at)).collect();
    kinds.windows(2).filter(|pair| !pair[0] && pair[1]).count()
}

fn has_vowel(word: &[u8]) -> bool {
    (0..word.len()).any(|at| !is_consonant(word, at))
}

fn ends_double(word: &[u8]) -> bool {
    let n = word.len();
    n > 1 && word[n - 1] == word[n - 2] && is_consonant(word, n - 1)
}

/// Whether a word ends with consonant, vowel, consonant, and the last is not w, x or y.
fn ends_short(word: &[u8]) -> bool {
    let n = word.len();
    n > 2
        && is_consonant(word, n - 3)
        && !is_consonant(word, n - 2)
        && is_consonant(word, n - 1)
        && !matches!(word[n - 1], b'w' | b'x' | b'y')
}

/// Replaces the first ending that matches if the rest has a measure above `least`. Returns whether one matched.
fn replace(word: &mut Vec<u8>, rules: &[(&str, &str)], least: usize) -> bool {
    for (ending, by) in rules {
        if word.ends_with(ending.as_bytes()) {
            let rest = word.len() - ending.len();
            if measure(&word[..rest]) > least {
                word.truncate(rest);
                word.extend_from_slice(by.as_bytes());
            }
            return true;
        }
    }
    false
}

/// Porter's algorithm for English (1980), for words of lower-case ASCII letters.
fn porter(word: &str) -> String {
    let mut w = word.as_bytes().to_vec();
    let cut = |w: &mut Vec<u8>, n: usize| w.truncate(w.len() - n);
    // Plurals.
    if w.ends_with(b"sses") || w.ends_with(b"ies") {
        cut(&mut w, 2);
    } else if w.ends_with(b"s") && !w.ends_with(b"ss") {
        cut(&mut w, 1);
    }
    // Past tense and participles.
    if w.ends_with(b"eed") {
        if measure(&w[..w.len() - 3]) > 0 {
            cut(&mut w, 1);
        }
    } else {
        let ending = if w.ends_with(b"ed") { 2 } else { 3 };
        if (w.ends_with(b"ed") || w.ends_with(b"ing")) && has_vowel(&w[..w.len() - ending]) {
            cut(&mut w, ending);
            if w.ends_with(b"at") || w.ends_with(b"bl") || w.ends_with(b"iz") {
                w.push(b'e');
            } else if ends_double(&w) && !matches!(w.last(), Some(b'l' | b's' | b'z')) {
                cut(&mut w, 1);
            } else if measure(&w) == 1 && ends_short(&w) {
                w.push(b'e');
            }
        }
    }
    if w.ends_with(b"y") && has_vowel(&w[..w.len() - 1]) {
        let last = w.len() - 1;
        w[last] = b'i';
    }
    replace(&mut w, STEP_2, 0);
    replace(&mut w, STEP_3, 0);
    if w.ends_with(b"ion") {
        let rest = &w[..w.len() - 3];
        if measure(rest) > 1 && (rest.ends_with(b"s") || rest.ends_with(b"t")) {
            cut(&mut w, 3);
        }
    } else {
        replace(&mut w, STEP_4, 1);
    }
    if w.ends_with(b"e") {
        let rest = &w[..w.len() - 1];
        if measure(rest) > 1 || (measure(rest) == 1 && !ends_short(rest)) {
            cut(&mut w, 1);
        }
    }
    if w.ends_with(b"ll") && measure(&w) > 1 {
        cut(&mut w, 1);
    }
    String::from_utf8(w).unwrap_or_else(|_| word.to_owned())
}

const STEP_2: &[(&str, &str)] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("abli", "able"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
];

const STEP_3: &[(&str, &str)] = &[
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

const STEP_4: &[(&str, &str)] = &[
    ("al", ""),
    ("ance", ""),
    ("ence", ""),
    ("er", ""),
    ("ic", ""),
    ("able", ""),
    ("ible", ""),
    ("ant", ""),
    ("ement", ""),
    ("ment", ""),
    ("ent", ""),
    ("ou", ""),
    ("ism", ""),
    ("ate", ""),
    ("iti", ""),
    ("ous", ""),
    ("ive", ""),
    ("ize", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn english_words_lose_their_endings() {
        for (word, expected) in [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("agreed", "agre"),
            ("plastered", "plaster"),
            ("motoring", "motor"),
            ("conflated", "conflat"),
            ("hopping", "hop"),
            ("filing", "file"),
            ("happy", "happi"),
            ("relational", "relat"),
            ("triplicate", "triplic"),
            ("adjustment", "adjust"),
            ("adoption", "adopt"),
            ("controlling", "control"),
            ("migrations", "migrat"),
            ("migrated", "migrat"),
            ("retries", "retri"),
            ("retry", "retri"),
        ] {
            assert_eq!(stem(word).as_deref().unwrap_or(word), expected, "{word}");
        }
        for word in ["is", "utf8", "as", "b2b"] {
            assert_eq!(stem(word), None, "{word}");
        }
    }

    #[test]
    fn other_languages_lose_common_endings() {
        let stem = |word: &str| super::stem(word).unwrap_or_else(|| word.to_owned());
        assert_eq!(stem("миграции"), stem("миграциеи"));
        assert_eq!(stem("сервера"), stem("серверами"));
        assert_eq!(stem("الخادم"), stem("خادم"));
        assert_eq!(stem("größe"), "größe");
    }
}
