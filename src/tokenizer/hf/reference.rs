//! `tokenizers` 0.23, whose ids are the right ones.

use std::collections::HashMap;

use tokenizers_reference::models::ModelWrapper;

use crate::config::SpecialTokens;

pub(super) struct Reference(tokenizers_reference::Tokenizer);

impl Reference {
    pub(super) fn load(json: &str, special: SpecialTokens) -> Result<Self, String> {
        let mut tokenizer = tokenizers_reference::Tokenizer::from_bytes(json)
            .map_err(|e| format!("it is not a tokenizer.json that `tokenizers` 0.23 reads: {e}"))?;
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
        Ok(Self(tokenizer))
    }

    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), String> {
        let encoding = self.0.encode_fast(text, false).map_err(|e| e.to_string())?;
        ids.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    pub(super) fn decode(&self, ids: &[u32]) -> Result<String, String> {
        self.0.decode(ids, false).map_err(|e| e.to_string())
    }

    /// Where the text of each id begins, in bytes.
    pub(super) fn starts(&self, text: &str) -> Vec<usize> {
        let encoding = self.0.encode(text, false).ok();
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
        self.0.get_vocab(true)
    }

    /// The spelling of every added token, by id.
    pub(super) fn added_tokens(&self) -> Vec<String> {
        let mut added: Vec<_> = self.0.get_added_tokens_decoder().into_iter().collect();
        added.sort_unstable_by_key(|(id, _)| *id);
        added.into_iter().map(|(_, token)| token.content).collect()
    }
}
