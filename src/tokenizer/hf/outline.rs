//! What a `tokenizer.json` says besides its model, and the bounds on it.
//!
//! A file of a few kilobytes can ask for gigabytes: normalizers that lengthen what the one before has lengthened, or a
//! replacement as long as a book. What shows in the file is refused when it is loaded. What depends on the text is
//! refused with the document, by the reference; so a file that may do much of it is not for the fast engines.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::Value;
use tokenizers_reference::normalizers::NormalizerWrapper;

/// The longest text that a normalizer may put in front of another, in bytes.
const PREPENDED: usize = 1 << 10;

/// The longest replacement of a precompiled map, in bytes. SentencePiece's own maps have 33.
const REPLACEMENT: usize = 64;

/// How many steps of a pre-tokenizer may lengthen the text. Real files have one or two.
const LENGTHENING: usize = 2;

/// How many times as long as the text its normalized form may be for the fast engines, by the file alone.
const GROWTH: usize = 32;

#[derive(Deserialize)]
pub(super) struct Outline {
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(default)]
    normalizer: Value,
    #[serde(default)]
    pre_tokenizer: Value,
}

#[derive(Deserialize)]
struct Added {
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default = "yes")]
    normalized: bool,
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
                let longest = longest_replacement(map).unwrap_or(0);
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
        Ok(())
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

/// The steps of a component, which may be a sequence: its list is at `key`.
fn steps<'a>(component: &'a Value, key: &str) -> Vec<&'a Value> {
    match component.get(key).and_then(Value::as_array) {
        Some(list) => list.iter().flat_map(|step| steps(step, key)).collect(),
        None => vec![component],
    }
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
        Outline { added_tokens: Vec::new(), normalizer, pre_tokenizer }
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
    }
}
