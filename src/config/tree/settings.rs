//! Settings over a config: `key=value` as in `--set`.

use serde_json::{Map, Value};

use super::shown;
use super::value::literal;
use crate::error::{ConfigPlace, Error, Result};

/// Sets `a.b=value`, making tables as needed, and returns the key with numbers for names. A list's element is named by its
/// number or, if it is a table with a `name`, by that. A value is TOML, or else text. Without a value, as in `a.b=`, the key
/// is unset: it is null.
pub(super) fn set(root: &mut Value, setting: &str) -> Result<String> {
    let wrong = |key: &str, problem: String| {
        Err(Error::config(key, problem).at(ConfigPlace::Setting(setting.to_owned())))
    };
    let Some((key, text)) = setting.split_once('=') else {
        let problem = "a setting is key=value, such as train.steps=100, or key= to unset a key";
        return wrong(setting, problem.to_owned());
    };
    let (key, text) = (key.trim(), text.trim());
    let mut parts: Vec<String> = key.split('.').map(str::to_owned).collect();
    let mut node = root;
    let mut is_element = false;
    for part in &mut parts {
        // A choice such as on_error = "fail" may become a table.
        if matches!(node, Value::Null | Value::String(_)) {
            if text.is_empty() {
                // Nothing to unset. If the key so far is unknown, it will be refused.
                return Ok(parts.join("."));
            }
            *node = Value::Object(Map::new());
        }
        is_element = node.is_array();
        node = match node {
            Value::Array(list) => match element(list, part) {
                Ok(index) => {
                    *part = index.to_string();
                    &mut list[index]
                }
                Err(problem) => return wrong(key, problem),
            },
            Value::Object(table) => table.entry(part.as_str()).or_insert(Value::Null),
            other => return wrong(key, format!("`{part}` cannot be set in {}", shown(other))),
        };
    }
    if text.is_empty() && is_element {
        return wrong(key, "only keys can be unset; set the whole list".to_owned());
    }
    *node = match text {
        "" => Value::Null,
        text => literal(text).unwrap_or_else(|| text.into()),
    };
    Ok(parts.join("."))
}

/// The number of the element that is called `part`.
fn element(list: &[Value], part: &str) -> Result<usize, String> {
    let names: Vec<Option<&str>> = list.iter().map(|element| element.get("name")?.as_str()).collect();
    if let Some(index) = names.iter().position(|name| *name == Some(part)) {
        return Ok(index);
    }
    if let Some(index) = part.parse().ok().filter(|index| *index < list.len()) {
        return Ok(index);
    }
    let names: Vec<String> = names.into_iter().flatten().map(|name| format!("`{name}`")).collect();
    let called =
        if names.is_empty() { String::new() } else { format!("; they are called {}", names.join(", ")) };
    Err(match list.len() {
        1 => format!("`{part}` is not in the list: it has one element, 0{called}"),
        len => format!("`{part}` is not in the list: it has {len} elements, counted from 0{called}"),
    })
}
