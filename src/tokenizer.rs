//! From text to ids.
//!
//! [`Tokenizer`] is what the pipeline needs of one, [`Encoder`] what it makes of it. [`ByteTokenizer`] is the
//! simplest; the feature `tokenizers` brings Hugging Face's, which tiktoken's ranks are turned into too.

use std::fmt::Debug;

mod bytes;
mod encoder;

#[cfg(feature = "tokenizers")]
mod byte_level;
#[cfg(feature = "tokenizers")]
pub mod hf;
#[cfg(feature = "tokenizers")]
pub mod learn;
#[cfg(feature = "tokenizers")]
pub mod ranks;
pub(crate) mod worker;

pub use bytes::ByteTokenizer;
pub use encoder::Encoder;

/// Turns text into ids and back. One instance is shared by all workers.
pub trait Tokenizer: Debug + Send + Sync {
    /// Appends the ids of `text` to `ids`, without any special tokens around them.
    ///
    /// It runs on a blocking thread, starts no threads of its own, and is a pure function of `text`: what it gives,
    /// or that it fails. The error says what is wrong; the pipeline adds where the document is.
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> std::result::Result<(), String>;

    /// The text of `ids`. Ids that are not in the vocabulary give nothing.
    fn decode(&self, ids: &[u32]) -> String;

    /// One more than the largest id. [`encode`](Self::encode) gives none beyond it.
    fn vocab_size(&self) -> usize;

    /// The id of a token by its exact spelling, special tokens included.
    fn id(&self, token: &str) -> Option<u32>;

    /// What must be equal for two tokenizers to give equal ids: a name, or a digest of the file.
    fn fingerprint(&self) -> String;

    /// The token that is spelled most like `token`, for whoever misspelled it; nothing if it cannot say.
    fn nearest(&self, _token: &str) -> Option<String> {
        None
    }

    /// The text of a `tokenizer.json` that gives the same ids, if there is one.
    fn tokenizer_json(&self) -> Option<&str> {
        None
    }
}
