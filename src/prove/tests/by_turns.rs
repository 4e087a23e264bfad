//! Conversations of which each turn is a sample.

use serde_json::{Value, json};

use super::{
    Case, Write, chatml, conversation, glm, in_two_parts, opens_reasoning, plain, strips_reasoning, talk,
    thoughts, with_bos,
};
use crate::config::{Learn, Truncate};
use crate::prove::conversation::{Conversation, Record};
use crate::prove::fault::FaultKind;

const TEMPLATES: [Write; 6] = [chatml, with_bos, strips_reasoning, glm, opens_reasoning, in_two_parts];

/// Thoughts before a call, and behind its result.
fn calls() -> Value {
    json!([
        {"role": "user", "content": "one"},
        {"role": "assistant", "reasoning_content": "hm", "content": "ask", "tool_calls": ["get"]},
        {"role": "tool", "content": "two"},
        {"role": "assistant", "reasoning_content": "ah", "content": "three"},
    ])
}

/// The right ids and mask of each turn, to be found among the samples of all.
fn cases(messages: &Value, write: Write) -> Vec<Case> {
    let whole = || conversation(messages, write, &Learn::All);
    let case = |turn| Case { record: Record::Turns(whole()), ..Case::of_conversation(turn) };
    turns(&whole()).into_iter().map(case).collect()
}

/// The samples of a conversation.
fn turns(whole: &Conversation) -> Vec<Conversation> {
    let ends = whole.ends();
    (0..ends.len()).map(|nth| whole.turn(&ends, nth)).collect()
}

#[test]
fn each_turn_is_proved_and_each_single_id_that_is_wrong_is_found() {
    for (template, write) in TEMPLATES.into_iter().enumerate() {
        for messages in [talk(), plain(), thoughts(), calls()] {
            let mut cases = cases(&messages, write);
            let assistants = messages.as_array().expect("messages").iter();
            assert_eq!(cases.len(), assistants.filter(|message| message["role"] == "assistant").count());
            for (number, case) in cases.iter_mut().enumerate() {
                let (expected, judged) =
                    case.judge().unwrap_or_else(|finding| panic!("template {template}: {finding:?}"));
                assert_eq!(expected, case.expected, "template {template}, turn {number}");
                assert_eq!(judged.turns, 1);
                let turn = case.expected.turns[0].clone();
                let is_free = |at: usize| {
                    let span = &case.spans[at];
                    turn.end.start <= span.start && span.end <= turn.end.end
                };
                let known: Vec<usize> = (0..case.ids.len()).filter(|at| !is_free(*at)).collect();
                for at in known {
                    case.learned[at] = !case.learned[at];
                    assert!(case.judge().is_err(), "template {template}, turn {number}, id {at}");
                    case.learned[at] = !case.learned[at];
                }
            }
        }
    }
}

#[test]
fn a_part_of_a_sample_is_proved_as_far_as_it_goes() {
    for write in TEMPLATES {
        for messages in [plain(), thoughts(), calls()] {
            for mut case in cases(&messages, write) {
                for len in 1..case.ids.len() {
                    case.judge_part(&case.ids[..len], false).expect("no fault");
                }
                case.learned.fill(true);
                case.judge_part(&case.ids[..case.ids.len() - 1], false).expect_err("a fault");
            }
        }
    }
}

#[test]
fn the_fault_is_that_of_the_turn_which_the_text_ends_with() {
    let kind = |change: fn(&mut Case)| {
        let mut case = cases(&plain(), chatml).pop().expect("a turn");
        change(&mut case);
        case.judge().expect_err("a fault").kind
    };
    assert_eq!(kind(|case| case.learned.fill(false)), FaultKind::NothingLearned);
    assert_eq!(kind(|case| case.learned.fill(true)), FaultKind::EverythingLearned);
    // As a whole conversation is learned from.
    assert_eq!(kind(|case| case.learn(case.find("two", "assistant\n"), true)), FaultKind::MessageLearned);
    // The text ends with the turn, so nothing behind it tells this from a mask that is shifted.
    assert_eq!(
        kind(|case| case.learn(case.find("\n", "three<|im_end|>\n<|im_start|>assistant"), true)),
        FaultKind::HeaderLearned
    );
    let of_the_first = |case: &mut Case| {
        case.learned.fill(false);
        case.learn(case.find("two<|im_end|>", "assistant\n"), true);
    };
    assert_ne!(kind(of_the_first), FaultKind::OtherText);
    assert_eq!(kind(|case| case.deliver("something else")), FaultKind::OtherText);
    // The whole conversation, of which earlier turns have lost what they thought.
    let mut case = cases(&thoughts(), strips_reasoning).remove(0);
    case.deliver("<|im_start|>user\none<|im_end|>\n<|im_start|>assistant\ntwo<|im_end|>\n");
    assert_eq!(case.judge().expect_err("a fault").kind, FaultKind::OtherText);
}

#[test]
fn the_first_turns_of_a_sample_may_leave() {
    let mut case = cases(&talk(), chatml).pop().expect("a turn");
    let mut shorter = talk();
    shorter.as_array_mut().expect("messages").drain(1..5);
    let left = Case::of(&shorter, chatml, &Learn::Last);
    (case.ids, case.learned) = (left.ids, left.learned);
    assert_eq!(case.judge().expect_err("a fault").kind, FaultKind::OtherText);
    case.truncate = Truncate::Turns;
    let (expected, _) = case.judge().expect("no fault");
    assert_eq!(expected.turns[0].message, 6);
    case.learned.fill(false);
    assert_eq!(case.judge().expect_err("a fault").kind, FaultKind::NothingLearned);
}

#[test]
fn the_model_writes_the_beginnings_of_all_parts_but_the_first() {
    let written = |case: &Case| -> Vec<String> {
        case.judge().expect("no fault");
        let turns = case.expected.turns.iter();
        turns.map(|turn| case.expected.text[turn.written()].to_owned()).collect()
    };
    let call = "(thinks)hm<|im_end|><|im_start|>assistant: ask[\"get\"]<|im_end|>";
    let answer = "(thinks)ah<|im_end|><|im_start|>assistant: three<|im_end|>";
    let samples = cases(&calls(), in_two_parts);
    assert_eq!(samples.iter().flat_map(written).collect::<Vec<_>>(), [call, answer]);
    let whole = |messages: &Value| written(&Case::of(messages, in_two_parts, &Learn::All));
    assert_eq!(whole(&calls()), [": ask[\"get\"]<|im_end|>", answer]);
    let mut unanswered = json!(calls().as_array().expect("messages")[..3]);
    unanswered[1]["content"] = "".into();
    assert_eq!(whole(&unanswered), [call.replace("ask", "")]);
    // Of messages one after the other each has a prompt.
    let mut two = calls();
    two.as_array_mut().expect("messages").truncate(3);
    two[2] = two[1].clone();
    assert_eq!(whole(&two), [call, call]);
    let mut without = calls();
    without[1]["content"] = "".into();
    without.as_array_mut().expect("messages").remove(2);
    let last = written(&Case::of(&without, in_two_parts, &Learn::Last));
    assert!(!last[0].contains("get"), "{last:?}");
}

/// What a template drops of a message is counted in one sample, and so once.
#[test]
fn messages_are_counted_once() {
    let mut reasoning = Vec::new();
    let mut contents = 0;
    for case in cases(&thoughts(), strips_reasoning) {
        let (expected, _) = case.judge().expect("no fault");
        contents += expected.kept.contents.of;
        reasoning.push((expected.kept.reasoning.missing, expected.kept.reasoning.of));
    }
    assert_eq!((contents, reasoning), (4, vec![(0, 1), (0, 1)]));
}

/// Parts may be learned from of a message that is not, and only its own sample learns from them.
#[test]
fn a_message_with_parts_of_its_own_has_a_sample() {
    let mut whole = conversation(&plain(), chatml, &Learn::Last);
    let last = whole.messages.len() - 1;
    whole.own_of_parts[1] = vec![None, Some(true)];
    let in_parts =
        |turn: &Conversation| (0..turn.messages.len()).map(|message| turn.is_in_parts(message)).collect();
    let of = |turn: Conversation| (in_parts(&turn), turn.learned);
    let at = |len: usize, learned: usize| (0..len).map(|message| message == learned).collect::<Vec<_>>();
    let expected: [(Vec<bool>, Vec<bool>); 2] =
        [(at(2, 1), vec![false; 2]), (vec![false; last + 1], at(last + 1, last))];
    assert_eq!(turns(&whole).into_iter().map(of).collect::<Vec<_>>(), expected);
}
