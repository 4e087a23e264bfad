//! How often long conversations are rendered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::{
    Case, Pairs, Write, chatml, conversation, glm, opens_reasoning, special, strips_reasoning, with_bos,
};
use super::{talk, thoughts};
use crate::config::{Learn, Truncate};
use crate::prove::conversation::{Conversation, Edit, Engine, Record};
use crate::prove::expected::Expected;
use crate::prove::spans::Ids;

/// A template that counts how often it renders.
#[derive(Debug)]
struct Counting {
    engine: Arc<dyn Engine>,
    renders: Arc<AtomicUsize>,
}

impl Engine for Counting {
    fn render(&self, which: &[usize], edits: &[Edit], prompt: bool) -> Result<String, String> {
        self.renders.fetch_add(1, Ordering::Relaxed);
        self.engine.render(which, edits, prompt)
    }
}

/// Questions and answers; `likewise` says that all answers are the same.
fn long(pairs: usize, likewise: bool) -> Value {
    let pair = |nth: usize| {
        let answer = if likewise { "yes".to_owned() } else { format!("answer {nth}") };
        [
            json!({"role": "user", "content": format!("question {nth}")}),
            json!({"role": "assistant", "reasoning_content": "hm", "content": answer}),
        ]
    };
    (0..pairs).flat_map(pair).collect()
}

/// The conversation, and how often it was rendered so far.
fn counted(messages: &Value, write: Write) -> (Conversation, Arc<AtomicUsize>) {
    let mut conversation = conversation(messages, write, &Learn::All);
    let renders = Arc::<AtomicUsize>::default();
    conversation.engine =
        Arc::new(Counting { engine: conversation.engine.clone(), renders: renders.clone() });
    (conversation, renders)
}

fn expected(conversation: &Conversation, renders_prompts: bool) -> Expected {
    let special = special();
    let ids = Ids { tokenizer: &Pairs, special: &special };
    let all: Vec<usize> = (0..conversation.messages.len()).collect();
    let text = conversation.engine.render(&all, &[], false).expect("a render");
    Expected::of_conversation(conversation, &all, text, &["<|im_end|>".to_owned()], ids, renders_prompts)
}

#[test]
fn each_turn_costs_one_render_and_none_at_a_glance() {
    for pairs in [50, 100] {
        let count = |renders_prompts: bool| {
            let (conversation, renders) = counted(&long(pairs, false), chatml);
            assert_eq!(expected(&conversation, renders_prompts).turns.len(), pairs);
            renders.load(Ordering::Relaxed)
        };
        assert_eq!((count(true), count(false)), (pairs + 3, 4));
    }
}

#[test]
fn a_glance_finds_the_same_turns() {
    for write in [chatml as Write, with_bos, strips_reasoning, glm, opens_reasoning] {
        for messages in [talk(), thoughts(), long(5, true)] {
            let (conversation, _) = counted(&messages, write);
            let turns = |renders_prompts: bool| {
                let turns = expected(&conversation, renders_prompts).turns.into_iter();
                turns.map(|turn| (turn.message, turn.start, turn.end, turn.stop)).collect::<Vec<_>>()
            };
            assert_eq!(turns(false), turns(true));
        }
    }
}

#[test]
fn a_turn_is_found_among_many_by_few_renders() {
    for (write, likewise) in [(chatml as Write, false), (chatml, true), (strips_reasoning, true)] {
        let (whole, renders) = counted(&long(100, likewise), write);
        let ends = whole.ends();
        for nth in [0, 50, 99] {
            let mut case = Case::of_conversation(whole.turn(&ends, nth));
            let (record, _) = counted(&long(100, likewise), write);
            let engine = Arc::new(Counting { engine: record.engine.clone(), renders: renders.clone() });
            case.record = Record::Turns(Conversation { engine, ..record });
            case.truncate = Truncate::Turns;
            renders.store(0, Ordering::Relaxed);
            let (found, _) = case.judge().expect("no fault");
            assert_eq!(found.turns[0].message, ends[nth]);
            let renders = renders.load(Ordering::Relaxed);
            assert!(renders <= 20, "{renders} renders for turn {nth}");
        }
    }
}

#[test]
fn what_is_left_of_a_long_conversation_is_found_by_few_renders() {
    for left in [10, 50, 150] {
        let messages = long(100, false);
        let all = messages.as_array().expect("messages");
        let mut case = Case::of(&all[all.len() - left..].iter().cloned().collect(), chatml, &Learn::All);
        let (whole, renders) = counted(&messages, chatml);
        case.record = Record::Conversation(whole);
        case.truncate = Truncate::Turns;
        case.judge().expect("no fault");
        let renders = renders.load(Ordering::Relaxed);
        assert!(renders <= left / 2 + 20, "{renders} renders for {left} messages");
    }
}
