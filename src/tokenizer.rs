//! From text to ids.
//!
//! [`Tokenizer`] is what the pipeline needs of one. [`ByteTokenizer`] is the simplest; the feature
//! `tokenizers` brings Hugging Face's.

use std::fmt::Debug;
use std::sync::Arc;

use crate::error::{Error, Result};

#[cfg(feature = "tokenizers")]
pub mod hf;
#[cfg(feature = "tokenizers")]
pub mod learn;

/// Turns text into ids and back. One instance is shared by all workers.
pub trait Tokenizer: Debug + Send + Sync {
    /// Appends the ids of `text` to `ids`, without any special tokens around them.
    ///
    /// It runs on a blocking thread, starts no threads of its own, and is a pure function of `text`.
    /// The error says what is wrong; the pipeline adds where the document is.
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> std::result::Result<(), String>;

    /// The text of `ids`. Ids that are not in the vocabulary give nothing.
    fn decode(&self, ids: &[u32]) -> String;

    /// One more than the largest id.
    fn vocab_size(&self) -> usize;

    /// The id of a token by its exact spelling, special tokens included.
    fn id(&self, token: &str) -> Option<u32>;

    /// What must be equal for two tokenizers to give equal ids: a name, or a digest of the file.
    fn fingerprint(&self) -> String;
}

/// A tokenizer and what it puts around every document. Clones share the tokenizer.
#[derive(Clone, Debug)]
pub struct Encoder {
    tokenizer: Arc<dyn Tokenizer>,
    bos: Option<u32>,
    eos: Option<u32>,
}

impl Encoder {
    /// Encodes documents with nothing around them.
    pub fn new(tokenizer: Arc<dyn Tokenizer>) -> Self {
        Self { tokenizer, bos: None, eos: None }
    }

    /// Puts a token before every document.
    ///
    /// # Errors
    /// [`Error::Config`] if the tokenizer does not know it.
    pub fn with_bos(self, token: &str) -> Result<Self> {
        Ok(Self { bos: Some(self.special("tokenizer.bos", token)?), ..self })
    }

    /// Puts a token after every document.
    ///
    /// # Errors
    /// [`Error::Config`] if the tokenizer does not know it.
    pub fn with_eos(self, token: &str) -> Result<Self> {
        Ok(Self { eos: Some(self.special("tokenizer.eos", token)?), ..self })
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Arc<dyn Tokenizer> {
        &self.tokenizer
    }

    /// What fills the end of rows: the id of `eos`, or of `bos`, or 0. It is never a target.
    pub fn pad(&self) -> u32 {
        self.eos.or(self.bos).unwrap_or(0)
    }

    /// Appends the ids of one document.
    pub fn encode(&self, text: &str, ids: &mut Vec<u32>) -> std::result::Result<(), String> {
        ids.extend(self.bos);
        self.tokenizer.encode(text, ids)?;
        ids.extend(self.eos);
        Ok(())
    }

    fn special(&self, key: &str, token: &str) -> Result<u32> {
        self.tokenizer.id(token).ok_or_else(|| {
            Error::config(key, format!("the tokenizer has no token {token:?}; name one that it has"))
        })
    }
}

/// Every byte is its own id; 256 is `<|endoftext|>`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByteTokenizer;

impl Tokenizer for ByteTokenizer {
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> std::result::Result<(), String> {
        ids.extend(text.bytes().map(u32::from));
        Ok(())
    }

    fn decode(&self, ids: &[u32]) -> String {
        let bytes: Vec<u8> = ids.iter().filter_map(|&id| u8::try_from(id).ok()).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn vocab_size(&self) -> usize {
        257
    }

    fn id(&self, token: &str) -> Option<u32> {
        match token {
            "<|endoftext|>" => Some(256),
            token => match token.as_bytes() {
                [byte] => Some(u32::from(*byte)),
                _ => None,
            },
        }
    }

    fn fingerprint(&self) -> String {
        "bytes".to_owned()
    }
}
