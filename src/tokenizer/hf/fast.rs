//! `tokenizers` 1.0: only its pipeline, which reads files and encodes text.
//!
//! The engine writes ids in its own type, which is a `u32` underneath. So the caller's vector becomes one of
//! that type and back without a copy, where the compiler optimises. Where it does not, the conversion walks
//! over all ids of the group, so a short text goes through a per-thread buffer instead. Copying that buffer
//! costs as little.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use tokenizers::pipeline::{EncodeOptions, Override, PipelineToken, PipelineTokenizer};

use super::instances::Instances;
use crate::config::SpecialTokens;

mod load;

use load::pipeline;

/// Texts shorter than this go through the buffer, in bytes.
const SHORT: usize = 4 << 10;

thread_local! {
    /// The ids of one short text.
    static SCRATCH: RefCell<Vec<PipelineToken>> = const { RefCell::new(Vec::new()) };
}

pub(super) struct Fast {
    pipelines: Instances<PipelineTokenizer>,
    options: EncodeOptions,
}

impl Fast {
    pub(super) fn load(json: &Arc<str>, special: SpecialTokens) -> Result<Self, String> {
        let first = pipeline(json).map_err(|e| format!("the fast engine cannot load it: {e}"))?;
        let json = Arc::clone(json);
        let pipelines = Instances::new(first, move || pipeline(&json).ok());
        let options = EncodeOptions {
            add_special_tokens: false,
            encode_special_tokens: special == SpecialTokens::Text,
            padding: Override::Off,
            truncation: Override::Off,
        };
        Ok(Self { pipelines, options })
    }

    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), String> {
        let pipeline = self.pipelines.of_thread(text.len());
        if text.len() < SHORT {
            return SCRATCH.with_borrow_mut(|scratch| {
                scratch.clear();
                pipeline.encode_into(text, &self.options, scratch).map_err(|e| e.to_string())?;
                ids.extend_from_slice(PipelineToken::cast_slice(scratch));
                Ok(())
            });
        }
        let mut tokens: Vec<PipelineToken> =
            std::mem::take(ids).into_iter().map(PipelineToken::from).collect();
        // A panic must not lose the ids that were there before.
        let encoded =
            catch_unwind(AssertUnwindSafe(|| pipeline.encode_into(text, &self.options, &mut tokens)));
        *ids = tokens.into_iter().map(u32::from).collect();
        encoded.unwrap_or_else(|payload| resume_unwind(payload)).map_err(|e| e.to_string())
    }

    pub(super) fn decode(&self, ids: &[u32]) -> Result<String, String> {
        self.pipelines.shared().decode(ids, false).map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LearnConfig;

    #[test]
    fn long_texts_are_appended_like_short_ones() {
        let config = LearnConfig { vocab_size: 300, ..LearnConfig::default() };
        let json =
            crate::tokenizer::learn::learn(["the mill mills, the miller mills"], &config, &[]).unwrap();
        let fast = Fast::load(&json.into(), SpecialTokens::Text).unwrap();
        let long = "the miller ".repeat(SHORT / 11 + 1);
        let mut ids = vec![7];
        for text in ["the mill", &long, "mills", &long] {
            let before = ids.clone();
            let mut alone = Vec::new();
            fast.encode(text, &mut alone).unwrap();
            fast.encode(text, &mut ids).unwrap();
            assert_eq!(ids, [before, alone].concat());
        }
    }

    /// The conversion costs nothing only if it does not allocate. If it did, each document of a group would
    /// copy the ids of all before it.
    #[test]
    fn ids_stay_where_they_are() {
        let mut ids = Vec::with_capacity(1 << 16);
        ids.extend(0..1000_u32);
        let place = ids.as_ptr();
        let tokens: Vec<PipelineToken> = ids.into_iter().map(PipelineToken::from).collect();
        assert_eq!(tokens.capacity(), 1 << 16);
        let ids: Vec<u32> = tokens.into_iter().map(u32::from).collect();
        assert_eq!((ids.as_ptr(), ids.capacity()), (place, 1 << 16));
    }
}
