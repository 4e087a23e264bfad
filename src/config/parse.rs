//! From a file's text to a config: one generic value, then the settings over it, then the structs.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Reads TOML, JSON or YAML, by extension, as one kind of value.
pub(super) fn value(path: &Path, text: &str) -> Result<Value> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let value: std::result::Result<Value, String> = match extension {
        "toml" => toml::from_str(text).map_err(|e| e.to_string()),
        "json" => serde_json::from_str(text).map_err(|e| e.to_string()),
        "yaml" | "yml" => serde_saphyr::from_str(text).map_err(|e| e.to_string()),
        _ => Err("a config is a .toml, .json, .yaml or .yml file".to_owned()),
    };
    match value {
        Ok(Value::Null) => Ok(Value::Object(Map::new())),
        Ok(value @ Value::Object(_)) => Ok(value),
        Ok(_) => Err(Error::config(path.display().to_string(), "a config is a table of keys")),
        Err(problem) => Err(Error::config(path.display().to_string(), problem.trim_end())),
    }
}

/// Sets `a.b=value` in `root`, making tables on the way. A number names an element of a list.
pub(super) fn set(root: &mut Value, setting: &str) -> Result<()> {
    let (key, text) = setting
        .split_once('=')
        .ok_or_else(|| Error::config(setting, "a setting is key=value, such as train.steps=100"))?;
    let mut place = root;
    for part in key.trim().split('.') {
        let no_key = |value: &Value| Error::config(key, format!("cannot set `{part}` inside {value}"));
        place = match place {
            Value::Array(list) => {
                let len = list.len();
                part.parse()
                    .ok()
                    .and_then(|index: usize| list.get_mut(index))
                    .ok_or_else(|| Error::config(key, format!("`{part}` is no element of a list of {len}")))?
            }
            Value::Object(table) => table.entry(part).or_insert(Value::Object(Map::new())),
            // An inline choice such as `on_error = "fail"` may become a table.
            other if other.is_string() || other.is_null() => {
                *other = Value::Object(Map::new());
                other
                    .as_object_mut()
                    .map(|table| table.entry(part).or_insert(Value::Null))
                    .ok_or_else(|| Error::config(key, "not a table"))?
            }
            other => return Err(no_key(other)),
        };
    }
    *place = literal(text.trim());
    Ok(())
}

/// A value as TOML writes it; anything else is a string.
fn literal(text: &str) -> Value {
    let document = format!("value = {text}");
    toml::from_str::<Map<String, Value>>(&document)
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// The structs; a wrong key or value is named by its dotted path.
pub(super) fn config<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_path_to_error::deserialize(value).map_err(|e| {
        let (path, problem) = (e.path().to_string(), e.inner().to_string());
        match unknown_key(&problem) {
            Some((key, known)) => {
                let near = known
                    .iter()
                    .max_by(|a, b| strsim::jaro_winkler(key, a).total_cmp(&strsim::jaro_winkler(key, b)));
                let advice = match near {
                    Some(near) if strsim::jaro_winkler(key, near) > 0.7 => format!("did you mean `{near}`?"),
                    _ => format!("the keys here are {}", known.join(", ")),
                };
                Error::config(path, format!("unknown key `{key}`; {advice}"))
            }
            None => Error::config(path, problem),
        }
    })
}

/// The unknown name and the known ones in serde's message, which has had one form since serde 1.0:
/// "unknown field `x`, expected one of `a`, `b`".
fn unknown_key(problem: &str) -> Option<(&str, Vec<&str>)> {
    let names =
        problem.strip_prefix("unknown field ").or_else(|| problem.strip_prefix("unknown variant "))?;
    let mut quoted = names.split('`').skip(1).step_by(2);
    Some((quoted.next()?, quoted.collect()))
}
