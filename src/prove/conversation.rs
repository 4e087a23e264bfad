//! A record as its task understands it, and the template that renders it.
//!
//! This is the only file of the proof that asks the renderer. What it takes from there are a record's messages, after
//! fields and roles have their names, and the template. Which bytes are learned from is not asked for.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::spans::Added;
use crate::bounded;
use crate::config::{Learn, Samples, SourceConfig, Task, TokenizerConfig};
use crate::error::Result;
pub(super) use crate::render::REASONING_TAGS;
use crate::render::{Again, Outcome, RenderError, Renderer};
use crate::store::local;

/// The longest file that says which tokens end texts, in bytes.
const MOST: u64 = 1 << 20;

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
    /// Whether the parts of each message's content are, if they say so themselves.
    pub(super) own_of_parts: Vec<Vec<Option<bool>>>,
    /// The first message that no sample before it has.
    pub(super) first: usize,
    /// Its template, with the conversation's own tools and arguments.
    pub(super) engine: Arc<dyn Engine>,
}

impl Conversation {
    /// Whether parts of a message say themselves whether they are learned from.
    pub(super) fn is_in_parts(&self, message: usize) -> bool {
        self.own_of_parts[message].iter().any(Option::is_some)
    }

    /// Whether a message is learned from, at least in part.
    pub(super) fn is_learned(&self, message: usize) -> bool {
        self.learned[message] || self.is_in_parts(message)
    }

    /// The messages that are learned from, at least in part. If each turn is a sample, they end the samples.
    pub(super) fn ends(&self) -> Vec<usize> {
        let is_end = |message: &usize| self.is_learned(*message);
        (0..self.messages.len()).filter(is_end).collect()
    }

    /// Sample `nth` of those with these ends: what is said up to its end, and only that is learned from.
    pub(super) fn turn(&self, ends: &[usize], nth: usize) -> Self {
        let end = ends[nth];
        let mut own_of_parts = vec![Vec::new(); end];
        own_of_parts.push(self.own_of_parts[end].clone());
        Self {
            messages: self.messages[..=end].to_vec(),
            tools: self.tools.clone(),
            learned: (0..=end).map(|message| message == end && self.learned[end]).collect(),
            own_of_parts,
            first: nth.checked_sub(1).map_or(0, |before| ends[before] + 1),
            engine: self.engine.clone(),
        }
    }
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
pub(super) enum Record {
    /// A conversation, as one text.
    Conversation(Conversation),
    /// A conversation of which each turn is a sample.
    Turns(Conversation),
    Completion(Completion),
}

/// Understands the records of one source.
#[derive(Debug)]
pub(super) struct Reader {
    renderer: Arc<Renderer>,
    learn: Learn,
    samples: Samples,
}

impl Reader {
    /// The reader of `source.<index>`; `None` if nothing of its records is masked.
    pub(super) fn new(
        index: usize,
        source: &SourceConfig,
        tokenizer: &TokenizerConfig,
    ) -> Result<Option<Self>> {
        if matches!(source.task, Task::Text | Task::Fim) {
            return Ok(None);
        }
        let (learn, samples) = (source.chat.learn.clone(), source.chat.samples);
        let renderer = Renderer::new(index, source, tokenizer)?;
        Ok(renderer.map(|renderer| Self { renderer: Arc::new(renderer), learn, samples }))
    }

    /// The spellings of the tokens that stop generation, and of what ends a turn.
    pub(super) fn ends(&self, tokenizer: &TokenizerConfig, special: &HashMap<u32, Added>) -> Vec<String> {
        let mut ends = self.renderer.ends();
        ends.extend(
            generation_ends(tokenizer).iter().filter_map(|id| Some(special.get(id)?.spelling.clone())),
        );
        ends.retain(|end| !end.is_empty());
        ends.sort_unstable();
        ends.dedup();
        ends
    }

    /// Understands a record, or says why it cannot be rendered.
    pub(super) fn record(&self, record: &str) -> Result<Record, RenderError> {
        if let Some(again) = self.renderer.again(record)? {
            let messages = again.messages();
            let whole = Conversation {
                learned: learned(&self.learn, &messages, &again.own(), again.first()),
                tools: again.tools(),
                own_of_parts: again.own_of_parts(),
                first: 0,
                engine: Arc::new(again),
                messages,
            };
            return Ok(match self.samples == Samples::Turns && !whole.ends().is_empty() {
                true => Record::Turns(whole),
                false => Record::Conversation(whole),
            });
        }
        let text = match self.renderer.render(record, 0, 0)?.pop() {
            Some(Outcome::Text(rendered)) => rendered.text,
            Some(Outcome::LeftOut(_)) | None => String::new(),
        };
        Ok(Record::Completion(Completion { text, prompt: self.renderer.prompt_of(record)? }))
    }
}

impl Engine for Again {
    fn render(&self, which: &[usize], edits: &[Edit], prompt: bool) -> Result<String, String> {
        let edits = edits.iter().map(|Edit { message, part, text }| (*message, *part, &**text));
        self.render_with(which, edits, prompt).map_err(|error| error.what)
    }
}

/// The ids of the tokens that end texts, as the file beside the tokenizer says that programs generate by.
fn generation_ends(tokenizer: &TokenizerConfig) -> Vec<u32> {
    let tokenizer = tokenizer.path.as_deref().and_then(|path| local(path).ok());
    let path = tokenizer.map(|path| path.with_file_name("generation_config.json"));
    // Many tokenizers have no such file.
    let bytes = path.and_then(|path| bounded::read_any(&path, MOST).ok());
    let config = bytes.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok()).unwrap_or_default();
    let id = |id: &Value| id.as_u64().and_then(|id| u32::try_from(id).ok());
    match &config["eos_token_id"] {
        Value::Array(ids) => ids.iter().filter_map(id).collect(),
        one => id(one).into_iter().collect(),
    }
}

/// Whether each of these messages is to be learned from, of those from `first` on. What a message says of its `own`
/// comes before what the config says.
pub(super) fn learned(learn: &Learn, messages: &[Value], own: &[Option<bool>], first: usize) -> Vec<bool> {
    let is_assistant = |message: &Value| role(message) == "assistant";
    let last = messages.iter().rposition(is_assistant);
    let by_config = |index: usize| match learn {
        Learn::All => is_assistant(&messages[index]),
        Learn::Last => Some(index) == last,
        Learn::Roles(roles) => roles.iter().any(|name| name == role(&messages[index])),
    };
    let is_learned = |index| {
        let own: Option<bool> = own.get(index).copied().flatten();
        index >= first && own.unwrap_or_else(|| by_config(index))
    };
    (0..messages.len()).map(is_learned).collect()
}

/// The role of a message; empty if it has none.
pub(super) fn role(message: &Value) -> &str {
    message["role"].as_str().unwrap_or_default()
}
