//! What a template makes of the contents of messages: it may trim them, change them, or leave them out.

use super::chat::REASONING;
use super::json::Json;
use super::messages::Conversation;
use super::sentinels::trimmed;

/// What became of a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// White space at its ends is gone.
    Trimmed,
    /// Its reasoning is gone, and the rest stands there.
    ReasoningDropped,
    /// It stands nowhere in the text: it was changed, or left out.
    Absent,
}

/// A message whose content does not stand in the text as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    /// The message's number, from 0.
    pub(crate) message: usize,
    pub(crate) role: String,
    /// The field, such as `content` or `reasoning_content`.
    pub(crate) field: &'static str,
    pub(crate) change: Change,
}

/// What became of all contents that a template did not write as they are.
pub(super) fn changes(conversation: &Conversation, text: &str) -> Vec<Changed> {
    let mut changed = Vec::new();
    let mut at = 0;
    for (number, (message, about)) in conversation.messages.iter().zip(&conversation.about).enumerate() {
        let mut add = |field, change| {
            changed.push(Changed { message: number, role: about.role.clone(), field, change });
        };
        for field in REASONING {
            if let Some(reasoning) = message.get(field).and_then(Json::as_str)
                && let Some(change) = change(reasoning, text, &mut at.clone())
            {
                add(field, change);
            }
        }
        for content in contents(message) {
            if let Some(change) = change(content, text, &mut at) {
                add("content", change);
            }
        }
    }
    changed
}

/// The strings of a message's content.
fn contents(message: &Json) -> Vec<&str> {
    match message.get("content") {
        Some(Json::String(text)) => vec![text],
        Some(Json::List(parts)) => {
            parts.iter().filter_map(|part| part.get("text").and_then(Json::as_str)).collect()
        }
        _ => Vec::new(),
    }
}

/// What became of a content in the text from `at` on, which moves behind it.
fn change(content: &str, text: &str, at: &mut usize) -> Option<Change> {
    let mut find = |part: &str| {
        let found = text[*at..].find(part).map(|found| *at + found + part.len());
        *at = found.unwrap_or(*at);
        found.is_some()
    };
    let within = &content[trimmed(content)];
    if within.is_empty() || find(content) {
        return None;
    }
    if find(within) {
        return Some(Change::Trimmed);
    }
    match content.rsplit_once("</think>").or_else(|| content.rsplit_once("[/THINK]")) {
        None => Some(Change::Absent),
        Some((reasoning, answer)) => {
            // Written in the template's own way, the reasoning stands before the answer.
            let reasoning =
                reasoning.trim_start().trim_start_matches("<think>").trim_start_matches("[THINK]");
            let (reasoning, answer) = (&reasoning[trimmed(reasoning)], &answer[trimmed(answer)]);
            let has_reasoning = reasoning.is_empty() || find(reasoning);
            match (has_reasoning, find(answer)) {
                (true, true) => None,
                (false, true) => Some(Change::ReasoningDropped),
                (_, false) => Some(Change::Absent),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_told() {
        let of = |content: &str, text: &str| change(content, text, &mut 0);
        assert_eq!(of("a b", "x a b y"), None);
        assert_eq!(of(" a\n", "(a)"), Some(Change::Trimmed));
        assert_eq!(of("a", "b"), Some(Change::Absent));
        assert_eq!(of(" ", "b"), None);
        let thought = "<think>\nlong\n</think>\n\nanswer";
        assert_eq!(of(thought, "(answer)"), Some(Change::ReasoningDropped));
        assert_eq!(of(thought, "<think>long</think>answer"), None);
        assert_eq!(of(thought, "<think>long</think>"), Some(Change::Absent));
        // A text that stands there twice needs two places.
        let mut at = 0;
        assert_eq!(change("a", "-a-", &mut at), None);
        assert_eq!(change("a", "-a-", &mut at), Some(Change::Absent));
    }
}
