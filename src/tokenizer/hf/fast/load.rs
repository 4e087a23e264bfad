//! From a `tokenizer.json` to the pipeline.
//!
//! BPE's tables are most of the work, and the crate's own reader builds them with a fixed cache of words. So for BPE
//! the tables are built here, once and with a larger cache. The reader gets the rest of the file, with a model of one
//! word in place of the real one.

use serde::Deserialize;
use serde_json::{Value, json};
use tokenizers::models::bpe::{BpeConfig, PipelineBPE};
use tokenizers::normalizers::NFC;
use tokenizers::pipeline::{
    NormalizerChain, PipelineModel, PipelineNormalizer, PipelinePreTokenizer, PipelineTokenizer,
};
use tokenizers::pre_tokenizers::sequence::PipelineSequence;
use tokenizers::pre_tokenizers::split::{Search, Split};
use tokenizers::vocab::bucket_added_vocabulary::{AddedToken, AddedVocabulary};

/// How many words each thread remembers the ids of, at 33 bytes each, and at up to 64 more for words of more
/// than three ids. The engine's own number, 65,536, is enough for text in the order of its files. Documents
/// from everywhere bring more words at a time: with that number they encode a third slower, with this one as
/// fast as in order.
const WORDS: usize = 1 << 18;

/// How many tokens a vocabulary must have. The crate hashes one without collisions, and for a few tokens it sometimes tries
/// several times: each failure it writes to standard error, whatever the log is set to.
const FEWEST: usize = 256;

/// The parts of a BPE file that are read here, in the crate's canonical form.
#[derive(Deserialize)]
struct Bpe {
    vocab: serde_json::Map<String, Value>,
    merges: Vec<(String, String)>,
    byte_level: bool,
    dropout: Option<f32>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    fuse_unk: bool,
    #[serde(default)]
    byte_fallback: bool,
    #[serde(default)]
    ignore_merges: bool,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    content: String,
    single_word: bool,
    lstrip: bool,
    rstrip: bool,
    normalized: bool,
    special: bool,
}

pub(super) fn pipeline(json: &str) -> Result<PipelineTokenizer, String> {
    let mut file: Value = serde_json::from_str(json).map_err(|e| e.to_string())?;
    tokenizers::canonicalize_value(&mut file).map_err(|e| e.to_string())?;
    let tokens = match &file["model"]["vocab"] {
        Value::Object(tokens) => tokens.len(),
        Value::Array(tokens) => tokens.len(),
        _ => FEWEST,
    };
    if tokens < FEWEST {
        return Err(format!("it is for vocabularies of {FEWEST} tokens or more, and this one has {tokens}"));
    }
    if file["model"]["type"] == "BPE"
        && let Some(rest) = rest(&file)?
    {
        return bpe(file, &rest);
    }
    tokenizers::from_json(&file.to_string()).map_err(|e| e.to_string())
}

/// The file without its model and added tokens, if all other components can be copied.
fn rest(file: &Value) -> Result<Option<PipelineTokenizer>, String> {
    let Some(fields) = file.as_object() else { return Ok(None) };
    let kept = fields.iter().filter(|(key, _)| !["model", "added_tokens"].contains(&key.as_str()));
    let mut rest: serde_json::Map<_, _> = kept.map(|(key, value)| (key.clone(), value.clone())).collect();
    rest.insert("model".to_owned(), json!({"type": "WordLevel", "vocab": {"x": 0}, "unk_token": "x"}));
    let rest = tokenizers::from_json(&Value::Object(rest).to_string()).map_err(|e| e.to_string())?;
    let is_same = same_normalizers(&rest).is_some() && same_cuts(rest.get_pre_tokenizer()).is_some();
    Ok(is_same.then_some(rest))
}

/// The pipeline of a BPE file; the crate has read the `rest` of the file.
fn bpe(mut file: Value, rest: &PipelineTokenizer) -> Result<PipelineTokenizer, String> {
    let read: Bpe = serde_json::from_value(file["model"].take()).map_err(|e| e.to_string())?;
    let id = |(token, id): (String, Value)| match id.as_u64().and_then(|id| u32::try_from(id).ok()) {
        Some(id) => Ok((token, id)),
        None => Err(format!("the token {token:?} has a bad id")),
    };
    let config = BpeConfig {
        vocab: read.vocab.into_iter().map(id).collect::<Result<_, _>>()?,
        merges: read.merges,
        byte_level: read.byte_level,
        unk_token: read.unk_token,
        continuing_subword_prefix: read.continuing_subword_prefix,
        end_of_word_suffix: read.end_of_word_suffix,
        fuse_unk: read.fuse_unk,
        byte_fallback: read.byte_fallback,
        ignore_merges: read.ignore_merges,
        dropout: read.dropout,
        cache_capacity: WORDS,
    };
    let tokens: Option<Vec<Added>> =
        serde_json::from_value(file["added_tokens"].take()).map_err(|e| e.to_string())?;
    let mut tokens = tokens.unwrap_or_default();
    // In the order of their ids, as the reader adds them.
    tokens.sort_by_key(|token| token.id);
    let tokens = tokens.into_iter().map(|token| {
        let Added { content, single_word, lstrip, rstrip, normalized, special, .. } = token;
        AddedToken { content, single_word, lstrip, rstrip, normalized, special }
    });
    let mut added = AddedVocabulary::new();
    let of_model = |token: &str| config.vocab.get(token).copied();
    let normalizers = NormalizerChain(rest.get_normalizers());
    added.add_tokens(tokens, config.vocab.len(), of_model, Some(&normalizers)).map_err(|e| e.to_string())?;
    let (Some(normalizers), Some(cuts)) = (same_normalizers(rest), same_cuts(rest.get_pre_tokenizer()))
    else {
        return Err("its normalizers cannot be had twice".to_owned());
    };
    let model = PipelineBPE::from_config(config).map_err(|e| e.to_string())?;
    Ok(PipelineTokenizer::from_parts(
        added,
        normalizers,
        cuts,
        PipelineModel::BPE(model),
        // Nothing is added around texts, cut or padded here.
        Default::default(),
        rest.get_decoder().cloned(),
        Default::default(),
        None,
        None,
    ))
}

/// Returns the same normalizers, if they can be copied. BPE files with other normalizers, such as Llama 2's and
/// Gemma's, seldom cut texts into words, so there is little to remember.
fn same_normalizers(loaded: &PipelineTokenizer) -> Option<Vec<PipelineNormalizer>> {
    let same = |normalizer: &PipelineNormalizer| match normalizer {
        PipelineNormalizer::NFC(_) => Some(PipelineNormalizer::NFC(NFC)),
        _ => None,
    };
    loaded.get_normalizers().iter().map(same).collect()
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
    use tokenizers::pipeline::{EncodeOptions, PipelineToken};

    use super::*;
    use crate::config::LearnConfig;

    /// How many words the engine of this file would remember.
    fn words(json: &Value) -> Option<usize> {
        let loaded = pipeline(&json.to_string()).unwrap();
        let PipelineModel::BPE(model) = loaded.get_model() else { return None };
        Some(model.to_config().unwrap().cache_capacity)
    }

    fn learned() -> Value {
        let config = LearnConfig { vocab_size: 300, ..LearnConfig::default() };
        let learned = crate::tokenizer::learn::learn(["the mill mills, the miller mills"], &config, &[]);
        serde_json::from_str(&learned.unwrap()).unwrap()
    }

    #[test]
    fn more_words_are_remembered() {
        let mut json = learned();
        assert_eq!(words(&json), Some(WORDS));
        json["normalizer"] = json!({ "type": "NFC" });
        assert_eq!(words(&json), Some(WORDS));
        json["normalizer"] = json!({ "type": "Lowercase" });
        assert_ne!(words(&json), Some(WORDS), "its normalizer cannot be had twice");

        // No engine here runs this pattern. That is found when text comes, not by a panic.
        json["normalizer"] = Value::Null;
        json["pre_tokenizer"] = json!({
            "type": "Split", "pattern": { "Regex": "\\p{L}+|\\p{N}{2,4}" }, "behavior": "Isolated", "invert": false,
        });
        assert_eq!(words(&json), Some(WORDS));
    }

    #[test]
    fn the_ids_are_those_of_the_crates_reader() {
        let token = |id: u32, content: &str, normalized: bool| {
            json!({
                "id": id, "content": content, "single_word": false, "lstrip": normalized, "rstrip": false,
                "normalized": normalized, "special": !normalized,
            })
        };
        let mut json = learned();
        json["normalizer"] = json!({ "type": "NFC" });
        let size = json["model"]["vocab"].as_object().unwrap().len() as u32;
        // Beyond the vocabulary, within it, and in an order of their own.
        let added = json["added_tokens"].as_array_mut().unwrap();
        added.insert(0, token(size + 1, "<late>", false));
        added.push(token(size, "cafe\u{301}", true));
        added.push(token(u32::from(b'm'), "m", false));
        let canonical = tokenizers::canonicalize_str(&json.to_string()).unwrap();
        let (right, ours) =
            (tokenizers::from_json(&canonical).unwrap(), pipeline(&json.to_string()).unwrap());
        for options in [
            EncodeOptions::no_specials(),
            EncodeOptions { encode_special_tokens: true, ..EncodeOptions::no_specials() },
        ] {
            for text in
                ["the miller\u{65}\u{301} mills", "<|endoftext|> mill<late>x", "a cafe\u{301} caf\u{e9}"]
            {
                let ids = |pipeline: &PipelineTokenizer| {
                    let mut ids = Vec::new();
                    pipeline.encode_into(text, &options, &mut ids).unwrap();
                    ids.into_iter().map(|id: PipelineToken| u32::from(id)).collect::<Vec<u32>>()
                };
                let (right_ids, our_ids) = (ids(&right), ids(&ours));
                assert_eq!(our_ids, right_ids, "{text}");
                assert_eq!(ours.decode(&our_ids, false).unwrap(), right.decode(&right_ids, false).unwrap());
            }
        }
    }
}
