//! Records in Alpaca's form, and what ShareGPT's have beside their messages.

use super::RenderError;
use super::fields::{Entries, get, items, kind, take};
use super::json::Json;

/// The fields of Alpaca, and those that tell it from other records.
pub(super) const ALPACA: [&str; 3] = ["instruction", "input", "output"];
pub(crate) const IS_ALPACA: [&str; 2] = ["instruction", "output"];

fn message(role: &str, content: String) -> Json {
    Json::Object(vec![
        ("role".into(), Json::String(role.to_owned())),
        ("content".into(), Json::String(content)),
    ])
}

/// The messages of a record in Alpaca's form; `None` if it is in another.
pub(super) fn alpaca(record: &mut Entries) -> Result<Option<Vec<Json>>, RenderError> {
    if !IS_ALPACA.iter().all(|name| get(record, name).is_some()) {
        return Ok(None);
    }
    let [instruction, input, output] = ALPACA.map(|name| match take(record, name) {
        None if name != "output" => Ok(String::new()),
        None => Err(RenderError::new(format!("its field {name:?} is null"), "correct it")),
        Some(Json::String(text)) => Ok(text),
        Some(other) => Err(RenderError::new(
            format!("its field {name:?} is {}, and must be a string", kind(&other)),
            "correct it",
        )),
    });
    let (mut user, input) = (instruction?, input?);
    if !input.is_empty() {
        user.push('\n');
        user.push_str(&input);
    }
    Ok(Some(vec![message("user", user), message("assistant", output?)]))
}

/// The system prompt that a record has beside its messages, as Anthropic's form has it, if it does.
pub(super) fn system(record: &mut Entries) -> Result<Option<Json>, RenderError> {
    match take(record, "system") {
        Some(Json::String(system)) if !system.is_empty() => Ok(Some(message("system", system))),
        None | Some(Json::String(_)) => Ok(None),
        Some(other) => Err(RenderError::new(
            format!("its field \"system\" is {}, and must be a string", kind(&other)),
            "correct it",
        )),
    }
}

/// The messages with those that records in ShareGPT's and Alpaca's form have in other fields: the system prompt, and
/// earlier turns.
pub(super) fn with_earlier(record: &mut Entries, messages: Vec<Json>) -> Result<Vec<Json>, RenderError> {
    let mut earlier: Vec<Json> = system(record)?.into_iter().collect();
    for pair in take(record, "history").into_iter().flat_map(items) {
        let [Json::String(user), Json::String(assistant)] = &*items(pair) else {
            return Err(RenderError::new(
                "its field \"history\" must be a list of pairs of strings".to_owned(),
                "correct it",
            ));
        };
        earlier.extend([message("user", user.clone()), message("assistant", assistant.clone())]);
    }
    earlier.extend(messages);
    Ok(earlier)
}
