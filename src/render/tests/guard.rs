//! Conversations that a template writes otherwise than the examples by which its markers were recognized.

use serde_json::{Value, json};

use super::{CHATML, Given, chat, learned, refused, rendered};

/// Phi 3's, with the header of an answer behind each question.
const EAGER: &str = "{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' if m.role != 'assistant' \
    else m.content + '<|end|>\\n' }}{% if m.role == 'user' %}{{ '<|assistant|>\\n' }}{% endif %}{% endfor %}";

/// ChatML without a header behind the results of tools.
const BARE: &str = "{% for m in messages %}{% if m.role == 'assistant' and loop.previtem.role == 'tool' %}\
    {{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}(){% endfor %}{{ '<|im_end|>\\n' }}\
    {% else %}{{ '<|im_start|>' + m.role + '\\n' + m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}()\
    {% endfor %}{{ '<|im_end|>\\n' }}{% endif %}{% endfor %}";

/// Gemma 4's, whose results of tools stand within a turn.
const WITHIN: &str = "{% for m in messages %}{% if m.role == 'tool' %}{{ '<|tool_response>' + m.content + '<tool_response|>' }}\
    {% elif m.role == 'assistant' %}{{ '<|turn>model\\n' if loop.previtem.role != 'tool' }}{{ m.content }}\
    {% for c in m.tool_calls or [] %}{{ c.function.name }}(){% endfor %}{{ '<turn|>\\n' if not m.tool_calls }}\
    {% else %}{{ '<|turn>' + m.role + '\\n' + m.content + '<turn|>\\n' }}{% endif %}{% endfor %}";

fn call(names: &[&str]) -> Value {
    let call = |name: &&str| json!({"type": "function", "function": {"name": name, "arguments": {}}});
    json!({"role": "assistant", "content": "", "tool_calls": names.iter().map(call).collect::<Vec<_>>()})
}

fn with_calls(answer: Value) -> Value {
    let tool = json!({"role": "tool", "content": "sun"});
    json!({"messages": [{"role": "user", "content": "look"}, call(&["weather"]), tool, answer]})
}

#[test]
fn an_answer_without_a_marker_is_found_or_refused() {
    let record = with_calls(json!({"role": "assistant", "content": "It shines."}));
    let text = rendered(&Given::new(BARE).renderer(), &record);
    assert_eq!(learned(&text), ["weather()<|im_end|>", "It shines.<|im_end|>"]);
    let refuses = |template: &str, record: &Value| {
        let error = refused(&Given::new(template), record);
        assert!(error.what.starts_with("message 4 is to be learned from, and stands outside"), "{error:?}");
    };
    refuses(BARE, &with_calls(call(&["umbrella"])));
    // As many markers as answers, of which one is nobody's.
    let greeting = "{{ '<|im_start|>assistant\\nHello.<|im_end|>\\n' if messages[2].role == 'tool' }}";
    let greets = format!("{greeting}{BARE}");
    refuses(&greets, &record);
    // The tool's result is not rendered, and stands in the answer.
    let silent = greets
        .replace("else %}{{ '<|im_start|>' + m.role", "elif m.role != 'tool' %}{{ '<|im_start|>' + m.role");
    refuses(&silent, &with_calls(json!({"role": "assistant", "content": "The sun shines."})));
}

#[test]
fn a_question_within_a_turn_is_refused() {
    let given = Given::new(EAGER);
    let one = rendered(&given.renderer(), &chat(&[("u", "1"), ("a", "2"), ("u", "3"), ("a", "4")]));
    assert_eq!(learned(&one), ["2<|end|>", "4<|end|>"]);
    for words in ["SECRET", "Kw0q", "Kw1q0z Kw0q"] {
        let two = chat(&[("u", "1"), ("u", words), ("a", "2")]);
        assert!(refused(&given, &two).what.starts_with("message 2 is not to be learned from"));
    }
}

#[test]
fn results_of_tools_that_follow_each_other_are_left_out() {
    let mut record = with_calls(json!({"role": "assistant", "content": "It shines."}));
    record["messages"][1] = call(&["weather", "clock"]);
    let tool = json!({"role": "tool", "content": "noon"});
    record["messages"].as_array_mut().expect("messages").insert(3, tool);
    let text = rendered(&Given::new(WITHIN).renderer(), &record);
    assert_eq!(learned(&text), ["weather()clock()<|tool_response>", "It shines.<turn|>"]);
}

#[test]
fn what_only_seems_wrong_is_not_refused() {
    let all = ["u", "assistant\n", "<|im_end|>", "\n", "start", "a"];
    for user in all {
        for assistant in all {
            let record =
                chat(&[("s", assistant), ("u", user), ("a", assistant), ("u", assistant), ("a", user)]);
            let text = rendered(&Given::new(CHATML).renderer(), &record);
            assert_eq!(learned(&text), [assistant, user].map(|said| said.to_owned() + "<|im_end|>"));
        }
    }
    // The answer says what a tool gave back, which the template leaves out.
    let without = CHATML.replace("in messages", "in messages if m.role != 'tool'");
    let text = rendered(&Given::new(&without).renderer(), &chat(&[("u", "1"), ("t", "2"), ("a", "2")]));
    assert_eq!(learned(&text), ["2<|im_end|>"]);
}

#[test]
fn an_answer_that_the_template_leaves_out_teaches_no_end() {
    let two = chat(&[("u", "1"), ("a", "two"), ("u", "3"), ("a", "four")]);
    let without = |what: &str| Given::new(&CHATML.replace("m.content", what));
    let error = refused(&without("(m.content if not m.content.startswith('four') else '')"), &two);
    assert!(error.what.starts_with("message 4 is to be learned from, and the template leaves"), "{error:?}");
    // Beside it stands reasoning, which the template leaves out too, or a call, which it writes in its place.
    let mut reasoned = two;
    reasoned["messages"][3]["reasoning_content"] = "because".into();
    let alone = refused(&without("(m.content if not m.content.startswith('four') else '')"), &reasoned);
    assert!(alone.what.starts_with("message 4 is to be learned from, and the template leaves"), "{alone:?}");
    reasoned["messages"][3]["tool_calls"] = call(&["weather"])["tool_calls"].take();
    let uncalled = rendered(&Given::new(CHATML).renderer(), &reasoned);
    assert_eq!(learned(&uncalled), ["two<|im_end|>", "four<|im_end|>"]);
    let called = without("(m.tool_calls[0].function.name if m.tool_calls else m.content)");
    assert_eq!(learned(&rendered(&called.renderer(), &reasoned)), ["two<|im_end|>", "weather<|im_end|>"]);
    let two = chat(&[("u", "1"), ("a", "two"), ("u", "3"), ("a", "four")]);
    // A template may leave out all of a message, or what stands before the answer.
    let last = Given::new(&CHATML.replace("in messages", "in messages[-2:]"));
    assert_eq!(learned(&rendered(&last.renderer(), &two)), ["four<|im_end|>"]);
    let thought = chat(&[("u", "1"), ("a", "<x>because</x>The answer is two.")]);
    let text = rendered(&without("m.content.split('</x>')[-1]").renderer(), &thought);
    assert_eq!(learned(&text), ["The answer is two.<|im_end|>"]);
}
