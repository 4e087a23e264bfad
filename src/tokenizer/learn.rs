//! Learning a tokenizer from the corpus.
//!
//! Texts go in; the text of a Hugging Face `tokenizer.json` comes out, for a byte-level BPE tokenizer
//! that can spell every text. Held in memory: the sample's distinct words and where each pair of tokens
//! stands in them, at most some ten times the sample's bytes and mostly far less.

mod bpe;

use std::collections::{HashMap, HashSet};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use tokenizers::pipeline::{PreTokenizer, PreTokenizerScratch, Span};
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;
use tokenizers::utils::byte_level::BYTES_CHAR_LOOKUP;

use crate::config::LearnConfig;
use crate::error::{Error, Result};

/// The special token that a learned tokenizer has if none is named.
pub const END_OF_TEXT: &str = "<|endoftext|>";

/// How text is cut into words before BPE; no token reaches across two. It is `cl100k_base`'s pattern,
/// published with tiktoken: line ends apart from indentation, contractions in either case, three digits
/// at most to a token. Both engines of [`HfTokenizer`](super::hf::HfTokenizer) cut by it alike.
const PATTERN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// Longer words are learned from in pieces of this many bytes: script without spaces, genomes, rules of
/// dashes. Each merge walks the words that it changes, so one word of megabytes would cost hours.
const WORD: usize = 1024;

/// Learns a byte-level BPE tokenizer of `config.vocab_size` tokens from the first `config.sample` bytes
/// of `texts`, and returns its `tokenizer.json`, which Hugging Face's own libraries read too.
///
/// Ids: the bytes by value, then the learned tokens, most frequent merge first, then `specials` in their
/// order, each once; [`END_OF_TEXT`] if there are none. The result is a pure function of the arguments:
/// the same texts give the same file. It blocks for seconds and starts no threads.
///
/// A sample that does not hold enough pairs that occur twice gives fewer tokens, with a warning.
///
/// # Errors
///
/// [`Error::Tokenizer`] if the texts are all empty, [`Error::Config`] if `vocab_size` does not hold the
/// bytes and the special tokens, or if a special token is empty or spells a byte.
pub fn learn<S: AsRef<str>>(
    texts: impl IntoIterator<Item = S>,
    config: &LearnConfig,
    specials: &[&str],
) -> Result<String> {
    let specials = specials_of(specials)?;
    let least = 256 + specials.len();
    let Some(merges) = config.vocab_size.checked_sub(least) else {
        return Err(Error::config(
            "tokenizer.train.vocab_size",
            format!(
                "{} is too few: the bytes and the special tokens {specials:?} are {least}",
                config.vocab_size
            ),
        ));
    };
    let words = count_words(texts, config.sample.0)?;
    if words.is_empty() {
        return Err(Error::tokenizer(
            "learned",
            "the corpus has no text to learn from; look at `source`, or set tokenizer.path",
        ));
    }
    let bytes = BYTES_CHAR_LOOKUP.iter().map(char::to_string).collect();
    let learned = bpe::learn(bytes, words, merges, &specials);
    if learned.merges.len() < merges {
        tracing::warn!(
            asked = config.vocab_size,
            learned = least + learned.merges.len(),
            "the sample is too small for the vocabulary that was asked for: no other pair of tokens \
             occurs twice; raise tokenizer.train.sample, or lower tokenizer.train.vocab_size"
        );
    }
    file(learned, &specials)
}

/// The special tokens, each once.
fn specials_of<'a>(specials: &[&'a str]) -> Result<Vec<&'a str>> {
    let mut seen = HashSet::new();
    let mut specials: Vec<&str> = specials.iter().copied().filter(|token| seen.insert(*token)).collect();
    if specials.is_empty() {
        specials.push(END_OF_TEXT);
    }
    for special in &specials {
        let mut chars = special.chars();
        let spells_byte = match (chars.next(), chars.next()) {
            (None, _) => true,
            (Some(only), None) => BYTES_CHAR_LOOKUP.contains(&only),
            _ => false,
        };
        if spells_byte {
            return Err(Error::config(
                "tokenizer",
                format!("the special token {special:?} is empty or spells a byte; choose a longer one"),
            ));
        }
    }
    Ok(specials)
}

/// How often each word stands in the first `sample` bytes; sorted, so that nothing hangs on the order
/// of a hash table.
fn count_words<S: AsRef<str>>(texts: impl IntoIterator<Item = S>, sample: u64) -> Result<Vec<(String, u64)>> {
    let failed = |e: tokenizers::Error| Error::tokenizer("learned", e.to_string());
    let cutter =
        Split::native(SplitPattern::Regex(PATTERN.to_owned()), SplitDelimiterBehavior::Isolated, false)
            .map_err(failed)?;
    let mut counts: HashMap<String, u64> = HashMap::new();
    let (mut scratch, mut spans) = (PreTokenizerScratch::default(), Vec::<Span>::new());
    let mut left = usize::try_from(sample).unwrap_or(usize::MAX);
    for text in texts {
        let whole = text.as_ref();
        let text = &whole[..whole.floor_char_boundary(left)];
        spans.clear();
        cutter.pre_tokenize(text, &mut scratch, &mut spans).map_err(failed)?;
        for span in &spans {
            let mut word = &text[span.range()];
            while !word.is_empty() {
                let (piece, rest) = word.split_at(word.floor_char_boundary(WORD));
                match counts.get_mut(piece) {
                    Some(count) => *count += 1,
                    None => {
                        counts.insert(piece.to_owned(), 1);
                    }
                }
                word = rest;
            }
        }
        left -= text.len();
        if left == 0 || text.len() < whole.len() {
            break;
        }
    }
    let mut words: Vec<_> = counts.into_iter().collect();
    words.sort_unstable();
    Ok(words)
}

#[derive(Serialize)]
struct File<'a> {
    version: &'a str,
    truncation: Option<()>,
    padding: Option<()>,
    added_tokens: Vec<Value>,
    normalizer: Option<()>,
    pre_tokenizer: Value,
    post_processor: Option<()>,
    decoder: Value,
    model: Model,
}

#[derive(Serialize)]
struct Model {
    #[serde(rename = "type")]
    kind: &'static str,
    dropout: Option<()>,
    unk_token: Option<()>,
    continuing_subword_prefix: Option<()>,
    end_of_word_suffix: Option<()>,
    fuse_unk: bool,
    byte_fallback: bool,
    ignore_merges: bool,
    #[serde(serialize_with = "by_id")]
    vocab: Vec<String>,
    merges: Vec<(String, String)>,
}

/// The vocabulary as the object that the format wants, in the order of ids for whoever reads it.
fn by_id<S: Serializer>(vocab: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(vocab.iter().zip(0_u32..))
}

/// The `tokenizer.json` in version 1.0, which every release of the libraries reads.
fn file(learned: bpe::Learned, specials: &[&str]) -> Result<String> {
    let bpe::Learned { tokens: mut vocab, merges } = learned;
    let first = vocab.len();
    vocab.extend(specials.iter().map(ToString::to_string));
    let added = |(i, token): (usize, &&str)| {
        json!({
            "id": first + i, "content": token, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false, "special": true,
        })
    };
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
    let split = json!({
        "type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": false,
    });
    let file = File {
        version: "1.0",
        truncation: None,
        padding: None,
        added_tokens: specials.iter().enumerate().map(added).collect(),
        normalizer: None,
        pre_tokenizer: json!({"type": "Sequence", "pretokenizers": [split, byte_level]}),
        post_processor: None,
        decoder: byte_level,
        model: Model {
            kind: "BPE",
            dropout: None,
            unk_token: None,
            continuing_subword_prefix: None,
            end_of_word_suffix: None,
            fuse_unk: false,
            byte_fallback: false,
            ignore_merges: false,
            vocab,
            merges,
        },
    };
    serde_json::to_string_pretty(&file).map_err(|e| Error::tokenizer("learned", e.to_string()))
}
