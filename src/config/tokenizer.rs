//! `[tokenizer]`: how text becomes ids.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::ByteCount;
use super::bounds::{Bound, Bounded, Limit, Number};
use crate::error::{Error, Result};

/// A tokenizer from a file, one learned from the corpus, or bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct TokenizerConfig {
    /// What ids stand for.
    pub kind: TokenizerKind,
    /// A Hugging Face `tokenizer.json`, or a file of tiktoken's ranks (one line per token: base64, a space,
    /// the rank). The file's content decides which it is. `hf://OWNER/NAME/tokenizer.json` is that of a model on the
    /// Hugging Face Hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// How the text is cut into words, if `path` holds ranks: a name whose pattern is published (`gpt2`,
    /// `r50k_base`, `p50k_base`, `p50k_edit`, `cl100k_base`, `o200k_base`), or a regex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The special tokens and their ids, if `path` holds ranks. If empty, those that are published with
    /// `pattern`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub special: BTreeMap<String, u32>,
    /// How to learn a byte-level BPE tokenizer. If both this and `path` are absent, the defaults are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train: Option<LearnConfig>,
    /// The token to put before every document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bos: Option<String>,
    /// The token to put after every document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eos: Option<String>,
    /// The token that fills the unused end of a row; `eos` if absent, or else `bos`, or else the id 0. It is
    /// never a target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pad: Option<String>,
    /// How special tokens that a document's text spells out are read.
    pub special_tokens: SpecialTokens,
}

/// What ids stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TokenizerKind {
    /// The tokens of a vocabulary, which comes from the file at `path` or, without one, is learned from the
    /// corpus.
    #[default]
    Subwords,
    /// Bytes, by value; 256 is `<|endoftext|>`. No file is needed.
    Bytes,
}

/// How to learn a byte-level BPE tokenizer from the corpus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transform = super::bounds::describe::<LearnConfig>))]
#[serde(default, deny_unknown_fields)]
pub struct LearnConfig {
    /// How many tokens the vocabulary has, special tokens included.
    pub vocab_size: usize,
    /// How much text to learn from, taken from the stream's start. The text is streamed: memory holds its
    /// distinct words, and beyond about 512 MiB of them the rarest are dropped.
    pub sample: ByteCount,
}

/// How special tokens that a document's text spells out are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SpecialTokens {
    /// As plain text, so that a document's author cannot end the document.
    #[default]
    Text,
    /// As special tokens.
    Parse,
}

impl Default for LearnConfig {
    fn default() -> Self {
        Self { vocab_size: 4096, sample: ByteCount::mib(16) }
    }
}

impl Bounded for LearnConfig {
    const BOUNDS: &'static [Limit<Self>] = &[
        ("vocab_size", VOCABULARY, |learned| learned.vocab_size.number()),
        ("sample", Bound::Bytes(1, u64::MAX), |learned| learned.sample.number()),
    ];
}

/// The bound of a vocabulary that is learned.
const VOCABULARY: Bound = Bound::Noted(&Bound::AtLeast(258.0), " (the 256 bytes and the special tokens)");

/// Tokenizers in code.
impl TokenizerConfig {
    /// Reads a tokenizer from a file: a Hugging Face `tokenizer.json`, or tiktoken's ranks.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()), ..Self::default() }
    }

    /// Uses bytes, by value, without a file; 256 is `<|endoftext|>`.
    pub fn bytes() -> Self {
        Self { kind: TokenizerKind::Bytes, ..Self::default() }
    }

    /// Learns a byte-level BPE tokenizer of `vocab_size` tokens from the corpus.
    pub fn learned(vocab_size: usize) -> Self {
        Self { train: Some(LearnConfig { vocab_size, ..LearnConfig::default() }), ..Self::default() }
    }

    /// Puts a token before every document.
    #[must_use]
    pub fn with_bos(self, token: impl Into<String>) -> Self {
        Self { bos: Some(token.into()), ..self }
    }

    /// Puts a token after every document.
    #[must_use]
    pub fn with_eos(self, token: impl Into<String>) -> Self {
        Self { eos: Some(token.into()), ..self }
    }

    /// Fills the unused ends of rows with a token.
    #[must_use]
    pub fn with_pad(self, token: impl Into<String>) -> Self {
        Self { pad: Some(token.into()), ..self }
    }
}

impl TokenizerConfig {
    /// Whether the tokenizer is learned from the corpus.
    pub fn is_learned(&self) -> bool {
        self.kind == TokenizerKind::Subwords && self.path.is_none()
    }

    /// Returns the same settings with another tokenizer: the `tokenizer.json` at `path`.
    #[must_use]
    pub fn with_json(self, path: PathBuf) -> Self {
        Self {
            kind: TokenizerKind::Subwords,
            path: Some(path),
            pattern: None,
            special: BTreeMap::new(),
            train: None,
            ..self
        }
    }

    pub(super) fn validate(&self) -> Result<()> {
        if self.kind == TokenizerKind::Bytes {
            return self.validate_bytes();
        }
        if let (Some(path), Some(_)) = (&self.path, &self.train) {
            return Err(Error::config(
                "tokenizer",
                format!("both `path` ({}) and `train` are set; keep one", path.display()),
            ));
        }
        if self.path.is_none()
            && let Some(key) = self.of_ranks()
        {
            return Err(Error::config(
                key,
                "it belongs to a file of ranks; name that with tokenizer.path, or remove it",
            ));
        }
        self.train.as_ref().map_or(Ok(()), |train| train.check_bounds("tokenizer.train"))
    }

    /// The first key that is set and needs a file of ranks.
    pub(crate) fn of_ranks(&self) -> Option<&'static str> {
        let pattern = self.pattern.is_some().then_some("tokenizer.pattern");
        pattern.or((!self.special.is_empty()).then_some("tokenizer.special"))
    }

    /// Refuses the keys that a tokenizer of bytes does not have.
    fn validate_bytes(&self) -> Result<()> {
        let set = [
            self.path.is_some().then_some("tokenizer.path"),
            self.of_ranks(),
            self.train.is_some().then_some("tokenizer.train"),
            (self.special_tokens == SpecialTokens::Parse).then_some("tokenizer.special_tokens"),
        ];
        match set.into_iter().flatten().next() {
            Some(key) => Err(Error::config(key, "bytes need none; remove it, or tokenizer.kind = \"bytes\"")),
            None => Ok(()),
        }
    }
}
