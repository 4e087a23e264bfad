//! Conversations of which each turn is a sample.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    BLOCKS, CHATML, Given, HARMONY, LLAMA, OTHER, THINK, chat, encoder, learned, len, refused, rendered,
    shown, text,
};
use crate::config::{Learn, Samples, Truncate};
use crate::render::{Outcome, Rendered, Renderer};

impl Given {
    fn by_turns(mut self) -> Self {
        self.source.chat.samples = Samples::Turns;
        self
    }
}

fn outcomes(renderer: &Renderer, record: &Value) -> Vec<Outcome> {
    renderer.render(&record.to_string(), 0, 0).expect("outcomes")
}

fn samples(given: &Given, record: &Value) -> Vec<Rendered> {
    let text = |outcome| match outcome {
        Outcome::Text(text) => text,
        Outcome::LeftOut(why) => panic!("{record}: {why}"),
    };
    outcomes(&given.renderer(), record).into_iter().map(text).collect()
}

/// The first messages of a record.
fn up_to(record: &Value, messages: usize) -> Value {
    let all = record["messages"].as_array().expect("messages");
    let mut record = record.clone();
    record["messages"] = all[..messages].into();
    record
}

/// What is learned from in each sample.
fn turns(given: &Given, record: &Value) -> Vec<Vec<String>> {
    let owned = |text: &Rendered| learned(text).into_iter().map(str::to_owned).collect();
    samples(given, record).iter().map(owned).collect()
}

#[test]
fn each_turn_is_learned_with_its_own_reasoning() {
    let [first, second] = ["<think>because</think>2", "<think>so</think>4"];
    let record = chat(&[("u", "1"), ("a", first), ("u", "3"), ("a", second)]);
    let given = Given::new(THINK).by_turns();
    let shown: Vec<String> = samples(&given, &record).iter().map(shown).collect();
    let user = |text: &str| format!("<|im_start|>user\n{text}<|im_end|>\n");
    let answer = "<|im_start|>assistant\n";
    assert_eq!(
        shown,
        [
            user("1") + answer + "<think>\n\u{ab}because\n</think>\n\n2<|im_end|>\u{bb}\n",
            user("1")
                + answer
                + "2<|im_end|>\n"
                + &user("3")
                + answer
                + "<think>\n\u{ab}so\n</think>\n\n4<|im_end|>\u{bb}\n",
        ]
    );
    // Harmony ends a turn in another way if it is the last one.
    let mut record = chat(&[("u", "1"), ("a", "2"), ("u", "3"), ("a", "4")]);
    (record["messages"][1]["thinking"], record["messages"][3]["thinking"]) = (json!("old"), json!("new"));
    let turn = |thought: &str, said: &str| {
        vec![format!(
            "<|channel|>analysis<|message|>{thought}<|end|><|start|>assistant<|channel|>final<|message|>{said}<|return|>"
        )]
    };
    assert_eq!(turns(&Given::new(HARMONY).by_turns(), &record), [turn("old", "2"), turn("new", "4")]);
}

#[test]
fn messages_that_are_learned_from_have_a_sample_each() {
    // One calls a tool, and the next one answers.
    let record = chat(&[("s", "0"), ("u", "1"), ("a", "2"), ("t", "3"), ("a", "4"), ("a", "5"), ("u", "6")]);
    let given = || Given::new(CHATML).by_turns();
    let said = |list: &[&str]| -> Vec<Vec<String>> {
        list.iter().map(|text| vec![format!("{text}<|im_end|>")]).collect()
    };
    assert_eq!(turns(&given(), &record), said(&["2", "4", "5"]));
    assert_eq!(turns(&given().learning(Learn::Last), &record), said(&["5"]));
    let roles = Learn::Roles(vec!["user".to_owned(), "assistant".to_owned()]);
    assert_eq!(turns(&given().learning(roles), &record), said(&["1", "2", "4", "5", "6"]));
    let mut own = record.clone();
    own["messages"][1]["train"] = json!(true);
    own["messages"][2]["train"] = json!(false);
    own["messages"][4]["weight"] = json!(0);
    assert_eq!(turns(&given(), &own), said(&["1", "5"]));
    assert_eq!(turns(&given().learning(Learn::Last), &own), said(&["1", "5"]));
    // A part of a message may say it too.
    let template = CHATML.replace(
        "m.content",
        "(m.content if m.content is string else m.content | map(attribute='text') | join(''))",
    );
    let mut parts = record.clone();
    parts["messages"][2]["content"] =
        json!([{ "type": "text", "text": "ab" }, { "type": "text", "text": "cd", "train": true }]);
    let by_parts = Given::new(&template).by_turns().learning(Learn::Last);
    assert_eq!(turns(&by_parts, &parts), [vec!["cd".to_owned()], vec!["5<|im_end|>".to_owned()]]);

    for nobody in [chat(&[("u", "1")]), chat(&[])] {
        let said = outcomes(&given().renderer(), &nobody);
        assert_eq!(said, outcomes(&Given::new(CHATML).renderer(), &nobody));
        assert!(matches!(said[..], [Outcome::LeftOut(_)]));
    }
}

#[test]
fn a_sample_that_does_not_fit_is_left_out_alone() {
    let record = chat(&[("s", "0"), ("u", "1"), ("a", "2"), ("u", "3"), ("a", "4"), ("u", "5"), ("a", "6")]);
    let given = |truncate| {
        let mut given = Given::new(CHATML).by_turns();
        given.source.chat.truncate = truncate;
        given
    };
    let two = len(&samples(&given(Truncate::Drop), &record)[1]);
    let fitted = |truncate| {
        let renderer = given(truncate).renderer();
        renderer.fit(&encoder(), two);
        outcomes(&renderer, &record)
    };
    let why = format!("it is longer than a row, which has {two} ids (pipeline.seq_len, chat.truncate)");
    assert_eq!(fitted(Truncate::Drop)[2], Outcome::LeftOut(why));
    let system = "<|im_start|>system\n0<|im_end|>\n<|im_start|>user\n";
    let texts: Vec<String> = fitted(Truncate::Turns)
        .into_iter()
        .map(|outcome| match outcome {
            Outcome::Text(text) => shown(&text),
            Outcome::LeftOut(why) => why,
        })
        .collect();
    for (text, (first, last)) in texts.iter().zip([("1", "2"), ("1", "4"), ("3", "6")]) {
        assert!(text.starts_with(&format!("{system}{first}")), "{text}");
        assert!(text.ends_with(&format!("\u{ab}{last}<|im_end|>\u{bb}\n")), "{text}");
        assert_eq!(text.matches('\u{ab}').count(), 1, "{text}");
    }
    assert_eq!(texts.len(), 3);
}

#[test]
fn a_beginning_that_the_template_refuses_is_named() {
    let template = format!(
        "{{% if messages | length == 2 %}}{{{{ raise_exception('too short') }}}}{{% endif %}}{CHATML}"
    );
    let record = chat(&[("u", "1"), ("a", "2"), ("u", "3"), ("a", "4")]);
    assert_eq!(rendered(&Given::new(&template).renderer(), &record).text.matches("assistant").count(), 2);
    let error = refused(&Given::new(&template).by_turns(), &record);
    assert!(error.what.starts_with("up to message 2: ") && error.what.contains("too short"), "{error:?}");
}

proptest! {
    /// The sample of a turn is what a conversation that ends with it is rendered to, if its last turn is learned from.
    #[test]
    fn a_sample_does_not_depend_on_what_follows(
        messages in prop::collection::vec((prop::sample::select(vec!["u", "a", "t"]), text()), 1..7),
    ) {
        let messages: Vec<(&str, &str)> = messages.iter().map(|(role, text)| (*role, text.as_str())).collect();
        let record = chat(&messages);
        for template in [CHATML, LLAMA, OTHER, BLOCKS] {
            let last = Given::new(template).learning(Learn::Last).renderer();
            let ends = (0..messages.len()).filter(|message| messages[*message].0 == "a");
            let expected: Vec<Rendered> =
                ends.map(|end| rendered(&last, &up_to(&record, end + 1))).collect();
            if !expected.is_empty() {
                prop_assert_eq!(samples(&Given::new(template).by_turns(), &record), expected, "{}", template);
            }
        }
    }
}
