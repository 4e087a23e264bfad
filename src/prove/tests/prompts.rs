//! Turns that do not begin as the prompt for them does.

use serde_json::Value;

use super::{Case, Write, chatml, text, thoughts};
use crate::config::Learn;
use crate::prove::fault::FaultKind;

/// Turns have what was thought, and the prompt says that nothing is.
const WITHOUT_THOUGHTS: Write = |messages, prompt| {
    let mut messages = messages.to_vec();
    for message in messages.iter_mut().filter(|message| message["role"] == "assistant") {
        let thought = text(message, "reasoning_content");
        message["content"] =
            Value::from(format!("<think>\n{thought}\n</think>\n\n{}", text(message, "content")));
    }
    let prompt = if prompt { "<|im_start|>assistant\n<think>\n\n</think>\n\n" } else { "" };
    Ok(chatml(&messages, false)? + prompt)
};

#[test]
fn a_turn_may_begin_within_the_white_space_where_it_parts_from_the_prompt() {
    let fault = |part: &str, after: &str, learned: bool| {
        let mut case = Case::of(&thoughts(), WITHOUT_THOUGHTS, &Learn::All);
        let prompts = case.expected.kept.prompts;
        assert_eq!((prompts.missing, prompts.of), (2, 2));
        case.learn(case.find(part, after), learned);
        case.judge().err().map(|finding| finding.kind)
    };
    for learned in [false, true] {
        assert_eq!(fault("\n", "<think>", learned), None);
    }
    assert_eq!(fault("<think>", "assistant\n", true), Some(FaultKind::HeaderLearned));
    assert_eq!(fault("\n", "assistant", true), Some(FaultKind::HeaderLearned));
    assert_eq!(fault("two", "</think>\n\n", false), Some(FaultKind::PartMasked));
}
