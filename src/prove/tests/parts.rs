//! Messages whose parts say themselves whether they are learned from.

use serde_json::{Value, json};

use super::{Case, FaultKind, joins_parts};
use crate::config::Learn;

/// The first answer is learned from but for its first part; of the second one only the first part is.
fn messages() -> Value {
    let part = |text: &str, train: Option<bool>| json!({"type": "text", "text": text, "train": train});
    json!([
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": [part("two", Some(false)), part("three", None), part(" four ", None)]},
        {"role": "user", "content": "five"},
        {"role": "assistant", "train": false, "content": [part("six", Some(true)), part("seven", None)]},
    ])
}

#[test]
fn parts_are_proved_and_each_single_id_of_them_that_is_wrong_is_found() {
    let mut case = Case::of(&messages(), joins_parts, &Learn::All);
    let parts = case.expected.turns.iter().flat_map(|turn| &turn.parts);
    let parts: Vec<(String, bool)> =
        parts.map(|(place, learned)| (case.expected.text[place.clone()].to_owned(), *learned)).collect();
    let expected = [("two", false), ("three", true), ("four", true), ("six", true), ("seven", false)];
    assert_eq!(parts, expected.map(|(text, learned)| (text.to_owned(), learned)));
    let (_, judged) = case.judge().expect("no fault");
    assert_eq!((judged.turns, judged.partial_turns), (1, 1));
    // The end of a turn that is learned from belongs to it.
    let stop = case.find("<|im_end|>", " four ");
    let places: Vec<_> = case
        .expected
        .turns
        .iter()
        .flat_map(|turn| &turn.parts)
        .map(|part| part.0.clone())
        .chain([stop])
        .collect();
    for id in 0..case.ids.len() {
        let span = case.spans[id].clone();
        if places.iter().any(|place| place.start <= span.start && span.end <= place.end) {
            case.learned[id] = !case.learned[id];
            assert!(case.judge().is_err(), "{:?}", &case.expected.text[span]);
            case.learned[id] = !case.learned[id];
        }
    }
}

#[test]
fn a_part_that_is_wrong_has_its_name() {
    let fault = |part: &str, learned: bool| {
        let mut case = Case::of(&messages(), joins_parts, &Learn::All);
        case.learn(case.find(part, "one"), learned);
        let finding = case.judge().expect_err("a fault");
        (finding.kind, finding.message)
    };
    assert_eq!(fault("two", true), (FaultKind::MessageLearned, Some(1)));
    assert_eq!(fault("three", false), (FaultKind::PartMasked, Some(1)));
    assert_eq!(fault("six", false), (FaultKind::PartMasked, Some(3)));
    assert_eq!(fault("seven", true), (FaultKind::MessageLearned, Some(3)));
}
