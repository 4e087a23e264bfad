//! Records in Alpaca's form, and what ShareGPT's have beside their messages.

use super::RenderError;
use super::conversation::message;
use super::fields::{Entries, get, items, must_be, take};
use super::json::Json;

/// The fields of Alpaca, and those that tell it from other records.
pub(super) const ALPACA: [&str; 3] = ["instruction", "input", "output"];
pub(crate) const IS_ALPACA: [&str; 2] = ["instruction", "output"];

/// The messages of a record in Alpaca's form, with its earlier turns; `None` if it is in another.
pub(super) fn alpaca(record: &mut Entries) -> Result<Option<Vec<Json>>, RenderError> {
    if !IS_ALPACA.iter().all(|name| get(record, name).is_some()) {
        return Ok(None);
    }
    let [instruction, input, output] = ALPACA.map(|name| match take(record, name) {
        None if name != "output" => Ok(String::new()),
        None => Err(RenderError::new(format!("its field {name:?} is null"), "correct it")),
        Some(Json::String(text)) => Ok(text),
        Some(other) => Err(must_be(format!("its field {name:?}"), &other, "a string")),
    });
    let (mut user, input) = (instruction?, input?);
    if !input.is_empty() {
        user.push('\n');
        user.push_str(&input);
    }
    let output = output?;
    let mut messages = history(record)?;
    messages.extend(turn(user, output));
    Ok(Some(messages))
}

/// The system prompt that a record has beside its messages, as Anthropic's form has it, if it does.
pub(super) fn system(record: &mut Entries) -> Result<Option<Json>, RenderError> {
    match take(record, "system") {
        Some(Json::String(system)) if system.is_empty() => Ok(None),
        Some(system @ Json::String(_)) => Ok(Some(message("system", system))),
        None => Ok(None),
        Some(other) => Err(must_be("its field \"system\"", &other, "a string")),
    }
}

/// The earlier turns that records in ShareGPT's and Alpaca's form have in another field.
pub(super) fn history(record: &mut Entries) -> Result<Vec<Json>, RenderError> {
    let mut turns = Vec::new();
    for pair in take(record, "history").into_iter().flat_map(items) {
        match <[Json; 2]>::try_from(items(pair)) {
            Ok([Json::String(user), Json::String(assistant)]) => turns.extend(turn(user, assistant)),
            _ => {
                let what = "its field \"history\" must be a list of pairs of strings";
                return Err(RenderError::new(what, "correct it"));
            }
        }
    }
    Ok(turns)
}

fn turn(user: String, assistant: String) -> [Json; 2] {
    [message("user", Json::String(user)), message("assistant", Json::String(assistant))]
}
