//! `tokenizers` 1.0: its pipeline, which reads and encodes and does nothing else.

use std::cell::RefCell;

use tokenizers::pipeline::{EncodeOptions, Override, PipelineToken, PipelineTokenizer};

use crate::config::SpecialTokens;

/// A thread keeps a buffer for this many ids at most (4 MiB); one huge document does not hold its
/// memory until the thread ends.
const KEPT: usize = 1 << 20;

thread_local! {
    /// The engine writes ids in a type of its own, so they are copied once into the caller's.
    static SCRATCH: RefCell<Vec<PipelineToken>> = const { RefCell::new(Vec::new()) };
}

pub(super) struct Fast {
    pipeline: PipelineTokenizer,
    options: EncodeOptions,
}

impl Fast {
    pub(super) fn load(json: &str, special: SpecialTokens) -> Result<Self, String> {
        let pipeline = tokenizers::canonicalize_str(json)
            .map_err(|e| e.to_string())
            .and_then(|json| tokenizers::from_json(&json).map_err(|e| e.to_string()))
            .map_err(|e| format!("the fast engine cannot load it: {e}"))?;
        let options = EncodeOptions {
            add_special_tokens: false,
            encode_special_tokens: special == SpecialTokens::Text,
            padding: Override::Off,
            truncation: Override::Off,
        };
        Ok(Self { pipeline, options })
    }

    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), String> {
        SCRATCH.with_borrow_mut(|scratch| {
            scratch.clear();
            self.pipeline.encode_into(text, &self.options, scratch).map_err(|e| e.to_string())?;
            ids.extend_from_slice(PipelineToken::cast_slice(scratch));
            if scratch.capacity() > KEPT {
                *scratch = Vec::new();
            }
            Ok(())
        })
    }

    pub(super) fn decode(&self, ids: &[u32]) -> String {
        self.pipeline.decode(ids, false).unwrap_or_else(|e| {
            tracing::warn!(error = %e, "the tokenizer's decoder fails; its text is left out");
            String::new()
        })
    }
}
