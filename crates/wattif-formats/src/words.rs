//! Words in messages: quoting of hostile names, and the nearest known word.

/// A name for a message: escaped, shortened, in backquotes.
pub(crate) fn quoted(name: &str) -> String {
    const MAX: usize = 48;
    let short: String = name.chars().take(MAX).flat_map(char::escape_debug).collect();
    let more = if name.chars().nth(MAX).is_some() { "…" } else { "" };
    format!("`{short}{more}`")
}

/// The closest of `words`, when it is close: a typing slip away, or different only in case and punctuation.
pub(crate) fn nearest<'a>(name: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const LONGEST: usize = 64; // the distance is quadratic
    if name.len() > LONGEST {
        return None;
    }
    let bare = |s: &str| s.to_lowercase().replace(['-', '_', ' '], "");
    let name = bare(name);
    let scored = words.filter(|w| w.len() <= LONGEST).map(|w| (strsim::damerau_levenshtein(&name, &bare(w)), w));
    scored.filter(|(d, w)| *d * 3 <= w.len().max(3)).min_by_key(|(d, _)| *d).map(|(_, w)| w)
}
