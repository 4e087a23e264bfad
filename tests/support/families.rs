//! What the tokenizers of twenty families of open models say besides their vocabulary, as published, around a small one.
//!
//! Published are the `tokenizer.json` of each family, or its ranks and its pattern. Members of a family that differ in
//! what counts here have a row each.

use std::collections::BTreeSet;

use millstream::config::{LearnConfig, SpecialTokens};
use millstream::tokenizer::Tokenizer;
use millstream::tokenizer::hf::HfTokenizer;
use millstream::tokenizer::learn::learn;
use serde_json::{Map, Value, json};

const CL100K: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_3_5: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const KIMI: &str = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK: &str = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";

/// What a vocabulary is made of.
#[derive(Clone, Copy)]
enum Kind {
    /// BPE of bytes, each spelled as a character.
    Bytes,
    /// BPE of characters as SentencePiece has it, with bytes for those that are not in the vocabulary.
    Pieces,
    /// SentencePiece's other model.
    Unigram,
}

/// Added tokens, and which of their flags are set.
pub(crate) type Added = &'static [(&'static str, &'static [&'static str])];

pub(crate) struct Family {
    pub(crate) name: &'static str,
    /// Whether `tokenizers` 1.0 runs it.
    pub(crate) is_fast: bool,
    kind: Kind,
    /// What the model says besides its tokens.
    model: Value,
    normalizer: Value,
    pre_tokenizer: Value,
    pub(crate) added: Added,
}

const SPECIAL: &[&str] = &["special"];
const END: Added = &[("<|endoftext|>", SPECIAL)];
const SENTENCE_PIECE: Added = &[("<unk>", SPECIAL), ("<s>", SPECIAL), ("</s>", SPECIAL)];

fn split(pattern: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
}

/// Keeps what the pattern finds: the form that files converted from tiktoken's have.
fn found(pattern: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": true})
}

fn bytes(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}

fn digits(individual: bool) -> Value {
    json!({"type": "Digits", "individual_digits": individual})
}

fn steps(steps: &[Value]) -> Value {
    json!({"type": "Sequence", "pretokenizers": steps})
}

/// As SentencePiece writes spaces.
fn spaces() -> Value {
    json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"})
}

/// A map of SentencePiece's form with one of the rules that T5's has: ﬁ becomes fi.
fn map() -> Value {
    let mut trie = [0_u32; 512];
    // The label, the distance to the children, and whether a value is among them.
    trie[0xef] = 0xef | 0x100 << 10;
    trie[0xef ^ 0x100 ^ 0xac] = 0xac | 0x100 << 10;
    trie[0xef ^ 0xac ^ 0x81] = 0x81 | 0x100 << 10 | 1 << 8;
    let trie: Vec<u8> = trie.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let map = [&(trie.len() as u32).to_le_bytes(), &trie[..], b"fi\0"].concat();
    let map = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, map);
    json!({"type": "Precompiled", "precompiled_charsmap": map})
}

/// A row of byte-level BPE.
fn of_bytes(
    name: &'static str,
    is_fast: bool,
    normalizer: Option<&str>,
    pre_tokenizer: Value,
    added: Added,
) -> Family {
    let normalizer = normalizer.map_or(Value::Null, |name| json!({"type": name}));
    Family { name, is_fast, kind: Kind::Bytes, model: json!({}), normalizer, pre_tokenizer, added }
}

/// A row of SentencePiece's BPE.
fn of_pieces(name: &'static str, normalizer: Value, pre_tokenizer: Value, added: Added) -> Family {
    let model = json!({"unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true});
    Family { name, is_fast: true, kind: Kind::Pieces, model, normalizer, pre_tokenizer, added }
}

pub(crate) fn families() -> Vec<Family> {
    let whole_words = |family: Family| Family { model: json!({"ignore_merges": true}), ..family };
    let with_affixes = |family: Family| Family {
        model: json!({"continuing_subword_prefix": "", "end_of_word_suffix": ""}),
        ..family
    };
    let with_bytes = |step: Value| steps(&[step, bytes(false)]);
    let code = || steps(&[digits(true), bytes(true)]);
    let prefixed =
        || json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, spaces()]});
    let punctuation = json!({"type": "Punctuation", "behavior": "Contiguous"});
    let before_spaces = json!({
        "type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false,
    });
    let words = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
    let deepseek = [split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK), bytes(false)];
    vec![
        whole_words(of_bytes(
            "Llama 3",
            true,
            None,
            with_bytes(split(CL100K)),
            &[("<|begin_of_text|>", SPECIAL), ("<|end_of_text|>", SPECIAL)],
        )),
        of_pieces("Llama 2", prefixed(), Value::Null, SENTENCE_PIECE),
        with_affixes(of_bytes(
            "Qwen 3",
            true,
            Some("NFC"),
            with_bytes(split(QWEN)),
            &[("<|endoftext|>", SPECIAL), ("<tool_call>", &[])],
        )),
        of_bytes("Qwen 3.5", false, Some("NFC"), with_bytes(split(QWEN_3_5)), END),
        whole_words(of_bytes("Mistral Nemo", true, None, with_bytes(split(TEKKEN)), SENTENCE_PIECE)),
        of_pieces("Mistral 7B", prefixed(), Value::Null, SENTENCE_PIECE),
        of_pieces(
            "Gemma 3",
            spaces(),
            before_spaces,
            &[("<unk>", SPECIAL), ("<bos>", SPECIAL), ("<mask>", &[]), ("\n\n", &[]), ("▁▁", &[])],
        ),
        of_bytes(
            "Phi 4",
            true,
            None,
            with_bytes(found(CL100K)),
            &[("<|endoftext|>", &["special", "lstrip", "rstrip"])],
        ),
        of_pieces(
            "Phi 3",
            prefixed(),
            Value::Null,
            &[("<unk>", SPECIAL), ("</s>", &["rstrip"]), ("<|user|>", &["special", "rstrip"])],
        ),
        of_bytes(
            "Phi 2",
            true,
            None,
            bytes(true),
            &[("<|endoftext|>", SPECIAL), ("   ", &["normalized"]), ("\t\t", &["normalized"])],
        ),
        Family {
            normalizer: json!({"type": "Sequence", "normalizers": []}),
            ..of_bytes(
                "DeepSeek V3",
                true,
                None,
                steps(&deepseek),
                &[("<｜begin▁of▁sentence｜>", SPECIAL), ("<｜fim▁hole｜>", &["normalized"])],
            )
        },
        of_bytes("GPT-2", true, None, bytes(true), &[("<|endoftext|>", &["special", "normalized"])]),
        with_affixes(of_bytes("GPT-4o", true, None, with_bytes(found(O200K)), END)),
        whole_words(of_bytes("gpt-oss", true, None, with_bytes(split(O200K)), END)),
        of_bytes("SmolLM 2", true, None, code(), END),
        of_bytes("OLMo 2", true, None, with_bytes(split(CL100K)), END),
        of_bytes("OLMo", true, Some("NFC"), bytes(true), END),
        of_bytes("Granite 3", true, None, code(), END),
        of_bytes("Granite 4", true, None, with_bytes(split(CL100K)), END),
        of_bytes("GLM 4.5", true, None, with_bytes(split(CL100K)), END),
        with_affixes(of_bytes("Command R", true, Some("NFC"), code(), &[("<BOS_TOKEN>", SPECIAL)])),
        of_bytes("Falcon 3", false, None, steps(&[punctuation.clone(), bytes(true), digits(true)]), END),
        of_bytes(
            "Falcon",
            false,
            None,
            steps(&[punctuation, bytes(true), digits(false), split("[0-9][0-9][0-9]")]),
            END,
        ),
        of_bytes("BLOOM", false, None, with_bytes(split(r" ?[^(\s|[.,!?…。，、।۔،])]+")), SENTENCE_PIECE),
        of_bytes("Nemotron H", true, None, with_bytes(split(TEKKEN)), SENTENCE_PIECE),
        // The fast engine takes the radicals of Han, which are symbols, for letters.
        whole_words(of_bytes("Kimi K2", false, None, with_bytes(split(KIMI)), &[("[BOS]", SPECIAL)])),
        of_bytes("MiniMax M2", true, None, with_bytes(split(O200K)), &[("]~b]", SPECIAL)]),
        of_bytes("StarCoder 2", true, None, code(), END),
        Family {
            name: "T5",
            is_fast: true,
            kind: Kind::Unigram,
            model: json!({}),
            normalizer: map(),
            pre_tokenizer: steps(&[json!({"type": "WhitespaceSplit"}), words]),
            added: &[("<unk>", SPECIAL), ("</s>", SPECIAL), ("<extra_id_0>", SPECIAL)],
        },
    ]
}

impl Family {
    /// The family's `tokenizer.json`, with a vocabulary learned from `sample`.
    pub(crate) fn json(&self, sample: &[&str], vocab_size: usize) -> String {
        let config = LearnConfig { vocab_size, ..LearnConfig::default() };
        let learned = learn(sample, &config, &["<|endoftext|>"]).expect("a tokenizer");
        let mut file: Value = serde_json::from_str(&learned).expect("JSON");
        match self.kind {
            Kind::Bytes => {
                file["model"]["vocab"].as_object_mut().expect("tokens").remove("<|endoftext|>");
                file["decoder"] = json!({
                    "type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true,
                });
            }
            Kind::Pieces => {
                file["model"] = pieces(&learned, &file["model"], sample);
                let mut decoders = vec![
                    json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "}),
                    json!({"type": "ByteFallback"}),
                    json!({"type": "Fuse"}),
                ];
                if self.normalizer["type"] == "Sequence" {
                    decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
                }
                file["decoder"] = json!({"type": "Sequence", "decoders": decoders});
            }
            Kind::Unigram => {
                let unigram = include_str!("../data/tokenizers/unigram.json");
                let unigram: Value = serde_json::from_str(unigram).expect("JSON");
                file["model"] = unigram["model"].clone();
                file["decoder"] = unigram["decoder"].clone();
            }
        }
        for (key, value) in self.model.as_object().expect("an object") {
            file["model"][key] = value.clone();
        }
        file["normalizer"] = self.normalizer.clone();
        file["pre_tokenizer"] = self.pre_tokenizer.clone();
        let known = |token: &str| match &file["model"]["vocab"] {
            Value::Object(vocab) => vocab.get(token).cloned(),
            list => list.as_array()?.iter().position(|entry| entry[0] == token).map(Value::from),
        };
        let mut next = match &file["model"]["vocab"] {
            Value::Object(vocab) => vocab.len(),
            list => list.as_array().map_or(0, Vec::len),
        };
        let added: Vec<Value> = (self.added.iter())
            .map(|(content, flags)| {
                let id = known(content).unwrap_or_else(|| {
                    next += 1;
                    json!(next - 1)
                });
                let mut token = json!({"id": id, "content": content});
                for flag in ["single_word", "lstrip", "rstrip", "normalized", "special"] {
                    token[flag] = json!(flags.contains(&flag));
                }
                token
            })
            .collect();
        file["added_tokens"] = json!(added);
        file.to_string()
    }
}

/// A model of characters, with the merges of a byte-level one that join characters.
fn pieces(learned: &str, model: &Value, sample: &[&str]) -> Value {
    let tokenizer = HfTokenizer::from_json("learned", learned, SpecialTokens::Text).expect("it loads");
    let piece = |token: &Value| {
        let id = tokenizer.id(token.as_str().expect("a token")).expect("an id");
        tokenizer.decode(&[id]).replace(' ', "▁")
    };
    let mut vocab = Map::new();
    let mut add = |token: String| {
        let id = vocab.len();
        vocab.entry(token).or_insert(json!(id));
    };
    ["<unk>", "<s>", "</s>"].map(str::to_owned).into_iter().for_each(&mut add);
    (0..=255).map(|byte: u8| format!("<0x{byte:02X}>")).for_each(&mut add);
    let letters: BTreeSet<char> = sample.iter().flat_map(|text| text.chars()).collect();
    letters.into_iter().map(|letter| letter.to_string().replace(' ', "▁")).for_each(&mut add);
    let mut merges = Vec::new();
    for merge in model["merges"].as_array().expect("merges") {
        let (left, right) = (piece(&merge[0]), piece(&merge[1]));
        if vocab.contains_key(&left) && vocab.contains_key(&right) {
            let id = vocab.len();
            vocab.entry(format!("{left}{right}")).or_insert(json!(id));
            merges.push(json!([left, right]));
        }
    }
    json!({"type": "BPE", "vocab": vocab, "merges": merges})
}
