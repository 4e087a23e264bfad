//! Conversations that are rendered again, in part or with other contents: for the proof of what is learned from.

use std::sync::Arc;

use serde_json::Value;

use super::{RenderError, Renderer};

/// A record's conversation, and its template.
#[derive(Debug)]
pub(crate) struct Again;

impl Renderer {
    /// The conversation of a record; `None` if it is a prompt and a completion, as strings.
    pub(crate) fn again(self: &Arc<Self>, _record: &str) -> Result<Option<Again>, RenderError> {
        todo!("renderer")
    }

    /// The prompt of a record whose prompt and completion are strings.
    pub(crate) fn prompt_of(&self, _record: &str) -> Result<String, RenderError> {
        todo!("renderer")
    }

    /// What ends the model's turns, or all of its texts.
    pub(crate) fn ends(&self) -> Vec<String> {
        todo!("renderer")
    }

    /// How it is found what is learned from, in words.
    pub(crate) fn finder(&self) -> String {
        todo!("renderer")
    }
}

impl Again {
    /// The messages, as the template gets them but for the order of their fields.
    pub(crate) fn messages(&self) -> Vec<Value> {
        todo!("renderer")
    }

    /// The descriptions of tools.
    pub(crate) fn tools(&self) -> Vec<Value> {
        todo!("renderer")
    }

    /// Whether each message is learned from, if it says so itself.
    pub(crate) fn own(&self) -> Vec<Option<bool>> {
        todo!("renderer")
    }

    /// Whether parts of each message say it themselves.
    pub(crate) fn in_parts(&self) -> Vec<bool> {
        todo!("renderer")
    }

    /// The first message that may be learned from: that of a completion.
    pub(crate) fn first(&self) -> usize {
        todo!("renderer")
    }

    /// The text of the messages with these numbers. Each edit is another text for the content of a message, or for a part
    /// of it. With `prompts`, the text ends where the model begins to write.
    pub(crate) fn render_with<'a>(
        &self,
        _which: &[usize],
        _edits: impl Iterator<Item = (usize, Option<usize>, &'a str)>,
        _prompts: bool,
    ) -> Result<String, RenderError> {
        todo!("renderer")
    }
}
