//! Hugging Face tokenizers: both engines, the gate, and learning.

use std::sync::LazyLock;

use millstream::Error;
use millstream::config::{ByteCount, LearnConfig, SpecialTokens};
use millstream::tokenizer::hf::{Check, Engine, HfTokenizer};
use millstream::tokenizer::learn::learn;
use millstream::tokenizer::{END_OF_TEXT, Tokenizer};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::Pair;

/// Text of several kinds to learn from: code, prose, digits, other scripts.
pub(super) const CORPUS: &[&str] = &[
    include_str!("../../LICENSE-APACHE"),
    "pub fn main() -> Result<()> {\n    let mut mills = mills_of(\"river\")?;\n    while let Some(mill) = mills.next() {\n        mill.grind();\n    }\n    Ok(())\n}\n",
    "It's the miller's mill, and it'll mill what we've brought; DON'T stop it.\r\n\r\n",
    "Мельница мелет муку. Мельница мелет. 風車は粉をひく。風車は回る。 \n",
    "12 123 1234 12345 2024 2025 12 123 1234 12345 2024 2025 345 345 345 234 234 234 024 024 024\n",
    "père, mère, frère: naïve cafés 😀😀 👩‍👩‍👧‍👦 -------- ======== \t\t\tindented\n    spaced\n",
];

/// The fastest engine that the build has.
const FAST: Engine = if cfg!(feature = "fastokens") { Engine::Fastokens } else { Engine::Fast };

fn asks(vocab_size: usize) -> LearnConfig {
    LearnConfig { vocab_size, ..LearnConfig::default() }
}

static LEARNED: LazyLock<String> =
    LazyLock::new(|| learn(CORPUS, &asks(700), &["<|bos|>", END_OF_TEXT]).unwrap());
static TEXT: LazyLock<Pair> = LazyLock::new(|| load(&LEARNED, SpecialTokens::Text));
static PARSE: LazyLock<Pair> = LazyLock::new(|| load(&LEARNED, SpecialTokens::Parse));

fn load(json: &str, special: SpecialTokens) -> Pair {
    Pair::new("test", json, special)
}

/// The learned file after `change`.
fn changed(change: impl FnOnce(&mut Value)) -> String {
    let mut file = serde_json::from_str(&LEARNED).unwrap();
    change(&mut file);
    file.to_string()
}

/// The learned file with another rule for digits.
fn with_digits(rule: &str) -> String {
    changed(|file| {
        let pattern = &mut file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"];
        let old = pattern.as_str().unwrap();
        assert!(old.contains(r"\p{N}{1,3}"));
        *pattern = json!(old.replace(r"\p{N}{1,3}", rule));
    })
}

/// Arbitrary text, thick with what tokenizers stumble over.
fn any_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => any::<String>(),
        3 => "[ \t\r\n\u{a0}\u{2003}]{1,5}",
        3 => "[0-9٠-٩０-９½²]{1,9}",
        3 => "[a-zA-Z]{1,8}'?(s|S|ll|RE|x)?",
        2 => "[!-/:-@_—…。]{1,6}",
        2 => "[\u{300}-\u{310}\u{4e00}-\u{4e20}\u{3040}-\u{3060}\u{ac00}-\u{ac20}\u{5d0}-\u{5ea}]{1,4}",
        2 => "[😀👍🏽\u{200d}\u{fe0f}🇩🇪]{1,4}",
        2 => "\\PC{1,4}",
        1 => Just(END_OF_TEXT.to_owned()),
        1 => Just("<|bos|>".to_owned()),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1024) })]

    #[test]
    fn both_engines_give_equal_ids(text in any_text()) {
        prop_assert_eq!(TEXT.ids(&text), TEXT.right(&text));
        prop_assert_eq!(PARSE.ids(&text), PARSE.right(&text));
    }

    #[test]
    fn what_is_encoded_decodes_to_itself(text in any_text()) {
        prop_assert_eq!(TEXT.decode(&TEXT.ids(&text)), text.as_str());
        prop_assert_eq!(PARSE.decode(&PARSE.ids(&text)), text.as_str());
    }
}

#[test]
fn the_fast_engine_runs_a_learned_file() {
    assert_eq!(TEXT.engine(), FAST);
    assert_eq!(PARSE.engine(), Engine::Fast);
    assert_eq!(PARSE.engine().to_string(), "tokenizers 1.0");
    let mut tried = load(&LEARNED, SpecialTokens::Text);
    assert_eq!(tried.tokenizer.trial(CORPUS), FAST);
}

#[test]
fn special_tokens_in_a_document_are_text_unless_they_are_parsed() {
    let end = TEXT.id(END_OF_TEXT).unwrap();
    let document = format!("one{END_OF_TEXT}two");
    assert!(!TEXT.ids(&document).contains(&end));
    assert_eq!(TEXT.decode(&TEXT.ids(&document)), document);
    assert_eq!(PARSE.ids(&document).iter().filter(|&&id| id == end).count(), 1);
    assert_eq!(PARSE.decode(&[end]), END_OF_TEXT);
    // The same where the reference runs.
    let json = with_digits(r"\p{N}{1,2}");
    assert!(!load(&json, SpecialTokens::Text).ids(&document).contains(&end));
    assert!(load(&json, SpecialTokens::Parse).ids(&document).contains(&end));
}

/// A cl100k-like file whose digits the fast engine cuts by three, whatever the pattern says.
#[test]
fn the_gate_refuses_digit_rules_that_the_fast_engine_gets_wrong() {
    for rule in [r"\p{N}{1,2}", r"\p{N}+"] {
        let json = with_digits(rule);
        let tokenizer = load(&json, SpecialTokens::Text);
        let Engine::Reference { reason } = tokenizer.engine() else { panic!("{rule} was admitted") };
        assert!(reason.contains("the reference"), "{reason}");
        for text in ["12345", "in 2024 and 2025", "٣٤٥٦٧", "no digits"] {
            assert_eq!(tokenizer.ids(text), tokenizer.right(text), "{rule} {text}");
            assert_eq!(tokenizer.decode(&tokenizer.ids(text)), text);
        }
    }
    assert_eq!(load(&with_digits(r"\p{N}"), SpecialTokens::Text).engine(), FAST);
}

#[test]
fn the_gate_refuses_what_the_fast_engine_does_not_read() {
    let prefix_space = changed(|file| {
        file["pre_tokenizer"] =
            json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    });
    let unknown_pattern = with_digits(r"\p{N}{2,4}|\p{N}");
    for json in [prefix_space, unknown_pattern] {
        let tokenizer = load(&json, SpecialTokens::Text);
        assert!(matches!(tokenizer.engine(), Engine::Reference { .. }));
        for text in ["the mill", " the mill 12345", "naïve\r\n"] {
            assert_eq!(tokenizer.ids(text), tokenizer.right(text));
        }
    }
}

/// As GPT-2's file has it: the byte level cuts by its own pattern.
#[test]
fn the_gate_admits_the_byte_levels_own_pattern() {
    let json = changed(|file| {
        file["pre_tokenizer"] =
            json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    });
    let tokenizer = load(&json, SpecialTokens::Text);
    assert_eq!(tokenizer.engine(), Engine::Fast);
    for text in ["the mill's 12345\n\n  mills", "naïve\r\n", END_OF_TEXT] {
        assert_eq!(tokenizer.ids(text), tokenizer.right(text));
    }
}

#[test]
fn a_misspelled_token_has_a_nearest() {
    assert_eq!(TEXT.nearest("<|end_of_text|>").as_deref(), Some(END_OF_TEXT));
    assert_eq!(TEXT.nearest("bos").as_deref(), Some("<|bos|>"));
    assert_eq!(TEXT.tokenizer_json(), Some(LEARNED.as_str()));
    let bare = load(&changed(|file| file["added_tokens"] = json!([])), SpecialTokens::Text);
    assert_eq!(bare.nearest(END_OF_TEXT).as_deref(), Some(END_OF_TEXT));
}

#[test]
fn nothing_is_added_cut_or_padded() {
    let json = changed(|file| {
        file["truncation"] =
            json!({"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0});
        file["padding"] = json!({
            "strategy": {"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "<|bos|>",
        });
        file["post_processor"] = json!({
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "<|bos|>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<|bos|>": {"id": "<|bos|>", "ids": [698], "tokens": ["<|bos|>"]}},
        });
    });
    let slow = json.replace(r"\\p{N}{1,3}", r"\\p{N}{1,2}");
    assert_ne!(json, slow);
    for (file, engine) in [(json, FAST.to_string()), (slow, "tokenizers 0.23".to_owned())] {
        let tokenizer = load(&file, SpecialTokens::Text);
        assert!(tokenizer.engine().to_string().starts_with(&engine), "{}", tokenizer.engine());
        for text in ["", "the mill mills and mills"] {
            assert_eq!(tokenizer.ids(text), TEXT.ids(text), "{engine}");
        }
    }
}

#[test]
fn ids_are_appended_and_unknown_ones_decode_to_nothing() {
    let mut appended = vec![7];
    TEXT.encode("mill", &mut appended).unwrap();
    assert_eq!(appended[0], 7);
    assert_eq!(appended[1..], TEXT.ids("mill"));
    let mut beyond = TEXT.ids("mill");
    beyond.extend([TEXT.vocab_size() as u32, u32::MAX]);
    assert_eq!(TEXT.decode(&beyond), "mill");
    let half = &TEXT.ids("\u{10ffff}")[..2];
    assert_eq!(TEXT.decode(half), "\u{fffd}");
}

#[test]
fn the_vocabulary_is_that_of_the_file() {
    assert_eq!(TEXT.vocab_size(), 700);
    assert_eq!(TEXT.id("<|bos|>"), Some(698));
    assert_eq!(TEXT.id(END_OF_TEXT), Some(699));
    assert_eq!(TEXT.id("a"), Some(97));
    assert_eq!(TEXT.id("no such token"), None);
    assert_eq!(TEXT.json(), LEARNED.as_str());
    let added = changed(|file| {
        let mut token = file["added_tokens"][0].clone();
        token["id"] = json!(700);
        token["content"] = json!("<|late|>");
        file["added_tokens"].as_array_mut().unwrap().push(token);
    });
    let tokenizer = load(&added, SpecialTokens::Text);
    assert_eq!((tokenizer.vocab_size(), tokenizer.id("<|late|>")), (701, Some(700)));
}

#[test]
fn the_fingerprint_is_of_the_file_and_the_special_tokens() {
    assert_eq!(load(&LEARNED, SpecialTokens::Text).fingerprint(), TEXT.fingerprint());
    assert_ne!(TEXT.fingerprint(), PARSE.fingerprint());
    assert_ne!(load(&with_digits(r"\p{N}"), SpecialTokens::Text).fingerprint(), TEXT.fingerprint());
}

#[test]
fn files_that_cannot_be_used_say_why() {
    let from = |json: &str| HfTokenizer::from_json("mine.json", json, SpecialTokens::Text).unwrap_err();
    let random = changed(|file| file["model"]["dropout"] = json!(0.1));
    assert!(from(&random).to_string().contains("dropout"));
    assert!(from("{}").to_string().starts_with("tokenizer mine.json: "));
    let directory = tempfile::tempdir().unwrap();
    let missing = HfTokenizer::from_file(directory.path().join("none.json"), SpecialTokens::Text);
    assert!(matches!(missing.unwrap_err(), Error::Io { action: "read", .. }));
    let path = directory.path().join("tokenizer.json");
    std::fs::write(&path, &*LEARNED).unwrap();
    let tokenizer = HfTokenizer::from_file(&path, SpecialTokens::Text).unwrap();
    assert_eq!(tokenizer.fingerprint(), TEXT.fingerprint());
    assert_eq!(tokenizer.name(), path.display().to_string());
}

#[test]
fn learning_twice_gives_one_file() {
    for _ in 0..5 {
        assert!(learn(CORPUS, &asks(700), &["<|bos|>", END_OF_TEXT]).unwrap() == *LEARNED);
    }
}

/// Each merge of the file makes a token of the file, in the order of ids, as the format wants it.
#[test]
fn a_learned_file_is_sound() {
    let file: Value = serde_json::from_str(&LEARNED).unwrap();
    let vocab = file["model"]["vocab"].as_object().unwrap();
    assert_eq!(vocab.len(), 700);
    let merges = file["model"]["merges"].as_array().unwrap();
    assert_eq!(merges.len(), 700 - 256 - 2);
    for (id, merge) in (256_u64..).zip(merges) {
        let spelling = format!("{}{}", merge[0].as_str().unwrap(), merge[1].as_str().unwrap());
        assert_eq!(vocab[&spelling].as_u64(), Some(id), "{spelling}");
    }
    assert_eq!(TEXT.ids(" License").len(), 1, "a word that the sample is full of is one token");
}

/// The engines class characters by different versions of Unicode, and a learned file may have a token across the place
/// where only one of them cuts.
#[test]
fn characters_that_the_reference_does_not_know_cost_no_other_text_its_speed() {
    // The last byte of each character and the line end are the most frequent pair.
    let json = learn(["😳\n📳\n♳\n₳\n∳\n"; 50], &asks(300), &[]).unwrap();
    let tokenizer = load(&json, SpecialTokens::Text);
    assert_eq!(tokenizer.engine(), FAST);
    // A letter since Unicode 17, which ends with the same byte.
    let new = "a\u{11db3}\nb";
    assert_eq!(tokenizer.ids(new), tokenizer.right(new));
    let mut tried = load(&json, SpecialTokens::Text);
    assert_eq!(tried.tokenizer.trial([new]), FAST, "it says nothing against the engine");
    for text in [new, "😳\nb", new] {
        assert_eq!(tried.ids(text), tried.right(text));
    }
    assert_eq!(Check::new(&tried).unwrap().compare(new), Ok(tokenizer.right(new).len()));
}

#[test]
fn learning_reads_no_more_than_the_sample() {
    let first = CORPUS[0];
    let config = LearnConfig { sample: ByteCount(5000), ..asks(400) };
    let mut read = 0;
    let json = learn(CORPUS.iter().inspect(|_| read += 1), &config, &[]).unwrap();
    assert_eq!(read, 1);
    assert!(json == learn([&first[..5000]], &asks(400), &[]).unwrap());
    assert!(json != learn([first], &asks(400), &[]).unwrap());
}

#[test]
fn learning_refuses_what_cannot_be_learned() {
    let nothing: [&str; 2] = ["", ""];
    assert!(matches!(learn(nothing, &asks(300), &[]), Err(Error::Tokenizer { .. })));
    let few = learn(CORPUS, &asks(257), &["<|bos|>", END_OF_TEXT]).unwrap_err().to_string();
    assert!(few.starts_with("tokenizer.train.vocab_size: 257") && few.contains("258"), "{few}");
    for special in ["", "a", "Ġ"] {
        assert!(matches!(learn(CORPUS, &asks(300), &[special]), Err(Error::Config { .. })));
    }
}

#[test]
fn small_samples_give_fewer_tokens_and_one_special_by_default() {
    let json = learn(["abcabc"], &asks(4096), &[]).unwrap();
    let tokenizer = load(&json, SpecialTokens::Text);
    // "ab", "abc"; the whole occurs once.
    assert_eq!(tokenizer.vocab_size(), 256 + 2 + 1);
    assert_eq!(tokenizer.id(END_OF_TEXT), Some(258));
    assert_eq!(tokenizer.decode(&tokenizer.ids("xyz äöü")), "xyz äöü");
    let twice = load(&learn(CORPUS, &asks(300), &["<|x|>", "<|x|>"]).unwrap(), SpecialTokens::Text);
    assert_eq!((twice.vocab_size(), twice.id("<|x|>")), (300, Some(299)));
}

/// Learned spellings never take a special token's place.
#[test]
fn a_special_token_that_is_a_word_keeps_an_id_of_its_own() {
    let tokenizer = load(&learn(["eos eos eos eos"], &asks(300), &["eos"]).unwrap(), SpecialTokens::Text);
    let special = tokenizer.id("eos").unwrap();
    assert_eq!(special as usize, tokenizer.vocab_size() - 1);
    assert!(!tokenizer.ids("eos").contains(&special));
}

/// Whoever learns from the same sample gets the same ids, whatever the version.
#[test]
fn a_sample_gives_the_same_file_for_ever() {
    assert_eq!(blake3::hash(LEARNED.as_bytes()).to_hex()[..32], *"4b756aef6471564e7dad81abfda2b764");
}
