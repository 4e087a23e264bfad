//! The spellings of tokens, and where they stand in a text.

use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, Anchored, Input, Match, MatchKind, StartKind};
use memchr::memmem;
use serde::Deserialize;

use crate::config::{TokenizerConfig, TokenizerKind};
use crate::error::{Error, Result};
use crate::store::local;
use crate::tokenizer::END_OF_TEXT;

/// The largest `tokenizer.json`, in bytes.
const MOST: u64 = 256 << 20;

/// Up to so many spellings are compared one by one.
const FEW: usize = 16;

/// One token that a text may spell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spelling {
    pub(super) text: String,
    /// Whether it is none within a word.
    pub(super) is_single_word: bool,
}

impl Spelling {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_single_word: false }
    }

    /// Whether it is only white space, which imitates nothing: it means the same wherever it stands.
    pub(super) fn is_space(&self) -> bool {
        self.text.chars().all(|c| c.is_whitespace() || c == '\u{2581}')
    }

    /// Whether it stands at the place of a text where its letters do.
    fn is_at(&self, text: &str, range: &Range<usize>) -> bool {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        !self.is_single_word
            || !(text[..range.start].chars().next_back().is_some_and(is_word)
                || text[range.end..].chars().next().is_some_and(is_word))
    }
}

/// Finds any of some spellings: the leftmost, and of those at one place the longest, as tokenizers do.
#[derive(Clone, Debug, Default)]
pub(super) struct Spellings {
    all: Vec<Spelling>,
    /// `None` if there are none.
    finder: Option<Arc<Finder>>,
}

#[derive(Debug)]
struct Finder {
    /// Finds how all of them begin. To look for that first is much faster than to look for all of them.
    beginning: memmem::Finder<'static>,
    search: Search,
}

/// How spellings are looked up.
#[derive(Debug)]
enum Search {
    /// They are few: each is compared where their beginning stands.
    Few,
    /// All at once, where their beginning stands.
    AtBeginning(AhoCorasick),
    /// They have no common beginning, and are looked for in all that follows.
    Anywhere(AhoCorasick),
}

impl Spellings {
    pub(super) fn new(all: impl IntoIterator<Item = Spelling>) -> Self {
        let mut all: Vec<Spelling> = all.into_iter().filter(|spelling| !spelling.text.is_empty()).collect();
        // By length, the longest first.
        all.sort_by(|a, b| b.text.len().cmp(&a.text.len()).then_with(|| a.text.cmp(&b.text)));
        all.dedup_by(|a, b| a.text == b.text);
        let finder = |beginning: &[u8]| {
            let texts = all.iter().map(|spelling| &spelling.text);
            let search = |start| {
                let mut builder = AhoCorasick::builder();
                builder.match_kind(MatchKind::LeftmostLongest).start_kind(start);
                builder.build(texts).expect("the tokens of a file are far fewer than it can hold")
            };
            let search = match beginning {
                [] => Search::Anywhere(search(StartKind::Unanchored)),
                _ if all.len() <= FEW => Search::Few,
                _ => Search::AtBeginning(search(StartKind::Anchored)),
            };
            Arc::new(Finder { beginning: memmem::Finder::new(beginning).into_owned(), search })
        };
        let beginning = all.iter().map(|spelling| spelling.text.as_bytes()).reduce(common);
        let finder = beginning.map(finder);
        Self { all, finder }
    }

    pub(super) fn all(&self) -> &[Spelling] {
        &self.all
    }

    /// The next spelling from `at` on, and its number.
    pub(super) fn next(&self, text: &str, at: usize) -> Option<(Range<usize>, usize)> {
        let (finder, mut at) = (self.finder.as_ref()?, at);
        let place = |found: Match| (found.range(), found.pattern().as_usize());
        loop {
            at += finder.beginning.find(&text.as_bytes()[at..])?;
            let rest = Input::new(text).range(at..);
            let found = match &finder.search {
                Search::Few => {
                    let here = &text.as_bytes()[at..];
                    let number =
                        self.all.iter().position(|spelling| here.starts_with(spelling.text.as_bytes()));
                    number.map(|number| (at..at + self.all[number].text.len(), number))
                }
                Search::AtBeginning(all) => all.find(rest.anchored(Anchored::Yes)).map(place),
                Search::Anywhere(all) => Some(place(all.find(rest)?)),
            };
            let Some((range, number)) = found else {
                at += 1;
                continue;
            };
            if self.all[number].is_at(text, &range) {
                return Some((range, number));
            }
            at = range.start + 1;
        }
    }

    /// All that stand in a text, with their numbers.
    pub(super) fn find<'a>(&'a self, text: &'a str) -> impl Iterator<Item = (Range<usize>, usize)> + 'a {
        let mut at = 0;
        std::iter::from_fn(move || {
            let found = self.next(text, at)?;
            at = found.0.end;
            Some(found)
        })
    }

    pub(super) fn is_in(&self, text: &str) -> bool {
        self.next(text, 0).is_some()
    }
}

/// The bytes with which both begin.
fn common<'a>(a: &'a [u8], b: &[u8]) -> &'a [u8] {
    &a[..a.iter().zip(b).take_while(|(a, b)| a == b).count()]
}

/// The added tokens of a tokenizer.
pub(super) fn of_tokenizer(config: &TokenizerConfig) -> Result<Vec<Spelling>> {
    let around = [&config.bos, &config.eos, &config.pad].into_iter().flatten();
    let mut spellings: Vec<Spelling> = around.map(Spelling::new).collect();
    match &config.path {
        Some(path) if config.kind == TokenizerKind::Subwords => {
            let path = &*local(path)?;
            let bytes = crate::bounded::read_any(path, MOST).map_err(|e| Error::io(path, "read", e))?;
            match (added_tokens(&bytes), &config.pattern) {
                (Some(added), _) => spellings.extend(added),
                (None, Some(pattern)) => spellings.extend(of_ranks(pattern, config)?),
                // Whoever opens the tokenizer says what is wrong with it.
                (None, None) => (),
            }
        }
        // A learned tokenizer has those that the config names.
        _ => spellings.push(Spelling::new(END_OF_TEXT)),
    }
    Ok(spellings)
}

/// The added tokens of a `tokenizer.json`; `None` if it is something else.
fn added_tokens(json: &[u8]) -> Option<Vec<Spelling>> {
    #[derive(Deserialize)]
    struct Added {
        content: String,
        #[serde(default)]
        single_word: bool,
    }
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        added_tokens: Vec<Added>,
    }
    let json = json.strip_prefix(b"\xef\xbb\xbf").unwrap_or(json);
    let file: File = serde_json::from_slice(json).ok()?;
    let spelling = |added: Added| Spelling { text: added.content, is_single_word: added.single_word };
    Some(file.added_tokens.into_iter().map(spelling).collect())
}

/// The special tokens of a file of ranks.
#[cfg(feature = "tokenizers")]
fn of_ranks(pattern: &str, config: &TokenizerConfig) -> Result<Vec<Spelling>> {
    let tokens = crate::tokenizer::ranks::special_tokens(pattern, &config.special)?;
    Ok(tokens.into_iter().map(|(token, _)| Spelling::new(token)).collect())
}

/// Without the feature, nothing encodes with ranks.
#[cfg(not(feature = "tokenizers"))]
fn of_ranks(_: &str, config: &TokenizerConfig) -> Result<Vec<Spelling>> {
    Ok(config.special.keys().map(Spelling::new).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spellings(texts: &[&str]) -> Spellings {
        Spellings::new(texts.iter().map(|text| Spelling::new(*text)))
    }

    #[test]
    fn the_leftmost_and_longest_is_found() {
        let some = spellings(&["<a>", "<a><b>", "\u{ff5c}", "[X]", "b"]);
        let found = |text: &str| -> Vec<String> {
            some.find(text)
                .map(|(range, number)| {
                    assert_eq!(text[range.clone()], some.all()[number].text);
                    text[range].to_owned()
                })
                .collect()
        };
        assert_eq!(found("x<a><b><a>b\u{ff5c}[X]<"), ["<a><b>", "<a>", "b", "\u{ff5c}", "[X]"]);
        assert_eq!(found(""), [""; 0]);
        assert_eq!(Spellings::default().next("<a>", 0), None);
    }

    #[test]
    fn a_single_word_is_none_within_another() {
        let word = Spelling { text: "ab".to_owned(), is_single_word: true };
        let some = Spellings::new([word]);
        let places = |text| some.find(text).map(|(range, _)| range.start).collect::<Vec<_>>();
        assert_eq!(places("ab cab abc (ab) \u{e4}ab ab"), [0, 12, 21]);
    }

    proptest! {
        #[test]
        fn it_agrees_with_looking_everywhere(
            texts in prop_oneof![prop::collection::vec("[abc]{1,3}", 0..6), prop::collection::vec("<[abc]{1,3}", 0..40)],
            text in "[<abcd\u{e4}]{0,40}",
        ) {
            let some = Spellings::new(texts.iter().map(Spelling::new));
            let mut expected = Vec::new();
            let mut at = 0;
            while at < text.len() {
                let here = text.get(at..).unwrap_or_default();
                let longest = texts.iter().filter(|other| here.starts_with(other.as_str())).map(String::len).max();
                expected.extend(longest.map(|len| at..at + len));
                at += longest.unwrap_or(1);
            }
            prop_assert_eq!(some.find(&text).map(|(range, _)| range).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn added_tokens_are_read() {
        let json = br#"{"model": {"vocab": {"a": 0}}, "added_tokens": [
            {"id": 1, "content": "<s>", "special": true}, {"id": 2, "content": "ab", "single_word": true}]}"#;
        let added = added_tokens(json).expect("a tokenizer.json");
        let texts: Vec<_> = added.iter().map(|token| (token.text.as_str(), token.is_single_word)).collect();
        assert_eq!(texts, [("<s>", false), ("ab", true)]);
        assert!(added_tokens(b"IQ== 0").is_none());
    }
}
