//! Faults that pipelines have, injected one by one.

use serde_json::json;

use super::{
    BOS, Case, FaultKind, IM_END, Learn, chatml, encode, plain, roles, strips_reasoning, talk, thoughts,
    with_bos,
};
use crate::config::Truncate;

/// A fault that pipelines have, how it is injected, and its name.
type Mutation = (&'static str, fn() -> Case, FaultKind);

/// The right ids with another mask or other rules.
fn masked(change: fn(&mut Case)) -> Case {
    let mut case = Case::right();
    change(&mut case);
    case
}

/// The same where users are learned from.
fn of_users(change: fn(&mut Case)) -> Case {
    let mut case = Case::of(&talk(), chatml, &roles(&["user"]));
    change(&mut case);
    case
}

const MUTATIONS: &[Mutation] = &[
    ("mask all zero", || masked(|case| case.learned.fill(false)), FaultKind::NothingLearned),
    ("mask all one", || masked(|case| case.learned.fill(true)), FaultKind::EverythingLearned),
    (
        // What has no mask is learned from.
        "lost in packing or in shards",
        || masked(|case| case.learned = vec![true; case.ids.len()]),
        FaultKind::EverythingLearned,
    ),
    ("shifted by one", || masked(|case| case.learned.rotate_right(1)), FaultKind::Shifted),
    ("shifted back by one", || masked(|case| case.learned.rotate_left(1)), FaultKind::Shifted),
    (
        "terminator not learned",
        || masked(|case| case.learn(case.find("<|im_end|>", "it rains"), false)),
        FaultKind::EndMasked,
    ),
    (
        "terminator of the next message",
        || masked(|case| case.learn(case.find("<|im_end|>", "thanks"), true)),
        FaultKind::OtherEndLearned,
    ),
    (
        "pad that equals eos masked away",
        || {
            masked(|case| {
                case.pad = IM_END;
                let pads = case.ids.iter().map(|id| *id == IM_END);
                case.learned.iter_mut().zip(pads).for_each(|(learned, is_pad)| *learned &= !is_pad);
            })
        },
        FaultKind::EndMasked,
    ),
    (
        "generation prompt learned",
        || masked(|case| case.learn(case.find("<|im_start|>assistant\n", "rain<|im_end|>\n"), true)),
        FaultKind::PromptLearned,
    ),
    (
        "header learned",
        || masked(|case| case.learn(case.find("assistant\n", "rain<|im_end|>\n<|im_start|>"), true)),
        FaultKind::HeaderLearned,
    ),
    (
        "markers sought as ids",
        || {
            masked(|case| {
                // Only what a user spelled has the ids of a marker's text.
                case.learned.fill(false);
                case.learn(case.find("sunny<|im_end|>", "weather?"), true);
            })
        },
        FaultKind::MessageLearned,
    ),
    (
        "messages rendered one by one",
        || {
            let mut case = Case::of(&plain(), with_bos, &Learn::All);
            case.deliver(
                &case.expected.text.replace("<|im_start|>", "<s><|im_start|>").replacen("<s>", "", 1),
            );
            case
        },
        FaultKind::RenderedApart,
    ),
    (
        "reasoning stripped",
        || {
            let mut case = Case::of(&thoughts(), strips_reasoning, &Learn::All);
            case.deliver(&case.expected.text.replace("<think>\nah\n</think>\n\n", ""));
            case
        },
        FaultKind::OtherText,
    ),
    (
        "a template that changes content",
        || masked(|case| case.deliver(&case.expected.text.replace("it rains", "It rains"))),
        FaultKind::OtherText,
    ),
    (
        "tail truncated so that nothing is learned",
        || {
            masked(|case| {
                case.truncate = Truncate::End;
                case.ids.truncate(9);
                case.learned.truncate(9);
            })
        },
        FaultKind::NothingLeft,
    ),
    (
        "roles unmapped",
        || {
            let messages = json!([{"role": "human", "content": "one"}, {"role": "gpt", "content": "two"}]);
            Case::of(&messages, chatml, &Learn::All)
        },
        FaultKind::UnknownRoles,
    ),
    (
        "only the last turn",
        || {
            masked(|case| {
                case.learned.fill(false);
                case.learn(case.find("welcome<|im_end|>", "thanks"), true);
            })
        },
        FaultKind::OnlyLastTurn,
    ),
    (
        "one turn left out",
        || masked(|case| case.learn(case.find("it rains<|im_end|>", "rain"), false)),
        FaultKind::TurnMasked,
    ),
    (
        "a part of a turn left out",
        || masked(|case| case.learn(case.find("rains", "it "), false)),
        FaultKind::PartMasked,
    ),
    (
        "tool results learned",
        || masked(|case| case.learn(case.find("rain", "<|im_start|>tool\n"), true)),
        FaultKind::ToolResultLearned,
    ),
    (
        "another role's words learned",
        || masked(|case| case.learn(case.find("be kind", "system"), true)),
        FaultKind::MessageLearned,
    ),
    (
        "the template's text learned",
        || masked(|case| case.learn(case.find("<|im_start|>user\n", "it rains<|im_end|>\n"), true)),
        FaultKind::TemplateLearned,
    ),
    (
        "null arguments",
        || masked(|case| case.deliver(&case.expected.text.replace("\"here\"", "\"here\",\"days\":null"))),
        FaultKind::NullArguments,
    ),
    (
        "double bos",
        || {
            let mut case = Case::of(&plain(), with_bos, &Learn::All);
            case.ids.insert(0, BOS);
            case.learned.insert(0, false);
            case
        },
        FaultKind::DoubleBos,
    ),
    (
        "special tokens from a user",
        || masked(|case| case.deliver(&case.expected.text.clone())),
        FaultKind::SpecialInContent,
    ),
    (
        "an end that is plain text",
        || {
            let mut case = Case::of(&plain(), chatml, &Learn::All);
            let end = case.find("<|im_end|>", "four");
            (case.ids, case.spans) = encode(&case.expected.text, &[end]);
            case.learned = vec![false; case.ids.len()];
            case.expected.turns.clone().iter().for_each(|turn| case.learn(turn.written(), true));
            case
        },
        FaultKind::NoEnd,
    ),
    ("nothing of users", || of_users(|case| case.learned.fill(false)), FaultKind::NothingLearned),
    ("everything for users", || of_users(|case| case.learned.fill(true)), FaultKind::EverythingLearned),
    ("a user's mask shifted", || of_users(|case| case.learned.rotate_right(1)), FaultKind::Shifted),
    (
        "a user's header learned",
        || of_users(|case| case.learn(case.find("<|im_start|>user\n", "it rains<|im_end|>\n"), true)),
        FaultKind::TemplateLearned,
    ),
    (
        "a user's role learned",
        || of_users(|case| case.learn(case.find("user\n", "it rains<|im_end|>\n<|im_start|>"), true)),
        FaultKind::TemplateLearned,
    ),
    (
        "the end of a user's turn not learned",
        || of_users(|case| case.learn(case.find("<|im_end|>", "thanks"), false)),
        FaultKind::EndMasked,
    ),
    (
        "the blank behind a user's turn learned",
        || of_users(|case| case.learn(case.find("\n", "thanks<|im_end|>"), true)),
        FaultKind::TemplateLearned,
    ),
    (
        "a part of a user's words left out",
        || of_users(|case| case.learn(case.find("ank", "it rains<|im_end|>\n<|im_start|>user\nth"), false)),
        FaultKind::PartMasked,
    ),
    (
        "one user's turn left out",
        || of_users(|case| case.learn(case.find("thanks<|im_end|>", "user\n"), false)),
        FaultKind::TurnMasked,
    ),
    (
        "the assistant learned for users",
        || of_users(|case| case.learn(case.find("it rains<|im_end|>", "rain"), true)),
        FaultKind::MessageLearned,
    ),
    (
        "the results of tools for users",
        || of_users(|case| case.learn(case.find("rain<|im_end|>", "<|im_start|>tool\n"), true)),
        FaultKind::ToolResultLearned,
    ),
    (
        "the end of the assistant's turn for users",
        || of_users(|case| case.learn(case.find("<|im_end|>", "it rains"), true)),
        FaultKind::OtherEndLearned,
    ),
    (
        "the end of a user's turn as plain text",
        || {
            let mut case = Case::of(&plain(), chatml, &roles(&["user"]));
            let end = case.find("<|im_end|>", "three");
            (case.ids, case.spans) = encode(&case.expected.text, &[end]);
            case.learned = vec![false; case.ids.len()];
            case.expected.turns.clone().iter().for_each(|turn| case.learn(turn.written(), true));
            case
        },
        FaultKind::NoEnd,
    ),
];

#[test]
fn each_fault_has_its_name() {
    for (name, inject, kind) in MUTATIONS {
        assert_eq!(inject().fault(), *kind, "{name}: {:?}", inject().judge());
    }
}

#[test]
fn a_fault_says_which_message_and_shows_its_text() {
    let case = masked(|case| case.learn(case.find("rain", "<|im_start|>tool\n"), true));
    let finding = case.judge().expect_err("a fault");
    assert_eq!((finding.message, &case.expected.text[finding.bytes.clone()]), (Some(3), "rain"));
    assert!(finding.problem.ends_with("\"rain\""), "{}", finding.problem);
    let pads = MUTATIONS.iter().find(|(name, ..)| name.starts_with("pad")).expect("it is there");
    let problem = pads.1().judge().expect_err("a fault").problem;
    assert!(problem.contains("fills rows"), "{problem}");
}
