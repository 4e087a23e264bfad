//! Fills the structs from values, and says in plain words what does not fit: serde's own messages would name Rust's types.

use std::fmt;
use std::slice;

use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{self, DeserializeOwned, Deserializer, Expected, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::Value;
use serde_path_to_error::Segment;

use super::keys::{self, Section, TRAINER};
use super::tree::shown;
use super::{Config, SourceKind};
use crate::error::{Error, Result};

/// Fills the loader's part of a config, with a source for each value of `mixture.by`. Tables of a trainer are its own.
///
/// # Errors
/// As [`fill`].
pub fn fill_loader(values: &Value, sections: fn() -> Vec<Section>) -> Result<Config> {
    let mut values = values.clone();
    if let Value::Object(tables) = &mut values {
        tables.retain(|name, _| !TRAINER.contains(&name.as_str()));
    }
    check_kinds(&values)?;
    fill::<Config>(&values, sections)?.with_sources_by_value()
}

/// Refuses a source without a kind if one of its paths ends like files of another format: they would be read as plain
/// text, with all of their quotes and keys.
fn check_kinds(values: &Value) -> Result<()> {
    let sources = values["source"].as_array().into_iter().flatten();
    for (index, source) in sources.enumerate().filter(|(_, source)| source["kind"].is_null()) {
        let paths = &source["paths"];
        let mut paths = paths.as_array().map_or(slice::from_ref(paths), Vec::as_slice).iter();
        let other = |name: &str| SourceKind::of_name(name).filter(|kind| *kind != SourceKind::default());
        if let Some((name, kind)) = paths.find_map(|path| Some((path, other(path.as_str()?)?))) {
            let problem = format!(
                "it is not set, and {name} names {kind} files; set kind = \"{kind}\", or \"{}\" to read them as they stand",
                SourceKind::default()
            );
            return Err(Error::config(format!("source.{index}.kind"), problem));
        }
    }
    Ok(())
}

/// Fills a struct. What an unknown key may have meant is looked for in all sections, the first of which is the top.
///
/// # Errors
/// [`Error::Config`] with the key.
pub fn fill<T: DeserializeOwned>(values: &Value, sections: fn() -> Vec<Section>) -> Result<T> {
    serde_path_to_error::deserialize(Fill(values)).map_err(|error| {
        let (mut key, mut value) = (Vec::new(), values);
        for segment in error.path() {
            match segment {
                Segment::Map { key: name } => {
                    key.push(name.clone());
                    value = &value[name];
                }
                Segment::Seq { index } => {
                    key.push(index.to_string());
                    value = &value[index];
                }
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        let problem = match error.into_inner() {
            Problem::UnknownKey(name, known) => {
                let sections = sections();
                let known = match key.len() {
                    1 => sections[0].keys.clone(),
                    _ => known.iter().map(|key| (*key).to_owned()).collect(),
                };
                format!("unknown key `{name}`; {}", keys::advice(&name, &known, &sections))
            }
            Problem::Said(list) if list == "must be a list" && value.is_object() => {
                format!("{list}, not a table; in TOML its header has two brackets, as [[source]] has")
            }
            Problem::Said(must) if must.starts_with("must be ") => {
                // A type without negative numbers says no more than that.
                let is_of_type = must.ends_with("a whole number of at least 0");
                let is_negative = value.as_i64().is_some_and(|n| n < 0);
                let bound = (is_of_type && is_negative).then(|| keys::bound(&key, &sections())).flatten();
                let must = bound.map_or(must, |bound| format!("must be {bound}"));
                format!("{must}, not {}", shown(value))
            }
            Problem::Said(problem) => problem,
        };
        Error::config(key.join("."), problem)
    })
}

/// What does not fit.
#[derive(Debug, thiserror::Error)]
enum Problem {
    /// If it begins with "must be", the value is still to be added.
    #[error("{0}")]
    Said(String),
    /// The key, and those that may stand in its place.
    #[error("unknown key `{0}`")]
    UnknownKey(String, &'static [&'static str]),
}

impl de::Error for Problem {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self::Said(problem.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::Said(format!("must be {}", plain(&wanted.to_string())))
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        Self::invalid_type(found, wanted)
    }

    fn invalid_length(len: usize, wanted: &dyn Expected) -> Self {
        let size: String = wanted.to_string().chars().filter(char::is_ascii_digit).collect();
        Self::Said(format!("must have {size} values, not {len}"))
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        Self::Said(format!("unknown value `{word}`; {}", keys::advice_of_words(word, known)))
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        Self::UnknownKey(key.to_owned(), known)
    }

    fn missing_field(key: &'static str) -> Self {
        Self::Said(format!("must have the key `{key}`"))
    }
}

/// What serde wants, in plain words.
fn plain(wanted: &str) -> &str {
    match wanted {
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number of at least 0",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a string" | "path string" => "text in quotes",
        "a sequence" => "a list",
        "a tuple of size 2" => "a list of 2 values",
        table if table == "a map" || table.starts_with("struct ") => "a table",
        // Structs and enums that say themselves how they are written.
        own => own,
    }
}

/// One value, to be read as what serde asks for.
struct Fill<'v>(&'v Value);

impl<'de> IntoDeserializer<'de, Problem> for Fill<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Fill<'de> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(number), _) => visitor.visit_u64(number),
                (_, Some(number)) => visitor.visit_i64(number),
                _ => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_str(text),
            Value::Array(list) => {
                SeqDeserializer::<_, Problem>::new(list.iter().map(Fill)).deserialize_any(visitor)
            }
            Value::Object(table) => {
                let entries = table.iter().filter(|(_, value)| !value.is_null());
                MapDeserializer::<_, Problem>::new(entries.map(entry)).deserialize_any(visitor)
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// A list is not read as a struct, and an unknown key is refused even if it is absent.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let Value::Object(table) = self.0 else {
            return Err(de::Error::invalid_type(Unexpected::Other("no table"), &visitor));
        };
        let is_known = |key: &str| keys.contains(&key);
        let entries = table.iter().filter(|(key, value)| !value.is_null() || !is_known(key));
        MapDeserializer::<_, Problem>::new(entries.map(entry)).deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        match self.0 {
            Value::String(word) => visitor.visit_enum(StrDeserializer::<Problem>::new(word)),
            _ => {
                let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
                Err(Problem::Said(format!("must be {}", words.join(" or "))))
            }
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Problem> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

/// An entry of a table, its value to be read.
fn entry<'v>((key, value): (&'v String, &'v Value)) -> (&'v str, Fill<'v>) {
    (key, Fill(value))
}
