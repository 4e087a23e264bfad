//! What a template makes of the contents of messages: it may trim them, change them, or leave them out.

use std::ops::Range;

use super::conversation::{Conversation, REASONING};
use super::json::Json;
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
    let mut places = Places { text, taken: Vec::new() };
    for (number, (message, about)) in conversation.messages.iter().zip(&conversation.about).enumerate() {
        let mut add = |field, change| {
            changed.push(Changed { message: number, role: about.role.clone(), field, change });
        };
        for field in REASONING {
            if let Some(reasoning) = message.get(field).and_then(Json::as_str)
                && let Some(change) = change(reasoning, &mut places)
            {
                add(field, change);
            }
        }
        for content in conversation.texts(number) {
            if let Some(change) = change(content, &mut places) {
                add("content", change);
            }
        }
    }
    changed
}

/// The places of contents in a text. Each stands for one content.
struct Places<'a> {
    text: &'a str,
    taken: Vec<Range<usize>>,
}

impl Places<'_> {
    /// Takes the first free place of a text, if it has one: behind the last that was taken, or else anywhere.
    fn take(&mut self, part: &str) -> bool {
        let last = self.taken.last().map_or(0, |range| range.end);
        let from = |start: usize| {
            let found = self.text[start..].match_indices(part);
            found.map(move |(at, _)| start + at..start + at + part.len())
        };
        let is_free = |range: &Range<usize>| {
            self.taken.iter().all(|taken| taken.end <= range.start || range.end <= taken.start)
        };
        let place = from(last).find(is_free).or_else(|| from(0).find(is_free));
        self.taken.extend(place.clone());
        place.is_some()
    }
}

/// What became of a content.
fn change(content: &str, places: &mut Places<'_>) -> Option<Change> {
    let within = &content[trimmed(content)];
    if within.is_empty() || places.take(content) {
        return None;
    }
    if places.take(within) {
        return Some(Change::Trimmed);
    }
    // Quoted as JSON, it is all there.
    let quoted = serde_json::to_string(content).unwrap_or_default();
    if places.take(&quoted) {
        return None;
    }
    match content.rsplit_once("</think>").or_else(|| content.rsplit_once("[/THINK]")) {
        None => Some(Change::Absent),
        Some((reasoning, answer)) => {
            // Written in the template's own way, the reasoning stands before the answer.
            let reasoning =
                reasoning.trim_start().trim_start_matches("<think>").trim_start_matches("[THINK]");
            let (reasoning, answer) = (&reasoning[trimmed(reasoning)], &answer[trimmed(answer)]);
            let has_reasoning = reasoning.is_empty() || places.take(reasoning);
            match (has_reasoning, places.take(answer)) {
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
        let of = |content: &str, text: &str| change(content, &mut Places { text, taken: Vec::new() });
        assert_eq!(of("a b", "x a b y"), None);
        assert_eq!(of(" a\n", "(a)"), Some(Change::Trimmed));
        assert_eq!(of("a", "b"), Some(Change::Absent));
        assert_eq!(of(" ", "b"), None);
        assert_eq!(of("a\n\"b", r#"{"a": "a\n\"b"}"#), None);
        let thought = "<think>\nlong\n</think>\n\nanswer";
        assert_eq!(of(thought, "(answer)"), Some(Change::ReasoningDropped));
        assert_eq!(of(thought, "<think>long</think>answer"), None);
        assert_eq!(of(thought, "<think>long</think>"), Some(Change::Absent));
        // A text that stands there twice needs two places.
        let mut places = Places { text: "-b-a-", taken: Vec::new() };
        let of = ["a", "a", "b", "b"].map(|content| change(content, &mut places));
        assert_eq!(of, [None, Some(Change::Absent), None, Some(Change::Absent)]);
    }
}
