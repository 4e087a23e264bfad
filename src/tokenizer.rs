//! From text to ids.
//!
//! [`Tokenizer`] is the trait that the pipeline needs, and [`Encoder`] wraps one for it. [`ByteTokenizer`] is the
//! simplest. The feature `tokenizers` adds those of Hugging Face; tiktoken's ranks can be converted to them.

use std::fmt::Debug;
use std::ops::Range;

use crate::config::TokenizerConfig;
use crate::error::{Error, Result};
use crate::location::unexpanded;
use crate::store::local;

mod borders;
mod bytes;
mod encoder;
mod marked;
mod name;
#[cfg(test)]
#[path = "../tests/support/tokenizers.rs"]
pub(crate) mod tests;

#[cfg(feature = "tokenizers")]
mod byte_level;
#[cfg(feature = "tokenizers")]
pub mod hf;
#[cfg(feature = "tokenizers")]
pub mod learn;
#[cfg(feature = "tokenizers")]
pub mod ranks;
#[doc(hidden)]
pub mod template;
pub(crate) mod worker;

pub use bytes::ByteTokenizer;
pub use encoder::Encoder;
#[doc(hidden)]
pub use marked::{MarkedText, Run};
pub(crate) use marked::{Piece, Wanted};
pub(crate) use name::{difference, name_of};

/// The special token of bytes and of GPT-2, and of a learned tokenizer for which none is named.
pub const END_OF_TEXT: &str = "<|endoftext|>";

/// Checks that the tokenizer's file is there, if the config names one.
pub(crate) fn check_file(config: &TokenizerConfig) -> Result<()> {
    let path = config.path.as_deref().map(local).transpose()?;
    let Some(path) = path.filter(|path| !path.exists()) else { return Ok(()) };
    let (shown, hint) = (path.display(), unexpanded(&path));
    let problem =
        format!("there is no file {shown}; name the tokenizer's file, or leave path out to learn one{hint}");
    Err(Error::config("tokenizer.path", problem))
}

/// Why a tokenizer refuses a text, in words. A string becomes one with `into()` or `?`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EncodeError(String);

impl EncodeError {
    /// A template wrote a special token that the tokenizer does not have.
    pub(crate) fn unknown(token: &str) -> Self {
        let problem =
            format!("the rendered text has the special token {token:?}, which the tokenizer does not have");
        Self(format!("{problem}; use a template that was made for this tokenizer"))
    }
}

impl From<String> for EncodeError {
    fn from(problem: String) -> Self {
        Self(problem)
    }
}

impl From<&str> for EncodeError {
    fn from(problem: &str) -> Self {
        Self(problem.to_owned())
    }
}

impl From<EncodeError> for String {
    fn from(error: EncodeError) -> Self {
        error.0
    }
}

/// Turns text into ids and back. One instance is shared by all workers.
pub trait Tokenizer: Debug + Send + Sync {
    /// Appends the ids of `text` to `ids`, without any special tokens around them.
    ///
    /// It runs on a blocking thread, starts no threads, and is a pure function of `text`: both its ids and its
    /// failures. The error describes the problem; the pipeline adds the document's position.
    fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), EncodeError>;

    /// As [`encode`](Self::encode), and appends to `spans`, for each id, the range of the bytes of `text` that it stands
    /// for. Ranges are sorted by where they begin; those of ids that share a character may overlap.
    ///
    /// Only texts of which a part is learned from need them. The default says that this tokenizer cannot tell.
    fn encode_spans(
        &self,
        _text: &str,
        _ids: &mut Vec<u32>,
        _spans: &mut Vec<Range<usize>>,
    ) -> Result<(), EncodeError> {
        Err("this tokenizer does not tell which bytes an id stands for, which a text that is partly learned from needs"
            .into())
    }

    /// Appends the ids of a rendered text, and their runs in the text's order. Each special token becomes its id, and what
    /// stands between is encoded as plain text.
    #[doc(hidden)]
    fn encode_marked(
        &self,
        text: &MarkedText<'_>,
        ids: &mut Vec<u32>,
        runs: &mut Vec<Run>,
    ) -> Result<(), EncodeError> {
        for piece in text.pieces() {
            match piece {
                Piece::Special(bytes) => {
                    let token = &text.text()[bytes.clone()];
                    ids.push(self.id(token).ok_or_else(|| EncodeError::unknown(token))?);
                    runs.push(Run { bytes, ids: 1 });
                }
                Piece::Plain(range) => text.encode(range, ids, runs, |text, ids, wanted| match wanted {
                    Some(Wanted { spans, .. }) => self.encode_spans(text, ids, spans),
                    None => self.encode(text, ids),
                })?,
            }
        }
        Ok(())
    }

    /// The text of `ids`. Ids that are not in the vocabulary are left out.
    fn decode(&self, ids: &[u32]) -> String;

    /// One more than the largest id. [`encode`](Self::encode) gives only smaller ids.
    fn vocab_size(&self) -> usize;

    /// The id of a token by its exact spelling, special tokens included.
    fn id(&self, token: &str) -> Option<u32>;

    /// What must be equal for two tokenizers to give equal ids: a name, or a digest of the file.
    fn fingerprint(&self) -> String;

    /// The token that is spelled most like `token`, to suggest after a misspelling; `None` if there is no
    /// suggestion.
    fn nearest(&self, _token: &str) -> Option<String> {
        None
    }

    /// The text of a `tokenizer.json` that gives the same ids, if there is one.
    fn tokenizer_json(&self) -> Option<&str> {
        None
    }
}
