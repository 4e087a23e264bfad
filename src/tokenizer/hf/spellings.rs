//! The bytes of each token, which tell where it stands in a text.
//!
//! Where the tokens of a text spell the text, byte for byte, each stands for what it spells. That is so for byte-level
//! BPE, and for SentencePiece's models, whose tokens have `▁` for a space. Wherever a normalizer has changed the text,
//! they spell something else: then there is no answer here.
//!
//! Held in memory: the vocabulary's own bytes, and four for each token.

use std::collections::HashMap;
use std::ops::Range;

use serde::Deserialize;
use tokenizers::utils::byte_level::char_to_byte;

use super::outline::{Added, Outline};
use super::vocabulary::Vocabulary;

/// What SentencePiece writes for a space.
const SPACE: char = '▁';

pub(super) struct Spellings {
    /// All tokens' bytes, by id.
    bytes: Vec<u8>,
    /// Where those of each token end.
    ends: Vec<u32>,
    /// Whether a text may get a space in front.
    has_spaces: bool,
    /// Whether ids that spell a text's beginning stand for it, whatever follows: nothing is removed from texts.
    is_local: bool,
}

#[derive(Deserialize)]
struct File {
    model: Model,
}

#[derive(Deserialize)]
struct Model {
    #[serde(rename = "type")]
    kind: Option<String>,
    vocab: Vocab,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Vocab {
    Ids(HashMap<String, u32>),
    /// Unigram's, in the order of ids, with their scores.
    Scores(Vec<(String, f64)>),
}

impl Spellings {
    /// The spellings of a file; `None` if its tokens do not spell texts.
    pub(super) fn read(json: &str, vocabulary: &Vocabulary) -> Option<Self> {
        let outline = Outline::read(json).ok()?;
        let File { model } = serde_json::from_str(json).ok()?;
        // Their tokens leave out white space.
        if matches!(model.kind.as_deref(), Some("WordPiece" | "WordLevel")) {
            return None;
        }
        let is_byte_level = outline.is_byte_level();
        let is_local = is_byte_level && outline.normalizes_by_nfc_alone();
        let bytes = |token: &str| match is_byte_level {
            true => token.chars().map(char_to_byte).collect::<Option<_>>().unwrap_or_default(),
            false => piece(token),
        };
        let model: Vec<(usize, Vec<u8>)> = match model.vocab {
            Vocab::Ids(ids) => ids.iter().map(|(token, id)| (*id as usize, bytes(token))).collect(),
            Vocab::Scores(all) => all.iter().map(|(token, _)| bytes(token)).enumerate().collect(),
        };
        let added =
            vocabulary.added.iter().map(|(token, id)| (*id as usize, token.clone().into_bytes())).collect();
        // Letters that stand for bytes are none in an added token. But "▁▁" is two spaces, whoever has it.
        let in_order = if is_byte_level { [model, added] } else { [added, model] };
        let mut spelled: Vec<Vec<u8>> = vec![Vec::new(); vocabulary.size];
        for (id, bytes) in in_order.into_iter().flatten() {
            if let Some(spelled) = spelled.get_mut(id) {
                *spelled = bytes;
            }
        }
        let prepends_space = !is_byte_level && outline.prepends_space();
        let takes_space = |token: &Added| token.lstrip || token.rstrip;
        let is_more = |token: &&Added| takes_space(token) || token.normalized && prepends_space;
        for token in outline.added_tokens().iter().filter(is_more) {
            let known = vocabulary.added.iter().find(|(added, _)| *added == token.content);
            let Some(spelled) = known.and_then(|(_, id)| spelled.get_mut(*id as usize)) else { continue };
            match takes_space(token) {
                // It may stand for white space beside it, too.
                true => spelled.clear(),
                // It is sought with the space that is put before texts.
                false => spelled.insert(0, b' '),
            }
        }
        let mut all = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(spelled.len()),
            has_spaces: !is_byte_level,
            is_local,
        };
        for spelled in spelled {
            all.bytes.extend(spelled);
            all.ends.push(u32::try_from(all.bytes.len()).ok()?);
        }
        Some(all)
    }

    fn of(&self, id: u32) -> &[u8] {
        let end = |id: usize| self.ends.get(id).map(|end| *end as usize);
        let before = (id as usize).checked_sub(1).map_or(Some(0), end);
        before.zip(end(id as usize)).map_or(&[], |(start, end)| &self.bytes[start..end])
    }

    /// Appends the range of each id if the ids spell the text, and returns whether they do. Those of ids that begin at
    /// `until` or later may be left out.
    pub(super) fn spans(&self, text: &str, ids: &[u32], until: usize, spans: &mut Vec<Range<usize>>) -> bool {
        let (first, mut at) = (spans.len(), 0);
        spans.reserve(ids.len().min(until));
        for id in ids {
            if self.is_local && until <= at {
                return true;
            }
            let (spelled, rest) = (self.of(*id), &text.as_bytes()[at..]);
            let len = match spelled {
                [] => None,
                _ if rest.starts_with(spelled) => Some(spelled.len()),
                // The text got a space in front. Alone, it belongs to the first character.
                [b' ', own @ ..] if self.has_spaces && spans.len() == first && rest.starts_with(own) => {
                    Some(own.len())
                }
                _ => None,
            };
            let Some(len) = len else {
                spans.truncate(first);
                return false;
            };
            let end = if at + len > 0 { at + len } else { text.chars().next().map_or(0, char::len_utf8) };
            spans.push(at..end);
            at += len;
        }
        let is_whole = at == text.len();
        if !is_whole {
            spans.truncate(first);
        }
        is_whole
    }
}

/// What a piece of SentencePiece spells: `<0x0A>` is a byte.
fn piece(token: &str) -> Vec<u8> {
    let byte = token.strip_prefix("<0x").and_then(|rest| rest.strip_suffix('>'));
    match byte.filter(|digits| digits.len() == 2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
        Some(byte) => vec![byte],
        None => token.replace(SPACE, " ").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spellings(tokens: &[&str], is_byte_level: bool) -> Spellings {
        let vocab: HashMap<&str, usize> = tokens.iter().copied().zip(0..).collect();
        let cuts = if is_byte_level { "ByteLevel" } else { "Metaspace" };
        let json = serde_json::json!({
            "model": { "type": "BPE", "vocab": vocab }, "pre_tokenizer": { "type": cuts },
        });
        let vocabulary = Vocabulary::known(tokens.len() + 1, vec![("<|x|>".to_owned(), tokens.len() as u32)]);
        Spellings::read(&json.to_string(), &vocabulary).expect("spellings")
    }

    fn spans(spellings: &Spellings, text: &str, ids: &[u32]) -> Option<Vec<Range<usize>>> {
        let mut spans = Vec::new();
        spellings.spans(text, ids, usize::MAX, &mut spans).then_some(spans)
    }

    #[test]
    fn bytes_are_spelled_by_letters() {
        let bytes = spellings(&["a", "Ġb", "Ã", "¤"], true);
        assert_eq!(spans(&bytes, "a bä", &[0, 1, 2, 3]), Some(vec![0..1, 1..3, 3..4, 4..5]));
        assert_eq!(spans(&bytes, "<|x|>a", &[4, 0]), Some(vec![0..5, 5..6]));
        // A space in front is one of the text's own.
        assert_eq!(spans(&bytes, "b", &[1]), None);
        for (text, ids) in [("a", &[0, 0][..]), ("aa", &[0]), ("b", &[0]), ("a", &[5]), ("a", &[u32::MAX])] {
            assert_eq!(spans(&bytes, text, ids), None, "{text:?} {ids:?}");
        }
        assert_eq!(spans(&bytes, "", &[]), Some(vec![]));
        for (until, expected) in [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3)] {
            let mut spans = Vec::new();
            assert!(bytes.spans("a bä", &[0, 1, 2, 3], until, &mut spans));
            assert_eq!(spans.len(), expected, "{until}");
        }
    }

    #[test]
    fn pieces_may_begin_with_a_space_that_the_text_has_not() {
        let pieces = spellings(&["▁", "▁a", "b", "<0xC3>", "<0xA4>"], false);
        assert_eq!(spans(&pieces, "ab a", &[1, 2, 1]), Some(vec![0..1, 1..2, 2..4]));
        assert_eq!(spans(&pieces, "äb", &[0, 3, 4, 2]), Some(vec![0..2, 0..1, 1..2, 2..3]));
        assert_eq!(spans(&pieces, " a", &[0, 1]), None, "the reference tells which space is the text's own");
        assert_eq!(spans(&pieces, "ba", &[2, 1]), None);
        assert_eq!(spans(&pieces, "▁a", &[1]), None);
    }
}
