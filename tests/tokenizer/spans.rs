//! Which bytes each id stands for: all of them belong to some id, and each id has at least those that the library says.

use std::ops::Range;
use std::sync::LazyLock;

use millstream::config::SpecialTokens;
use millstream::tokenizer::{ByteTokenizer, Tokenizer};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::families::PAIRS;
use super::files::model;
use super::gate::hostile;
use crate::Pair;

/// The two small models of the test data, each with normalizers that make texts longer or shorter, or leave out some.
static CHANGED: LazyLock<Vec<Pair>> = LazyLock::new(|| {
    let replace = |text: &str, content: &str| json!({"type": "Replace", "pattern": {"String": text}, "content": content});
    let steps = |steps: &[Value]| json!({"type": "Sequence", "normalizers": steps});
    let strip = json!({"type": "Strip", "strip_left": true, "strip_right": true});
    let normalizers = [
        Value::Null,
        json!({"type": "NFC"}),
        json!({"type": "NFKD"}),
        steps(&[json!({"type": "NFD"}), json!({"type": "StripAccents"}), json!({"type": "Lowercase"})]),
        steps(&[json!({"type": "Prepend", "prepend": "▁▁"}), replace(" ", "▁")]),
        steps(&[replace("''", "\""), replace("a", "the"), replace("the the", "t"), strip]),
    ];
    let mut all = Vec::new();
    for name in ["unigram", "wordpiece"] {
        let mut file: Value = serde_json::from_str(&model(name)).expect("JSON");
        for normalizer in &normalizers {
            file["normalizer"] = normalizer.clone();
            all.push(Pair::new(&format!("{name} {normalizer}"), &file.to_string(), SpecialTokens::Text));
        }
    }
    all
});

/// The spans of a text's ids, which are those of plain encoding.
fn spans(tokenizer: &dyn Tokenizer, text: &str) -> Vec<Range<usize>> {
    let (mut plain, mut ids, mut spans) = (Vec::new(), vec![7], vec![9..9]);
    tokenizer.encode(text, &mut plain).expect("ids");
    tokenizer.encode_spans(text, &mut ids, &mut spans).expect("spans");
    assert_eq!((ids[0], &ids[1..]), (7, &*plain), "they are appended");
    assert_eq!(spans.remove(0), 9..9);
    assert_eq!(spans.len(), plain.len());
    spans
}

/// Checks that the spans cover the text, in order, and the library's own offsets.
fn check(pair: &Pair, text: &str) -> Result<(), TestCaseError> {
    let (name, spans) = (pair.name(), spans(&pair.tokenizer, text));
    prop_assert!(spans.is_sorted_by_key(|span| span.start), "{} {:?} {:?}", name, text, spans);
    let mut covered = 0;
    for span in &spans {
        prop_assert!(span.start <= covered && span.start < span.end, "{} {:?} {:?}", name, text, spans);
        covered = covered.max(span.end);
    }
    prop_assert!(spans.is_empty() || covered == text.len(), "{} {:?} {:?}", name, text, spans);
    let encoding = pair.reference.encode(text, false).expect("ids");
    let character = |at: usize| text.floor_char_boundary(at)..text.ceil_char_boundary(at + 1);
    for (span, (start, end)) in spans.iter().zip(encoding.get_offsets()) {
        // The library counts whole characters, of which an id may have some bytes.
        let whole = character(span.start).start..character(span.end - 1).end;
        // Where a space is stripped and put in front again, the library counts it to what follows.
        let is_space = text[whole.clone()].trim().is_empty();
        prop_assert!(
            is_space || whole.start <= *start && *end <= whole.end,
            "{} {:?} {:?} {:?}",
            name,
            text,
            span,
            (start, end)
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn families_tell_which_bytes_an_id_stands_for(text in hostile()) {
        for (added, pair) in &*PAIRS {
            let text = added.iter().fold(text.clone(), |woven, (token, _)| woven + token + &text);
            check(pair, &text)?;
        }
    }

    #[test]
    fn texts_that_are_normalized_are_covered(text in hostile(), more in "(a|the|''|e\u{301}|ﬁ|½| |x){0,12}") {
        for pair in &*CHANGED {
            for text in [&text, &more] {
                check(pair, text)?;
            }
        }
    }

    #[test]
    fn bytes_stand_for_themselves(text in any::<String>()) {
        prop_assert_eq!(spans(&ByteTokenizer, &text), (0..text.len()).map(|at| at..at + 1).collect::<Vec<_>>());
    }
}

#[test]
fn a_space_that_was_stripped_and_put_back_stands_for_itself() {
    for pair in &*CHANGED {
        check(pair, " x").expect("spans");
    }
}

#[test]
fn characters_that_were_replaced_together_belong_to_their_id() {
    let pair = CHANGED.iter().find(|pair| pair.name().contains("the the")).expect("it is there");
    let text = "mill ''the the mill";
    let (mut ids, mut of) = (Vec::new(), Vec::new());
    pair.encode_spans(text, &mut ids, &mut of).expect("spans");
    assert!(of.iter().any(|span| span.contains(&5) && span.contains(&6)), "{of:?}");
    assert!(of.iter().any(|span| span.start <= 7 && 14 <= span.end), "{of:?}");
}
