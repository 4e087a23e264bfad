//! From a record to a conversation.
//!
//! Records come in several forms: `messages` with `role` and `content`, ShareGPT's `conversations` with `from` and
//! `value`, Alpaca's `instruction`, `input` and `output`, and any of these with other names. Templates get one form:
//! objects with `role` and `content`, and whatever else stands in them, in its order.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::RenderError;
use super::alpaca::{ALPACA, alpaca, history, system};
use super::contents::{calls, check_content, function_call, has_choices, own_choice};
use super::conversation::{About, Conversation, REASONING};
use super::fields::{
    Entries, first_name, get, is_empty, is_null, kind, list, must_be, not_json, quoted, said, take,
};
use super::json::{Json, Key};
use crate::config::{ROLES, SourceConfig};

/// The field of a conversation, and the one of ShareGPT.
const MESSAGES: &str = "messages";
const CONVERSATIONS: &str = "conversations";

/// The fields of a record that stand beside the conversation.
const BESIDE: [&str; 4] = ["documents", "system", "history", "chat_template_kwargs"];

/// Other names for roles that templates know: ShareGPT's, and Gemini's name of the assistant.
const OTHER_ROLES: [(&str, &str); 5] = [
    ("human", "user"),
    ("gpt", "assistant"),
    ("model", "assistant"),
    ("function_call", "assistant"),
    ("observation", "tool"),
];

/// What names of the assistant have in them.
const LIKE_ASSISTANT: [&str; 6] = ["assist", "bot", "gpt", "model", "agent", "llm"];

/// The role of ShareGPT's messages that are a call of a function, as JSON.
const FUNCTION_CALL: &str = "function_call";

/// A prompt and its completion.
#[derive(Debug)]
pub(super) enum Pair {
    Strings(String, String),
    Messages(Conversation),
}

/// Reads the records of a source.
#[derive(Debug)]
pub(super) struct Reader {
    /// The field of the conversation, if the config names one.
    field: Option<String>,
    fields: BTreeMap<String, String>,
    roles: BTreeMap<String, String>,
    /// The variables that the config sets.
    kwargs: Vec<(Key, Json)>,
    /// The key of the source's settings, such as `source.0`.
    key: String,
}

impl Reader {
    pub(super) fn new(key: &str, source: &SourceConfig) -> Result<Self, RenderError> {
        let kwargs = source.chat.kwargs.iter().map(|(name, value)| {
            let value = Json::parse(&value.to_string());
            let value = value
                .map_err(|e| RenderError::new(format!("{key}.chat.kwargs.{name}: {e}"), "correct it"))?;
            Ok((Key::Owned(name.clone()), value))
        });
        Ok(Self {
            field: source.field.clone(),
            fields: source.chat.fields.clone(),
            roles: source.chat.roles.clone(),
            kwargs: kwargs.collect::<Result<_, _>>()?,
            key: key.to_owned(),
        })
    }

    /// The variables that the config sets.
    pub(super) fn kwargs(&self) -> &[(Key, Json)] {
        &self.kwargs
    }

    /// The names of the fields that a conversation is made of.
    pub(super) fn chat_fields(&self) -> Vec<String> {
        let named = match &self.field {
            Some(field) => vec![field.clone(), first_name(field).to_owned()],
            None => [MESSAGES, CONVERSATIONS].iter().chain(&ALPACA).map(|name| (*name).to_owned()).collect(),
        };
        self.with_beside(named)
    }

    /// The names of the fields that a prompt with its completion is made of.
    pub(super) fn pair_fields(&self) -> Vec<String> {
        self.with_beside(vec![self.name("prompt").to_owned(), self.name("completion").to_owned()])
    }

    fn with_beside(&self, mut named: Vec<String>) -> Vec<String> {
        named.push(self.name("tools").to_owned());
        named.extend(BESIDE.iter().map(|name| (*name).to_owned()));
        named
    }

    /// The name of a field in records and messages.
    fn name<'a>(&'a self, name: &'a str) -> &'a str {
        self.fields.get(name).map_or(name, String::as_str)
    }

    pub(super) fn chat(&self, record: &str) -> Result<Conversation, RenderError> {
        let mut record = self.record(record)?;
        let mut messages = self.messages_of(&mut record)?;
        let has_system = messages.first().is_some_and(|first| self.is_system(first));
        if messages.iter().any(|message| message.get("from").is_some()) {
            let first_turn = usize::from(has_system);
            messages.splice(first_turn..first_turn, history(&mut record)?);
        }
        if !has_system {
            messages.splice(..0, system(&mut record)?);
        }
        self.conversation(record, messages, 0)
    }

    /// The prompt and the completion of a record.
    pub(super) fn pair(&self, record: &str) -> Result<Pair, RenderError> {
        let mut record = self.record(record)?;
        let [prompt, completion] = ["prompt", "completion"].map(|name| {
            let name = self.name(name);
            let Some(value) = take(&mut record, name) else {
                return Err(self.absent(name, &record, &format!("{}.chat.fields", self.key)));
            };
            Ok(as_messages(value))
        });
        match (prompt?, completion?) {
            (Json::String(prompt), Json::String(completion)) => Ok(Pair::Strings(prompt, completion)),
            (Json::List(mut messages), Json::List(completion)) => {
                let first = messages.len();
                messages.extend(completion);
                self.conversation(record, messages, first).map(Pair::Messages)
            }
            (prompt, completion) => Err(RenderError::new(
                format!("its prompt is {} and its completion {}", kind(&prompt), kind(&completion)),
                "make both strings, or both lists of messages",
            )),
        }
    }

    /// Whether a message, as it stands in a record, is a system prompt.
    fn is_system(&self, message: &Json) -> bool {
        let role = message.get(self.name("role")).or_else(|| message.get("from")).and_then(Json::as_str);
        role.map(|said| self.role(said))
            .is_some_and(|role| role.is_ok_and(|role| matches!(&*role, "system" | "developer")))
    }

    fn record(&self, record: &str) -> Result<Entries, RenderError> {
        match Json::parse(record) {
            Ok(Json::Object(entries)) => Ok(entries),
            Ok(other) => Err(RenderError::new(
                format!("the record is {}, and must be an object", kind(&other)),
                format!("correct the file, or set {}.task to what its records are", self.key),
            )),
            Err(e) => Err(RenderError::new(format!("broken JSON: {}", said(&e)), "mend it")),
        }
    }

    /// The messages of a record, as they stand there.
    fn messages_of(&self, record: &mut Entries) -> Result<Vec<Json>, RenderError> {
        let names: &[&str] = match &self.field {
            Some(field) => &[field.as_str()],
            None => &[MESSAGES, CONVERSATIONS],
        };
        for name in names {
            return match take(record, name) {
                None => continue,
                Some(Json::String(text)) => Ok(list(&text, name)?.unwrap_or_default()),
                Some(Json::List(messages)) => Ok(messages),
                Some(other) => Err(RenderError::new(
                    format!("its field {name:?} is {}, and must be a list of messages", kind(&other)),
                    format!("correct it, or name another field with {}.field", self.key),
                )),
            };
        }
        if self.field.is_none()
            && let Some(messages) = alpaca(record)?
        {
            return Ok(messages);
        }
        if names.iter().any(|name| is_null(record, name)) {
            return Ok(Vec::new());
        }
        Err(self.absent(names[0], record, &format!("{}.field", self.key)))
    }

    /// The error for a field that is not there.
    fn absent(&self, name: &str, record: &Entries, setting: &str) -> RenderError {
        if is_null(record, name) {
            return RenderError::new(format!("its field {name:?} is null"), "correct it");
        }
        let names: Vec<&str> = record.iter().map(|(name, _)| &**name).take(20).collect();
        RenderError::new(
            format!("it has no field {name:?}, but {}", quoted(&names)),
            format!("name the field with {setting}"),
        )
    }

    fn conversation(
        &self,
        mut record: Entries,
        messages: Vec<Json>,
        first: usize,
    ) -> Result<Conversation, RenderError> {
        let mut read = Conversation { first, kwargs: self.kwargs.clone(), ..Conversation::default() };
        read.messages.reserve(messages.len());
        read.about.reserve(messages.len());
        for (number, message) in messages.into_iter().enumerate() {
            let (message, about) = self.message(message).map_err(|e| RenderError {
                what: format!("message {} of the conversation: {}", number + 1, e.what),
                ..e
            })?;
            read.messages.push(message);
            read.about.push(about);
        }
        read.tools = self.side_list(&mut record, self.name("tools"))?;
        read.documents = self.side_list(&mut record, "documents")?;
        let kwargs = match take(&mut record, "chat_template_kwargs") {
            Some(Json::String(text)) if text.is_empty() => None,
            Some(Json::String(text)) => {
                Some(Json::parse(&text).map_err(|e| not_json("chat_template_kwargs", &e))?)
            }
            other => other,
        };
        match kwargs {
            None | Some(Json::Null) => (),
            Some(Json::Object(own)) => {
                read.has_own_kwargs = !own.is_empty();
                read.kwargs.retain(|(name, _)| own.iter().all(|(other, _)| other != name));
                read.kwargs.extend(own);
            }
            Some(other) => {
                return Err(must_be("its field \"chat_template_kwargs\"", &other, "an object"));
            }
        }
        Ok(read)
    }

    /// A list that stands beside the conversation: itself, or as JSON in a string, or a list of such strings.
    fn side_list(&self, record: &mut Entries, name: &str) -> Result<Option<Vec<Json>>, RenderError> {
        let items = match take(record, name) {
            None => return Ok(None),
            Some(Json::String(text)) if text.trim().is_empty() => return Ok(None),
            Some(Json::String(text)) => match list(&text, name)? {
                Some(items) => items,
                None => return Ok(None),
            },
            Some(Json::List(items)) => items,
            Some(other) => {
                return Err(must_be(format!("its field {name:?}"), &other, "a list, or one as JSON"));
            }
        };
        let parsed = items.into_iter().map(|item| match item {
            Json::String(text) if text.trim_start().starts_with('{') => {
                Json::parse(&text).map_err(|e| not_json(name, &e))
            }
            other => Ok(other),
        });
        parsed.collect::<Result<_, _>>().map(Some)
    }

    /// A message as templates know it.
    fn message(&self, message: Json) -> Result<(Json, About), RenderError> {
        let mut entries = match message {
            Json::Object(entries) => entries,
            other => {
                return Err(must_be("it", &other, "an object with a role and a content"));
            }
        };
        let learned = own_choice(&mut entries)?;
        let has = |entries: &Entries, name: &str| get(entries, name).is_some();
        let role_key = match self.name("role") {
            "role" if !has(&entries, "role") && has(&entries, "from") => "from",
            name => name,
        };
        let content_key = match self.name("content") {
            "content" if !has(&entries, "content") && has(&entries, "value") => "value",
            name => name,
        };
        let said = match entries.iter().find(|(key, _)| key == role_key) {
            Some((_, Json::String(said))) => said,
            Some((_, other)) => {
                return Err(must_be(format!("its field {role_key:?}"), other, "a string"));
            }
            None => return Err(self.absent(role_key, &entries, &format!("{}.chat.fields.role", self.key))),
        };
        if let Some((key, _)) = entries.iter().find(|(key, value)| key != content_key && has_choices(value)) {
            return Err(RenderError::new(
                format!(
                    "its {key:?} has parts that say whether they are learned from, and they would not count"
                ),
                "make its content a list of parts, each with its text and \"train\"",
            ));
        }
        let is_call = said == FUNCTION_CALL && !self.roles.contains_key(FUNCTION_CALL);
        let mut about = About { role: self.role(said)?, learned, parts: Vec::new() };
        self.check_presence(content_key, &entries, &about)?;
        // A field that is called as templates call another.
        let is_namesake =
            |key: &str| key != role_key && key != content_key && matches!(key, "role" | "content");
        entries.retain(|(key, _)| !is_namesake(key));
        for (key, value) in &mut entries {
            if key == role_key {
                *key = Cow::Borrowed("role");
                if value.as_str() != Some(&about.role) {
                    *value = Json::String(about.role.clone().into_owned());
                }
            } else if key == content_key {
                about.parts = check_content(value, &about)?;
                *key = Cow::Borrowed("content");
            } else if key == "tool_calls" {
                *value = calls(std::mem::take(value))?;
            }
        }
        let mut message = Json::Object(entries);
        if is_call {
            message = function_call(&message)?;
        }
        Ok((message, about))
    }

    /// Refuses a message without a content, which would teach a model to say nothing. One that calls tools needs none, nor
    /// does one that thinks, and a tool may give back nothing.
    fn check_presence(&self, key: &str, entries: &Entries, about: &About) -> Result<(), RenderError> {
        let is_there = |name: &&str| get(entries, name).is_some_and(|value| !is_empty(value));
        if !matches!(get(entries, key), None | Some(Json::Null))
            || about.is_tool()
            || REASONING.iter().chain(&["tool_calls"]).any(is_there)
        {
            return Ok(());
        }
        Err(self.absent(key, entries, &format!("{}.chat.fields.content", self.key)))
    }

    /// The role that a name stands for.
    fn role(&self, said: &str) -> Result<Cow<'static, str>, RenderError> {
        let other = OTHER_ROLES.iter().find(|(name, _)| *name == said).map(|(_, role)| *role);
        let known = || ROLES.into_iter().find(|role| *role == said);
        let own = self.roles.get(said).map(|role| Cow::Owned(role.clone()));
        match own.or_else(|| other.or_else(known).map(Cow::Borrowed)) {
            Some(role) => Ok(role),
            None => {
                let name = said.to_lowercase();
                let is_assistant = name == "ai" || LIKE_ASSISTANT.iter().any(|part| name.contains(part));
                let other = if is_assistant { "assistant" } else { "user" };
                let role = ROLES.iter().find(|role| name.contains(*role)).unwrap_or(&other);
                Err(RenderError::new(
                    format!("its role {said:?} is unknown"),
                    format!(
                        "say which of {} it stands for in {}.chat.roles, such as {{ {said:?} = {role:?} }}",
                        quoted(&ROLES),
                        self.key,
                    ),
                ))
            }
        }
    }
}

/// A column of JSON that holds messages, as the messages.
fn as_messages(value: Json) -> Json {
    let Json::String(text) = &value else { return value };
    if !text.trim_start().starts_with('[') {
        return value;
    }
    let is_message = |item: &Json| item.get("role").is_some();
    match Json::parse(text) {
        Ok(Json::List(items)) if !items.is_empty() && items.iter().all(is_message) => Json::List(items),
        _ => value,
    }
}
