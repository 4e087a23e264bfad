//! Parses a config: the text becomes one generic value, settings change it, then the structs are read from
//! it.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Reads TOML, JSON or YAML, by extension, as one kind of value.
pub(super) fn value(path: &Path, text: &str) -> Result<Value> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let value: std::result::Result<Value, String> = match extension {
        "toml" => toml::from_str(text).map_err(|e| e.to_string()).and_then(|value| finite(value, "")),
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

/// Sets `a.b=value` in `root`, creating tables as needed. A number names an element of a list.
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
                part.parse().ok().and_then(|index: usize| list.get_mut(index)).ok_or_else(|| {
                    Error::config(key, format!("`{part}` is not an element of a list of {len}"))
                })?
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
    let literal = finite(literal(text.trim()), key.trim());
    *place = literal.map_err(|problem| Error::config(setting, problem))?;
    Ok(())
}

/// Refuses `nan` and `inf`: both are read as null, which TOML does not have.
fn finite(value: Value, key: &str) -> std::result::Result<Value, String> {
    fn find(value: &Value, key: &str) -> Option<String> {
        let under = |name: &str| if key.is_empty() { name.to_owned() } else { format!("{key}.{name}") };
        match value {
            Value::Null => Some(key.to_owned()),
            Value::Array(list) => {
                list.iter().enumerate().find_map(|(at, value)| find(value, &under(&at.to_string())))
            }
            Value::Object(table) => table.iter().find_map(|(name, value)| find(value, &under(name))),
            _ => None,
        }
    }
    match find(&value, key) {
        None => Ok(value),
        Some(key) => Err(format!("{key} must be a finite number, and not nan or inf")),
    }
}

/// Reads a value as TOML, or as a string if it is not valid TOML.
fn literal(text: &str) -> Value {
    let document = format!("value = {text}");
    toml::from_str::<Map<String, Value>>(&document)
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Reads the structs. An error names the wrong key or value by its dotted path.
pub(super) fn config<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_path_to_error::deserialize(value).map_err(|e| {
        // As `--set` writes it: source.0.kind, and not source[0].kind.
        let path = e.path().to_string().replace('[', ".").replace(']', "");
        let problem = e.inner().to_string();
        Error::config(path, unknown(&problem).unwrap_or(problem))
    })
}

/// The message for an unknown name, made from serde's. Its form has not changed since 1.0: "unknown field
/// `x`, expected one of `a`, `b`".
fn unknown(problem: &str) -> Option<String> {
    let (what, names) = match problem.strip_prefix("unknown field ") {
        Some(names) => ("key", names),
        None => ("value", problem.strip_prefix("unknown variant ")?),
    };
    let mut quoted = names.split('`').skip(1).step_by(2);
    let name = quoted.next()?;
    let known: Vec<&str> = quoted.collect();
    let likeness = |known: &str| strsim::jaro_winkler(name, known);
    let nearest = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let advice = match nearest {
        Some(nearest) if likeness(nearest) > 0.7 => format!("did you mean `{nearest}`?"),
        _ => format!("it can be {}", known.join(", ")),
    };
    Some(format!("unknown {what} `{name}`; {advice}"))
}
