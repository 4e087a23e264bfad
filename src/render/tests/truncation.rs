//! Conversations that do not fit into a row.

use super::{CHATML, Given, chat, encoder, learned, len, outcome, rendered};
use crate::config::Truncate;
use crate::document::{EncodedTexts, Mask, RenderedMarks};
use crate::render::Outcome;
use crate::tokenizer::tests::before;
use crate::tokenizer::{EncodeError, Encoder};

#[test]
fn the_oldest_turns_leave() {
    let record = chat(&[
        ("s", "0"),
        ("u", "1"),
        ("a", "2"),
        ("t", "3"),
        ("a", "4"),
        ("u", "5"),
        ("a", "6"),
        ("u", "7"),
        ("a", "8"),
    ]);
    let given = Given::new(CHATML);
    let lens = |kept: &[(&str, &str)]| len(&rendered(&given.renderer(), &chat(kept)));
    let (two, one) = (
        lens(&[("s", "0"), ("u", "5"), ("a", "6"), ("u", "7"), ("a", "8")]),
        lens(&[("s", "0"), ("u", "7"), ("a", "8")]),
    );
    let fitted = |width, truncate| {
        let mut given = Given::new(CHATML);
        given.source.chat.truncate = truncate;
        let renderer = given.renderer();
        renderer.fit(&encoder(), width);
        outcome(&renderer, &record)
    };
    let learned_of = |width| match fitted(width, Truncate::Turns) {
        Outcome::Text(text) => {
            assert!(text.text.contains("system\n0"));
            learned(&text).iter().map(|text| text[..1].to_owned()).collect::<Vec<_>>()
        }
        Outcome::LeftOut(why) => vec![why],
    };
    assert_eq!(learned_of(1000), ["2", "4", "6", "8"]);
    assert_eq!(learned_of(two), ["6", "8"]);
    assert_eq!(learned_of(two - 1), ["8"]);
    assert_eq!(learned_of(one), ["8"]);
    assert_eq!(
        learned_of(one - 1),
        [format!("it is longer than a row, which has {} ids (pipeline.seq_len, chat.truncate)", one - 1)]
    );
    assert!(matches!(fitted(two, Truncate::Drop), Outcome::LeftOut(_)));
    // What stays must have a turn to learn from.
    let renderer = Given::new(CHATML).renderer();
    renderer.fit(&encoder(), one);
    let unanswered = chat(&[("u", "1"), ("a", "2"), ("u", "3"), ("u", "long ".repeat(one).trim())]);
    match outcome(&renderer, &unanswered) {
        Outcome::LeftOut(why) => assert!(why.starts_with("it is longer than a row"), "{why}"),
        Outcome::Text(text) => panic!("{}", text.text),
    }
    let unanswered = chat(&[("u", &"long ".repeat(one)), ("a", "2"), ("u", "3")]);
    match outcome(&renderer, &unanswered) {
        Outcome::LeftOut(why) => assert!(why.starts_with("it is longer than a row"), "{why}"),
        Outcome::Text(text) => panic!("{}", text.text),
    }
    match fitted(two, Truncate::End) {
        Outcome::Text(text) => assert_eq!(text.marks.limit, Some((two, Truncate::End))),
        Outcome::LeftOut(why) => panic!("{why}"),
    }
}

#[test]
fn a_conversation_that_was_encoded_to_measure_it_is_not_encoded_again() {
    let given = Given::new(CHATML);
    let records = [
        chat(&[("u", "1"), ("a", "23")]),
        chat(&[("s", "4"), ("u", "5"), ("a", "6"), ("u", "7"), ("a", "8")]),
    ];
    let plain = records.each_ref().map(|record| rendered(&given.renderer(), record));
    let (mut slab, mut marks) = ("..".to_owned(), RenderedMarks::default());
    let mut places = Vec::new();
    for (record, plain) in records.iter().zip(&plain) {
        let renderer = given.renderer();
        renderer.fit(&encoder(), len(plain));
        let measured = rendered(&renderer, record);
        assert_eq!((&measured.text, &measured.marks.mask), (&plain.text, &plain.marks.mask));
        places.push(slab.len()..slab.len() + plain.text.len());
        marks.append(&measured.marks, measured.text.len(), slab.len());
        slab.push_str(&measured.text);
    }
    let (known, unknown) =
        (marks.clone(), RenderedMarks { encoded: EncodedTexts::default(), ..marks.clone() });
    let refusing = Encoder::new(before("refusing", |_| Err("it was encoded".into())));
    // In another order, and behind other ids.
    let encode = |encoder: &Encoder, marks: &RenderedMarks| {
        let (mut ids, mut mask) = (vec![7], Mask::default());
        let encoded = places.iter().rev().map(|place| {
            encoder.encode_rendered(&slab[place.clone()], marks, place.clone(), &mut ids, &mut mask)
        });
        let borders = encoded.collect::<Result<Vec<_>, EncodeError>>()?;
        Ok::<_, EncodeError>((ids, mask, borders))
    };
    assert_eq!(encode(&refusing, &known), encode(&encoder(), &unknown));
    let second = marks.within(&places[1]);
    assert_eq!((second.encoded, second.mask), (EncodedTexts::default(), plain[1].marks.mask.clone()));
    assert!(encode(&refusing, &unknown).is_err());
}
