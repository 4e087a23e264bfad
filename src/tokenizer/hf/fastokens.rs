//! `fastokens`: byte-level BPE for the patterns that its scanner knows. These are the patterns of cl100k
//! (which Llama 3 has too), o200k, Qwen, Mistral's tekken and Kimi.
//!
//! Only that scanner is used. Everything else in the library uses a pool of threads that it starts and keeps
//! for the process: texts of 64 KiB and more, added tokens within a text, patterns run by PCRE2. A file that
//! needs any of these goes to `tokenizers` 1.0. The scanner runs on the caller's thread, whatever the text's
//! length, and writes the ids where the caller wants them.
//!
//! Held in memory besides the tables, for each thread that encodes and until it ends: a cache of words that
//! grows to 64 MiB, and one of words of more than 15 bytes, of 32 MiB at most.

use std::borrow::Cow;
use std::sync::Arc;

use fastokens::{PreTokenizer, Split, Tokenizer};
use serde_json::Value;

use crate::config::SpecialTokens;

pub(super) struct Fastokens(Tokenizer);

impl Fastokens {
    pub(super) fn load(json: &Arc<str>, special: SpecialTokens) -> Result<Self, String> {
        let file: Value = serde_json::from_str(json).map_err(|e| e.to_string())?;
        if !has_words_alone(&file, special) {
            return Err("fastokens is not used to find added tokens in a text".to_owned());
        }
        let this = Self(Tokenizer::from_json(file).map_err(|e| e.to_string())?);
        let is_scanned = this.split().is_some_and(|split| split.scan_kind().is_some());
        if !is_scanned || !this.0.model().supports_fused_byte_level() {
            return Err("it is not byte-level BPE with a pattern that fastokens scans".to_owned());
        }
        Ok(this)
    }

    pub(super) fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), String> {
        let text = self.0.normalizer().map_or(Cow::Borrowed(text), |normalizer| normalizer.normalize(text));
        // Its spans are 32 bits wide.
        if u32::try_from(text.len()).is_err() {
            return Err(format!("a text of {} bytes is too long; cut it", text.len()));
        }
        let Some(kind) = self.split().and_then(Split::scan_kind) else {
            return Err("it has no pattern that fastokens scans".to_owned());
        };
        self.0.model().tokenize_scanned_segment(kind, &text, ids)
    }

    pub(super) fn decode(&self, ids: &[u32]) -> Result<String, String> {
        self.0.decode(ids, false).map_err(|e| e.to_string())
    }

    /// The step that cuts text into words, if it is the only step.
    fn split(&self) -> Option<&Split> {
        let PreTokenizer::Sequence(steps) = self.0.pre_tokenizer()? else { return None };
        match steps.as_slice() {
            [PreTokenizer::Split(split), PreTokenizer::ByteLevel(bytes)] if bytes.is_bulk_only() => {
                Some(split)
            }
            _ => None,
        }
    }
}

/// Whether no added token is searched for in a text: there are none, or only special ones that count as text.
fn has_words_alone(file: &Value, special: SpecialTokens) -> bool {
    let added = file["added_tokens"].as_array().map_or(&[][..], Vec::as_slice);
    let is_special = |token: &Value| token["special"] == Value::Bool(true);
    added.is_empty() || special == SpecialTokens::Text && added.iter().all(is_special)
}
