//! Rendered texts get the ids that the Hugging Face libraries give, and an id is learned if it overlaps what is learned.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::config::{LearnConfig, SpecialTokens};
use crate::document::{Mask, RenderedMarks};
use crate::tokenizer::Encoder;
use crate::tokenizer::hf::HfTokenizer;
use crate::tokenizer::learn::learn;

type Reference = tokenizers_reference::Tokenizer;

struct Case {
    name: &'static str,
    /// Two special tokens, the first of which takes no white space.
    tokens: [&'static str; 2],
    /// Whether the reference's offsets cover each character of the text.
    is_covered: bool,
    /// Whether a token before a text leaves the ids of the text as they are.
    is_apart: bool,
    text: Encoder,
    parse: Encoder,
    reference: Reference,
}

impl Case {
    fn new(name: &'static str, tokens: [&'static str; 2], json: &Value) -> Self {
        let encoder = |special| {
            let tokenizer = HfTokenizer::from_json(name, json.to_string(), special).expect("it loads");
            Encoder::new(Arc::new(tokenizer))
        };
        Self {
            name,
            tokens,
            is_covered: true,
            is_apart: true,
            text: encoder(SpecialTokens::Text),
            parse: encoder(SpecialTokens::Parse),
            reference: Reference::from_bytes(json.to_string()).expect("it loads"),
        }
    }

    /// What the library gives for a text: ids and the bytes of each.
    fn right(&self, text: &str) -> (Vec<u32>, Vec<(usize, usize)>) {
        let encoding = self.reference.encode(text, false).expect("ids");
        (encoding.get_ids().to_vec(), encoding.get_offsets().to_vec())
    }

    fn id(&self, nth: usize) -> u32 {
        self.text.tokenizer().id(self.tokens[nth]).expect("a token")
    }
}

static CASES: LazyLock<Vec<Case>> = LazyLock::new(|| {
    let sample = [
        include_str!("../../../../LICENSE-APACHE"),
        "père, mère, frère: naïve cafés 😀😀 👩‍👩‍👧‍👦 風車は粉をひく。 風車は回る。\n\n  Мельница мелет муку. Мельница мелет.\n",
    ];
    let config = LearnConfig { vocab_size: 600, ..LearnConfig::default() };
    let bytes: Value =
        serde_json::from_str(&learn(sample, &config, &["<|a|>", "<|b|>"]).expect("it is learned"))
            .expect("JSON");
    let unigram: Value =
        serde_json::from_str(include_str!("../../../../tests/data/tokenizers/unigram.json")).expect("JSON");
    let wordpiece: Value =
        serde_json::from_str(include_str!("../../../../tests/data/tokenizers/wordpiece.json")).expect("JSON");
    let changed = |file: &Value, change: &dyn Fn(&mut Value)| {
        let mut file = file.clone();
        change(&mut file);
        file
    };
    let letters = ["<|a|>", "<|b|>"];
    let pieces = ["<s>", "</s>"];
    let prepended = |file: &mut Value| {
        let spaces = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
        file["normalizer"] =
            json!({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, spaces]});
        file["pre_tokenizer"] = Value::Null;
    };
    let nfc = |file: &mut Value| file["normalizer"] = json!({"type": "NFC"});
    vec![
        Case::new("bytes", letters, &bytes),
        Case { is_covered: false, ..Case::new("NFC", letters, &changed(&bytes, &nfc)) },
        Case::new(
            "white space is taken",
            letters,
            &changed(&bytes, &|file| {
                (file["added_tokens"][1]["lstrip"], file["added_tokens"][1]["rstrip"]) =
                    (true.into(), true.into());
            }),
        ),
        Case::new(
            "not marked as special",
            letters,
            &changed(&bytes, &|file| file["added_tokens"][1]["special"] = false.into()),
        ),
        Case {
            is_covered: false,
            ..Case::new(
                "sought after NFC",
                letters,
                &changed(&bytes, &|file| {
                    nfc(file);
                    file["added_tokens"][1]["normalized"] = true.into();
                }),
            )
        },
        Case::new(
            "a space before each stretch",
            letters,
            &changed(&bytes, &|file| {
                file["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true.into();
            }),
        ),
        Case { is_covered: false, ..Case::new("pieces", pieces, &unigram) },
        Case {
            is_covered: false,
            ..Case::new(
                "pieces, the first alone prefixed",
                pieces,
                &changed(&unigram, &|file| file["pre_tokenizer"]["prepend_scheme"] = "first".into()),
            )
        },
        Case::new("Llama's pieces", pieces, &changed(&unigram, &prepended)),
        Case {
            is_apart: false,
            ..Case::new(
                "Llama's pieces, sought with their prefix",
                pieces,
                &changed(&unigram, &|file| {
                    prepended(file);
                    file["added_tokens"][2]["normalized"] = true.into();
                }),
            )
        },
        Case { is_covered: false, ..Case::new("words", ["[CLS]", "[SEP]"], &wordpiece) },
    ]
});

/// A piece of a rendered text: one of the two tokens, or plain text that spells none.
#[derive(Clone, Debug)]
enum Written {
    Token(usize),
    Text(String),
}

fn plain() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => "[a-zA-Z]{1,8}",
        3 => "[ \n\t]{1,4}",
        1 => "[0-9.,;:!?]{1,4}",
        1 => "[éèñ風車はМель]{1,4}",
        1 => "[a-e][\u{300}-\u{304}]{1,3}",
        1 => "[😀👍🏽\u{200d}\u{fe0f}👩]{1,3}",
        1 => "(the mill|License|  )",
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

fn written() -> impl Strategy<Value = Vec<Written>> {
    let piece = prop_oneof![(0..2_usize).prop_map(Written::Token), plain().prop_map(Written::Text)];
    prop::collection::vec(piece, 0..8)
}

/// The text of some pieces, and where its special tokens are.
fn text_of(pieces: &[Written], tokens: [&str; 2]) -> (String, Vec<Range<usize>>) {
    let (mut text, mut special) = (String::new(), Vec::new());
    for piece in pieces {
        let start = text.len();
        match piece {
            Written::Token(nth) => {
                text.push_str(tokens[*nth]);
                special.push(start..text.len());
            }
            Written::Text(plain) => text.push_str(plain),
        }
    }
    (text, special)
}

/// Ranges that lie between characters, by where they begin and end as parts of the text.
fn ranges(text: &str, cuts: &[prop::sample::Index]) -> Vec<Range<usize>> {
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| places[cut.index(places.len())]).collect();
    cuts.sort_unstable();
    cuts.chunks_exact(2).map(|ends| ends[0]..ends[1]).filter(|range| !range.is_empty()).collect()
}

fn marks(text: &str, special: Vec<Range<usize>>, learned: &[Range<usize>]) -> RenderedMarks {
    RenderedMarks {
        mask: Mask::learning(learned.iter().cloned(), text.len()),
        special,
        ..RenderedMarks::default()
    }
}

/// The ids of a rendered text, and for each whether it is learned.
fn encoded(encoder: &Encoder, text: &str, marks: &RenderedMarks) -> (Vec<u32>, Vec<bool>) {
    let (mut ids, mut mask) = (vec![7], Mask::default());
    encoder.encode_rendered(text, marks, 0..text.len(), &mut ids, &mut mask).expect("ids");
    let flags = (1..ids.len()).map(|at| mask.learned_count(at..at + 1) == 1).collect();
    ids.remove(0);
    (ids, flags)
}

fn overlap(span: &Range<usize>, learned: &[Range<usize>]) -> bool {
    learned.iter().any(|range| range.start < span.end && span.start < range.end)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn ids_and_masks_are_those_of_the_library(
        pieces in written(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        for case in &*CASES {
            let (text, special) = text_of(&pieces, case.tokens);
            let (right, offsets) = case.right(&text);
            let learned = ranges(&text, &cuts);
            let marks = marks(&text, special, &learned);
            let flags: Vec<bool> =
                offsets.iter().map(|&(start, end)| overlap(&(start..end), &learned)).collect();
            for (encoder, mode) in [(&case.text, "text"), (&case.parse, "parse")] {
                let (ids, ours) = encoded(encoder, &text, &marks);
                let what = format!("{} {mode} {text:?} {learned:?} {offsets:?}", case.name);
                if ids.is_empty() {
                    prop_assert!(flags.iter().all(|is_learned| !is_learned), "{}", what);
                    continue;
                }
                prop_assert_eq!(&ids, &right, "{}", what);
                if case.is_covered {
                    prop_assert_eq!(ours, flags.clone(), "{}", what);
                } else {
                    let has_all = ours.iter().zip(&flags).all(|(ours, right)| *ours || !right);
                    prop_assert!(has_all, "{} {:?} {:?}", what, ours, flags);
                }
            }
        }
    }

    #[test]
    fn what_somebody_wrote_is_text_unless_special_tokens_are_parsed(
        pieces in written(), more in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        for case in &*CASES {
            let mut pieces = pieces.clone();
            for (nth, place) in more.iter().enumerate() {
                let spelled = format!("a {} b", case.tokens[nth % 2]);
                pieces.insert(place.index(pieces.len() + 1), Written::Text(spelled));
            }
            let (text, special) = text_of(&pieces, case.tokens);
            let marks = marks(&text, special.clone(), &[0..text.len()]);
            let (ids, flags) = encoded(&case.text, &text, &marks);
            prop_assert!(flags.iter().all(|is_learned| *is_learned));
            let of: Vec<u32> = ids.into_iter().filter(|id| *id == case.id(0) || *id == case.id(1)).collect();
            let expected: Vec<u32> = (pieces.iter())
                .filter_map(|piece| match piece {
                    Written::Token(nth) => Some(case.id(*nth)),
                    Written::Text(_) => None,
                })
                .collect();
            prop_assert_eq!(of, expected, "{} {:?}", case.name, text);
            prop_assert_eq!(encoded(&case.parse, &text, &marks).0, case.right(&text).0, "{} {:?}", case.name, text);
        }
    }

    /// Encoding begins anew at each break, and as in the middle of a text.
    #[test]
    fn no_id_spans_a_break(
        text in plain(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        learned in prop::collection::vec(any::<prop::sample::Index>(), 2..4),
    ) {
        let breaks: Vec<usize> = ranges(&text, &cuts).into_iter().map(|range| range.end).collect();
        let learned = ranges(&text, &learned);
        prop_assume!(!learned.is_empty());
        for case in CASES.iter().filter(|case| case.is_apart) {
            let mut expected = Vec::new();
            let ends = breaks.iter().copied().chain([text.len()]);
            let parts = ends.scan(0, |at, end| Some(std::mem::replace(at, end)..end));
            for part in parts.filter(|part| !part.is_empty()) {
                let is_first = part.start == 0;
                let before = if is_first { "" } else { case.tokens[0] };
                let (ids, _) = case.right(&format!("{before}{}", &text[part]));
                expected.extend_from_slice(&ids[usize::from(!is_first)..]);
            }
            for encoder in [&case.text, &case.parse] {
                let marks = RenderedMarks { breaks: breaks.clone(), ..marks(&text, Vec::new(), &learned) };
                let (ids, _) = encoded(encoder, &text, &marks);
                // Words have no ids for white space.
                prop_assert!(ids == expected || ids.is_empty() && !case.is_covered, "{} {:?} {:?} {:?}", case.name, text, ids, expected);
            }
        }
    }

    /// Without special tokens and breaks the ids are those of plain text, and the spans tell what is learned.
    #[test]
    fn learned_ids_are_those_that_overlap_learned_bytes(
        text in plain(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 2..8),
    ) {
        let learned = ranges(&text, &cuts);
        prop_assume!(!learned.is_empty());
        for case in &*CASES {
            let (mut plain, mut right, mut spans) = (Vec::new(), Vec::new(), Vec::new());
            case.text.encode(&text, &mut plain).expect("ids");
            case.text.tokenizer().encode_spans(&text, &mut right, &mut spans).expect("spans");
            prop_assert_eq!(&right, &plain, "{}", case.name);
            let (ids, flags) = encoded(&case.text, &text, &marks(&text, Vec::new(), &learned));
            if plain.is_empty() {
                prop_assert!(ids.is_empty(), "white space alone may have no ids");
                continue;
            }
            prop_assert_eq!(ids, plain, "{}", case.name);
            let expected: Vec<bool> = spans.iter().map(|span| overlap(span, &learned)).collect();
            prop_assert_eq!(&flags, &expected, "{} {:?} {:?} {:?}", case.name, text, learned, spans);
            for byte in learned.iter().cloned().flatten() {
                let mut all = spans.iter().zip(&flags);
                prop_assert!(all.any(|(span, is_learned)| *is_learned && span.contains(&byte)), "{} {}", case.name, byte);
            }
        }
    }
}

/// A file may put a space in front of a text, and seek a token with one before it, which is then a part of the token.
#[test]
fn spaces_before_a_token_belong_to_what_the_library_says() {
    for case in &*CASES {
        for spaces in 0..4 {
            let pieces =
                [Written::Text(" ".repeat(spaces)), Written::Token(1), Written::Text("  mill".to_owned())];
            let (text, special) = text_of(&pieces, case.tokens);
            let (right, offsets) = case.right(&text);
            for at in 0..text.len() {
                let learned = [at..at + 1];
                let (ids, flags) = encoded(&case.text, &text, &marks(&text, special.clone(), &learned));
                if ids.is_empty() || !case.is_covered {
                    continue;
                }
                assert_eq!(ids, right, "{} {text:?}", case.name);
                let expected: Vec<bool> =
                    offsets.iter().map(|&(start, end)| overlap(&(start..end), &learned)).collect();
                assert_eq!(flags, expected, "{} {text:?} {at} {offsets:?}", case.name);
            }
        }
    }
}

#[test]
fn the_cases_are_encoded_in_all_ways() {
    let of = |name: &str| CASES.iter().find(|case| case.name == name).expect("a case");
    let json = |name: &str| of(name).text.tokenizer().tokenizer_json().expect("JSON").to_owned();
    let outline = |name: &str| super::Outline::read(&json(name)).expect("an outline");
    assert!(outline("pieces, the first alone prefixed").prepends_to_first());
    assert!(!outline("pieces").prepends_to_first());
    assert!(outline("sought after NFC").normalizes() && outline("Llama's pieces").normalizes());
    assert!(outline("bytes").is_byte_level() && !outline("bytes").normalizes());
    assert!(!outline("words").is_byte_level());
}

#[test]
fn words_and_white_space_are_vocabulary_wherever_they_stand() {
    for word in ["\n\n", "▁▁", "covid", "don't", "été", "  ", "T-cell"] {
        assert!(!super::is_control(word), "{word:?}");
    }
    for token in ["<think>", "[INST]", "<|im_end|>", "</s>", "<｜User｜>", "<table>", "{{"] {
        assert!(super::is_control(token), "{token:?}");
    }
}

/// The small Unigram model with more pieces, more added tokens, and another change.
fn unigram(pieces: &[&str], added: &[Value], change: impl Fn(&mut Value)) -> Encoder {
    let mut file: Value =
        serde_json::from_str(include_str!("../../../../tests/data/tokenizers/unigram.json")).expect("JSON");
    let vocab = file["model"]["vocab"].as_array_mut().expect("pieces");
    vocab.extend(pieces.iter().map(|piece| json!([piece, if piece.len() > 1 { 0.0 } else { -5.0 }])));
    file["added_tokens"].as_array_mut().expect("tokens").extend(added.iter().cloned());
    change(&mut file);
    let tokenizer =
        HfTokenizer::from_json("unigram", file.to_string(), SpecialTokens::Text).expect("it loads");
    Encoder::new(Arc::new(tokenizer))
}

/// The ids of what somebody wrote, and the text of each.
fn of_content(encoder: &Encoder, text: &str) -> Result<(Vec<u32>, Vec<String>), String> {
    let mut ids = Vec::new();
    let marks = marks(text, Vec::new(), &[0..text.len()]);
    let encoded = encoder.encode_rendered(text, &marks, 0..text.len(), &mut ids, &mut Mask::default());
    encoded.map_err(|problem| problem.to_string())?;
    let texts = ids.iter().map(|id| encoder.tokenizer().decode(&[*id])).collect();
    Ok((ids, texts))
}

/// transformers' `split_special_tokens` gives the special tokens here.
#[test]
fn a_unigram_model_does_not_find_its_special_tokens_in_what_somebody_wrote() {
    let encoder = unigram(&["<", ">"], &[], |_| ());
    let (mut plain, id) = (Vec::new(), |token: &str| encoder.tokenizer().id(token).expect("a token"));
    encoder.encode("<unk></s>", &mut plain).expect("ids");
    assert!(plain.contains(&id("<unk>")) && plain.contains(&id("</s>")), "the model finds them: {plain:?}");
    let (ids, texts) = of_content(&encoder, "<unk></s>").expect("ids");
    assert_eq!(texts.concat(), "<unk></s>");
    assert!(!ids.iter().any(|found| *found == id("<unk>") || *found == id("</s>")), "{ids:?}");
    assert!(!of_content(&encoder, "<unk>").expect("ids").0.contains(&id("<unk>")));
    // Text without them has the ids that it had.
    let (mut plain, text) = (Vec::new(), "the mill < s > ☃ mills");
    encoder.encode(text, &mut plain).expect("ids");
    assert!(plain.contains(&id("<unk>")), "the snowman is unknown");
    assert_eq!(of_content(&encoder, text).expect("ids").0, plain);
    let with = format!("</s>{text}");
    assert!(of_content(&encoder, &with).expect("ids").0.contains(&id("<unk>")), "and stays so");
}

#[test]
fn other_added_tokens_of_a_unigram_model_keep_their_ids() {
    let added = |id: u64, content: &str| {
        json!({
            "id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": false,
        })
    };
    let encoder = unigram(
        &["<", ">", "<think>"],
        &[added(302, "<think>"), added(303, "[X]"), added(304, "covid")],
        |_| (),
    );
    let id = |token: &str| encoder.tokenizer().id(token).expect("a token");
    assert_eq!([id("<think>"), id("[X]"), id("covid")], [302, 303, 304]);
    let (ids, texts) = of_content(&encoder, "<think>covid").expect("ids");
    assert_eq!(texts.concat(), "<think>covid");
    assert!(ids.contains(&304) && !ids.contains(&302), "{ids:?}");
    assert!(!of_content(&encoder, "<s>[X]covid").expect("ids").0.contains(&303));
}

#[test]
fn a_unigram_model_that_gets_spaces_refuses_a_content_with_its_special_tokens() {
    let encoder = unigram(&[], &[], |file| {
        (file["normalizer"], file["pre_tokenizer"]) = (Value::Null, Value::Null);
    });
    of_content(&encoder, "the mill").expect("ids");
    let problem = of_content(&encoder, "the </s> mill").expect_err("a special token");
    assert!(problem.contains("tokenizer.special_tokens = \"parse\""), "{problem}");
}

#[test]
fn a_token_that_the_tokenizer_has_not_is_named() {
    let text = "<|c|>one";
    let marks = marks(text, vec![0..5], &[0..text.len()]);
    let problem = CASES[0]
        .text
        .encode_rendered(text, &marks, 0..text.len(), &mut Vec::new(), &mut Mask::default())
        .expect_err("there is no such token")
        .to_string();
    assert!(problem.contains("\"<|c|>\"") && problem.contains("template"), "{problem}");
}
