//! From records to texts: conversations through the model's chat template, prompts with their completions, text with a
//! hole.
//!
//! A record comes in, as JSON or as plain text. Out come a text and its marks: which bytes are learned from, and which
//! are special tokens. A conversation may become several texts, one for each turn. Nothing is held but the template.
//!
//! What is learned from a conversation is found in one of these ways, and never guessed:
//!
//! 1. The template marks it, with generation blocks.
//! 2. It stands between markers: those of the config, or of the template's family.
//! 3. Each content is found by words around it, if two kinds of such words give the same place.
//!
//! A conversation is rendered once if the template marks turns, or has markers, and nobody's text looks like one or like
//! a token. Otherwise it is rendered again for each question: what the template wrote itself, and where contents stand.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde_json::{Map, Value};

use crate::config::{ChatConfig, Samples, SourceConfig, SpecialTokens, Task, TokenizerConfig, Truncate, day};
use crate::document::RenderedMarks;
use crate::error::{Error, Result};
use crate::store::local;
use crate::tokenizer::{self, Encoder, Tokenizer};

mod again;
mod alpaca;
mod chat;
mod chat_template;
mod completion;
mod contents;
mod conversation;
mod families;
mod fields;
mod fim;
mod guard;
mod json;
mod learn;
mod messages;
mod seen;
mod sentinels;
mod spellings;
mod structure;
mod template;
mod template_files;
mod truncate;
mod turns;

#[cfg(test)]
mod tests;

pub(crate) use again::Again;
pub(crate) use alpaca::IS_ALPACA;
pub use chat_template::{ChatPrompt, ChatTemplate};
pub(crate) use structure::REASONING as REASONING_TAGS;

use chat::{Chat, Settings};
use completion::Completion;
use conversation::{About, Conversation};
use fim::Fim;
use messages::{Pair, Reader};
use seen::Seen;
use spellings::{Spelling, Spellings};
use template::Template;
use template_files::TemplateFiles;
use truncate::Room;

/// The largest template, in bytes.
const MOST: u64 = 4 << 20;

/// The names of templates in a tokenizer's files.
const DEFAULT: &str = "default";
const TOOL_USE: &str = "tool_use";

/// Renders the records of one source.
#[derive(Debug)]
pub(crate) struct Renderer {
    task: Rendering,
    reader: Reader,
    samples: Samples,
    truncate: Truncate,
    /// The key of the source's settings, such as `source.0`.
    key: String,
    /// The seed of what is drawn.
    seed: u64,
    fingerprint: String,
    /// The room for conversations, if rows must hold them whole.
    room: OnceLock<Room>,
    seen: Seen,
    /// Which of `bos` and `eos` its templates write, and neither a file beside the tokenizer nor the config names.
    unnamed: Vec<&'static str>,
}

/// What records are.
#[derive(Debug)]
enum Rendering {
    Chat(Chat),
    Completion {
        strings: Completion,
        /// For prompts and completions that are messages, if there is a template.
        messages: Option<Chat>,
    },
    Fim(Fim),
}

/// A record's text and its marks, whose places are bytes of the text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    pub(crate) marks: RenderedMarks,
    /// Whether something of it was taken out, so that the rest fits a row.
    pub(crate) is_shortened: bool,
}

impl Rendered {
    fn push_token(&mut self, token: &str) {
        let start = self.text.len();
        self.text.push_str(token);
        self.marks.special.push(start..self.text.len());
    }

    /// Appends a text, with the tokens that it spells.
    fn push_text(&mut self, text: &str, tokens: &Spellings) {
        let start = self.text.len();
        self.text.push_str(text);
        let found = tokens.find(text).map(|(range, _)| range.start + start..range.end + start);
        self.marks.special.extend(found);
    }
}

/// What became of a record, or of one of its samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A text, which is not empty.
    Text(Rendered),
    /// It gives no document, and this is why, in words: nothing of it is learned from, or it is too long.
    LeftOut(String),
}

/// Why a record cannot be rendered, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RenderError {
    pub(crate) what: String,
    pub(crate) remedy: String,
}

impl RenderError {
    fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}

impl Renderer {
    /// The renderer of `source.<index>`; `None` for a source of plain text. Reads the template.
    pub(crate) fn new(
        index: usize,
        source: &SourceConfig,
        tokenizer: &TokenizerConfig,
    ) -> Result<Option<Self>> {
        let setup = Setup { key: format!("source.{index}"), source, tokenizer };
        let templates = match source.task {
            Task::Text => return Ok(None),
            Task::Chat => Some(setup.templates()?.ok_or_else(|| setup.no_template())?),
            Task::Completion => setup.templates()?,
            Task::Fim => None,
        };
        setup.renderer(templates).map(Some)
    }

    /// Has conversations fit into rows of `width` ids. The first call decides.
    pub(crate) fn fit(&self, encoder: &Encoder, width: usize) {
        if !matches!(self.task, Rendering::Fim(_)) {
            let _ = self.room.set(Room { encoder: encoder.clone(), width, has_told: AtomicBool::new(false) });
        }
    }

    /// Warns of tokens that the template writes and nobody names, for which nothing is written; and if nothing that ends
    /// turns is a token: a model that has learned from them does not stop.
    pub(crate) fn check_tokens(&self, tokenizer: &dyn Tokenizer) {
        let Rendering::Chat(chat) = &self.task else { return };
        for name in &self.unnamed {
            tracing::warn!(
                key = format!("{}.chat.template", self.key),
                "the template writes {name}_token, and nothing says which token that is, so it is left out: set \
                 tokenizer.{name}, or put the model's tokenizer_config.json beside its tokenizer"
            );
        }
        if let Some(end) = chat.end_without_token(tokenizer) {
            tracing::warn!(
                "the turns of {} end with {end:?}, and the tokenizer has no such token: a model that learns from them writes \
                 it letter by letter, and nothing stops it; use the tokenizer of the model that the template is for, or a \
                 template that ends turns with a token of this one",
                self.key
            );
        }
    }

    /// What the log says of the first text that lost something; nothing of the others.
    pub(crate) fn shortened(&self, rendered: &Rendered) -> Option<String> {
        let room = self.room.get().filter(|_| rendered.is_shortened)?;
        (!room.has_told.swap(true, Relaxed)).then(|| {
            let (width, key) = (room.width, &self.key);
            let lost = match self.truncate {
                Truncate::Start => "its beginning is cut off",
                Truncate::End => "its end is cut off, with the token that ends it",
                Truncate::Turns | Truncate::Drop => "its oldest messages are left out",
            };
            format!(
                "the conversation is longer than a row, which has {width} ids: {lost}; raise pipeline.seq_len, or choose \
                 what leaves with {key}.chat.truncate; later ones like it are not named"
            )
        })
    }

    /// How many ids a row has for a conversation, if rows must hold them whole.
    pub(crate) fn row_ids(&self) -> Option<usize> {
        self.room.get().map(|room| room.width)
    }

    /// The names of the columns that a record of a table has as JSON, as far as the table has them, in order: the same
    /// records have the same bytes.
    pub(crate) fn columns(&self) -> Vec<String> {
        let mut names = match &self.task {
            Rendering::Chat(_) => self.reader.chat_fields(),
            Rendering::Completion { .. } => self.reader.pair_fields(),
            Rendering::Fim(_) => Vec::new(),
        };
        names.sort_unstable();
        names.dedup();
        names
    }

    /// All that texts and their marks depend on beside the records and the rows: part of the order.
    pub(crate) fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }

    /// Why nothing is learned from in all conversations so far, if that is so.
    pub(crate) fn unlearned(&self) -> Option<String> {
        self.seen.unlearned()
    }

    /// How it is found what is learned from, in words.
    pub(crate) fn finder(&self) -> String {
        match &self.task {
            Rendering::Chat(chat) if self.samples == Samples::Turns => {
                format!("{}; each turn is a sample of its own", chat.finder())
            }
            Rendering::Chat(chat) | Rendering::Completion { messages: Some(chat), .. } => chat.finder(),
            Rendering::Completion { .. } => "the completion".to_owned(),
            Rendering::Fim(_) => "the whole text".to_owned(),
        }
    }

    /// Renders the record at a byte of a file, which has this number in its source: a JSON object, or for FIM plain text.
    /// Returns the outcome of each of its samples, in order: most records are one.
    pub(crate) fn render(&self, record: &str, file: u32, byte: u64) -> Result<Vec<Outcome>, RenderError> {
        let outcomes = self.outcomes(record, [self.seed, u64::from(file), byte])?;
        self.seen.note_outcomes(&outcomes);
        Ok(outcomes)
    }

    fn outcomes(&self, record: &str, key: [u64; 3]) -> Result<Vec<Outcome>, RenderError> {
        let outcome = match &self.task {
            Rendering::Chat(chat) => {
                let conversation = self.reader.chat(record)?;
                self.seen.note(&conversation);
                if self.samples == Samples::Turns {
                    return self.turns(chat, conversation);
                }
                self.chat(chat, &conversation)?
            }
            Rendering::Completion { strings, messages } => match self.reader.pair(record)? {
                Pair::Strings(prompt, completion) => {
                    let outcome = strings.render(&prompt, &completion);
                    match self.room.get() {
                        Some(room) => room.whole(self.truncate, outcome),
                        None => outcome,
                    }
                }
                Pair::Messages(conversation) => {
                    let chat = messages.as_ref().ok_or_else(|| self.no_template())?;
                    self.chat(chat, &conversation)?
                }
            },
            Rendering::Fim(fim) => Outcome::Text(fim.render(record, key)),
        };
        Ok(vec![outcome])
    }

    /// The conversation up to each turn that is learned from, as if nobody had said more. Only that turn is learned from.
    fn turns(&self, chat: &Chat, mut conversation: Conversation) -> Result<Vec<Outcome>, RenderError> {
        let samples = chat.samples(&conversation);
        if samples.is_empty() {
            return Ok(vec![self.chat(chat, &conversation)?]);
        }
        let about = conversation.about.clone();
        conversation.about.iter_mut().for_each(About::mask);
        let mut outcomes = Vec::with_capacity(samples.len());
        for (message, is_learned) in samples.into_iter().rev() {
            conversation.messages.truncate(message + 1);
            conversation.about.truncate(message + 1);
            conversation.about[message] = About { learned: Some(is_learned), ..about[message].clone() };
            let outcome = self.chat(chat, &conversation).map_err(|RenderError { what, remedy }| {
                RenderError { what: format!("up to message {}: {what}", message + 1), remedy }
            });
            outcomes.push(outcome?);
        }
        outcomes.reverse();
        Ok(outcomes)
    }

    fn chat(&self, chat: &Chat, conversation: &Conversation) -> Result<Outcome, RenderError> {
        let outcome = chat.render(conversation)?;
        if let Outcome::Text(rendered) = &outcome {
            self.seen.note_text(conversation, &rendered.text);
        }
        match (self.room.get(), self.truncate) {
            (None, _) => Ok(outcome),
            (Some(room), Truncate::Turns) => {
                room.turns(conversation, outcome, |shorter| chat.render(shorter))
            }
            (Some(room), truncate) => Ok(room.whole(truncate, outcome)),
        }
    }

    fn no_template(&self) -> RenderError {
        RenderError {
            what: "its prompt and completion are messages, and there is no chat template".to_owned(),
            remedy: format!("name one with {}.chat.template", self.key),
        }
    }

    /// The conversation of a record, and what renders it; `None` if it is none.
    fn conversation(&self, record: &str) -> Result<Option<(&Chat, Conversation)>, RenderError> {
        match &self.task {
            Rendering::Chat(chat) => Ok(Some((chat, self.reader.chat(record)?))),
            Rendering::Completion { messages: Some(chat), .. } => match self.reader.pair(record)? {
                Pair::Messages(conversation) => Ok(Some((chat, conversation))),
                Pair::Strings(..) => Ok(None),
            },
            Rendering::Completion { .. } | Rendering::Fim(_) => Ok(None),
        }
    }
}

/// The special tokens that templates know, and those of the config where the tokenizer's files name none.
fn with_tokens_of(tokenizer: &TokenizerConfig, mut tokens: Vec<(String, String)>) -> Vec<(String, String)> {
    for (name, token) in [("bos_token", &tokenizer.bos), ("eos_token", &tokenizer.eos)] {
        if let Some(token) = token
            && tokens.iter().all(|(other, _)| other != name)
        {
            tokens.push((name.to_owned(), token.clone()));
        }
    }
    tokens
}

/// What a renderer is made from.
struct Setup<'a> {
    key: String,
    source: &'a SourceConfig,
    tokenizer: &'a TokenizerConfig,
}

/// The templates of a source: their names and sources. The first one is for conversations without tools.
struct Templates {
    templates: Vec<(String, String)>,
    /// The special tokens that templates name.
    tokens: Vec<(String, String)>,
    /// As those of the [`Renderer`].
    unnamed: Vec<&'static str>,
}

impl Setup<'_> {
    fn chat_config(&self) -> &ChatConfig {
        &self.source.chat
    }

    fn no_template(&self) -> Error {
        if let Err(error) = tokenizer::check_file(self.tokenizer) {
            return error;
        }
        let problem = match &self.tokenizer.path {
            Some(path) => format!("there is no chat template beside {}; put it there", path.display()),
            None => {
                "there is no chat template, which is looked for beside the tokenizer's file; name that with \
                 tokenizer.path"
                    .to_owned()
            }
        };
        Error::config(format!("{}.chat.template", self.key), format!("{problem}, or name a file in Jinja"))
    }

    fn renderer(&self, templates: Option<Templates>) -> Result<Renderer> {
        let reader = Reader::new(&self.key, self.source).map_err(|e| Error::config(&self.key, e.what))?;
        let tokens = spellings::of_tokenizer(self.tokenizer)?;
        let fingerprint = self.fingerprint(templates.as_ref(), &tokens)?;
        let unnamed = templates.as_ref().map_or_else(Vec::new, |templates| templates.unnamed.clone());
        let chat = templates.map(|templates| self.chat(templates, &tokens, &reader)).transpose()?;
        let parsed = || match self.tokenizer.special_tokens {
            SpecialTokens::Text => Spellings::default(),
            SpecialTokens::Parse => Spellings::new(tokens.iter().cloned()),
        };
        let (bos, eos) = (self.tokenizer.bos.clone(), self.tokenizer.eos.clone());
        let task = match (self.source.task, chat) {
            (Task::Chat, Some(chat)) => Rendering::Chat(chat),
            (Task::Fim, _) => {
                self.check_fim(&tokens)?;
                Rendering::Fim(Fim { config: self.source.fim.clone(), bos, eos, tokens: parsed() })
            }
            (_, messages) => {
                let border = self.chat_config().border;
                let strings = Completion { bos, eos, border, tokens: parsed() };
                Rendering::Completion { strings, messages }
            }
        };
        let (samples, truncate) = (self.chat_config().samples, self.chat_config().truncate);
        let (key, seed, room) = (self.key.clone(), self.source.drawn_seed(), OnceLock::new());
        let seen = Seen::new(&key, &self.chat_config().learn);
        Ok(Renderer { task, reader, samples, truncate, key, seed, fingerprint, room, seen, unnamed })
    }

    /// The templates that the config names, or that stand beside the tokenizer.
    fn templates(&self) -> Result<Option<Templates>> {
        let beside = self.tokenizer.path.as_deref().map(TemplateFiles::beside).transpose()?;
        let TemplateFiles { mut templates, tokens } = beside.unwrap_or_default();
        let names_none = tokens.is_empty();
        let tokens = with_tokens_of(self.tokenizer, tokens);
        let name = &self.chat_config().template_name;
        if let Some(path) = &self.chat_config().template {
            if name.is_some() {
                let problem =
                    "it is for templates of the tokenizer, and chat.template names a file; keep one";
                return Err(Error::config(format!("{}.chat.template_name", self.key), problem));
            }
            templates = vec![(DEFAULT.to_owned(), self.read(path)?)];
        }
        if templates.is_empty() {
            return Ok(None);
        }
        let wanted = name.as_deref().unwrap_or(DEFAULT);
        let Some(at) = templates.iter().position(|(other, _)| other == wanted) else {
            let names: Vec<String> = templates.iter().map(|(name, _)| format!("{name:?}")).collect();
            let problem = format!("there is no template {wanted:?}; the tokenizer has {}", names.join(", "));
            return Err(Error::config(format!("{}.chat.template_name", self.key), problem));
        };
        templates.swap(0, at);
        let is_used = |number: usize, other: &str| number == 0 || name.is_none() && other == TOOL_USE;
        let used = templates.into_iter().enumerate().filter(|(number, (name, _))| is_used(*number, name));
        let templates: Vec<_> = used.map(|(_, template)| template).collect();
        let is_unnamed = |name: &&str| {
            let name = format!("{name}_token");
            let is_written = templates.iter().any(|(_, template)| template.contains(&name));
            names_none && is_written && tokens.iter().all(|(known, _)| *known != name)
        };
        let unnamed = ["bos", "eos"].into_iter().filter(is_unnamed).collect();
        Ok(Some(Templates { templates, tokens, unnamed }))
    }

    fn read(&self, path: &Path) -> Result<String> {
        let path = &*local(path)?;
        let refused = |problem: String| {
            let problem = format!("{problem}; name a file in Jinja");
            Error::config(format!("{}.chat.template", self.key), problem)
        };
        let bytes = crate::bounded::read_any(path, MOST).map_err(|e| match e.kind() {
            ErrorKind::NotFound => refused(format!("there is no file {}", path.display())),
            ErrorKind::IsADirectory => refused(format!("{} is a directory", path.display())),
            _ => Error::io(path, "read", e),
        })?;
        String::from_utf8(bytes).map_err(|e| {
            refused(format!("{} is not UTF-8 at byte {}", path.display(), e.utf8_error().valid_up_to()))
        })
    }

    fn chat(&self, templates: Templates, tokens: &[Spelling], reader: &Reader) -> Result<Chat> {
        let Templates { templates, tokens: of_template, .. } = templates;
        let config = self.chat_config();
        let eos = of_template.iter().find(|(name, _)| name == "eos_token").map(|(_, token)| token.clone());
        let settings = Settings {
            learn: config.learn.clone(),
            turn: config.turn.clone(),
            border: config.border,
            tokens: chat::tokens(tokens.to_vec(), &of_template),
            parses: self.tokenizer.special_tokens == SpecialTokens::Parse,
            eos,
            kwargs: reader.kwargs().to_vec(),
        };
        let mut compiled = templates.iter().map(|(_, source)| {
            self.compile(source, &of_template).map(|template| (template, source.as_str()))
        });
        let Some(template) = compiled.next().transpose()? else { return Err(self.no_template()) };
        let with_tools = compiled.next().transpose()?;
        Ok(Chat::new(template, with_tools, settings))
    }

    fn compile(&self, source: &str, tokens: &[(String, String)]) -> Result<Template> {
        let date = self.chat_config().date.as_deref().and_then(day);
        let template = Template::compile(source, tokens, date).map_err(|e| {
            Error::config(format!("{}.chat.template", self.key), format!("{}; {}", e.what, e.remedy))
        })?;
        if template.asks_for_date() && date.is_none() {
            let problem = "the chat template asks for today's date, so that texts would change every day; \
                           set one, such as \"2026-11-28\"";
            return Err(Error::config(format!("{}.chat.date", self.key), problem));
        }
        Ok(template)
    }

    /// Refuses tokens of holes that the tokenizer does not have.
    fn check_fim(&self, tokens: &[Spelling]) -> Result<()> {
        let fim = &self.source.fim;
        let named = [("prefix", &fim.prefix), ("suffix", &fim.suffix), ("middle", &fim.middle)];
        let is_known = |token: &str| tokens.iter().any(|other| other.text == token);
        match named.iter().find(|(_, token)| fim.rate > 0.0 && !is_known(token)) {
            Some((name, token)) => {
                let problem = format!("the tokenizer has no special token {token:?}; name one that it has");
                Err(Error::config(format!("{}.fim.{name}", self.key), problem))
            }
            None => Ok(()),
        }
    }

    /// All that decides texts and marks, as JSON: the settings, and digests of the templates and the special tokens. Paths do
    /// not count.
    fn fingerprint(&self, templates: Option<&Templates>, tokens: &[Spelling]) -> Result<String> {
        let mut parts = Map::new();
        let json = |value: serde_json::Result<Value>| {
            value.map_err(|e| Error::config(format!("{}.chat", self.key), e.to_string()))
        };
        let chat = ChatConfig { template: None, template_name: None, ..self.chat_config().clone() };
        let (name, settings) = match self.source.task {
            Task::Fim => ("fim", serde_json::to_value(&self.source.fim)),
            Task::Text | Task::Chat | Task::Completion => ("chat", serde_json::to_value(&chat)),
        };
        if let Value::Object(settings) = json(settings)? {
            parts.extend(settings.into_iter().map(|(key, value)| (format!("{name}.{key}"), value)));
        }
        for (name, value) in [
            ("task", serde_json::to_value(self.source.task)),
            ("kind", serde_json::to_value(self.source.kind)),
            ("field", serde_json::to_value(&self.source.field)),
            ("tokenizer.bos", serde_json::to_value(&self.tokenizer.bos)),
            ("tokenizer.eos", serde_json::to_value(&self.tokenizer.eos)),
            ("tokenizer.special_tokens", serde_json::to_value(self.tokenizer.special_tokens)),
            ("seed", serde_json::to_value((self.source.task == Task::Fim).then(|| self.source.drawn_seed()))),
        ] {
            let value = json(value)?;
            parts.extend((!value.is_null()).then(|| (name.to_owned(), value)));
        }
        // Each text with its length, so that no two lists of texts are one.
        let digest = |texts: Vec<&str>| {
            let mut hasher = blake3::Hasher::new();
            for text in texts {
                hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
            }
            Value::from(hasher.finalize().to_hex().as_str())
        };
        let mut all: Vec<&str> = Vec::new();
        for token in tokens {
            all.extend([&*token.text, if token.is_single_word { "word" } else { "any" }]);
        }
        if let Some(Templates { templates, tokens, .. }) = templates {
            let texts = templates.iter().flat_map(|(name, text)| [name.as_str(), text.as_str()]);
            parts.insert("chat.template".to_owned(), digest(texts.collect()));
            all.extend(tokens.iter().flat_map(|(name, text)| [name.as_str(), text.as_str()]));
        }
        parts.insert("tokenizer.added_tokens".to_owned(), digest(all));
        Ok(Value::Object(parts).to_string())
    }
}
