//! A record as its task understands it, and the template that renders it.
//!
//! This is the only file of the proof that asks the renderer. What it takes from there are a record's messages, after
//! fields and roles have their names, and the template. Which bytes are learned from is not asked for.

use std::fmt;

use serde_json::Value;

use crate::config::{Learn, SourceConfig, Task, TokenizerConfig};
use crate::error::Result;
use crate::tokenizer::Tokenizer;

/// Renders a conversation as the model's chat template does.
pub(super) trait Engine: fmt::Debug + Send + Sync {
    /// The text of the messages with these numbers, some of them with another content; with `prompt`, what makes the
    /// model write the next turn stands behind it. Or why the template refuses them.
    fn render(&self, which: &[usize], edits: &[Edit], prompt: bool) -> Result<String, String>;
}

/// Another text for a message's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) message: usize,
    /// Which part of the content, if it has several.
    pub(super) part: Option<usize>,
    pub(super) text: String,
}

/// A conversation, and how it is rendered.
#[derive(Debug)]
pub(super) struct Conversation {
    /// Its messages, to look at: the template gets them with their fields in their order.
    pub(super) messages: Vec<Value>,
    pub(super) tools: Vec<Value>,
    /// Whether each message is to be learned from, as the config and the message itself say.
    pub(super) learned: Vec<bool>,
    /// Whether parts of its content say themselves whether they are learned from: then nothing is known of its bytes.
    pub(super) in_parts: Vec<bool>,
    /// Its template, with the conversation's own tools and arguments.
    pub(super) engine: Box<dyn Engine>,
}

/// A prompt with its completion, as one text.
#[derive(Debug)]
pub(super) struct Completion {
    pub(super) text: String,
    /// The text of the prompt, which stands at the beginning, maybe after a special token.
    pub(super) prompt: String,
}

/// What a record is.
#[derive(Debug)]
pub(super) enum Sample {
    Conversation(Conversation),
    Completion(Completion),
}

/// Understands the records of one source.
#[derive(Debug)]
pub(super) struct Reader {
    learn: Learn,
}

impl Reader {
    /// The reader of `source.<index>`; `None` if nothing of its records is masked.
    pub(super) fn new(_: usize, source: &SourceConfig, _: &TokenizerConfig) -> Result<Option<Self>> {
        match source.task {
            Task::Text | Task::Fim => Ok(None),
            Task::Chat | Task::Completion => Ok(Some(Self { learn: source.chat.learn.clone() })),
        }
    }

    /// The spellings of the tokens that stop generation, and of what ends a turn.
    pub(super) fn ends(&self, _: &dyn Tokenizer) -> Vec<String> {
        Vec::new()
    }

    /// What a record is, or why it cannot be rendered.
    pub(super) fn sample(&self, _: &str) -> Result<Sample, String> {
        Err("the records of this task are not rendered yet".to_owned())
    }

    /// Whether each of these messages is to be learned from: a message's own word comes before the config's.
    fn learned(&self, messages: &[Value]) -> Vec<bool> {
        learned(&self.learn, messages)
    }
}

/// Whether each of these messages is to be learned from: a message's own word comes before the config's.
pub(super) fn learned(learn: &Learn, messages: &[Value]) -> Vec<bool> {
    let is_assistant = |message: &Value| role(message) == "assistant";
    let last = messages.iter().rposition(is_assistant);
    let by_config = |(index, message): (usize, &Value)| match learn {
        Learn::All => is_assistant(message),
        Learn::Last => Some(index) == last,
        Learn::Roles(roles) => roles.iter().any(|name| name == role(message)),
    };
    messages
        .iter()
        .enumerate()
        .map(|(index, message)| own(message).unwrap_or_else(|| by_config((index, message))))
        .collect()
}

/// Whether the message itself says that it is learned from.
fn own(message: &Value) -> Option<bool> {
    let said = ["train", "training", "weight", "loss_mask"].into_iter().find_map(|name| {
        match message.get(name) {
            None | Some(Value::Null) => None,
            Some(value) => Some(value),
        }
    })?;
    said.as_bool().or_else(|| said.as_f64().map(|weight| weight > 0.0))
}

/// The role of a message; empty if it has none.
pub(super) fn role(message: &Value) -> &str {
    message["role"].as_str().unwrap_or_default()
}
