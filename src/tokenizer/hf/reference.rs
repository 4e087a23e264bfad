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
                "`model.dropout` is {dropout}, so that the same text gets other ids each time; \
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

    pub(super) fn decode(&self, ids: &[u32]) -> String {
        self.0.decode(ids, false).unwrap_or_else(|e| {
            tracing::warn!(error = %e, "the tokenizer's decoder fails; its text is left out");
            String::new()
        })
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
