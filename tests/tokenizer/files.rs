//! Tokenizers that other people's tools made, and the ids that their own libraries give (`tests/data/make_tokenizers.py`).

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use millstream::Error;
use millstream::config::{SpecialTokens, TokenizerConfig};
use millstream::tokenizer::hf::{Engine, HfTokenizer};
use millstream::tokenizer::{Tokenizer, ranks};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::pointer::{POINTER, assert_named};
use crate::{Pair, ids, reference};

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tokenizers").join(name)
}

/// The file of one of the small models.
pub(super) fn model(name: &str) -> String {
    std::fs::read_to_string(data(&format!("{name}.json"))).expect("the file")
}

fn golden() -> Value {
    let text = std::fs::read_to_string(data("golden.json")).expect("the file");
    serde_json::from_str(&text).expect("JSON")
}

fn list<T: serde::de::DeserializeOwned>(golden: &Value, name: &str) -> Vec<T> {
    serde_json::from_value(golden[name].clone()).expect(name)
}

fn same(tokenizer: &HfTokenizer, golden: &Value, name: &str) {
    let texts = list::<String>(golden, "texts");
    for (text, right) in texts.iter().zip(list::<Vec<u32>>(golden, name)) {
        assert_eq!(ids(tokenizer, text), right, "{name} {text:?}");
    }
}

fn special(golden: &Value) -> BTreeMap<String, u32> {
    serde_json::from_value(golden["special"].clone()).expect("special tokens")
}

fn of_ranks(pattern: &str, special_tokens: SpecialTokens, special: BTreeMap<String, u32>) -> TokenizerConfig {
    let (path, pattern) = (Some(data("ranks.tiktoken")), Some(pattern.to_owned()));
    TokenizerConfig { path, pattern, special, special_tokens, ..TokenizerConfig::default() }
}

/// Both engines, whichever of them the gate lets run.
#[test]
fn other_models_give_the_ids_of_their_own_library() {
    let golden = golden();
    for name in ["unigram", "wordpiece"] {
        let mut pair = Pair::new(name, &model(name), SpecialTokens::Text);
        let texts = list::<String>(&golden, "texts");
        pair.tokenizer.trial(&texts);
        same(&pair, &golden, name);
        for (text, right) in texts.iter().zip(list::<Vec<u32>>(&golden, name)) {
            assert_eq!(pair.right(text), right);
        }
        for text in ["the license", "mill"] {
            assert_eq!(pair.decode(&pair.ids(text)), text, "{name}");
        }
    }
}

/// Whose hash table would tell of its collisions on standard error.
#[test]
fn a_vocabulary_of_few_tokens_is_the_references() {
    let tokens = ["[UNK]", "the", "mill", "mills"];
    let vocab: BTreeMap<&str, usize> = tokens.into_iter().zip(0..).collect();
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": { "type": "WhitespaceSplit" }, "post_processor": null, "decoder": null,
        "model": { "type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]" },
    });
    let tokenizer =
        HfTokenizer::from_json("few", json.to_string().as_str(), SpecialTokens::Text).expect("it loads");
    assert!(matches!(tokenizer.engine(), Engine::Reference { .. }), "{}", tokenizer.engine());
    assert_eq!(ids(&tokenizer, "the mills mill on"), [1, 3, 2, 0]);
}

/// The fast engine normalizes by a later Unicode: texts in which that shows are for the reference.
#[test]
fn the_gate_admits_other_models() {
    let spaces = json!({ "normalizer": null, "pre_tokenizer": { "type": "WhitespaceSplit" } });
    for (name, change, is_fast) in [
        ("unigram", json!({}), true),
        ("unigram", json!({ "normalizer": { "type": "NFKC" } }), true),
        ("wordpiece", json!({}), false),
        ("wordpiece", spaces, true),
    ] {
        let mut file: Value = serde_json::from_str(&model(name)).expect("JSON");
        for (key, value) in change.as_object().expect("settings") {
            file[key] = value.clone();
        }
        let pair = Pair::new(name, &file.to_string(), SpecialTokens::Text);
        assert_eq!(pair.engine() == Engine::Fast, is_fast, "{name}: {}", pair.engine());
        let more = ["\u{1ccd6}\u{1ccf0}", "ﬁne ½ \u{378}a", "\u{113c2}\u{113c2}"].map(str::to_owned);
        for text in list::<String>(&golden(), "texts").into_iter().chain(more) {
            assert_eq!(pair.ids(&text), pair.right(&text), "{name} {text:?}");
        }
    }
}

#[test]
fn ranks_give_the_ids_of_tiktoken() {
    let golden = golden();
    let regex = golden["regex_pattern"].as_str().expect("a pattern");
    for (name, pattern) in
        [("gpt2", "gpt2"), ("cl100k_base", "cl100k_base"), ("o200k_base", "o200k_base"), ("regex", regex)]
    {
        let open = |mode| HfTokenizer::open(&of_ranks(pattern, mode, special(&golden))).expect("it loads");
        let (text, parse) = (open(SpecialTokens::Text), open(SpecialTokens::Parse));
        if name != "regex" {
            for engine in [text.engine(), parse.engine()] {
                assert!(!matches!(engine, Engine::Reference { .. }), "{name}: {engine}");
            }
        }
        same(&text, &golden, name);
        same(&parse, &golden, &format!("{name}_parse"));
        assert_eq!((text.id("<|endofprompt|>"), text.vocab_size()), (Some(50300), 50301));
        for document in list::<String>(&golden, "texts") {
            assert_eq!(text.decode(&ids(&text, &document)), document);
        }
        // What a run keeps is the same tokenizer without the ranks.
        let kept = HfTokenizer::from_json("kept", text.json(), SpecialTokens::Text).expect("it loads");
        assert_eq!(kept.fingerprint(), text.fingerprint());
    }
}

#[test]
fn a_published_name_brings_its_special_tokens() {
    for (name, token, id) in [
        ("gpt2", "<|endoftext|>", 50256),
        ("p50k_edit", "<|fim_suffix|>", 50283),
        ("cl100k_base", "<|endofprompt|>", 100276),
        ("o200k_base", "<|endoftext|>", 199999),
    ] {
        let config = of_ranks(name, SpecialTokens::Text, BTreeMap::new());
        let tokenizer = HfTokenizer::open(&config).expect("it loads");
        assert_eq!(tokenizer.id(token), Some(id), "{name}");
    }
}

/// tiktoken's algorithm as it is told: of a word that is no token, the two neighbours of the lowest rank are joined,
/// the leftmost first.
fn told(ranks: &HashMap<Vec<u8>, u32>, word: &[u8]) -> Vec<u32> {
    if let Some(rank) = ranks.get(word) {
        return vec![*rank];
    }
    let mut pieces: Vec<Vec<u8>> = word.iter().map(|byte| vec![*byte]).collect();
    loop {
        let joined = |at: usize| ranks.get(&pieces[at..at + 2].concat()).map(|rank| (*rank, at));
        let Some((_, at)) = (0..pieces.len().saturating_sub(1)).filter_map(joined).min() else {
            return pieces.iter().map(|piece| ranks[piece]).collect();
        };
        let right = pieces.remove(at + 1);
        pieces[at].extend(right);
    }
}

fn encoded(token: &[u8]) -> String {
    base64::prelude::BASE64_STANDARD.encode(token)
}

fn file(tokens: &[(Vec<u8>, u32)]) -> String {
    tokens.iter().map(|(token, rank)| format!("{} {rank}\n", encoded(token))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    /// Whatever tokens have whatever ranks: also those that no learner would make.
    #[test]
    fn any_ranks_join_as_tiktoken_does(
        tokens in prop::collection::btree_set("[abc]{2,6}", 0..24),
        order in any::<u64>(),
        bytes_first in any::<bool>(),
        words in prop::collection::vec("[abc]{1,24}", 64),
    ) {
        let mut all: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        all.extend(tokens.into_iter().map(String::into_bytes));
        let from = if bytes_first { 256 } else { 0 };
        all[from..].sort_by_key(|token| blake3::hash(&[&order.to_le_bytes()[..], token].concat()).as_bytes().to_vec());
        let all: Vec<(Vec<u8>, u32)> = all.into_iter().zip(0..).collect();
        let special = BTreeMap::from([("<|end|>".to_owned(), 1000)]);
        // Words are what stands between spaces.
        let json = ranks::to_json("any", &file(&all), r"[^ ]+| +", &special).expect("ranks");
        let reference = reference(&json, SpecialTokens::Text);
        let ranks: HashMap<Vec<u8>, u32> = all.into_iter().collect();
        for word in words {
            let encoding = reference.encode_fast(word.as_str(), false).expect("ids");
            prop_assert_eq!(encoding.get_ids(), told(&ranks, word.as_bytes()), "{}", word);
        }
    }
}

fn refused(outcome: millstream::Result<impl std::fmt::Debug>) -> String {
    outcome.expect_err("it is wrong").to_string()
}

#[test]
fn ranks_that_are_none_say_where_and_why() {
    let bytes: Vec<(Vec<u8>, u32)> = (0..=255).map(|byte| (vec![byte], u32::from(byte))).collect();
    let good = file(&bytes);
    let none = BTreeMap::new();
    let of = |text: &str| refused(ranks::to_json("mine", text, "gpt2", &none));
    assert!(ranks::to_json("mine", &format!("\u{feff}{good}\n\n"), "gpt2", &none).is_ok());
    assert!(ranks::to_json("mine", &good.replace('\n', "\r\n"), "gpt2", &none).is_ok());
    for (extra, said) in [
        ("a b c", "line 257: \"a b c\" is not a token in base64, a space, and its rank"),
        ("YQ==", "line 257: \"YQ==\" is not a token"),
        ("a-b= 300", "line 257: its token is not base64"),
        ("YWI= x", "line 257: its rank \"x\" must be a number below 16777216"),
        ("YWI= -1", "line 257: its rank \"-1\" must be"),
        ("YWI= 4294967295", "line 257: its rank \"4294967295\" must be"),
        ("YWI= 97", "line 257: its rank 97 is also on line 98"),
        ("YQ== 300", "line 257: its token is also on line 98"),
    ] {
        let found = of(&format!("{good}{extra}\n"));
        assert!(found.starts_with(&format!("tokenizer mine: {said}")), "{found}");
    }
    let long = format!("{good}{} 300\n", encoded(&[b'a'; 1025]));
    assert!(of(&long).contains("1025 bytes"), "{}", of(&long));
    assert!(of("").contains("the byte 0x00 has no rank"));
    assert!(of(&file(&bytes[..200])).contains("the byte 0xc8 has no rank"));

    let with = |pattern: &str, special: &[(&str, u32)]| {
        let special = special.iter().map(|(token, id)| ((*token).to_owned(), *id)).collect();
        refused(ranks::to_json("mine", &good, pattern, &special))
    };
    assert!(with("gpt2", &[("<|x|>", 97)]).contains("\"<|x|>\" has the id 97, which is that of \"a\""));
    assert!(with("gpt2", &[("<|x|>", 300), ("<|y|>", 300)]).contains("has the id 300, which is that of"));
    assert!(with("gpt2", &[("a", 300)]).contains("spelled like the token of rank 97"));
    assert!(with("gpt2", &[("", 300)]).contains("empty"));
    assert!(with("gpt2", &[("<|x|>", u32::MAX)]).contains("below 16777216"));
    let unknown = with("cl100k", &[]);
    assert!(unknown.starts_with("tokenizer.pattern: \"cl100k\" is neither a known name (gpt2"), "{unknown}");
}

#[test]
fn a_file_is_known_by_its_content() {
    let open = |config: &TokenizerConfig| refused(HfTokenizer::open(config));
    let directory = tempfile::tempdir().expect("a directory");
    let written = |bytes: &[u8]| {
        let path = directory.path().join("tokenizer");
        std::fs::write(&path, bytes).expect("a file");
        Some(path)
    };
    let plain = TokenizerConfig::default();
    assert!(open(&plain).starts_with("tokenizer.path: "));
    let ranks = TokenizerConfig { path: Some(data("ranks.tiktoken")), ..plain.clone() };
    assert!(open(&ranks).starts_with("tokenizer.pattern: "), "{}", open(&ranks));
    let json = TokenizerConfig { path: Some(data("unigram.json")), ..plain.clone() };
    assert!(HfTokenizer::open(&json).is_ok());
    let json = TokenizerConfig { pattern: Some("gpt2".to_owned()), ..json };
    assert!(open(&json).starts_with("tokenizer.pattern: it is for ranks"), "{}", open(&json));
    let model = TokenizerConfig { path: written(b"\n\xff\xfe"), ..plain.clone() };
    assert!(open(&model).contains("not UTF-8 at byte 1"), "{}", open(&model));
    let missing = TokenizerConfig { path: Some(directory.path().join("none")), ..plain.clone() };
    assert!(matches!(HfTokenizer::open(&missing), Err(Error::Io { action: "read", .. })));
    let pointer = TokenizerConfig { path: written(POINTER.as_bytes()), ..plain.clone() };
    assert_named(&HfTokenizer::open(&pointer).expect_err("refused"), "tokenizer");
    let broken = of_ranks("gpt2(", SpecialTokens::Text, BTreeMap::new());
    assert!(open(&broken).contains("tokenizer"), "{}", open(&broken));
}

/// A pattern that makes a word of a special token would let a document end itself.
#[test]
fn no_pattern_makes_text_a_special_token() {
    let special = BTreeMap::from([("<|end|>".to_owned(), 50256)]);
    let words = of_ranks(r"[^ ]+| +", SpecialTokens::Text, special.clone());
    let problem = refused(HfTokenizer::open(&words));
    assert!(problem.contains("makes one word of the special token \"<|end|>\""), "{problem}");
    assert!(HfTokenizer::open(&of_ranks(r"[^ ]+| +", SpecialTokens::Parse, special)).is_ok());
}
