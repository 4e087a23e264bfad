//! From a record to a conversation as templates know it.
//!
//! Records come in several forms: `messages` with `role` and `content`, ShareGPT's `conversations` with `from` and
//! `value`, Alpaca's `instruction`, `input` and `output`, and any of these with other names. Templates get one form:
//! objects with `role` and `content`, and whatever else stands in them, in its order.

use std::collections::BTreeMap;

use super::RenderError;
use super::json::Json;
use crate::config::{SourceConfig, SourceKind};

/// The field of a conversation, and the one of ShareGPT.
const MESSAGES: &str = "messages";
const CONVERSATIONS: &str = "conversations";

/// The fields of Alpaca, and what tells it from other records.
const ALPACA: [&str; 3] = ["instruction", "input", "output"];

/// The fields of a record that stand beside the conversation.
const BESIDE: [&str; 4] = ["documents", "system", "history", "chat_template_kwargs"];

/// The roles that templates know, and other names for them.
const ROLES: [&str; 7] = ["system", "developer", "user", "assistant", "tool", "function", "ipython"];
const OTHER_ROLES: [(&str, &str); 4] =
    [("human", "user"), ("gpt", "assistant"), ("function_call", "assistant"), ("observation", "tool")];

/// The role of ShareGPT's messages that are a call of a function, as JSON.
const FUNCTION_CALL: &str = "function_call";

/// The keys by which a message, or a part of one, says whether it is learned from.
const LEARNED: [&str; 4] = ["train", "training", "weight", "loss_mask"];

/// A conversation, and what is known of its messages beside what a template sees.
#[derive(Clone, Debug, Default)]
pub(super) struct Conversation {
    pub(super) messages: Vec<Json>,
    /// One for each message.
    pub(super) about: Vec<About>,
    pub(super) tools: Option<Vec<Json>>,
    pub(super) documents: Option<Vec<Json>>,
    pub(super) kwargs: Vec<(String, Json)>,
    /// Whether the record has variables for the template.
    pub(super) has_own_kwargs: bool,
    /// The first message that may be learned from: that of a completion.
    pub(super) first: usize,
}

/// What is known of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct About {
    pub(super) role: String,
    /// Whether it is learned from, if it says so itself.
    pub(super) learned: Option<bool>,
    /// The same of its parts; empty if its content is not a list.
    pub(super) parts: Vec<Option<bool>>,
}

impl About {
    pub(super) fn is_assistant(&self) -> bool {
        self.role == "assistant"
    }

    /// Whether it comes before the turns: what says how to behave.
    pub(super) fn is_system(&self) -> bool {
        self.role == "system" || self.role == "developer"
    }

    /// Whether a tool wrote it.
    pub(super) fn is_tool(&self) -> bool {
        matches!(self.role.as_str(), "tool" | "function" | "ipython")
    }
}

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
    kwargs: Vec<(String, Json)>,
    /// Whether records come from structs, in which a field that a row lacks is null.
    has_foreign_nulls: bool,
    /// The key of the source's settings, such as `source.0`.
    key: String,
}

type Entries = Vec<(String, Json)>;

impl Reader {
    pub(super) fn new(key: &str, source: &SourceConfig) -> Result<Self, RenderError> {
        let kwargs = source.chat.kwargs.iter().map(|(name, value)| {
            let value = Json::parse(&value.to_string());
            let value = value.map_err(|e| error(format!("{key}.chat.kwargs.{name}: {e}"), "correct it"))?;
            Ok((name.clone(), value))
        });
        let structs = [SourceKind::Parquet, SourceKind::Arrow, SourceKind::Huggingface];
        Ok(Self {
            field: source.field.clone(),
            fields: source.chat.fields.clone(),
            roles: source.chat.roles.clone(),
            kwargs: kwargs.collect::<Result<_, _>>()?,
            has_foreign_nulls: structs.contains(&source.kind),
            key: key.to_owned(),
        })
    }

    /// The variables that the config sets.
    pub(super) fn kwargs(&self) -> &[(String, Json)] {
        &self.kwargs
    }

    /// The names of the fields that a conversation is made of.
    pub(super) fn chat_fields(&self) -> Vec<String> {
        let named = match &self.field {
            Some(field) => vec![first_name(field).to_owned()],
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

    /// The conversation of a record.
    pub(super) fn chat(&self, record: &str) -> Result<Conversation, RenderError> {
        let mut record = self.record(record)?;
        let mut messages = self.messages_of(&mut record)?;
        if messages.iter().any(|message| message.get("from").is_some()) {
            messages = with_earlier(&mut record, messages)?;
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
                self.conversation(record, self.without_nulls(messages), first).map(Pair::Messages)
            }
            (prompt, completion) => Err(error(
                format!("its prompt is {} and its completion {}", kind(&prompt), kind(&completion)),
                "make both strings, or both lists of messages",
            )),
        }
    }

    fn record(&self, record: &str) -> Result<Entries, RenderError> {
        match Json::parse(record) {
            Ok(Json::Object(entries)) => Ok(entries),
            Ok(other) => Err(error(
                format!("the record is {}, and must be an object", kind(&other)),
                format!("correct the file, or set {}.task to what its records are", self.key),
            )),
            Err(e) => Err(error(format!("the record is not JSON: {e}"), "correct it")),
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
                // A column of JSON, whose nulls are its own.
                Some(Json::String(text)) => list(&text, name),
                Some(Json::List(messages)) => Ok(self.without_nulls(messages)),
                Some(other) => Err(error(
                    format!("its field {name:?} is {}, and must be a list of messages", kind(&other)),
                    format!("correct it, or name another field with {}.field", self.key),
                )),
            };
        }
        if self.field.is_none()
            && let Some(messages) = alpaca(record)?
        {
            return with_earlier(record, messages);
        }
        Err(self.absent(names[0], record, &format!("{}.field", self.key)))
    }

    /// The error for a field that is not there.
    fn absent(&self, name: &str, record: &Entries, setting: &str) -> RenderError {
        let names: Vec<&str> = record.iter().map(|(name, _)| name.as_str()).take(20).collect();
        error(
            format!("it has no field {name:?}, but {}", quoted(&names)),
            format!("name the field with {setting}"),
        )
    }

    fn without_nulls(&self, mut messages: Vec<Json>) -> Vec<Json> {
        if self.has_foreign_nulls {
            messages.iter_mut().for_each(remove_nulls);
        }
        messages
    }

    fn conversation(
        &self,
        mut record: Entries,
        messages: Vec<Json>,
        first: usize,
    ) -> Result<Conversation, RenderError> {
        let mut read = Conversation { first, kwargs: self.kwargs.clone(), ..Conversation::default() };
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
            Some(mut other) => {
                self.has_foreign_nulls.then(|| remove_nulls(&mut other));
                Some(other)
            }
            None => None,
        };
        match kwargs {
            None | Some(Json::Null) => (),
            Some(Json::Object(own)) => {
                read.has_own_kwargs = !own.is_empty();
                read.kwargs.retain(|(name, _)| own.iter().all(|(other, _)| other != name));
                read.kwargs.extend(own);
            }
            Some(other) => {
                return Err(error(
                    format!("its field \"chat_template_kwargs\" is {}, and must be an object", kind(&other)),
                    "correct it",
                ));
            }
        }
        Ok(read)
    }

    /// A list that stands beside the conversation: itself, or as JSON in a string, or a list of such strings.
    fn side_list(&self, record: &mut Entries, name: &str) -> Result<Option<Vec<Json>>, RenderError> {
        let items = match take(record, name) {
            None => return Ok(None),
            Some(Json::String(text)) if text.trim().is_empty() => return Ok(None),
            Some(Json::String(text)) => list(&text, name)?,
            Some(Json::List(items)) => self.without_nulls(items),
            Some(other) => {
                return Err(error(
                    format!("its field {name:?} is {}, and must be a list, or one as JSON", kind(&other)),
                    "correct it",
                ));
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
                return Err(error(
                    format!("it is {}, and must be an object with a role and a content", kind(&other)),
                    "correct it",
                ));
            }
        };
        let learned = own_choice(&mut entries)?;
        let has = |entries: &Entries, name: &str| entries.iter().any(|(key, _)| key == name);
        let role_key = match self.name("role") {
            "role" if !has(&entries, "role") && has(&entries, "from") => "from",
            name => name,
        };
        let content_key = match self.name("content") {
            "content" if !has(&entries, "content") && has(&entries, "value") => "value",
            name => name,
        };
        let said = match entries.iter().find(|(key, _)| key == role_key) {
            Some((_, Json::String(role))) => role.clone(),
            Some((_, other)) => {
                return Err(error(
                    format!("its field {role_key:?} is {}, and must be a string", kind(other)),
                    "correct it",
                ));
            }
            None => return Err(self.absent(role_key, &entries, &format!("{}.chat.fields.role", self.key))),
        };
        let role = self.role(&said)?;
        let mut about = About { role: role.clone(), learned, parts: Vec::new() };
        let mut whole = Vec::with_capacity(entries.len());
        for (key, mut value) in entries {
            if key == role_key {
                whole.push(("role".to_owned(), Json::String(role.clone())));
            } else if key == content_key {
                about.parts = check_content(&mut value, &about)?;
                whole.push(("content".to_owned(), value));
            } else if key == "tool_calls" {
                whole.push((key, calls(value)?));
            } else {
                whole.push((key, value));
            }
        }
        let mut message = Json::Object(whole);
        if said == FUNCTION_CALL && !self.roles.contains_key(FUNCTION_CALL) {
            message = function_call(&message)?;
        }
        Ok((message, about))
    }

    /// The role that a name stands for.
    fn role(&self, said: &str) -> Result<String, RenderError> {
        let other = OTHER_ROLES.iter().find(|(name, _)| *name == said).map(|(_, role)| *role);
        let known = || ROLES.contains(&said).then_some(said);
        match self.roles.get(said).map(String::as_str).or(other).or_else(known) {
            Some(role) => Ok(role.to_owned()),
            None => Err(error(
                format!("its role {said:?} is unknown"),
                format!(
                    "say what it stands for in {}.chat.roles, such as {{ {said:?} = \"user\" }}; the roles are {}",
                    self.key,
                    quoted(&ROLES)
                ),
            )),
        }
    }
}

impl Conversation {
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

pub(super) fn entry_mut<'a>(object: &'a mut Json, name: &str) -> Option<&'a mut Json> {
    match object {
        Json::Object(entries) => entries.iter_mut().find(|(key, _)| key == name).map(|(_, value)| value),
        _ => None,
    }
}

fn string_mut(value: &mut Json) -> Option<&mut String> {
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
                each(key);
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

pub(super) fn error(what: String, remedy: impl Into<String>) -> RenderError {
    RenderError { what, remedy: remedy.into() }
}

/// What a value is, in words.
fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Int(_) | Json::Float(_) => "a number",
        Json::String(_) => "a string",
        Json::List(_) => "a list",
        Json::Object(_) => "an object",
    }
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    if names.is_empty() { "none at all".to_owned() } else { names.join(", ") }
}

fn not_json(name: &str, cause: &serde_json::Error) -> RenderError {
    error(format!("its field {name:?} is a string that is not JSON: {cause}"), "correct it")
}

/// The first name of a dotted path.
fn first_name(path: &str) -> &str {
    path.split_once('.').map_or(path, |(first, _)| first)
}

/// Takes a field out of an object: by its whole name, or what its dots lead to. Null is none.
fn take(entries: &mut Entries, name: &str) -> Option<Json> {
    let found = match entries.iter().position(|(key, _)| key == name) {
        Some(at) => entries.remove(at).1,
        None => {
            let (first, rest) = name.split_once('.')?;
            match entries.iter_mut().find(|(key, _)| key == first)? {
                (_, Json::Object(within)) => take(within, rest)?,
                _ => return None,
            }
        }
    };
    (!matches!(found, Json::Null)).then_some(found)
}

fn items(value: Json) -> Vec<Json> {
    match value {
        Json::List(items) => items,
        other => vec![other],
    }
}

/// The list that a string holds as JSON.
fn list(text: &str, name: &str) -> Result<Vec<Json>, RenderError> {
    match Json::parse(text).map_err(|e| not_json(name, &e))? {
        Json::List(items) => Ok(items),
        other => Err(error(
            format!("its field {name:?} is {} as JSON, and must be a list", kind(&other)),
            "correct it",
        )),
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

fn message(role: &str, content: String) -> Json {
    Json::Object(vec![
        ("role".to_owned(), Json::String(role.to_owned())),
        ("content".to_owned(), Json::String(content)),
    ])
}

/// The messages of a record in Alpaca's form; `None` if it is in another.
fn alpaca(record: &mut Entries) -> Result<Option<Vec<Json>>, RenderError> {
    if !["instruction", "output"].iter().all(|name| record.iter().any(|(key, _)| key == name)) {
        return Ok(None);
    }
    let [instruction, input, output] = ALPACA.map(|name| match take(record, name) {
        None => Ok(String::new()),
        Some(Json::String(text)) => Ok(text),
        Some(other) => {
            Err(error(format!("its field {name:?} is {}, and must be a string", kind(&other)), "correct it"))
        }
    });
    let (mut user, input) = (instruction?, input?);
    if !input.is_empty() {
        user.push('\n');
        user.push_str(&input);
    }
    Ok(Some(vec![message("user", user), message("assistant", output?)]))
}

/// The messages with those that records in ShareGPT's and Alpaca's form have in other fields: the system prompt, and
/// earlier turns.
fn with_earlier(record: &mut Entries, messages: Vec<Json>) -> Result<Vec<Json>, RenderError> {
    let mut earlier = Vec::new();
    match take(record, "system") {
        Some(Json::String(system)) if !system.is_empty() => earlier.push(message("system", system)),
        None | Some(Json::String(_)) => (),
        Some(other) => {
            return Err(error(
                format!("its field \"system\" is {}, and must be a string", kind(&other)),
                "correct it",
            ));
        }
    }
    for pair in take(record, "history").into_iter().flat_map(items) {
        let [Json::String(user), Json::String(assistant)] = &*items(pair) else {
            return Err(error(
                "its field \"history\" must be a list of pairs of strings".to_owned(),
                "correct it",
            ));
        };
        earlier.extend([message("user", user.clone()), message("assistant", assistant.clone())]);
    }
    earlier.extend(messages);
    Ok(earlier)
}

/// Takes out the keys by which an object says whether it is learned from. The first one that says something counts.
fn own_choice(entries: &mut Entries) -> Result<Option<bool>, RenderError> {
    let mut choice = None;
    for name in LEARNED {
        let own = match take(entries, name) {
            None => continue,
            Some(Json::Bool(learned)) => learned,
            Some(Json::Int(weight @ (0 | 1))) => weight == 1,
            Some(Json::Float(weight)) if weight == 0.0 || weight == 1.0 => weight == 1.0,
            Some(_) => {
                return Err(error(
                    format!("its {name:?} must be true, false, 0 or 1; other weights are not supported"),
                    "correct it",
                ));
            }
        };
        choice = choice.or(Some(own));
    }
    Ok(choice)
}

/// Checks a message's content, and takes out what its parts say of themselves.
fn check_content(content: &mut Json, about: &About) -> Result<Vec<Option<bool>>, RenderError> {
    match content {
        Json::Null | Json::String(_) => Ok(Vec::new()),
        Json::List(parts) => {
            let own = parts.iter_mut().map(|part| match part {
                Json::Object(entries) => own_choice(entries),
                _ => Ok(None),
            });
            own.collect()
        }
        // What a tool gives back may be anything.
        _ if about.is_tool() => Ok(Vec::new()),
        other => Err(error(
            format!("its content is {}, and must be a string or a list of parts", kind(other)),
            "correct it",
        )),
    }
}

/// The calls of a message, which may be JSON in a string.
fn calls(value: Json) -> Result<Json, RenderError> {
    match value {
        Json::String(text) if text.is_empty() => Ok(Json::Null),
        Json::String(text) => list(&text, "tool_calls").map(Json::List),
        value @ (Json::Null | Json::List(_)) => Ok(value),
        other => {
            Err(error(format!("its tool_calls are {}, and must be a list", kind(&other)), "correct them"))
        }
    }
}

/// ShareGPT's message whose content is a call, as one with a call.
fn function_call(message: &Json) -> Result<Json, RenderError> {
    let text = message.get("content").and_then(Json::as_str).unwrap_or_default();
    let parsed = Json::parse(text).map_err(|e| not_json("value", &e))?;
    let calls = items(parsed).into_iter().map(|call| match call.get("name") {
        Some(Json::String(_)) => Ok(Json::Object(vec![
            ("type".to_owned(), Json::String("function".to_owned())),
            ("function".to_owned(), call),
        ])),
        _ => Err(error(
            "its role is \"function_call\", and its value has no \"name\"".to_owned(),
            "make it {\"name\": ..., \"arguments\": ...}",
        )),
    });
    let calls = Json::List(calls.collect::<Result<_, _>>()?);
    Ok(Json::Object(vec![
        ("role".to_owned(), Json::String("assistant".to_owned())),
        ("content".to_owned(), Json::String(String::new())),
        ("tool_calls".to_owned(), calls),
    ]))
}

/// Removes the entries of all objects whose value is null.
fn remove_nulls(value: &mut Json) {
    match value {
        Json::List(items) => items.iter_mut().for_each(remove_nulls),
        Json::Object(entries) => {
            entries.retain(|(_, value)| !matches!(value, Json::Null));
            entries.iter_mut().for_each(|(_, value)| remove_nulls(value));
        }
        _ => (),
    }
}
