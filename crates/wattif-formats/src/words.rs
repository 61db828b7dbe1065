//! Words in messages: quoting of hostile names, and the nearest known word.

/// A name for a message: escaped, shortened, in backquotes.
pub(crate) fn quoted(name: &str) -> String {
    const MAX: usize = 48;
    let short: String = name.chars().take(MAX).flat_map(char::escape_debug).collect();
    let more = if name.chars().nth(MAX).is_some() { "…" } else { "" };
    format!("`{short}{more}`")
}

/// The closest of `words`, when it is close.
pub(crate) fn nearest<'a>(name: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    alike(name, words).into_iter().next()
}

/// Up to three of `words` that `name` may stand for, the closest first: a typing slip away, different only in case and
/// punctuation, or of the same beginning.
pub fn alike<'a>(name: &str, words: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    const LONGEST: usize = 64; // the distance is quadratic
    const SHORTEST_BEGINNING: usize = 3;
    if name.len() > LONGEST {
        return Vec::new();
    }
    let bare = |s: &str| s.to_lowercase().replace(['-', '_', ' '], "");
    let name = bare(name);
    let score = |word: &'a str| {
        let word_bare = bare(word);
        let distance = strsim::damerau_levenshtein(&name, &word_bare);
        let begins = word_bare.starts_with(&name) && name.len() >= SHORTEST_BEGINNING
            || name.starts_with(&word_bare) && word_bare.len() >= SHORTEST_BEGINNING;
        (begins || distance * 3 <= word.len().max(3)).then_some((distance, word))
    };
    let mut scored: Vec<(usize, &str)> = words.into_iter().filter(|w| w.len() <= LONGEST).filter_map(score).collect();
    scored.sort_by_key(|(distance, _)| *distance);
    scored.into_iter().take(3).map(|(_, word)| word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_closest_first() {
        assert_eq!(alike("linux-5.5", ["hikey620", "linux-6.12", "linux-5.4"]), ["linux-5.4", "linux-6.12"]);
        assert_eq!(alike("hikey", ["hikey620", "pixel6", "hikey960"]), ["hikey620", "hikey960"]);
        assert_eq!(alike("Sched-Util", ["schedutil"]), ["schedutil"]);
        assert_eq!(alike("zzz", ["hikey620"]), [""; 0]);
    }
}
