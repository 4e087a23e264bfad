//! Turns of other roles than the assistant.

use serde_json::{Value, json};

use super::{
    Case, Expected, FaultKind, Write, chatml, glm, joins_parts, plain, roles, strips_reasoning, text,
    thoughts,
};

#[test]
fn the_turn_of_another_role_is_its_content_with_the_token_behind_it() {
    let written = |messages: &Value, write: Write| -> Vec<(String, Option<String>)> {
        let case = Case::of(messages, write, &roles(&["user"]));
        case.judge().expect("no fault");
        let Expected { text, turns, .. } = &case.expected;
        turns.iter().map(|turn| (text[turn.written()].to_owned(), turn.stop.clone())).collect()
    };
    let turn = |text: &str, stop: Option<&str>| (text.to_owned(), stop.map(str::to_owned));
    let end = Some("<|im_end|>");
    let with_end = [turn("one<|im_end|>", end), turn("three <|im_end|>", end)];
    assert_eq!(written(&thoughts(), chatml), with_end);
    // The template strips the content.
    assert_eq!(written(&thoughts(), strips_reasoning)[1], turn("three<|im_end|>", end));
    // The token that begins the next message ends this one.
    let assistant = Some("<|assistant|>");
    assert_eq!(
        written(&plain(), glm),
        [turn("one<|assistant|>", assistant), turn("three<|assistant|>", assistant)]
    );
    let lines: Write = |messages, prompt| {
        let line = |message: &Value| format!("{}: {}\n", text(message, "role"), text(message, "content"));
        Ok(messages.iter().map(line).collect::<String>() + if prompt { "assistant: " } else { "" })
    };
    assert_eq!(written(&plain(), lines), [turn("one", None), turn("three", None)]);
    // White space may stand before a token that stops generation, and before no other one.
    let apart: Write = |messages, prompt| Ok(chatml(messages, prompt)?.replace("<|im_end|>", " <|im_end|>"));
    assert_eq!(written(&plain(), apart)[0], turn("one <|im_end|>", end));
    // The tokenizer has no such token.
    let spelled: Write = |messages, prompt| Ok(chatml(messages, prompt)?.replace("<|im_end|>", "<end>"));
    assert_eq!(written(&plain(), spelled)[0], turn("one", None));
    let spaced: Write =
        |messages, prompt| Ok(glm(messages, prompt)?.replace("<|assistant|>", " <|assistant|>"));
    assert_eq!(written(&plain(), spaced)[0], turn("one", None));
}

#[test]
fn the_last_part_of_another_roles_content_is_certain() {
    let user = json!([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]);
    let messages = json!([{"role": "user", "content": user}, {"role": "assistant", "content": "three"}]);
    let mut case = Case::of(&messages, joins_parts, &roles(&["user"]));
    assert_eq!(&case.expected.text[case.expected.turns[0].written()], "two<|im_end|>");
    case.learn(case.find("one/", "user"), true);
    assert_eq!(case.judge().expect("no fault").1.turns, 1);
    case.learn(case.find("user", "<|im_start|>"), true);
    assert_eq!(case.fault(), FaultKind::TemplateLearned);
}

#[test]
fn content_that_cannot_be_located_is_counted_and_what_is_left_out_is_not() {
    let of = |content: &str, write: Write| {
        let messages = json!([{"role": "user", "content": content}, {"role": "assistant", "content": "two"}]);
        let Expected { turns, lost, .. } = Case::of(&messages, write, &roles(&["user"])).expected;
        (turns.len(), lost)
    };
    assert_eq!(of("one", chatml), (1, 0));
    assert_eq!(of("one \u{f0000}", chatml), (0, 1));
    assert_eq!(of(" ", chatml), (0, 1));
    assert_eq!(of("", chatml), (0, 0));
    let without: Write = |messages, prompt| chatml(&messages[1.min(messages.len())..], prompt);
    assert_eq!(of("one", without), (0, 0));
}
