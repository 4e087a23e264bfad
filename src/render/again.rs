//! Conversations that are rendered again, in part or with other contents: for the proof of what is learned from.

use std::sync::Arc;

use serde_json::Value;

use super::chat::Chat;
use super::conversation::Conversation;
use super::json::Json;
use super::messages::Pair;
use super::{RenderError, Renderer, Rendering};

/// A record's conversation, and its template.
#[derive(Debug)]
pub(crate) struct Again {
    renderer: Arc<Renderer>,
    conversation: Conversation,
}

impl Renderer {
    /// The conversation of a record; `None` if it is a prompt and a completion, as strings.
    pub(crate) fn again(self: &Arc<Self>, record: &str) -> Result<Option<Again>, RenderError> {
        let conversation = self.conversation(record)?.map(|(_, conversation)| conversation);
        Ok(conversation.map(|conversation| Again { renderer: self.clone(), conversation }))
    }

    /// The prompt of a record whose prompt and completion are strings.
    pub(crate) fn prompt_of(&self, record: &str) -> Result<String, RenderError> {
        match self.reader.pair(record)? {
            Pair::Strings(prompt, _) => Ok(prompt),
            Pair::Messages(_) => Err(self.no_template()),
        }
    }

    /// What ends the model's turns, or all of its texts.
    pub(crate) fn ends(&self) -> Vec<String> {
        let mut ends = self.any_chat().map(Chat::ends).unwrap_or_default();
        if let Rendering::Completion { strings, .. } = &self.task {
            ends.extend(strings.eos.clone());
        }
        ends
    }

    fn any_chat(&self) -> Option<&Chat> {
        match &self.task {
            Rendering::Chat(chat) => Some(chat),
            Rendering::Completion { messages, .. } => messages.as_ref(),
            Rendering::Fim(_) => None,
        }
    }
}

impl Again {
    /// The messages, as the template gets them but for the order of their fields.
    pub(crate) fn messages(&self) -> Vec<Value> {
        self.conversation.messages.iter().map(value).collect()
    }

    /// The descriptions of tools.
    pub(crate) fn tools(&self) -> Vec<Value> {
        self.conversation.tools.iter().flatten().map(value).collect()
    }

    /// Whether each message is learned from, if it says so itself.
    pub(crate) fn own(&self) -> Vec<Option<bool>> {
        self.conversation.about.iter().map(|about| about.learned).collect()
    }

    /// The same of the parts of each message.
    pub(crate) fn own_of_parts(&self) -> Vec<Vec<Option<bool>>> {
        self.conversation.about.iter().map(|about| about.parts.clone()).collect()
    }

    /// The first message that may be learned from: that of a completion.
    pub(crate) fn first(&self) -> usize {
        self.conversation.first
    }

    /// The text of the messages with these numbers, which ascend. Each edit is another text for the content of a message,
    /// or for a part of it. With `prompts`, the text ends where the model begins to write.
    pub(crate) fn render_with<'a>(
        &self,
        which: &[usize],
        edits: impl Iterator<Item = (usize, Option<usize>, &'a str)>,
        prompts: bool,
    ) -> Result<String, RenderError> {
        let mut shown = self.conversation.with(|number| which.binary_search(&number).is_ok());
        for (message, part, text) in edits {
            let content = which.binary_search(&message).ok().and_then(|nth| shown.content_mut(nth, part));
            if let Some(content) = content {
                text.clone_into(content);
            }
        }
        let chat = self.renderer.any_chat().ok_or_else(|| self.renderer.no_template())?;
        if prompts { chat.prompt(&shown) } else { chat.text(&shown) }
    }
}

/// A value of which only names and texts are looked at. By way of its text: an integer may be too long for a value.
fn value(json: &Json) -> Value {
    serde_json::to_string(json).and_then(|text| serde_json::from_str(&text)).unwrap_or_default()
}
