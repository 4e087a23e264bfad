//! Fills the structs from the tree.
//!
//! serde's derive asks for what it wants, a number or one of some words, and here every answer is given or refused in
//! the words of people. Its own messages would name Rust's types.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::bounds::{self, Bound};
use super::keys;
use super::tree::{Node, Value};

/// What is wrong with a tree.
#[derive(Debug, PartialEq)]
pub(super) struct Problem {
    /// The dotted key.
    pub(super) key: String,
    pub(super) problem: String,
}

/// Fills a struct.
pub(super) fn fill<T: DeserializeOwned>(tree: &Node) -> Result<T, Problem> {
    T::deserialize(Fill { node: tree, name: "", table: "" })
}

impl Problem {
    fn new(problem: impl Into<String>) -> Self {
        Self { key: String::new(), problem: problem.into() }
    }

    /// The problem of what is under `name`.
    fn under(mut self, name: &str) -> Self {
        self.key = if self.key.is_empty() { name.to_owned() } else { format!("{name}.{}", self.key) };
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.problem)
    }
}

impl std::error::Error for Problem {}

impl de::Error for Problem {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self::new(problem.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn de::Expected) -> Self {
        let found = match found {
            Unexpected::Bool(value) => value.to_string(),
            Unexpected::Unsigned(number) => number.to_string(),
            Unexpected::Signed(number) => number.to_string(),
            Unexpected::Float(number) => format!("{number:?}"),
            Unexpected::Str(text) => Value::Text(text.to_owned()).to_string(),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Map => "a table".to_owned(),
            other => other.to_string(),
        };
        Self::new(format!("must be {wanted}, not {found}"))
    }

    fn invalid_value(found: Unexpected<'_>, wanted: &dyn de::Expected) -> Self {
        Self::invalid_type(found, wanted)
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        Self::new(format!("unknown value `{word}`; {}", keys::advice_of_words(word, known)))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(format!("must have the key `{field}`"))
    }
}

/// One value of the tree, to be read as what serde asks for.
struct Fill<'t> {
    node: &'t Node,
    /// Its key, and the struct that has it; both empty for the root, and no struct in lists.
    name: &'t str,
    table: &'static str,
}

impl Fill<'_> {
    fn must_be(&self, wanted: impl fmt::Display) -> Problem {
        Problem::new(format!("must be {wanted}, not {}", self.node.value))
    }

    /// The integer, if it is from 0 to `most`.
    fn integer<T: TryFrom<i128>>(&self, most: impl fmt::Display) -> Result<T, Problem> {
        let number = match self.node.value {
            Value::Integer(number) => number,
            _ => -1,
        };
        T::try_from(number).map_err(|_| match number {
            0.. => self.must_be(format!("a whole number of at most {most}")),
            _ => {
                let bound = bounds::of(self.table, self.name).unwrap_or(Bound::AtLeast(0.0));
                self.must_be(format!("a whole number{bound}"))
            }
        })
    }

    fn number(&self) -> Result<f64, Problem> {
        let number = match self.node.value {
            Value::Integer(number) => number as f64,
            Value::Float(number) => number,
            _ => f64::NAN,
        };
        if number.is_finite() {
            return Ok(number);
        }
        let bound = bounds::of(self.table, self.name).map_or(String::new(), |bound| bound.to_string());
        Err(match self.node.value {
            Value::Float(_) => self.must_be(format!("a finite number{bound}")),
            _ => self.must_be(format!("a number{bound}")),
        })
    }

    fn entries(&self, table: &'static str) -> Result<Entries<'_>, Problem> {
        match &self.node.value {
            Value::Table(entries) => Ok(Entries { entries: entries.iter(), value: None, table }),
            _ => Err(self.must_be("a table")),
        }
    }

    fn list(&self, wanted: &str) -> Result<Elements<'_>, Problem> {
        match &self.node.value {
            Value::List(list) => Ok(Elements { list: list.iter().enumerate() }),
            Value::Table(_) => {
                let wanted = self.must_be(wanted).problem;
                Err(Problem::new(format!("{wanted}; in TOML its header has two brackets, as [[source]] has")))
            }
            _ => Err(self.must_be(wanted)),
        }
    }
}

impl<'de> Deserializer<'de> for Fill<'_> {
    type Error = Problem;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match &self.node.value {
            Value::Absent => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(number) => match (u64::try_from(*number), i64::try_from(*number)) {
                (Ok(number), _) => visitor.visit_u64(number),
                (_, Ok(number)) => visitor.visit_i64(number),
                _ => visitor.visit_f64(*number as f64),
            },
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Date(text) | Value::Text(text) => visitor.visit_str(text),
            Value::List(list) => visitor.visit_seq(Elements { list: list.iter().enumerate() }),
            Value::Table(_) => visitor.visit_map(self.entries("")?),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.node.value {
            Value::Bool(value) => visitor.visit_bool(value),
            _ => Err(self.must_be("true or false")),
        }
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_u64(self.integer(u64::MAX)?)
    }

    fn deserialize_u32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_u32(self.integer(u32::MAX)?)
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_f64(self.number()?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_f64(self.number()?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match &self.node.value {
            Value::Text(text) => visitor.visit_str(text),
            _ => Err(self.must_be("text in quotes")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        match self.node.value {
            Value::Absent => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_seq(self.list("a list")?)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Problem> {
        let list = self.list(&format!("a list of {len} values"))?;
        match list.list.len() {
            found if found == len => visitor.visit_seq(list),
            found => Err(Problem::new(format!("must be a list of {len} values, not of {found}"))),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Problem> {
        visitor.visit_map(self.entries("")?)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        table: &'static str,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        let Value::Table(entries) = &self.node.value else {
            // A struct that says how it is written says it here.
            let wanted = Wanted(&visitor).to_string();
            let is_named = wanted.starts_with("struct ");
            return Err(self.must_be(if is_named { "a table" } else { wanted.as_str() }));
        };
        if let Some(key) = entries.keys().find(|key| !keys.contains(&key.as_str())) {
            let problem = format!("unknown key `{key}`; {}", keys::advice(key, keys));
            return Err(Problem::new(problem).under(key));
        }
        visitor.visit_map(self.entries(table)?)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Problem> {
        match &self.node.value {
            Value::Text(word) => {
                let word: StrDeserializer<'_, Problem> = word.as_str().into_deserializer();
                visitor.visit_enum(word)
            }
            _ => {
                let words: Vec<String> = words.iter().map(|word| format!("{word:?}")).collect();
                Err(self.must_be(words.join(" or ")))
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
        i8 i16 i32 i64 i128 u8 u16 u128 char bytes byte_buf unit unit_struct tuple_struct identifier ignored_any
    }
}

/// What a visitor wants, in words.
struct Wanted<'v, V>(&'v V);

impl<'de, V: Visitor<'de>> fmt::Display for Wanted<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }
}

/// The entries of a table. Those that are absent are left out.
struct Entries<'t> {
    entries: std::collections::btree_map::Iter<'t, String, Node>,
    value: Option<(&'t str, &'t Node)>,
    /// The struct that the table is read as; empty if it is none.
    table: &'static str,
}

impl<'de> de::MapAccess<'de> for Entries<'_> {
    type Error = Problem;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Problem> {
        let next = self.entries.find(|(_, node)| !matches!(node.value, Value::Absent));
        let Some((name, node)) = next else { return Ok(None) };
        self.value = Some((name, node));
        let name: StrDeserializer<'_, Problem> = name.as_str().into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Problem> {
        let Some((name, node)) = self.value.take() else {
            return Err(Problem::new("a value was asked for before its key"));
        };
        seed.deserialize(Fill { node, name, table: self.table }).map_err(|problem| problem.under(name))
    }
}

/// The elements of a list.
struct Elements<'t> {
    list: std::iter::Enumerate<std::slice::Iter<'t, Node>>,
}

impl<'de> de::SeqAccess<'de> for Elements<'_> {
    type Error = Problem;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Problem> {
        let Some((index, node)) = self.list.next() else { return Ok(None) };
        let element = seed.deserialize(Fill { node, name: "", table: "" });
        element.map(Some).map_err(|problem| problem.under(&index.to_string()))
    }
}
