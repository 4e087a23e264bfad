//! YAML as a tree.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Error, Location, Spanned};

use super::{Node, Spot, Table, Value, Written};
use crate::error::Result;

pub(super) fn read(written: &Written<'_>) -> Result<Value> {
    serde_saphyr::from_str::<Value>(written.text).map_err(|e| {
        let spot = e.location().map_or(Spot::Nowhere, |location| spot(&location));
        let said = match e.without_snippet() {
            Error::DuplicateMappingKey { key: Some(key), .. } => format!("the key `{key}` is there twice"),
            other => other.to_string(),
        };
        // The place stands before the message already.
        let problem = said.split_once(" at line ").map_or(said.as_str(), |(problem, _)| problem);
        written.invalid(spot, problem)
    })
}

fn spot(location: &Location) -> Spot {
    Spot::Text { line: location.line(), column: location.column() }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Absent)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Absent)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Integer(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Integer(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Value::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Spanned { value, referenced, .. }) = items.next_element::<Spanned<Value>>()? {
            list.push(Node { spot: spot(&referenced), value });
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut table = Table::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            let node = Node { spot: spot(&key.referenced), value: entries.next_value()? };
            table.insert(key.value, node);
        }
        Ok(Value::Table(table))
    }
}
