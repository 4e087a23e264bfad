//! The parts of a `tokenizer.json` besides its model, and the bounds on them.
//!
//! A file of a few kilobytes can ask for gigabytes: normalizers that each lengthen the text further, or a replacement
//! as long as a book. Such a file is refused when it is loaded, if it shows there. If it depends on the text, the
//! reference refuses the document; a file that may often do so never runs on the fast engines.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokenizers_reference::decoders::DecoderWrapper;
use tokenizers_reference::normalizers::NormalizerWrapper;
use tokenizers_reference::processors::PostProcessorWrapper;

/// The longest text that a normalizer may put in front of another, in bytes.
const PREPENDED: usize = 1 << 10;

/// The longest replacement of a precompiled map, in bytes. SentencePiece's own maps have 33.
const REPLACEMENT: usize = 64;

/// How many steps of a pre-tokenizer may lengthen the text. Real files have one or two.
const LENGTHENING: usize = 2;

/// How many times as long as the text its normalized form may be for the fast engines, by the file alone; and how many
/// times as long as its tokens the decoded text may be, for every engine.
const GROWTH: usize = 32;

/// How many ids the templates of a post-processor may add. Real files have one to three.
const ADDED: usize = 1 << 12;

/// How many times the templates of a post-processor may hold texts. Real files have one or two.
const TEXTS: usize = 16;

#[derive(Deserialize)]
pub(super) struct Outline {
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
    #[serde(default)]
    post_processor: Value,
    #[serde(default)]
    decoder: Value,
    #[serde(default)]
    model: Model,
}

/// The model without its vocabulary.
#[derive(Default, Deserialize)]
struct Model {
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    unk_token: Option<String>,
    /// Unigram's.
    #[serde(default)]
    unk_id: Option<u32>,
}

/// A token that is cut out of texts before anything else is done to them.
#[derive(Deserialize)]
pub(super) struct Added {
    pub(super) content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    pub(super) lstrip: bool,
    #[serde(default)]
    pub(super) rstrip: bool,
    #[serde(default = "yes")]
    pub(super) normalized: bool,
    #[serde(default)]
    pub(super) special: bool,
}

fn yes() -> bool {
    true
}

impl Outline {
    pub(super) fn read(json: &str) -> Result<Self, String> {
        serde_json::from_str(json).map_err(|e| e.to_string())
    }

    /// The normalizer, as the reference reads it.
    pub(super) fn normalizer(&self) -> Result<Option<NormalizerWrapper>, String> {
        Deserialize::deserialize(&self.normalizer).map_err(|e| e.to_string())
    }

    pub(super) fn added_tokens(&self) -> &[Added] {
        &self.added_tokens
    }

    /// Whether a token stands for text that the vocabulary does not have.
    pub(super) fn is_unknown(&self, spelling: &str, id: u32) -> bool {
        self.model.unk_token.as_deref() == Some(spelling) || self.model.unk_id == Some(id)
    }

    /// Whether the model may find its special tokens in any text, because they are among its pieces.
    pub(super) fn finds_special(&self) -> bool {
        // Old files do not name it.
        self.model.kind.as_deref().map_or(self.model.unk_id.is_some(), |kind| kind == "Unigram")
    }

    /// Whether no text that the model gets has a space.
    pub(super) fn replaces_spaces(&self) -> bool {
        let is_space = |step: &Value| step["pattern"]["String"] == " ";
        let last = steps(&self.normalizer, "normalizers").into_iter().next_back();
        let mut cuts = steps(&self.pre_tokenizer, "pretokenizers").into_iter();
        last.is_some_and(|step| {
            is_space(step) && step["content"].as_str().is_some_and(|text| !text.contains(' '))
        }) || cuts.any(|step| {
            step["type"] == "WhitespaceSplit" || step["type"] == "Metaspace" && step["replacement"] != " "
        })
    }

    /// Whether tokens are spelled in letters that stand for bytes.
    pub(super) fn is_byte_level(&self) -> bool {
        let all = [steps(&self.normalizer, "normalizers"), steps(&self.pre_tokenizer, "pretokenizers")];
        all.into_iter().flatten().any(|step| step["type"] == "ByteLevel")
    }

    /// Whether anything is done to a text before it is cut into words.
    pub(super) fn normalizes(&self) -> bool {
        let mut all = steps(&self.normalizer, "normalizers").into_iter();
        all.any(|step| !step.is_null() && step["type"] != "Sequence")
    }

    /// Whether a normalizer puts a space, as SentencePiece writes it, before texts and the added tokens that it finds.
    pub(super) fn prepends_space(&self) -> bool {
        steps(&self.normalizer, "normalizers").into_iter().any(|step| step["prepend"] == "▁")
    }

    /// Whether a text is normalized by NFC, or not at all.
    pub(super) fn normalizes_by_nfc_alone(&self) -> bool {
        let mut all = steps(&self.normalizer, "normalizers").into_iter();
        all.all(|step| step.is_null() || step["type"] == "Sequence" || step["type"] == "NFC")
    }

    /// Whether only the text's beginning gets a space in front, and no later stretch.
    pub(super) fn prepends_to_first(&self) -> bool {
        steps(&self.pre_tokenizer, "pretokenizers").into_iter().any(|step| step["prepend_scheme"] == "first")
    }

    /// The added tokens that are searched for in the normalized text.
    pub(super) fn normalized_tokens(&self) -> impl Iterator<Item = &str> {
        self.added_tokens.iter().filter(|token| token.normalized).map(|token| token.content.as_str())
    }

    /// Refuses a file that asks for too much, whatever the text.
    pub(super) fn check(&self) -> Result<(), String> {
        for step in steps(&self.normalizer, "normalizers") {
            if let Some(prepend) = step["prepend"].as_str()
                && prepend.len() > PREPENDED
            {
                let bytes = prepend.len();
                return Err(format!(
                    "its normalizer prepends {bytes} bytes; at most {PREPENDED} are allowed"
                ));
            }
            if let Some(map) = step["precompiled_charsmap"].as_str() {
                let longest = longest_replacement(map)
                    .ok_or("its precompiled_charsmap is not one of SentencePiece, or is cut off")?;
                if longest > REPLACEMENT {
                    return Err(format!(
                        "its precompiled_charsmap replaces a character by {longest} bytes; at most {REPLACEMENT} are allowed"
                    ));
                }
            }
        }
        // A ByteLevel has the first key, a Metaspace the second.
        let lengthens =
            |step: &&Value| step.get("add_prefix_space").is_some() || step.get("replacement").is_some();
        let lengthening = steps(&self.pre_tokenizer, "pretokenizers").into_iter().filter(lengthens).count();
        if lengthening > LENGTHENING {
            return Err(format!(
                "its pre_tokenizer has {lengthening} steps of the types ByteLevel and Metaspace, each of which may \
                 lengthen what the one before has lengthened; at most {LENGTHENING} are allowed"
            ));
        }
        check_decoder(&as_read::<DecoderWrapper>(&self.decoder)?)?;
        // The fast engines choose the type of a post-processor by its name, the reference by its keys.
        check_templates(&self.post_processor)?;
        check_templates(&as_read::<PostProcessorWrapper>(&self.post_processor)?)
    }

    /// Refuses what the fast engines cannot bound.
    pub(super) fn check_growth(&self) -> Result<(), String> {
        let times = |step: &Value| match (&step["content"], &step["pattern"]["String"]) {
            (Value::String(content), Value::String(text)) => content.len().div_ceil(text.len().max(1)).max(1),
            // A regex may find single bytes.
            (Value::String(content), _) => content.len().max(1),
            _ if step["type"] == "ByteLevel" => 2,
            _ => 1,
        };
        let all = steps(&self.normalizer, "normalizers");
        let growth = all.into_iter().fold(1_usize, |growth, step| growth.saturating_mul(times(step)));
        if growth > GROWTH {
            return Err(format!("its normalizers may make a text {growth} times as long"));
        }
        Ok(())
    }

    /// Refuses added tokens that are found only between words. The engines define words by different versions of
    /// Unicode, so that `<mask>` before U+1AC1 is a token to one and text to the other.
    pub(super) fn check_whole_words(&self) -> Result<(), String> {
        match self.added_tokens.iter().find(|token| token.single_word) {
            Some(token) => Err(format!(
                "the added token {:?} is only found as a whole word (single_word)",
                token.content
            )),
            None => Ok(()),
        }
    }
}

/// Why a file is refused that the reference does not read.
pub(super) fn unread(problem: String) -> String {
    format!("it is not a tokenizer.json that `tokenizers` 0.23 reads: {problem}")
}

/// A component as the reference reads it and would write it, without the keys that it ignores.
fn as_read<T: DeserializeOwned + Serialize>(component: &Value) -> Result<Value, String> {
    let read = Option::<T>::deserialize(component).map_err(|e| unread(e.to_string()))?;
    serde_json::to_value(read).map_err(|e| unread(e.to_string()))
}

/// Refuses a decoder that may make a text too long.
fn check_decoder(decoder: &Value) -> Result<(), String> {
    // The content is inserted between the characters and at both ends: one more for each.
    let times = |step: &Value| match step["type"].as_str() {
        Some("Replace") => {
            let content = step["content"].as_str().map_or(0, str::len);
            match step["pattern"]["String"].as_str() {
                Some(text) if !text.is_empty() => content.div_ceil(text.len()).max(1),
                // A regex may find nothing, everywhere.
                _ => content + 1,
            }
        }
        Some("BPEDecoder") if step["suffix"] == "" => 2,
        Some("CTC") if step["word_delimiter_token"] == "" => 2,
        // A space before a token, and U+FFFD for a byte.
        Some("WordPiece" | "ByteLevel") => 2,
        _ => 1,
    };
    let all = steps(decoder, "decoders");
    let growth = all.into_iter().fold(1_usize, |growth, step| growth.saturating_mul(times(step)));
    if growth > GROWTH {
        return Err(format!(
            "its decoder may make a text {growth} times as long; at most {GROWTH} times are allowed"
        ));
    }
    Ok(())
}

/// Refuses templates that add too many ids to a text, or hold it too many times.
fn check_templates(processor: &Value) -> Result<(), String> {
    let all = steps(processor, "processors");
    for kind in ["single", "pair"] {
        let (mut ids, mut texts) = (0, 0);
        for template in &all {
            for piece in template[kind].as_array().into_iter().flatten() {
                match piece["SpecialToken"]["id"].as_str() {
                    Some(token) => {
                        ids += template["special_tokens"][token]["ids"].as_array().map_or(0, Vec::len);
                    }
                    None => texts += 1,
                }
            }
        }
        if ids > ADDED {
            return Err(format!(
                "its post_processor adds {ids} ids to a text (`{kind}`); at most {ADDED} are allowed"
            ));
        }
        if texts > TEXTS {
            return Err(format!(
                "its post_processor holds texts {texts} times (`{kind}`); at most {TEXTS} are allowed"
            ));
        }
    }
    Ok(())
}

/// The steps of a component, itself and, if it is a sequence, those of its list at `key`. A component may have such a
/// list and not be a sequence.
fn steps<'a>(component: &'a Value, key: &str) -> Vec<&'a Value> {
    let list = component.get(key).and_then(Value::as_array).into_iter().flatten();
    std::iter::once(component).chain(list.flat_map(|step| steps(step, key))).collect()
}

/// The bytes of the longest replacement. A map is the length of a trie, the trie, and the replacements, which end with
/// a zero each (<https://github.com/google/sentencepiece/blob/master/src/normalizer.cc>).
fn longest_replacement(map: &str) -> Option<usize> {
    let bytes = BASE64_STANDARD.decode(map).ok()?;
    let (length, rest) = bytes.split_first_chunk()?;
    let replacements = rest.get(usize::try_from(u32::from_le_bytes(*length)).ok()?..)?;
    replacements.split(|byte| *byte == 0).map(<[u8]>::len).max()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn outline(normalizer: Value, pre_tokenizer: Value) -> Outline {
        Outline {
            added_tokens: Vec::new(),
            normalizer,
            pre_tokenizer,
            post_processor: Value::Null,
            decoder: Value::Null,
            model: Model::default(),
        }
    }

    #[test]
    fn steps_are_found_in_sequences() {
        let replace = |text: &str, content: &str| json!({"type": "Replace", "pattern": {"String": text}, "content": content});
        let inner = json!({"type": "Sequence", "normalizers": [replace("a", "aaaa"), {"type": "NFC"}]});
        let growth = |all: Vec<Value>| {
            outline(json!({"type": "Sequence", "normalizers": all}), Value::Null).check_growth()
        };
        growth(vec![inner.clone(), replace("ab", "aaaa"), replace(" ", "▁")]).unwrap();
        let problem = growth(vec![inner.clone(), inner.clone(), replace(" ", "▁")]).unwrap_err();
        assert!(problem.contains("48 times"), "{problem}");
        growth(vec![json!({"type": "Replace", "pattern": {"Regex": "x"}, "content": "a".repeat(33)})])
            .unwrap_err();
    }

    #[test]
    fn a_decoder_is_bounded_as_the_reference_reads_it() {
        let check =
            |decoder: Value| -> Result<(), String> { check_decoder(&as_read::<DecoderWrapper>(&decoder)?) };
        let replace = |pattern: Value, bytes: usize| json!({"type": "Replace", "pattern": pattern, "content": "b".repeat(bytes)});
        check(Value::Null).unwrap();
        check(replace(json!({"String": "a"}), GROWTH)).unwrap();
        check(replace(json!({"String": "a"}), GROWTH + 1)).unwrap_err();
        check(replace(json!({"Regex": "x*"}), GROWTH - 1)).unwrap();
        check(replace(json!({"Regex": "x*"}), GROWTH)).unwrap_err();
        check(replace(json!({"String": ""}), GROWTH)).unwrap_err();
        let mut hidden = replace(json!({"String": "a"}), GROWTH + 1);
        hidden["decoders"] = json!([]);
        check(hidden).unwrap_err();
        let spaces = |times: usize| {
            let step = json!({"type": "BPEDecoder", "suffix": ""});
            check(json!({"type": "Sequence", "decoders": vec![step; times]}))
        };
        spaces(5).unwrap();
        let problem = spaces(6).unwrap_err();
        assert!(problem.contains("64 times"), "{problem}");
    }

    #[test]
    fn what_shows_in_the_file_is_bounded() {
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true});
        let cuts = |times: usize| {
            outline(Value::Null, json!({"type": "Sequence", "pretokenizers": vec![bytes.clone(); times]}))
                .check()
        };
        cuts(LENGTHENING).unwrap();
        cuts(LENGTHENING + 1).unwrap_err();
        let prepend = |bytes: usize| {
            outline(json!({"type": "Prepend", "prepend": "a".repeat(bytes)}), Value::Null).check()
        };
        prepend(PREPENDED).unwrap();
        prepend(PREPENDED + 1).unwrap_err();
        let map = |bytes: usize| {
            let map = [&4_u32.to_le_bytes()[..], b"trie", &vec![b'a'; bytes], b"\0bc\0"].concat();
            let map = BASE64_STANDARD.encode(map);
            outline(json!({"type": "Precompiled", "precompiled_charsmap": map}), Value::Null).check()
        };
        map(REPLACEMENT).unwrap();
        map(REPLACEMENT + 1).unwrap_err();
        // One that says it is longer than it is would be given that much memory.
        for map in [&b""[..], b"abc", &[0xff, 0xff, 0xff, 0xff, b'a']] {
            let map = BASE64_STANDARD.encode(map);
            outline(json!({"type": "Precompiled", "precompiled_charsmap": map}), Value::Null)
                .check()
                .unwrap_err();
        }
    }
}
