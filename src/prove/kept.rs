//! What a template drops or changes of the messages, and what they lack: counts over all conversations.

use std::ops::Range;

use serde::Serialize;
use serde_json::Value;

use super::conversation::{Conversation, role};

/// The fields of a message that may hold its reasoning.
const REASONING: [&str; 4] = ["reasoning_content", "reasoning", "thinking", "thought"];

/// How many of some things are not in the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Missing {
    /// How many are not.
    pub missing: u64,
    /// How many there are.
    pub of: u64,
}

impl Missing {
    fn count(&mut self, is_there: bool) {
        self.of += 1;
        self.missing += u64::from(!is_there);
    }

    fn add(&mut self, other: Self) {
        self.missing += other.missing;
        self.of += other.of;
    }
}

/// What templates drop or change, and what messages lack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Kept {
    /// Contents of messages that are not rendered as they are.
    pub contents: Missing,
    /// Contents with white space at an end, which is not rendered.
    pub white_space: Missing,
    /// The reasoning of turns.
    pub reasoning: Missing,
    /// The calls of tools.
    pub calls: Missing,
    /// Arguments of calls that are an object's JSON in a string, of which some are rendered in quotes.
    pub arguments: Missing,
    /// The descriptions of tools.
    pub tools: Missing,
    /// The prompts of turns: the text before a turn that is not what the model sees when it writes it.
    pub prompts: Missing,
    /// The assistant's messages that are learned from and say something.
    pub answers: Missing,
}

impl Kept {
    /// What is in the text of the messages with these numbers.
    pub(super) fn of(conversation: &Conversation, messages: &[usize], text: &str) -> Self {
        let (mut kept, mut seen) = (Self::default(), Seen { text, at: 0, found: Vec::new() });
        for (index, message) in messages.iter().map(|index| (*index, &conversation.messages[*index])) {
            let mut reasoning = REASONING.iter().find_map(|name| message[*name].as_str());
            for content in contents(message) {
                let (thought, content) = match content.split_once("</think>") {
                    Some((thought, content)) if role(message) == "assistant" => (Some(thought), content),
                    _ => (None, content),
                };
                let thought = thought.map(|thought| thought.trim_start().trim_start_matches("<think>"));
                reasoning = reasoning.or(thought);
                kept.content(content, thought.is_some(), &mut seen);
            }
            let reasoning = reasoning.map(str::trim).filter(|reasoning| !reasoning.is_empty());
            if let Some(reasoning) = reasoning {
                kept.reasoning.count(text.contains(reasoning));
            }
            if role(message) == "assistant" && conversation.is_learned(index) {
                let is_told = contents(message).iter().any(|content| !content.trim().is_empty());
                let calls = message["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty());
                kept.answers.count(is_told || calls || reasoning.is_some());
            }
        }
        // Somebody may speak of a tool by its name.
        let beside = seen.beside();
        let calls =
            messages.iter().filter_map(|index| conversation.messages[*index]["tool_calls"].as_array());
        for call in calls.flatten() {
            kept.calls.count(has_call(call, &beside));
            if let Some(json) = function(call)["arguments"].as_str() {
                kept.arguments.count(!beside.contains(&Value::from(json).to_string()));
            }
        }
        for tool in &conversation.tools {
            kept.tools.count(function(tool)["name"].as_str().is_none_or(|name| beside.contains(name)));
        }
        kept
    }

    fn content(&mut self, content: &str, is_cut: bool, seen: &mut Seen<'_>) {
        let trimmed = content.trim();
        if trimmed.is_empty() {
            return;
        }
        let is_there = seen.has(trimmed);
        self.contents.count(is_there);
        // The white space behind reasoning is the template's.
        if trimmed.len() < content.len() && is_there && !is_cut {
            self.white_space.count(seen.has(content));
        }
    }

    /// Counts a turn whose prompt is, or is not, what the model sees when it writes.
    pub(super) fn count_prompt(&mut self, is_as_prompted: bool) {
        self.prompts.count(is_as_prompted);
    }

    /// Adds the counts of another conversation.
    pub(super) fn add(&mut self, other: &Self) {
        self.contents.add(other.contents);
        self.white_space.add(other.white_space);
        self.reasoning.add(other.reasoning);
        self.calls.add(other.calls);
        self.arguments.add(other.arguments);
        self.tools.add(other.tools);
        self.prompts.add(other.prompts);
        self.answers.add(other.answers);
    }

    /// What is dropped or changed, in words: nothing if all is rendered as it is.
    pub fn lines(&self) -> Vec<String> {
        let said = [
            (self.reasoning, "the reasoning of", "turns is not rendered"),
            (self.contents, "the content of", "messages is not rendered as it is"),
            (self.white_space, "white space at the ends of", "contents that have some is not rendered"),
            (self.calls, "", "tool calls are not rendered"),
            (
                self.arguments,
                "the arguments of",
                "tool calls that have them as a string are rendered in quotes; make objects of them",
            ),
            (self.tools, "", "descriptions of tools are not rendered"),
            (self.prompts, "the text before", "turns is not what the model sees when it writes them"),
            (self.answers, "", "answers are empty, and teach the model to say nothing; leave them out"),
        ];
        let some = said.into_iter().filter(|(Missing { missing, .. }, ..)| *missing > 0);
        some.map(|(Missing { missing, of }, before, behind)| {
            format!("{before} {missing} of {of} {behind}").trim_start().to_owned()
        })
        .collect()
    }
}

/// A text in which the contents of messages are looked for, one after the other.
struct Seen<'a> {
    text: &'a str,
    /// Where the last one was found.
    at: usize,
    /// Where they were found.
    found: Vec<Range<usize>>,
}

impl Seen<'_> {
    /// Whether the text has a part, which most likely stands behind the last one.
    fn has(&mut self, part: &str) -> bool {
        let behind = self.text[self.at..].find(part).map(|place| self.at + place);
        let found = behind.or_else(|| self.text.find(part));
        self.at = found.unwrap_or(self.at);
        self.found.extend(found.map(|at| at..at + part.len()));
        found.is_some()
    }

    /// The text without the contents that were found.
    fn beside(mut self) -> String {
        self.found.sort_unstable_by_key(|range| range.start);
        let (mut beside, mut at) = (String::new(), 0);
        for Range { start, end } in self.found {
            beside.push_str(self.text.get(at..start).unwrap_or_default());
            at = at.max(end);
        }
        beside + &self.text[at..]
    }
}

pub(super) fn contents(message: &Value) -> Vec<&str> {
    match &message["content"] {
        Value::String(text) => vec![text],
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => Vec::new(),
    }
}

/// The description of a function, within a tool or a call or alone.
fn function(of: &Value) -> &Value {
    match &of["function"] {
        Value::Null => of,
        function => function,
    }
}

/// Whether the text has a call's name and the strings of its arguments.
fn has_call(call: &Value, text: &str) -> bool {
    let function = function(call);
    let has_name = function["name"].as_str().is_none_or(|name| text.contains(name));
    has_name && has_strings(&function["arguments"], text)
}

fn has_strings(value: &Value, text: &str) -> bool {
    match value {
        Value::String(string) => {
            let escaped = Value::from(&**string).to_string();
            text.contains(&**string) || text.contains(&escaped[1..escaped.len() - 1]) || is_json(string, text)
        }
        Value::Array(values) => values.iter().all(|value| has_strings(value, text)),
        Value::Object(fields) => fields.values().all(|value| has_strings(value, text)),
        _ => true,
    }
}

/// Whether a string is JSON whose own strings the text has: arguments are often stored so, and rendered otherwise.
fn is_json(string: &str, text: &str) -> bool {
    match serde_json::from_str::<Value>(string) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => has_strings(&value, text),
        _ => false,
    }
}
