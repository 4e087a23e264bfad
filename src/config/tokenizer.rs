//! `[tokenizer]`: how text becomes ids.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ByteCount, require};
use crate::error::{Error, Result};

/// A tokenizer from a file, one learned from the corpus, or bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenizerConfig {
    /// What ids stand for.
    pub kind: TokenizerKind,
    /// A Hugging Face `tokenizer.json`, or a file of tiktoken's ranks (a line for each token: base64, a space, its
    /// rank). Which of them it is, its content says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// How the text is cut into words, where `path` holds ranks: a name whose pattern is published (`gpt2`,
    /// `r50k_base`, `p50k_base`, `p50k_edit`, `cl100k_base`, `o200k_base`), or a regex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The special tokens beside ranks, and their ids; if there are none here, those that are published with
    /// `pattern`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub special: BTreeMap<String, u32>,
    /// How to learn a byte-level BPE tokenizer; the default is used if `path` is absent too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train: Option<LearnConfig>,
    /// A token that is put before every document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bos: Option<String>,
    /// A token that is put after every document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eos: Option<String>,
    /// A token that fills what documents leave of a row; `eos` if absent, or else `bos`, or the id 0. It is never a
    /// target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pad: Option<String>,
    /// How special tokens that stand in a document's text are read.
    pub special_tokens: SpecialTokens,
}

/// What ids stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TokenizerKind {
    /// The tokens of a vocabulary: that of `path`'s file or, without one, one that is learned from the corpus.
    #[default]
    Subwords,
    /// Bytes, by value; 256 is `<|endoftext|>`. It needs no file.
    Bytes,
}

/// How to learn a byte-level BPE tokenizer from the corpus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LearnConfig {
    /// How many tokens it shall know, special ones included.
    pub vocab_size: usize,
    /// How much text it learns from, taken from the stream's start. It is read as a stream: what is held is its
    /// distinct words, and of more than some 512 MiB of them the rarest are dropped.
    pub sample: ByteCount,
}

/// How special tokens that stand literally in a document are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SpecialTokens {
    /// As the text that they are: who writes a document cannot end it.
    #[default]
    Text,
    /// As the special tokens that they spell.
    Parse,
}

impl Default for LearnConfig {
    fn default() -> Self {
        Self { vocab_size: 4096, sample: ByteCount::mib(16) }
    }
}

impl TokenizerConfig {
    /// Whether the tokenizer is learned from the corpus.
    pub fn is_learned(&self) -> bool {
        self.kind == TokenizerKind::Subwords && self.path.is_none()
    }

    /// The same, but for the tokenizer: that of the `tokenizer.json` at `path`.
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
        if let Some(train) = &self.train {
            require(
                train.vocab_size >= 258,
                "tokenizer.train.vocab_size",
                train.vocab_size,
                "at least 258: the 256 bytes and the special tokens",
            )?;
            require(train.sample.0 > 0, "tokenizer.train.sample", train.sample, "at least 1 byte")?;
        }
        Ok(())
    }

    /// The first key that is set and belongs to ranks.
    pub(crate) fn of_ranks(&self) -> Option<&'static str> {
        let pattern = self.pattern.is_some().then_some("tokenizer.pattern");
        pattern.or((!self.special.is_empty()).then_some("tokenizer.special"))
    }

    /// Bytes leave nothing to choose.
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
