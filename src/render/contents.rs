//! What stands in one message: its content, its calls, and whether it is learned from.

use super::RenderError;
use super::conversation::About;
use super::fields::{Entries, get, items, kind, list, must_be, not_json, take_key};
use super::json::Json;

/// The keys by which a message, or a part of one, says whether it is learned from.
const LEARNED: [&str; 4] = ["train", "training", "weight", "loss_mask"];

/// Takes out the keys by which an object says whether it is learned from.
pub(super) fn own_choice(entries: &mut Entries) -> Result<Option<bool>, RenderError> {
    let mut choice: Option<(&str, bool)> = None;
    for name in LEARNED {
        let own = match take_key(entries, name) {
            None | Some(Json::Null) => continue,
            Some(Json::Bool(learned)) => learned,
            Some(Json::Int(weight @ (0 | 1))) => weight == 1,
            Some(Json::Float(weight)) if weight == 0.0 || weight == 1.0 => weight == 1.0,
            Some(_) => {
                return Err(RenderError::new(
                    format!("its {name:?} must be true, false, 0 or 1; other weights are not supported"),
                    "correct it",
                ));
            }
        };
        match choice {
            Some((other, chosen)) if chosen != own => {
                return Err(RenderError::new(
                    format!("its {other:?} and its {name:?} contradict each other"),
                    "keep one of them",
                ));
            }
            _ => choice = Some((name, own)),
        }
    }
    Ok(choice.map(|(_, own)| own))
}

/// Whether a value is a list of parts of which one says whether it is learned from.
pub(super) fn has_choices(value: &Json) -> bool {
    let says = |part: &Json| matches!(part.get("train"), Some(Json::Bool(_)));
    matches!(value, Json::List(parts) if parts.iter().any(says))
}

/// Checks a message's content, and takes out what its parts say of themselves.
pub(super) fn check_content(content: &mut Json, about: &About) -> Result<Vec<Option<bool>>, RenderError> {
    match content {
        Json::Null | Json::String(_) => Ok(Vec::new()),
        Json::List(parts) => {
            let own = parts.iter_mut().enumerate().map(|(number, part)| match part {
                Json::Object(entries) => {
                    check_part(number, entries)?;
                    own_choice(entries)
                }
                _ => Ok(None),
            });
            own.collect()
        }
        // What a tool gives back may be anything.
        _ if about.is_tool() => Ok(Vec::new()),
        other => Err(must_be("its content", other, "a string or a list of parts")),
    }
}

/// Refuses a part that should have a text and has none.
fn check_part(number: usize, entries: &Entries) -> Result<(), RenderError> {
    let is_text = get(entries, "type").is_none_or(|kind| kind.as_str() == Some("text"));
    if !is_text || get(entries, "text").is_some_and(|text| text.as_str().is_some()) {
        return Ok(());
    }
    let what = get(entries, "text").map_or("not there", kind);
    Err(RenderError::new(
        format!("the \"text\" of part {} of its content is {what}, and must be a string", number + 1),
        "correct it",
    ))
}

/// The calls of a message, which may be JSON in a string.
pub(super) fn calls(value: Json) -> Result<Json, RenderError> {
    match value {
        Json::String(text) if text.is_empty() => Ok(Json::Null),
        Json::String(text) => Ok(list(&text, "tool_calls")?.map_or(Json::Null, Json::List)),
        value @ (Json::Null | Json::List(_)) => Ok(value),
        other => Err(must_be("its field \"tool_calls\"", &other, "a list")),
    }
}

/// ShareGPT's message whose content is a call, as one with a call.
pub(super) fn function_call(message: &Json) -> Result<Json, RenderError> {
    let text = message.get("content").and_then(Json::as_str).unwrap_or_default();
    let parsed = Json::parse(text).map_err(|e| not_json("value", &e))?;
    let calls = items(parsed).into_iter().map(|call| match call.get("name") {
        Some(Json::String(_)) => Ok(Json::Object(vec![
            ("type".into(), Json::String("function".to_owned())),
            ("function".into(), call),
        ])),
        _ => Err(RenderError::new(
            "its role is \"function_call\", and its value has no \"name\"".to_owned(),
            "make it {\"name\": ..., \"arguments\": ...}",
        )),
    });
    let calls = Json::List(calls.collect::<Result<_, _>>()?);
    Ok(Json::Object(vec![
        ("role".into(), Json::String("assistant".to_owned())),
        ("content".into(), Json::String(String::new())),
        ("tool_calls".into(), calls),
    ]))
}
