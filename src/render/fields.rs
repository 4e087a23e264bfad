//! The fields of records: what they are called, and what is in them.

use std::fmt::Display;

use super::RenderError;
use super::json::{Json, Key};

/// The fields of an object, in order.
pub(super) type Entries = Vec<(Key, Json)>;

/// What a value is, in words.
pub(super) fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Int(_) | Json::Float(_) => "a number",
        Json::String(_) => "a string",
        Json::List(_) => "a list",
        Json::Object(_) => "an object",
    }
}

/// The error for a value of the wrong kind.
pub(super) fn must_be(what: impl Display, value: &Json, wanted: &str) -> RenderError {
    RenderError::new(format!("{what} is {}, and must be {wanted}", kind(value)), "correct it")
}

pub(super) fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
    if names.is_empty() { "none at all".to_owned() } else { names.join(", ") }
}

pub(super) fn not_json(name: &str, cause: &serde_json::Error) -> RenderError {
    RenderError::new(
        format!("its field {name:?} is a string that is not JSON: {}", said(cause)),
        "correct it",
    )
}

/// What is wrong with a JSON text of one line.
pub(super) fn said(cause: &serde_json::Error) -> String {
    let text = cause.to_string();
    format!("{} at column {}", text.split(" at line ").next().unwrap_or(&text), cause.column())
}

/// The first name of a dotted path.
pub(super) fn first_name(path: &str) -> &str {
    path.split_once('.').map_or(path, |(first, _)| first)
}

pub(super) fn get<'a>(entries: &'a Entries, name: &str) -> Option<&'a Json> {
    entries.iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

/// Takes a field out of an object: by its whole name, or what its dots lead to. Null stays, and is none.
pub(super) fn take(entries: &mut Entries, name: &str) -> Option<Json> {
    if is_null(entries, name) {
        return None;
    }
    take_key(entries, name).or_else(|| {
        let (first, rest) = name.split_once('.')?;
        match entries.iter_mut().find(|(key, _)| key == first)? {
            (_, Json::Object(within)) => take(within, rest),
            _ => None,
        }
    })
}

/// Takes a field out of an object by its whole name.
pub(super) fn take_key(entries: &mut Entries, name: &str) -> Option<Json> {
    let at = entries.iter().position(|(key, _)| key == name)?;
    Some(entries.remove(at).1)
}

pub(super) fn is_null(entries: &Entries, name: &str) -> bool {
    matches!(get(entries, name), Some(Json::Null))
}

pub(super) fn items(value: Json) -> Vec<Json> {
    match value {
        Json::List(items) => items,
        other => vec![other],
    }
}

/// Whether a value is there and says nothing.
pub(super) fn is_empty(value: &Json) -> bool {
    match value {
        Json::Null => true,
        Json::List(items) => items.is_empty(),
        Json::String(text) => text.is_empty(),
        _ => false,
    }
}

/// The list that a string holds as JSON; `None` if that is null.
pub(super) fn list(text: &str, name: &str) -> Result<Option<Vec<Json>>, RenderError> {
    match Json::parse(text).map_err(|e| not_json(name, &e))? {
        Json::Null => Ok(None),
        Json::List(items) => Ok(Some(items)),
        other => Err(must_be(format!("its field {name:?}, as JSON,"), &other, "a list")),
    }
}
