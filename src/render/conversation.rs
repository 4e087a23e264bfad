//! A conversation as templates know it, and what is known of its messages beside that.

use std::borrow::Cow;

use super::fields::is_empty;
use super::json::{Json, Key};

/// The fields in which messages have reasoning beside their content.
pub(super) const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// A conversation, and what is known of its messages beside what a template sees.
#[derive(Clone, Debug, Default)]
pub(super) struct Conversation {
    pub(super) messages: Vec<Json>,
    /// One for each message.
    pub(super) about: Vec<About>,
    pub(super) tools: Option<Vec<Json>>,
    pub(super) documents: Option<Vec<Json>>,
    pub(super) kwargs: Vec<(Key, Json)>,
    /// Whether the record has variables for the template.
    pub(super) has_own_kwargs: bool,
    /// The first message that may be learned from: that of a completion.
    pub(super) first: usize,
}

/// What is known of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct About {
    pub(super) role: Cow<'static, str>,
    /// Whether it is learned from, if it says so itself.
    pub(super) learned: Option<bool>,
    /// The same of its parts; empty if its content is not a list.
    pub(super) parts: Vec<Option<bool>>,
}

impl About {
    pub(super) fn is_assistant(&self) -> bool {
        self.role == "assistant"
    }

    /// Nothing of it is learned from.
    pub(super) fn mask(&mut self) {
        self.learned = Some(false);
        self.parts.fill(None);
    }

    /// Whether it comes before the turns: what says how to behave.
    pub(super) fn is_system(&self) -> bool {
        self.role == "system" || self.role == "developer"
    }

    pub(super) fn is_tool(&self) -> bool {
        matches!(&*self.role, "tool" | "function" | "ipython")
    }
}

impl Conversation {
    /// A conversation of messages that have all that templates need.
    pub(super) fn of_messages(messages: Vec<Json>) -> Self {
        let role = |message: &Json| message.get("role").and_then(Json::as_str).unwrap_or_default().to_owned();
        let about = |message: &Json| About { role: role(message).into(), ..About::default() };
        Self { about: messages.iter().map(about).collect(), messages, ..Self::default() }
    }

    /// The same conversation with only some of its messages.
    pub(super) fn with(&self, kept: impl Fn(usize) -> bool) -> Self {
        let numbers: Vec<usize> = (0..self.messages.len()).filter(|number| kept(*number)).collect();
        Self {
            messages: numbers.iter().map(|number| self.messages[*number].clone()).collect(),
            about: numbers.iter().map(|number| self.about[*number].clone()).collect(),
            tools: self.tools.clone(),
            documents: self.documents.clone(),
            kwargs: self.kwargs.clone(),
            has_own_kwargs: self.has_own_kwargs,
            first: numbers.iter().filter(|number| **number < self.first).count(),
        }
    }

    /// The content of a message, or of a part of it, if it is a string.
    pub(super) fn content(&self, message: usize, part: Option<usize>) -> Option<&str> {
        let content = self.messages.get(message)?.get("content")?;
        match content {
            Json::String(text) => part.is_none().then_some(text),
            Json::List(parts) => {
                let number = part.or((parts.len() == 1).then_some(0))?;
                parts.get(number)?.get("text")?.as_str()
            }
            _ => None,
        }
    }

    /// The numbers of the parts of a message's content; one `None` if it is no list.
    pub(super) fn parts(&self, message: usize) -> impl Iterator<Item = Option<usize>> + use<> {
        let parts = self.about[message].parts.len();
        (parts == 0).then_some(None).into_iter().chain((0..parts).map(Some))
    }

    /// The first field of a message that has reasoning or calls beside its content.
    pub(super) fn beside_content(&self, message: usize) -> Option<&'static str> {
        let has = |name: &&str| self.messages[message].get(name).is_some_and(|value| !is_empty(value));
        REASONING.into_iter().chain(["tool_calls"]).find(has)
    }

    /// The same conversation, whose message has neither reasoning nor calls.
    pub(super) fn with_content_alone(&self, message: usize) -> Self {
        let mut alone = self.clone();
        if let Json::Object(entries) = &mut alone.messages[message] {
            entries.retain(|(key, _)| !REASONING.iter().chain(&["tool_calls"]).any(|name| key == name));
        }
        alone
    }

    /// The strings of a message's content.
    pub(super) fn texts(&self, message: usize) -> impl Iterator<Item = &str> {
        let content = self.messages[message].get("content");
        let parts = match content {
            Some(Json::List(parts)) => parts.as_slice(),
            _ => &[],
        };
        let of_parts = parts.iter().filter_map(|part| part.get("text").and_then(Json::as_str));
        content.and_then(Json::as_str).into_iter().chain(of_parts)
    }

    /// As [`content`](Self::content), to change it.
    pub(super) fn content_mut(&mut self, message: usize, part: Option<usize>) -> Option<&mut String> {
        match entry_mut(self.messages.get_mut(message)?, "content")? {
            Json::String(text) => part.is_none().then_some(text),
            Json::List(parts) => {
                let number = part.or((parts.len() == 1).then_some(0))?;
                string_mut(entry_mut(parts.get_mut(number)?, "text")?)
            }
            _ => None,
        }
    }

    /// Calls `each` for all strings that somebody wrote: with the message, or none for what stands beside them.
    pub(super) fn strings_mut(&mut self, each: &mut impl FnMut(Option<usize>, &mut String)) {
        for (number, message) in self.messages.iter_mut().enumerate() {
            let Json::Object(entries) = message else { continue };
            for (_, value) in entries.iter_mut().filter(|(key, _)| key != "role") {
                strings_mut(value, &mut |text| each(Some(number), text));
            }
        }
        let lists = [&mut self.tools, &mut self.documents].into_iter().flatten().flatten();
        let beside = lists.chain(self.kwargs.iter_mut().map(|(_, value)| value));
        beside.for_each(|value| strings_mut(value, &mut |text| each(None, text)));
    }

    /// Whether `test` holds for any string that somebody wrote.
    pub(super) fn any_string(&self, test: &impl Fn(&str) -> bool) -> bool {
        let of_message = |message: &Json| match message {
            Json::Object(entries) => {
                entries.iter().any(|(key, value)| key != "role" && any_string(value, test))
            }
            _ => false,
        };
        let lists = [&self.tools, &self.documents].into_iter().flatten().flatten();
        self.messages.iter().any(of_message)
            || lists.chain(self.kwargs.iter().map(|(_, value)| value)).any(|value| any_string(value, test))
    }
}

pub(super) fn message(role: &str, content: Json) -> Json {
    Json::Object(vec![("role".into(), Json::String(role.to_owned())), ("content".into(), content)])
}

pub(super) fn entry_mut<'a>(object: &'a mut Json, name: &str) -> Option<&'a mut Json> {
    match object {
        Json::Object(entries) => entries.iter_mut().find(|(key, _)| key == name).map(|(_, value)| value),
        _ => None,
    }
}

pub(super) fn string_mut(value: &mut Json) -> Option<&mut String> {
    match value {
        Json::String(text) => Some(text),
        _ => None,
    }
}

fn strings_mut(value: &mut Json, each: &mut impl FnMut(&mut String)) {
    match value {
        Json::String(text) => each(text),
        Json::List(items) => items.iter_mut().for_each(|item| strings_mut(item, each)),
        Json::Object(entries) => {
            for (key, value) in entries {
                each(key.to_mut());
                strings_mut(value, each);
            }
        }
        _ => (),
    }
}

fn any_string(value: &Json, test: &impl Fn(&str) -> bool) -> bool {
    match value {
        Json::String(text) => test(text),
        Json::List(items) => items.iter().any(|item| any_string(item, test)),
        Json::Object(entries) => entries.iter().any(|(key, value)| test(key) || any_string(value, test)),
        _ => false,
    }
}
