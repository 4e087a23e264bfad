//! A pipeline of `tokenizers` 1.0 that keeps the ids of more words.
//!
//! Each thread that encodes keeps the ids of the words that it met, in a table of a fixed size. A corpus has more words than
//! the pipeline has room for of itself, and those that it keeps no more are merged anew, which takes the most of its
//! time. The size is no setting of a `tokenizer.json`, so the pipeline is put together again from its own parts.

use tokenizers::models::bpe::PipelineBPE;
use tokenizers::pipeline::{PipelineModel, PipelinePostProcessor, PipelinePreTokenizer, PipelineTokenizer};
use tokenizers::pre_tokenizers::sequence::PipelineSequence;
use tokenizers::pre_tokenizers::split::{Search, Split};

/// How many words a thread keeps the ids of. They take 33 bytes each, and those of more than three ids up to 64 more.
const WORDS: usize = 1 << 18;

/// The same pipeline, with room for more words; nothing if it is no byte-level BPE, or one that cannot be taken apart.
pub(super) fn remembering(pipeline: &PipelineTokenizer) -> Option<PipelineTokenizer> {
    let PipelineModel::BPE(model) = pipeline.get_model() else { return None };
    if !pipeline.get_normalizers().is_empty() {
        return None;
    }
    let mut config = model.to_config().ok().filter(|config| config.byte_level)?;
    config.cache_capacity = WORDS;
    Some(PipelineTokenizer::from_parts(
        pipeline.get_added_vocabulary().clone(),
        Vec::new(),
        copy(pipeline.get_pre_tokenizer())?,
        PipelineModel::BPE(PipelineBPE::from_config(config).ok()?),
        // Nothing is put around a text here, and none is cut or filled.
        PipelinePostProcessor::default(),
        pipeline.get_decoder().cloned(),
        pipeline.get_role_to_token().clone(),
        None,
        None,
    ))
}

/// A copy of what cuts text into words. `clone` panics on a pattern that is recognised by itself or not at all, where
/// no engine for regexes is built in.
fn copy(cut: &PipelinePreTokenizer) -> Option<PipelinePreTokenizer> {
    Some(match cut {
        PipelinePreTokenizer::Sequence(sequence) => {
            let parts = sequence.pre_tokenizers().iter().map(copy).collect::<Option<_>>()?;
            PipelinePreTokenizer::Sequence(PipelineSequence::new(parts))
        }
        PipelinePreTokenizer::Split(split) if matches!(split.search, Search::Unavailable) => {
            let native = Split::native(split.pattern.clone(), split.behavior, split.invert);
            PipelinePreTokenizer::Split(native.ok()?)
        }
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::LearnConfig;

    #[test]
    fn it_is_the_same_pipeline() {
        let config = LearnConfig { vocab_size: 300, ..LearnConfig::default() };
        let json = crate::tokenizer::learn::learn(["the mill mills, the miller mills"], &config, &[]).unwrap();
        let read = |json: &str| tokenizers::from_json(&tokenizers::canonicalize_str(json).unwrap()).unwrap();
        let (before, after) = (read(&json), remembering(&read(&json)).expect("a byte-level BPE"));
        assert_eq!(after.get_pre_tokenizer(), before.get_pre_tokenizer());
        let config = |pipeline: &PipelineTokenizer| match pipeline.get_model() {
            PipelineModel::BPE(model) => model.to_config().unwrap(),
            _ => unreachable!("it is a BPE"),
        };
        let (before, after) = (config(&before), config(&after));
        assert_eq!((&after.vocab, &after.merges), (&before.vocab, &before.merges));
        assert_eq!((after.ignore_merges, after.byte_level), (before.ignore_merges, true));
        assert_eq!((before.cache_capacity < WORDS, after.cache_capacity), (true, WORDS));
        // What normalises is left as it is.
        let mut normalising: serde_json::Value = serde_json::from_str(&json).unwrap();
        normalising["normalizer"] = serde_json::json!({ "type": "NFC" });
        assert!(remembering(&read(&normalising.to_string())).is_none());
    }
}
