//! A regex that fails where it gives up. The crate's own takes that for the end of the matches.

use fancy_regex::Regex;
use tokenizers_reference::Offsets;
use tokenizers_reference::pattern::Pattern;

use super::AnyError;

/// A bound was reached, so the reference has no ids for the text. The right ids are unknown.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct GaveUp(pub(super) String);

pub(super) struct Search {
    regex: Regex,
}

impl Search {
    pub(super) fn new(pattern: &str) -> Result<Self, String> {
        Ok(Self { regex: Regex::new(pattern).map_err(|e| e.to_string())? })
    }

    /// For a text in itself, which may hold what would be a regex's syntax.
    pub(super) fn literal(text: &str) -> Result<Self, String> {
        Self::new(&fancy_regex::escape(text))
    }
}

impl Pattern for &Search {
    fn find_matches(&self, text: &str) -> Result<Vec<(Offsets, bool)>, AnyError> {
        if text.is_empty() {
            return Ok(vec![((0, 0), false)]);
        }
        let (mut pieces, mut end) = (Vec::new(), 0);
        for found in self.regex.find_iter(text) {
            let found = found.map_err(|e| gave_up(&self.regex, text, end, &e))?;
            if end != found.start() {
                pieces.push(((end, found.start()), false));
            }
            pieces.push(((found.start(), found.end()), true));
            end = found.end();
        }
        if end != text.len() {
            pieces.push(((end, text.len()), false));
        }
        Ok(pieces)
    }
}

fn gave_up(regex: &Regex, text: &str, end: usize, why: &fancy_regex::Error) -> GaveUp {
    let cut = |text: &str, most: usize| match text.floor_char_boundary(most) {
        cut if cut < text.len() => format!("{:?} and so on", &text[..cut]),
        _ => format!("{text:?}"),
    };
    GaveUp(format!(
        "the tokenizer's pattern {} gives up on {}, {} bytes: {why}",
        cut(regex.as_str(), 40),
        cut(&text[end..], 40),
        text.len() - end
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_and_what_is_between_cover_the_text() {
        let of = |pattern: &str, text: &str| (&Search::new(pattern).unwrap()).find_matches(text).unwrap();
        assert_eq!(of("a+", "baab"), [((0, 1), false), ((1, 3), true), ((3, 4), false)]);
        assert_eq!(of("a+", ""), [((0, 0), false)]);
        assert_eq!(of("a+(?!b)", "aaab"), [((0, 2), true), ((2, 4), false)]);
        assert_eq!((&Search::literal("a+").unwrap()).find_matches("aa+").unwrap().len(), 2);
    }

    #[test]
    fn giving_up_is_an_error() {
        let search = Search::new("(?:a+)+(?=!)|a+").unwrap();
        let text = format!("{}b", "a".repeat(40));
        let error = (&search).find_matches(&text).unwrap_err();
        assert!(error.downcast_ref::<GaveUp>().is_some(), "{error}");
        assert!(error.to_string().contains("41 bytes"), "{error}");
    }
}
