//! Learning a tokenizer from the corpus.
//!
//! Texts go in, one after the other. The text of a Hugging Face `tokenizer.json` comes out, for a byte-level
//! BPE tokenizer that can spell every text. Held in memory: the distinct words so far, within a bound, and at
//! the end also where each pair of tokens is in them. No text is kept.

mod bpe;
mod words;

use std::collections::HashSet;

use crate::config::LearnConfig;
use crate::error::{Error, Result};
use words::Words;

use super::END_OF_TEXT;
use super::byte_level::{ByteLevel, letter};

/// How text is cut into words before BPE; no token reaches across two words. It is `cl100k_base`'s pattern,
/// published with tiktoken: line ends apart from indentation, contractions in either case, at most three
/// digits in a token. Both engines of [`HfTokenizer`](super::hf::HfTokenizer) cut alike by it.
const PATTERN: &str = super::ranks::CL100K;

/// Learns a byte-level BPE tokenizer of `config.vocab_size` tokens from the first `config.sample` bytes of `texts`, and
/// returns its `tokenizer.json`. Use [`Learner`] if the texts come one by one.
///
/// # Errors
///
/// As [`Learner::new`] and [`Learner::learn`].
pub fn learn<S: AsRef<str>>(
    texts: impl IntoIterator<Item = S>,
    config: &LearnConfig,
    special: &[&str],
) -> Result<String> {
    let mut learner = Learner::new(config, special)?;
    for text in texts {
        if !learner.feed(text.as_ref())? {
            break;
        }
    }
    learner.learn()
}

/// Learns a byte-level BPE tokenizer.
///
/// The ids are, in this order: the bytes by value, the learned tokens (most frequent merge first), and the
/// special tokens in their order, each once; [`END_OF_TEXT`] if there are none. The result is a pure function
/// of the config, the special tokens and the texts: the same input gives the same file. Hugging Face's own
/// libraries read it too.
///
/// ```
/// use millstream::config::LearnConfig;
/// use millstream::tokenizer::learn::Learner;
///
/// # fn main() -> millstream::Result<()> {
/// let config = LearnConfig { vocab_size: 280, ..LearnConfig::default() };
/// let mut learner = Learner::new(&config, &[])?;
/// learner.feed("the mill mills, ")?;
/// learner.feed("and the miller mills")?;
/// assert!(learner.learn()?.contains("mill"));
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Learner {
    asked: usize,
    merges: usize,
    special: Vec<String>,
    words: Words,
    /// How many more bytes of text are read.
    left: usize,
}

impl Learner {
    /// Makes a learner of `config.vocab_size` tokens from `config.sample` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] if `vocab_size` does not hold the bytes and the special tokens, or if a special token is
    /// empty or spells a byte.
    pub fn new(config: &LearnConfig, special: &[&str]) -> Result<Self> {
        let special = special_of(special)?;
        let least = 256 + special.len();
        let Some(merges) = config.vocab_size.checked_sub(least) else {
            return Err(Error::config(
                "tokenizer.train.vocab_size",
                format!(
                    "{} is too few: the bytes and the special tokens {special:?} already take {least}",
                    config.vocab_size
                ),
            ));
        };
        let left = config.sample.as_usize();
        Ok(Self { asked: config.vocab_size, merges, special, words: Words::new(PATTERN)?, left })
    }

    /// Counts the words of the next text, and returns whether more texts are wanted. Text beyond the sample
    /// is not read.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`] if the text cannot be cut into words.
    pub fn feed(&mut self, text: &str) -> Result<bool> {
        let part = &text[..text.floor_char_boundary(self.left)];
        self.words.count(part)?;
        self.left -= part.len();
        if part.len() < text.len() {
            self.left = 0;
        }
        Ok(self.left > 0)
    }

    /// Returns the `tokenizer.json`. It blocks for seconds and starts no threads.
    ///
    /// If the sample does not hold enough pairs that occur twice, there are fewer tokens, with a warning.
    ///
    /// # Errors
    ///
    /// [`Error::Tokenizer`] if all texts were empty.
    pub fn learn(self) -> Result<String> {
        let words = self.words.sorted();
        if words.is_empty() {
            return Err(Error::tokenizer(
                "learned",
                "the corpus has no text to learn from; look at `source`, or set tokenizer.path",
            ));
        }
        let bytes = (0..=u8::MAX).map(|byte| letter(byte).to_string()).collect();
        let bpe::Learned { tokens, merges } = bpe::learn(bytes, words, self.merges, &self.special);
        if merges.len() < self.merges {
            tracing::warn!(
                asked = self.asked,
                learned = tokens.len() + self.special.len(),
                "the vocabulary is smaller than was asked for, because no other pair of tokens occurs twice in the \
                 text; lower tokenizer.train.vocab_size, or learn from more text (tokenizer.train.sample)"
            );
        }
        let mut vocab: Vec<(String, u32)> = tokens.into_iter().zip(0..).collect();
        let first = vocab.len() as u32;
        let special: Vec<(String, u32)> = self.special.into_iter().zip(first..).collect();
        vocab.extend_from_slice(&special);
        ByteLevel { pattern: PATTERN, vocab, merges, special: &special, ignore_merges: false }.json("learned")
    }
}

/// The special tokens, each once.
fn special_of(special: &[&str]) -> Result<Vec<String>> {
    let mut seen = HashSet::new();
    let mut once: Vec<&str> = special.iter().copied().filter(|token| seen.insert(*token)).collect();
    if once.is_empty() {
        once.push(END_OF_TEXT);
    }
    for token in &once {
        let mut chars = token.chars();
        let spells_byte = match (chars.next(), chars.next()) {
            (None, _) => true,
            (Some(only), None) => (0..=u8::MAX).any(|byte| letter(byte) == only),
            _ => false,
        };
        if spells_byte {
            return Err(Error::config(
                "tokenizer",
                format!("the special token {token:?} is empty or spells a byte; choose a longer one"),
            ));
        }
    }
    Ok(once.into_iter().map(str::to_owned).collect())
}
