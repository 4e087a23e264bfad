//! The forms in which records come.

use serde_json::{Value, json};

use super::{CHATML, Given, chat, learned, left_out, outcome, refused, rendered, show, shown, special};
use crate::config::{Border, Task};
use crate::render::Outcome;

#[test]
fn records_come_in_many_forms() {
    let given = Given::new(CHATML);
    let expected = show(&given, &chat(&[("s", "0"), ("u", "1"), ("a", "2")]));
    let sharegpt = json!({ "system": "0", "conversations": [
        { "from": "human", "value": "1" }, { "from": "gpt", "value": "2" },
    ]});
    let alpaca = json!({ "system": "0", "instruction": "1", "input": "", "output": "2" });
    let string = json!({ "messages": chat(&[("s", "0"), ("u", "1"), ("a", "2")])["messages"].to_string() });
    for record in [&sharegpt, &alpaca, &string] {
        assert_eq!(show(&given, record), expected);
    }
    let alpaca = json!({ "instruction": "1", "input": "in", "output": "2" });
    assert_eq!(show(&given, &alpaca), show(&given, &chat(&[("u", "1\nin"), ("a", "2")])));

    let mut renamed = Given::new(CHATML);
    renamed.source.field = Some("talk.turns".to_owned());
    renamed.source.chat.fields =
        [("role", "who"), ("content", "what")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    renamed.source.chat.roles = [("bot", "assistant")].map(|(a, b)| (a.to_owned(), b.to_owned())).into();
    let record = json!({ "talk": { "turns": [
        { "who": "system", "what": "0" }, { "who": "user", "what": "1" }, { "who": "bot", "what": "2" },
    ]}});
    assert_eq!(show(&renamed, &record), expected);
    let columns = renamed.renderer().columns();
    assert!(["talk", "talk.turns"].iter().all(|name| columns.contains(&(*name).to_owned())), "{columns:?}");

    // What has the name of the template's, and is another field.
    let mut namesakes = record.clone();
    for message in namesakes["talk"]["turns"].as_array_mut().expect("messages") {
        (message["role"], message["content"]) = (json!("zz"), json!("CC"));
    }
    assert_eq!(show(&renamed, &namesakes), expected);

    let unknown = json!({ "messages": [{ "role": "bot", "content": "1" }] });
    let error = refused(&given, &unknown);
    assert!(error.what.contains("\"bot\"") && error.remedy.contains("source.0.chat.roles"), "{error:?}");
    for (record, what) in [
        (json!({ "text": "a" }), "no field \"messages\", but \"text\""),
        (json!({ "messages": 1 }), "a number"),
        (json!({ "messages": [1] }), "message 1 of the conversation: it is a number"),
        (json!({ "messages": [{ "role": "user", "content": 1 }] }), "its content is a number"),
        (
            json!({ "messages": [{ "role": "user", "value": "q" }, { "role": "assistant", "text": "a" }] }),
            "no field \"content\", but \"role\", \"text\"",
        ),
        (json!({ "messages": [{ "role": "user", "content": null }] }), "its field \"content\" is null"),
        (
            json!({ "messages": [{ "role": "assistant", "content": [{ "type": "text", "value": "a" }] }] }),
            "the \"text\" of part 1 of its content is not there",
        ),
        (
            json!({ "messages": [{ "role": "assistant", "content": [{ "type": "text", "text": null }] }] }),
            "the \"text\" of part 1 of its content is null",
        ),
        (json!({ "instruction": "a", "output": null }), "its field \"output\" is null"),
        (json!({ "messages": [{ "role": "user", "content": "", "weight": 0.5 }] }), "\"weight\""),
        (
            json!({ "messages": [{ "role": "user", "content": "a", "details": [{ "train": true }] }] }),
            "\"details\"",
        ),
        (json!([1]), "the record is a list"),
    ] {
        let error = refused(&given, &record);
        assert!(error.what.contains(what), "{error:?}");
    }
    for nothing in [json!({ "messages": [] }), json!({ "messages": null }), json!({ "messages": "null" })] {
        assert_eq!(left_out(&given, &nothing), "it has no messages");
    }
}

#[test]
fn a_null_is_what_the_record_says() {
    let template = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}\
        {% endfor %}{{ m.content or '' }}{{ '<|im_end|>\\n' }}{% endfor %}";
    let mut record = chat(&[("u", "1"), ("a", "")]);
    record["messages"][0]["tool_calls"] = Value::Null;
    record["messages"][1]["tool_calls"] =
        json!([{ "function": { "name": "f", "arguments": { "a": null, "b": 1 } } }]);
    let given = Given::new(template);
    let text = show(&given, &record);
    assert!(text.replace(' ', "").contains("{\"a\":null,\"b\":1}"), "{text}");
    // JSON in strings says the same.
    record["messages"] = json!(record["messages"].to_string());
    assert_eq!(show(&given, &record), text);
    for null in [Value::Null, json!("null")] {
        (record["tools"], record["chat_template_kwargs"]) = (null.clone(), null);
        assert_eq!(show(&given, &record), text);
    }
    let mut plain = chat(&[("u", "1"), ("a", "2")]);
    let text = show(&given, &plain);
    plain["messages"][1]["tool_calls"] = json!("null");
    assert_eq!(show(&given, &plain), text);
}

#[test]
fn a_system_prompt_may_stand_beside_the_messages() {
    let given = Given::new(CHATML);
    let mut beside = chat(&[("u", "1"), ("a", "2")]);
    beside["system"] = json!("0");
    assert_eq!(show(&given, &beside), show(&given, &chat(&[("s", "0"), ("u", "1"), ("a", "2")])));
    // That of the messages counts.
    let mut both = chat(&[("s", "3"), ("u", "1"), ("a", "2")]);
    let without = show(&given, &both);
    both["system"] = json!("0");
    assert_eq!(show(&given, &both), without);
    let said = |from: &str, value: &str| json!({ "from": from, "value": value });
    let earlier = json!({ "system": "0", "history": [["1", "2"]], "conversations": [
        said("system", "3"), said("human", "4"), said("gpt", "5"),
    ] });
    let wanted = chat(&[("s", "3"), ("u", "1"), ("a", "2"), ("u", "4"), ("a", "5")]);
    assert_eq!(show(&given, &earlier), show(&given, &wanted));
    beside["system"] = json!({ "lang": "en" });
    assert!(refused(&given, &beside).what.contains("its field \"system\" is an object"));
}

#[test]
fn what_a_message_says_of_itself_twice_must_agree() {
    let given = Given::new(CHATML);
    let mut record = chat(&[("u", "1"), ("a", "2")]);
    (record["messages"][1]["train"], record["messages"][1]["weight"]) = (json!(true), json!(1));
    rendered(&given.renderer(), &record);
    record["messages"][1]["weight"] = json!(0);
    assert!(
        refused(&given, &record).what.ends_with("its \"train\" and its \"weight\" contradict each other")
    );
}

#[test]
fn completions_are_strings_or_messages() {
    let mut given = Given::new(CHATML);
    given.source.task = Task::Completion;
    let strings = json!({ "prompt": "1 <|im_end|>", "completion": "2" });
    let text = rendered(&given.renderer(), &strings);
    assert_eq!(shown(&text), "<sop>1 <|im_end|>\u{ab}2</s>\u{bb}");
    assert_eq!(special(&text), ["<sop>", "</s>"]);
    let of = |messages: &[(&str, &str)]| chat(messages)["messages"].clone();
    let messages = json!({
        "prompt": of(&[("u", "1"), ("a", "2"), ("u", "3")]), "completion": of(&[("a", "4")]),
    });
    assert_eq!(learned(&rendered(&given.renderer(), &messages)), ["4<|im_end|>"]);
    assert!(
        refused(&given, &json!({ "prompt": null, "completion": "2" })).what.contains("\"prompt\" is null")
    );
    let mixed = json!({ "prompt": "1", "completion": of(&[("a", "4")]) });
    assert!(refused(&given, &mixed).what.contains("its prompt is a string and its completion a list"));
    let renderer = given.renderer();
    assert!(matches!(outcome(&renderer, &json!({ "prompt": "1", "completion": "" })), Outcome::LeftOut(_)));
    let why = renderer.unlearned().expect("there is nothing to learn from");
    assert_eq!(why, "all records are left out, the last one because its completion is empty");
    rendered(&renderer, &strings);
    assert_eq!(renderer.unlearned(), None);
    given.source.chat.template = None;
    assert_eq!(rendered(&given.renderer(), &strings), text);
    given.source.chat.border = Border::Split;
    assert_eq!(rendered(&given.renderer(), &strings).marks.breaks, ["<sop>1 <|im_end|>".len()]);
    assert!(refused(&given, &messages).remedy.contains("source.0.chat.template"));
}
