//! A byte-level BPE tokenizer as a `tokenizer.json`, in version 1.0, which every release of the libraries reads.

use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use tokenizers::utils::byte_level::BYTES_CHAR_LOOKUP;

use crate::error::{Error, Result};

/// The parts of such a tokenizer. Tokens are spelled as the format spells bytes, one character per byte.
pub(super) struct ByteLevel<'a> {
    /// The regex that cuts text into words.
    pub(super) pattern: &'a str,
    /// Every token and its id, special ones included, by id.
    pub(super) vocab: Vec<(String, u32)>,
    /// The pairs that are joined, first merge first.
    pub(super) merges: Vec<(String, String)>,
    /// The special tokens and their ids.
    pub(super) special: &'a [(String, u32)],
    /// Whether a word that is a token becomes that token, whatever the merges say.
    pub(super) ignore_merges: bool,
}

/// How the format spells a byte.
pub(super) fn letter(byte: u8) -> char {
    BYTES_CHAR_LOOKUP[usize::from(byte)]
}

/// How the format spells bytes.
pub(super) fn spelling(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| letter(*byte)).collect()
}

#[derive(Serialize)]
struct File {
    version: &'static str,
    truncation: Option<()>,
    padding: Option<()>,
    added_tokens: Vec<Value>,
    normalizer: Option<()>,
    pre_tokenizer: Value,
    post_processor: Option<()>,
    decoder: Value,
    model: Model,
}

#[derive(Serialize)]
struct Model {
    #[serde(rename = "type")]
    kind: &'static str,
    dropout: Option<()>,
    unk_token: Option<()>,
    continuing_subword_prefix: Option<()>,
    end_of_word_suffix: Option<()>,
    fuse_unk: bool,
    byte_fallback: bool,
    ignore_merges: bool,
    #[serde(serialize_with = "by_id")]
    vocab: Vec<(String, u32)>,
    merges: Vec<(String, String)>,
}

/// Writes the vocabulary as the object that the format wants, ordered by id for human readers.
fn by_id<S: Serializer>(vocab: &[(String, u32)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(vocab.iter().map(|(token, id)| (token, id)))
}

impl ByteLevel<'_> {
    /// Returns the file's text. Errors call the tokenizer `name`.
    pub(super) fn json(self, name: &str) -> Result<String> {
        let added = |(token, id): &(String, u32)| {
            json!({
                "id": id, "content": token, "single_word": false,
                "lstrip": false, "rstrip": false, "normalized": false, "special": true,
            })
        };
        let byte_level =
            json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        let split = json!({
            "type": "Split", "pattern": {"Regex": self.pattern}, "behavior": "Isolated", "invert": false,
        });
        let file = File {
            version: "1.0",
            truncation: None,
            padding: None,
            added_tokens: self.special.iter().map(added).collect(),
            normalizer: None,
            pre_tokenizer: json!({"type": "Sequence", "pretokenizers": [split, byte_level]}),
            post_processor: None,
            decoder: byte_level,
            model: Model {
                kind: "BPE",
                dropout: None,
                unk_token: None,
                continuing_subword_prefix: None,
                end_of_word_suffix: None,
                fuse_unk: false,
                byte_fallback: false,
                ignore_merges: self.ignore_merges,
                vocab: self.vocab,
                merges: self.merges,
            },
        };
        serde_json::to_string_pretty(&file).map_err(|e| Error::tokenizer(name, e.to_string()))
    }
}
