//! `tokenizers` 0.23, whose ids are the right ones.
//!
//! Its own `encode` hides two failures. A regex that gives up on a text counts as one that finds nothing more, so the
//! rest of the text becomes one word, with wrong ids. And a normalizer may make a text a million times as long. So the
//! steps up to the model run here, in the same order: [`normalize`] and [`cut`] use a [`search`] that fails where it
//! gives up.

use std::collections::HashMap;
use std::ops::Range;

use tokenizers_reference::models::ModelWrapper;
use tokenizers_reference::{Encoding, Model, OffsetType, PreTokenizedString};

use super::outline::{Outline, unread};
use crate::config::SpecialTokens;

mod cut;
mod normalize;
mod search;
mod spans;

use cut::Cuts;
use normalize::{Normalizers, Pass};
use search::GaveUp;
use spans::spans;

type AnyError = Box<dyn std::error::Error + Send + Sync>;

pub(super) struct Reference {
    tokenizer: tokenizers_reference::Tokenizer,
    normalizers: Option<Normalizers>,
    cuts: Cuts,
}

/// Why the reference gives no ids for a text.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// It has reached one of its bounds, so the right ids are unknown.
    #[error("{0}")]
    GaveUp(String),
    /// The tokenizer cannot encode the text.
    #[error("{0}")]
    Failed(String),
}

impl From<String> for Refusal {
    fn from(problem: String) -> Self {
        Self::Failed(problem)
    }
}

impl From<AnyError> for Refusal {
    fn from(error: AnyError) -> Self {
        match error.downcast::<GaveUp>() {
            Ok(gave_up) => Self::GaveUp(gave_up.to_string()),
            Err(other) => Self::Failed(other.to_string()),
        }
    }
}

impl Reference {
    pub(super) fn load(json: &str, special: SpecialTokens) -> Result<Self, String> {
        let outline = Outline::read(json).map_err(unread)?;
        outline.check()?;
        let normalizers = outline.normalizer().map_err(unread)?.as_ref().map(Normalizers::new);
        let normalizers = normalizers.transpose().map_err(unread)?;
        if let Some(normalizers) = &normalizers {
            // Loading normalizes them without a bound.
            for token in outline.normalized_tokens() {
                let problem = |e| format!("the added token {:?}: {e}", excerpt(token));
                normalizers.check(token).map_err(problem)?;
            }
        }
        let mut tokenizer =
            tokenizers_reference::Tokenizer::from_bytes(json).map_err(|e| unread(e.to_string()))?;
        if let ModelWrapper::BPE(model) = tokenizer.get_model()
            && let Some(dropout) = model.dropout
            && dropout > 0.0
        {
            return Err(format!(
                "`model.dropout` is {dropout}, so the same text gets different ids each time; \
                 set it to null in the file"
            ));
        }
        tokenizer.with_truncation(None).map_err(|e| e.to_string())?;
        tokenizer.with_padding(None);
        tokenizer.set_encode_special_tokens(special == SpecialTokens::Text);
        let cuts = Cuts::new(tokenizer.get_pre_tokenizer()).map_err(unread)?;
        Ok(Self { tokenizer, normalizers, cuts })
    }

    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), Refusal> {
        let encoding = self.encoding(text, OffsetType::None)?;
        ids.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    /// The ids of a text, and the bytes that each stands for. White space that belongs to no id is counted to the next
    /// one, as byte-level tokens have it.
    pub(super) fn encode_spans(
        &self,
        text: &str,
        ids: &mut Vec<u32>,
        all: &mut Vec<Range<usize>>,
    ) -> Result<(), Refusal> {
        let (words, together) = self.words_of(text)?;
        // The post-processor may take white space from the offsets.
        let encoding = words.into_encoding(None, 0, OffsetType::Byte)?;
        let (own, offsets) = (encoding.get_ids().to_vec(), encoding.get_offsets().to_vec());
        if self.tokenizer.post_process(encoding, None, false)?.get_ids() != own {
            return Err("its post_processor changes the ids, so that they do not tell where they stand"
                .to_owned()
                .into());
        }
        all.extend(spans(text, &offsets, together));
        ids.extend(own);
        Ok(())
    }

    /// The same as the crate's `encode` and `encode_fast` for one text.
    fn encoding(&self, text: &str, offsets: OffsetType) -> Result<Encoding, AnyError> {
        let (words, _) = self.words_of(text)?;
        self.tokenizer.post_process(words.into_encoding(None, 0, offsets)?, None, false)
    }

    /// The words of a text with their ids, and the ranges of it that were replaced as one.
    fn words_of(&self, text: &str) -> Result<(PreTokenizedString, Vec<Range<usize>>), AnyError> {
        let pass = self.normalizers.as_ref().map(|normalizers| normalizers.pass(text));
        let mut words = self.tokenizer.get_added_vocabulary().extract_and_normalize(pass.as_ref(), text);
        let together = pass.map(Pass::outcome).transpose()?.unwrap_or_default();
        self.cuts.cut(&mut words)?;
        self.tokenizer.get_model().tokenize_in_pretokenized(&mut words, None)?;
        Ok((words, together))
    }

    pub(super) fn decode(&self, ids: &[u32]) -> Result<String, String> {
        self.tokenizer.decode(ids, false).map_err(|e| e.to_string())
    }

    /// Where the text of each id begins, in bytes.
    pub(super) fn starts(&self, text: &str) -> Vec<usize> {
        let encoding = self.encoding(text, OffsetType::Byte).ok();
        encoding.map_or_else(Vec::new, |it| it.get_offsets().iter().map(|(start, _)| *start).collect())
    }

    /// What each token spells by itself, for those that spell whole characters.
    pub(super) fn words(&self, vocab_size: usize) -> Vec<String> {
        let ids = 0..u32::try_from(vocab_size).unwrap_or(u32::MAX);
        let words = ids.filter_map(|id| self.decode(&[id]).ok());
        words.filter(|word| !word.is_empty() && !word.contains('\u{fffd}')).collect()
    }

    /// Every token's spelling and id, added tokens included.
    pub(super) fn ids(&self) -> HashMap<String, u32> {
        self.tokenizer.get_vocab(true)
    }

    /// The spelling of every added token, by id.
    pub(super) fn added_tokens(&self) -> Vec<String> {
        let mut added: Vec<_> = self.tokenizer.get_added_tokens_decoder().into_iter().collect();
        added.sort_unstable_by_key(|(id, _)| *id);
        added.into_iter().map(|(_, token)| token.content).collect()
    }
}

fn excerpt(text: &str) -> &str {
    &text[..text.floor_char_boundary(60)]
}
