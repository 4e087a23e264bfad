//! From text to ids.
//!
//! [`Tokenizer`] is what the pipeline needs of one. [`ByteTokenizer`] is the simplest; the feature
//! `tokenizers` brings Hugging Face's.

use std::fmt::Debug;

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
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), String>;

    /// The text of `ids`. Ids that are not in the vocabulary give nothing.
    fn decode(&self, ids: &[u32]) -> String;

    /// One more than the largest id.
    fn vocab_size(&self) -> usize;

    /// The id of a token by its exact spelling, special tokens included.
    fn id(&self, token: &str) -> Option<u32>;

    /// What must be equal for two tokenizers to give equal ids: a name, or a digest of the file.
    fn fingerprint(&self) -> String;
}

/// Every byte is its own id; 256 is `<|endoftext|>`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByteTokenizer;

impl Tokenizer for ByteTokenizer {
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), String> {
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
