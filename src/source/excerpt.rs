//! Excerpts of a file for messages, no longer than a reader wants to see.

/// How many characters of a word are quoted.
const CHARS: usize = 60;

/// How many words of a list are quoted.
const WORDS: usize = 12;

/// The beginning of a text. A mark shows that it is cut.
pub(crate) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// The first of these names, and how many more there are.
pub(crate) fn listed(names: &[impl AsRef<str>]) -> String {
    let first: Vec<String> = names.iter().take(WORDS).map(|name| excerpt(name.as_ref())).collect();
    match names.len() - first.len() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
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
