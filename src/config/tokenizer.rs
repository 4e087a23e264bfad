//! `[tokenizer]`: how text becomes ids.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ByteCount, require};
use crate::error::{Error, Result};

/// A tokenizer from a file, or one learned from the corpus.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenizerConfig {
    /// A Hugging Face `tokenizer.json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// How to learn a byte-level BPE tokenizer; the default is used if `path` is absent too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train: Option<LearnConfig>,
    /// A token that is put before every document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bos: Option<String>,
    /// A token that is put after every document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eos: Option<String>,
    /// How special tokens that stand in a document's text are read.
    pub special_tokens: SpecialTokens,
}

/// How to learn a byte-level BPE tokenizer from the corpus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LearnConfig {
    /// How many tokens it shall know, special ones included.
    pub vocab_size: usize,
    /// How much text it learns from, taken from the stream's start.
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
    pub(super) fn validate(&self) -> Result<()> {
        if let (Some(path), Some(_)) = (&self.path, &self.train) {
            return Err(Error::config(
                "tokenizer",
                format!("both `path` ({}) and `train` are set; keep one", path.display()),
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
}
