//! `tokenizers` 1.0: only its pipeline, which reads files and encodes text.
//!
//! The engine writes ids in its own type, which is a `u32` underneath. So the caller's vector becomes one of
//! that type and back without a copy, where the compiler optimises. Where it does not, the conversion walks
//! over all ids of the group, so a short text goes through a per-thread buffer instead. Copying that buffer
//! costs as little.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use serde::Deserialize;
use tokenizers::models::bpe::PipelineBPE;
use tokenizers::normalizers::NFC;
use tokenizers::pipeline::{
    EncodeOptions, Override, PipelineModel, PipelineNormalizer, PipelinePreTokenizer, PipelineToken,
    PipelineTokenizer,
};
use tokenizers::pre_tokenizers::sequence::PipelineSequence;
use tokenizers::pre_tokenizers::split::{Search, Split};

use super::instances::Instances;
use crate::config::SpecialTokens;

/// Texts shorter than this go through the buffer, in bytes.
const SHORT: usize = 4 << 10;

/// How many words each thread remembers the ids of, at 33 bytes each, and at up to 64 more for words of more
/// than three ids. The engine's own number, 65,536, is enough for text in the order of its files. Documents
/// from everywhere bring more words at a time: with that number they encode a third slower, with this one as
/// fast as in order.
const WORDS: usize = 1 << 18;

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
        refuse_whole_words(json)?;
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

/// Refuses files with added tokens that are found only between words. The engines define words by different
/// versions of Unicode, so that `<mask>` before U+1AC1 is a token to one and text to the other.
fn refuse_whole_words(json: &str) -> Result<(), String> {
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        added_tokens: Vec<Added>,
    }
    #[derive(Deserialize)]
    struct Added {
        content: String,
        #[serde(default)]
        single_word: bool,
    }
    let file: File = serde_json::from_str(json).map_err(|e| e.to_string())?;
    match file.added_tokens.iter().find(|token| token.single_word) {
        Some(token) => {
            Err(format!("the added token {:?} is only found as a whole word (single_word)", token.content))
        }
        None => Ok(()),
    }
}

fn pipeline(json: &str) -> Result<PipelineTokenizer, String> {
    let json = tokenizers::canonicalize_str(json).map_err(|e| e.to_string())?;
    let loaded = tokenizers::from_json(&json).map_err(|e| e.to_string())?;
    Ok(with_words(&loaded).unwrap_or(loaded))
}

/// Returns the same pipeline with a memory of [`WORDS`] words, if its kind of model allows that.
fn with_words(loaded: &PipelineTokenizer) -> Option<PipelineTokenizer> {
    let PipelineModel::BPE(model) = loaded.get_model() else { return None };
    let same = |normalizer: &PipelineNormalizer| match normalizer {
        PipelineNormalizer::NFC(_) => Some(PipelineNormalizer::NFC(NFC)),
        _ => None,
    };
    let normalizers = loaded.get_normalizers().iter().map(same).collect::<Option<Vec<_>>>()?;
    let mut config = model.to_config().ok()?;
    config.cache_capacity = WORDS;
    let model = PipelineBPE::from_config(config).ok()?;
    Some(PipelineTokenizer::from_parts(
        loaded.get_added_vocabulary().clone(),
        normalizers,
        same_cuts(loaded.get_pre_tokenizer())?,
        PipelineModel::BPE(model),
        // Nothing is added around texts, cut or padded here.
        Default::default(),
        loaded.get_decoder().cloned(),
        Default::default(),
        None,
        None,
    ))
}

/// Returns the same pre-tokenizer. Cloning a split asks for a regex engine and panics where there is none,
/// even if the split needs none.
fn same_cuts(loaded: &PipelinePreTokenizer) -> Option<PipelinePreTokenizer> {
    Some(match loaded {
        PipelinePreTokenizer::Split(split) if !matches!(split.search, Search::Regex(_)) => {
            let Split { pattern, behavior, invert, .. } = split;
            PipelinePreTokenizer::Split(Split::native(pattern.clone(), *behavior, *invert).ok()?)
        }
        PipelinePreTokenizer::Sequence(sequence) => {
            let all = sequence.pre_tokenizers().iter().map(same_cuts).collect::<Option<_>>()?;
            PipelinePreTokenizer::Sequence(PipelineSequence::new(all))
        }
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LearnConfig;

    /// How many words the engine of this file would remember.
    fn words(json: &str) -> Option<usize> {
        let loaded = pipeline(json).unwrap();
        let PipelineModel::BPE(model) = loaded.get_model() else { return None };
        Some(model.to_config().unwrap().cache_capacity)
    }

    #[test]
    fn mixed_words_are_remembered_and_the_ids_stay() {
        let learned = || {
            let config = LearnConfig { vocab_size: 300, ..LearnConfig::default() };
            crate::tokenizer::learn::learn(["the mill mills, the miller mills"], &config, &[]).unwrap()
        };
        let mut json: serde_json::Value = serde_json::from_str(&learned()).unwrap();
        assert_eq!(words(&json.to_string()), Some(WORDS));
        json["normalizer"] = serde_json::json!({ "type": "NFC" });
        assert_eq!(words(&json.to_string()), Some(WORDS));
        json["normalizer"] = serde_json::json!({ "type": "Lowercase" });
        assert_ne!(words(&json.to_string()), Some(WORDS), "its normalizer cannot be had twice");

        // No engine here runs this pattern. That is found when text comes, not by a panic.
        let mut unknown = json.clone();
        unknown["normalizer"] = serde_json::Value::Null;
        unknown["pre_tokenizer"] = serde_json::json!({
            "type": "Split", "pattern": { "Regex": "\\p{L}+|\\p{N}{2,4}" }, "behavior": "Isolated", "invert": false,
        });
        assert_eq!(words(&unknown.to_string()), Some(WORDS));

        json["normalizer"] = serde_json::json!({ "type": "NFC" });
        let json = tokenizers::canonicalize_str(&json.to_string()).unwrap();
        let loaded = tokenizers::from_json(&json).unwrap();
        let more = with_words(&loaded).unwrap();
        let options = EncodeOptions::no_specials();
        for text in ["the miller\u{65}\u{301} mills", "<|endoftext|> mill"] {
            let ids = |pipeline: &PipelineTokenizer| {
                let mut ids = Vec::new();
                pipeline.encode_into(text, &options, &mut ids).unwrap();
                ids.into_iter().map(u32::from).collect::<Vec<u32>>()
            };
            let (before, now) = (ids(&loaded), ids(&more));
            assert_eq!(before, now);
            assert_eq!(more.decode(&now, false).unwrap(), loaded.decode(&before, false).unwrap());
        }
    }

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
