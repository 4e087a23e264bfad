//! Excerpts for messages, no longer than a reader wants to see.

use std::borrow::Cow;

/// How many characters of a word are quoted.
const CHARS: usize = 60;

/// How many words of a list are quoted.
const WORDS: usize = 12;

/// The beginning of a text. A mark shows that it is cut.
pub(crate) fn excerpt(text: &str) -> String {
    cut(text, CHARS).into_owned()
}

/// The first characters of a text. A mark shows that it is cut.
pub(crate) fn cut(text: &str, characters: usize) -> Cow<'_, str> {
    match text.char_indices().nth(characters) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// The first of these names, and how many more there are.
pub(crate) fn listed(names: &[impl AsRef<str>]) -> String {
    first(names.iter().map(|name| excerpt(name.as_ref())), WORDS)
}

/// As many of these names, and how many more there are.
pub(crate) fn first(mut names: impl ExactSizeIterator<Item = String>, most: usize) -> String {
    let named: Vec<String> = names.by_ref().take(most).collect();
    match names.len() {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_cut_between_characters() {
        assert_eq!(excerpt(&"é".repeat(CHARS)), "é".repeat(CHARS));
        assert_eq!(excerpt(&"é".repeat(CHARS + 1)), "é".repeat(CHARS) + "…");
        assert_eq!(listed(&["a", "b"]), "a, b");
        assert_eq!(listed(&["x"; WORDS + 3]), "x, ".repeat(WORDS - 1) + "x and 3 more");
    }
}
