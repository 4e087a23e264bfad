//! A config before its structs are filled: the values of its text, and those that lie over them.
//!
//! TOML, JSON and YAML become the same values, and settings change them. Nothing is checked here but the syntax. Only an
//! error asks where a key is written: the answer is its line in TOML, and its file in JSON and YAML.

use std::ffi::OsStr;
use std::io;
use std::iter;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};
use serde_saphyr::UserMessageFormatter;
use toml::de::{DeTable, DeValue};

use super::keys::Section;
use crate::bounded;
use crate::error::{ConfigPlace, Error, Result};

mod settings;
mod value;

pub use value::AnyValue;

/// The most bytes of a config.
const BYTES: u64 = 64 << 20;

/// The longest list that messages show, in bytes of JSON.
const SHOWN: usize = 60;

/// The values of a config, and what they come from.
#[derive(Debug)]
pub struct Tree {
    /// All of them: those of the text, and what lies over them.
    values: Value,
    text: String,
    file: Option<PathBuf>,
    /// The values of the text.
    written: Value,
    /// The values that the caller sets.
    caller: Value,
    settings: Vec<(String, String)>,
}

impl Tree {
    /// Reads a file. Its extension says which format it is.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read, [`Error::Config`] if it has no values.
    pub fn from_file(file: &Path) -> Result<Self> {
        if file.is_dir() {
            let problem = match file.join("config.toml").is_file() {
                true => "this is a directory, and a config is a file; name the config.toml in it",
                false => "this is a directory, and a config is a file; name that",
            };
            return Err(Error::config(file.display().to_string(), problem));
        }
        let bytes = bounded::read_any(file, BYTES);
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
        Self::new(text.map_err(|e| Error::io(file, "read the config", e))?, Some(file.to_owned()))
    }

    /// Reads text in TOML that is from no file.
    ///
    /// # Errors
    /// [`Error::Config`] if it is not TOML.
    pub fn from_toml(text: &str) -> Result<Self> {
        Self::new(text.to_owned(), None)
    }

    fn new(text: String, file: Option<PathBuf>) -> Result<Self> {
        // What an error about the whole text has as its key.
        let name = file.as_ref().map_or_else(|| "config".to_owned(), |file| file.display().to_string());
        let extension = file.as_ref().map_or(Some("toml"), |file| file.extension().and_then(OsStr::to_str));
        let (format, read) = match extension {
            Some("toml") => {
                let read = toml::from_str(&text);
                let place = |span: std::ops::Range<usize>| line_and_column(&text, span.start);
                ("TOML", read.map_err(|e| (e.span().map(place), e.message().to_owned())))
            }
            Some("json") => {
                let read = serde_json::from_str(&text);
                ("JSON", read.map_err(|e| (Some((e.line() as u64, e.column() as u64)), e.to_string())))
            }
            Some("yaml" | "yml") => {
                let read = serde_saphyr::from_str(&text);
                let said = |e: &serde_saphyr::Error| e.render_with_formatter(&UserMessageFormatter);
                let problem = |e: serde_saphyr::Error| {
                    (e.location().map(|at| (at.line(), at.column())), said(e.without_snippet()))
                };
                ("YAML", read.map_err(problem))
            }
            _ => return Err(Error::config(name, "a config is a .toml, .json, .yaml or .yml file")),
        };
        let written = match read {
            Ok(AnyValue(Value::Null)) => json!({}),
            Ok(AnyValue(table @ Value::Object(_))) => table,
            Ok(AnyValue(other)) => {
                let problem = format!("a config is a table of keys, and this is {}", shown(&other));
                return Err(Error::config(name, problem));
            }
            Err((place, said)) => {
                // The place stands before the message already.
                let said = said.split_once(" at line ").map_or(said.as_str(), |(said, _)| said);
                let error = Error::config(name, format!("not valid {format}: {said}"));
                return Err(match place {
                    Some((line, column)) => error.at(ConfigPlace::Line { file, line, column }),
                    None => error,
                });
            }
        };
        Ok(Self { values: written.clone(), text, file, written, caller: json!({}), settings: Vec::new() })
    }

    /// Lies the caller's values over these, key by key.
    pub(super) fn with(mut self, caller: &Value) -> Result<Self> {
        if !caller.is_object() {
            return Err(Error::config("config", format!("must be a table of keys, not {}", shown(caller))));
        }
        merge(&mut self.values, caller.clone(), Null::Unsets);
        Ok(Self { caller: caller.clone(), ..self })
    }

    /// Lies settings over these.
    ///
    /// # Errors
    /// [`Error::Config`] for one that is not `key=value`.
    pub fn set(mut self, settings: &[String]) -> Result<Self> {
        for setting in settings {
            let key = settings::set(&mut self.values, setting)?;
            self.settings.push((key, setting.clone()));
        }
        Ok(self)
    }

    /// Lies these over a config: what is absent here is as it is there.
    ///
    /// # Errors
    /// [`Error::Config`] if the config cannot be written.
    pub fn over(self, base: &impl Serialize) -> Result<Self> {
        let mut values = serde_json::to_value(base).map_err(|e| Error::config("config", e.to_string()))?;
        merge(&mut values, self.values, Null::IsAbsent);
        Ok(Self { values, ..self })
    }

    /// Makes a config of the values. A key that is null is absent.
    ///
    /// # Errors
    /// Those of `make`, each with the place of its key.
    pub fn read<T>(&self, make: impl FnOnce(&Value) -> Result<T>) -> Result<T> {
        make(&self.values).map_err(|error| {
            let Error::Config { key, .. } = &error else { return error };
            match self.place(key) {
                Some(place) => error.at(place),
                None => error,
            }
        })
    }

    /// Where a key is written that one of the sections has, or else the innermost table around it. The first section is
    /// the top.
    pub fn locate(&self, key: &str, sections: &[Section]) -> Option<ConfigPlace> {
        let table = key.split('.').next().unwrap_or_default();
        self.place(key).filter(|_| sections[0].keys.iter().any(|name| name == table))
    }

    /// Where the key is written, such as `pipeline.lanes` or `source.0.paths`, or else the innermost table around it.
    fn place(&self, key: &str) -> Option<ConfigPlace> {
        let last = |is_it: &dyn Fn(&str) -> bool| {
            let last = self.settings.iter().rev().find(|(of, _)| is_it(of));
            last.map(|(_, setting)| ConfigPlace::Setting(setting.clone()))
        };
        if let Some(setting) = last(&|of| is_within(key, of)) {
            return Some(setting);
        }
        let file = || self.file.clone().map(ConfigPlace::File);
        let around = iter::successors(Some(key), |key| Some(key.rsplit_once('.')?.0));
        for key in around {
            let pointer = format!("/{}", key.replace('.', "/"));
            if self.caller.pointer(&pointer).is_some() {
                return None;
            }
            if self.written.pointer(&pointer).is_some() {
                return self.line(key).or_else(file);
            }
            // A table that was made for a setting.
            if let Some(setting) = last(&|of| is_within(of, key)) {
                return Some(setting);
            }
        }
        file()
    }

    /// The line that a key begins at or, in a list, an element. `None` if the text is not TOML.
    fn line(&self, key: &str) -> Option<ConfigPlace> {
        let root = DeTable::parse(&self.text).ok()?;
        let mut parts = key.split('.');
        let (name, mut value) = root.get_ref().get_key_value(parts.next()?)?;
        let mut begin = name.span().start;
        for part in parts {
            (begin, value) = match value.get_ref() {
                DeValue::Table(table) => {
                    let (name, value) = table.get_key_value(part)?;
                    (name.span().start, value)
                }
                DeValue::Array(list) => {
                    let value = list.get(part.parse::<usize>().ok()?)?;
                    (value.span().start, value)
                }
                _ => return None,
            };
        }
        let (line, column) = line_and_column(&self.text, begin);
        Some(ConfigPlace::Line { file: self.file.clone(), line, column })
    }
}

/// How messages show a value: a list only if it is short and has no tables.
pub(super) fn shown(value: &Value) -> String {
    let written = value.to_string();
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Array(_) if written.len() > SHOWN || written.contains('{') => "a list".to_owned(),
        Value::Object(_) => "a table".to_owned(),
        _ => written,
    }
}

/// What a null over a value means.
#[derive(Clone, Copy, PartialEq)]
enum Null {
    Unsets,
    IsAbsent,
}

/// Lies a value over another, key by key.
fn merge(below: &mut Value, over: Value, null: Null) {
    match (below, over) {
        (_, Value::Null) if null == Null::IsAbsent => {}
        (Value::Object(below), Value::Object(over)) => {
            for (key, value) in over {
                merge(below.entry(key).or_insert(Value::Null), value, null);
            }
        }
        (below, over) => *below = over,
    }
}

/// Whether a key is another one, or within it.
fn is_within(key: &str, table: &str) -> bool {
    key.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The line and the column (in characters) of a byte, both from 1.
fn line_and_column(text: &str, byte: usize) -> (u64, u64) {
    let before = &text.as_bytes()[..byte.min(text.len())];
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let begin = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let column = String::from_utf8_lossy(&before[begin..]).chars().count() + 1;
    (line as u64, column as u64)
}
