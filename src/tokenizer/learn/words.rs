//! The words of a sample and how often each occurs in it, within a bound of memory.
//!
//! Real text has few words that come often, and ever more that come once. When the table is full, the rarest
//! are dropped, down to half of it: they would have taught little, and a word that comes often comes again.
//! Which words are dropped depends on the texts alone: the rarest first, and among equals by a digest of their
//! spelling, so that no script or alphabet is preferred.

use std::collections::HashMap;
use std::fmt;

use tokenizers::pipeline::{PreTokenizer, PreTokenizerScratch, Span};
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;
use twox_hash::XxHash3_64;

use crate::error::{Error, Result};

/// Longer words are learned from in pieces of this many bytes: scripts without spaces, genomes, lines of
/// dashes. Each merge walks the words that it changes, so one word of megabytes would cost hours.
const WORD: usize = 1024;

/// How much memory all words may take, by [`cost`].
const BOUND: usize = 512 << 20;

/// Roughly the bytes that a word takes while it is learned from: its entry here, its tokens in the learner,
/// and for each byte the byte itself, a token of four bytes, and its place in the list of a pair.
fn cost(word: &str) -> usize {
    100 + 10 * word.len()
}

pub(super) struct Words {
    cutter: Split,
    scratch: PreTokenizerScratch,
    spans: Vec<Span>,
    counts: HashMap<String, u64>,
    bound: usize,
    held: usize,
    warned: bool,
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Words")
            .field("words", &self.counts.len())
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

impl Words {
    /// Starts with no words. Texts are cut by `pattern`.
    pub(super) fn new(pattern: &str) -> Result<Self> {
        let pattern = SplitPattern::Regex(pattern.to_owned());
        Ok(Self {
            cutter: Split::native(pattern, SplitDelimiterBehavior::Isolated, false).map_err(failed)?,
            scratch: PreTokenizerScratch::default(),
            spans: Vec::new(),
            counts: HashMap::new(),
            bound: BOUND,
            held: 0,
            warned: false,
        })
    }

    pub(super) fn count(&mut self, text: &str) -> Result<()> {
        let mut spans = std::mem::take(&mut self.spans);
        spans.clear();
        self.cutter.pre_tokenize(text, &mut self.scratch, &mut spans).map_err(failed)?;
        for span in &spans {
            let mut word = &text[span.range()];
            while !word.is_empty() {
                let (piece, rest) = word.split_at(word.floor_char_boundary(WORD));
                match self.counts.get_mut(piece) {
                    Some(count) => *count += 1,
                    None => self.insert(piece),
                }
                word = rest;
            }
        }
        self.spans = spans;
        Ok(())
    }

    fn insert(&mut self, word: &str) {
        self.counts.insert(word.to_owned(), 1);
        self.held += cost(word);
        if self.held > self.bound {
            self.drop_rarest();
        }
    }

    /// Drops the rarest words until half of the room is free.
    fn drop_rarest(&mut self) {
        let mut words: Vec<(u64, u64, String)> = self
            .counts
            .drain()
            .map(|(word, count)| (count, XxHash3_64::oneshot(word.as_bytes()), word))
            .collect();
        words.sort_unstable();
        let known = words.len();
        let mut words = words.into_iter();
        let mut rarest = 0;
        for (count, _, word) in words.by_ref() {
            self.held -= cost(&word);
            rarest = count;
            if self.held <= self.bound / 2 {
                break;
            }
        }
        self.counts.extend(words.map(|(count, _, word)| (word, count)));
        if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(
                words = known,
                kept = self.counts.len(),
                rarest,
                "the sample has more distinct words than are held at once: the rarest are dropped, now and \
                 whenever they are too many again; the tokenizer hardly differs, and a smaller \
                 tokenizer.train.sample learns from all of its words"
            );
        }
    }

    /// Returns the words and their counts, sorted so that nothing depends on the order of a hash table.
    pub(super) fn sorted(self) -> Vec<(String, u64)> {
        let mut words: Vec<_> = self.counts.into_iter().collect();
        words.sort_unstable();
        words
    }
}

fn failed(e: tokenizers::Error) -> Error {
    Error::tokenizer("learned", e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(bound: usize, texts: &[String]) -> Vec<(String, u64)> {
        let mut words = Words { bound, ..Words::new(crate::tokenizer::ranks::CL100K).unwrap() };
        for text in texts {
            words.count(text).unwrap();
            let held: usize = words.counts.keys().map(|word| cost(word)).sum();
            assert_eq!(words.held, held);
            assert!(held <= bound, "{held} bytes are held, and {bound} may be");
        }
        words.sorted()
    }

    /// Words of Zipf's kind: the k-th comes in every k-th text. Each text has a word of its own too.
    fn texts() -> Vec<String> {
        let often = |n: usize| {
            (1..40).filter(move |k| n.is_multiple_of(*k)).map(|k| format!(" word{}", "x".repeat(k)))
        };
        (0..2000).map(|n| often(n).collect::<String>() + &format!(" {}", spelled(n))).collect()
    }

    fn spelled(n: usize) -> String {
        n.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect()
    }

    #[test]
    fn the_rarest_words_go_and_the_others_keep_their_counts() {
        let all = counted(usize::MAX, &texts());
        let few = counted(40_000, &texts());
        assert!(few.len() < all.len() / 2, "{} of {}", few.len(), all.len());
        for (word, count) in all.iter().filter(|(_, count)| *count > 60) {
            let kept = few.iter().find(|(kept, _)| kept == word);
            assert_eq!(kept.map(|(_, count)| count), Some(count), "{word}");
        }
        assert_eq!(few, counted(40_000, &texts()), "the same texts leave the same words");
    }

    #[test]
    fn words_that_are_all_as_rare_go_by_no_alphabet() {
        let texts: Vec<String> = (0..2000).map(|n| format!(" {}", spelled(n))).collect();
        let kept = counted(60_000, &texts);
        assert!((100..500).contains(&kept.len()), "{}", kept.len());
        let firsts: std::collections::HashSet<_> =
            kept.iter().filter_map(|(word, _)| word.chars().nth(1)).collect();
        assert!(firsts.len() >= 8, "{firsts:?}");
    }
}
