//! A tokenizer as the pipeline uses it: with the tokens around documents, and with its ids checked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

use super::{EncodeError, Tokenizer};
use crate::document::{Around, Document, Mask, RenderedMarks};
use crate::error::{Error, Result, panic_message};
use crate::segment::StoredIds;

/// A tokenizer, the tokens that it puts around every document, and the id that fills rows. Clones share the
/// tokenizer.
#[derive(Clone, Debug)]
pub struct Encoder {
    tokenizer: Arc<dyn Tokenizer>,
    vocab_size: usize,
    /// The tokenizer's fingerprint, once it was asked for.
    fingerprint: Arc<OnceLock<String>>,
    bos: Option<u32>,
    eos: Option<u32>,
    pad: Option<u32>,
}

impl Encoder {
    /// Makes an encoder that puts nothing around documents.
    pub fn new(tokenizer: Arc<dyn Tokenizer>) -> Self {
        let vocab_size = tokenizer.vocab_size();
        Self { tokenizer, vocab_size, fingerprint: Arc::default(), bos: None, eos: None, pad: None }
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

    /// Fills the end of rows with a token.
    ///
    /// # Errors
    /// [`Error::Config`] if the tokenizer does not know it.
    pub fn with_pad(self, token: &str) -> Result<Self> {
        Ok(Self { pad: Some(self.special("tokenizer.pad", token)?), ..self })
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Arc<dyn Tokenizer> {
        &self.tokenizer
    }

    /// The id that fills the end of rows: that of the `pad` token, else of `eos`, else of `bos`, else 0. It
    /// is never a target.
    pub fn pad(&self) -> u32 {
        self.pad.or(self.eos).or(self.bos).unwrap_or(0)
    }

    /// Appends the ids of one document.
    ///
    /// # Errors
    /// The tokenizer's error, or an id beyond its vocabulary. Then ignore the ids beyond the old length of `ids`.
    pub fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
        ids.extend(self.bos);
        let start = ids.len();
        self.tokenizer.encode(text, ids)?;
        let vocab_size = self.vocab_size;
        if let Some(id) = beyond(ids.get(start..).unwrap_or_default(), vocab_size) {
            return Err(format!("the tokenizer gave the id {id}, but its vocabulary has {vocab_size}").into());
        }
        ids.extend(self.eos);
        Ok(())
    }

    /// Refuses stored ids that another tokenizer made.
    pub(crate) fn accept(&self, ids: &StoredIds) -> Result<()> {
        let (made, now) = (ids.tokenizer(), self.fingerprint.get_or_init(|| self.tokenizer.fingerprint()));
        if made == now {
            return Ok(());
        }
        let problem = format!(
            "{}: its ids were made by the tokenizer {made}, but this one is {now}; use the one that made them, or \
             prepare again",
            ids.path().display()
        );
        Err(Error::Corpus { problem })
    }

    /// Appends the ids of one document's text. If the tokenizer refuses it, by an error or a panic, the error
    /// says why and nothing is appended.
    pub(crate) fn encode_document(&self, document: &Document, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
        let start = ids.len();
        let encoded = catch_unwind(AssertUnwindSafe(|| self.encode(document.text(), ids)));
        encoded
            .unwrap_or_else(|payload| {
                Err(format!("the tokenizer panicked: {}", panic_message(&*payload)).into())
            })
            .inspect_err(|_| ids.truncate(start))
    }

    /// Appends the ids of a part of a rendered text.
    pub(crate) fn encode_rendered(
        &self,
        text: &str,
        _marks: &RenderedMarks,
        range: std::ops::Range<usize>,
        ids: &mut Vec<u32>,
        _mask: &mut Mask,
    ) -> Result<(), EncodeError> {
        self.tokenizer.encode(&text[range], ids)
    }

    /// The tokens around each document's own ids.
    pub(crate) fn around(&self) -> Around {
        Around { before: self.bos, behind: self.eos }
    }

    /// The id of a token that the config names.
    fn special(&self, key: &str, token: &str) -> Result<u32> {
        let Some(id) = self.tokenizer.id(token) else {
            let advice = match self.tokenizer.nearest(token) {
                Some(nearest) => format!("the nearest that it has is {nearest:?}"),
                None => "name one that it has".to_owned(),
            };
            return Err(Error::config(key, format!("the tokenizer has no token {token:?}; {advice}")));
        };
        if id as usize >= self.vocab_size {
            return Err(Error::config(
                key,
                format!(
                    "the tokenizer gives {token:?} the id {id}, but its vocabulary has {}; name another token",
                    self.vocab_size
                ),
            ));
        }
        Ok(id)
    }
}

/// Returns an id that is too large for a vocabulary of this size, if there is one.
fn beyond(ids: &[u32], vocab_size: usize) -> Option<u32> {
    // One pass over ids that are still in the cache, several at a time: a difference below zero has the highest bit,
    // and so has an id that is too large to be subtracted.
    let largest = i32::try_from(vocab_size).map_or(i32::MAX, |size| size - 1) as u32;
    let suspect = ids.iter().fold(0, |bits, id| bits | id | largest.wrapping_sub(*id)) >> 31 == 1;
    if suspect { ids.iter().copied().find(|id| *id as usize >= vocab_size) } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_id_beyond_the_vocabulary_is_found(
            ids in prop::collection::vec(prop_oneof![0..9_u32, any::<u32>()], 0..40),
            vocab_size in prop_oneof![0..10_usize, any::<usize>()],
        ) {
            let expected = ids.iter().copied().find(|id| *id as usize >= vocab_size);
            prop_assert_eq!(beyond(&ids, vocab_size), expected);
        }
    }

    #[test]
    fn the_bounds_are_exact() {
        for size in [1, 2, 1 << 31, (1 << 31) + 1, u32::MAX as usize] {
            let last = (size - 1) as u32;
            assert_eq!((beyond(&[last], size), beyond(&[last, last + 1], size)), (None, Some(last + 1)));
        }
    }
}
