//! Any value of TOML, JSON or YAML, as one of JSON.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use toml::de::ValueDeserializer;

/// What a date of TOML is read as: a table with this key.
const DATE: &str = "$__toml_private_datetime";

/// A value. JSON has no dates and no numbers such as infinity: they are text. A key that is there twice is an error.
#[derive(Debug)]
pub struct AnyValue(pub Value);

/// Reads a setting's value as TOML; `None` if it is not.
pub(super) fn literal(text: &str) -> Option<Value> {
    let value = AnyValue::deserialize(ValueDeserializer::parse(text).ok()?);
    value.ok().map(|AnyValue(value)| value)
}

impl<'de> Deserialize<'de> for AnyValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = AnyValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<AnyValue, E> {
        Ok(AnyValue(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<AnyValue, E> {
        Ok(AnyValue(value.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<AnyValue, E> {
        Ok(AnyValue(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<AnyValue, E> {
        Ok(AnyValue(number.into()))
    }

    /// It fits no key. As a float it is refused with the key's name.
    fn visit_i128<E: de::Error>(self, number: i128) -> Result<AnyValue, E> {
        self.visit_f64(number as f64)
    }

    fn visit_f64<E>(self, number: f64) -> Result<AnyValue, E> {
        Ok(AnyValue(Number::from_f64(number).map_or_else(|| number.to_string().into(), Value::Number)))
    }

    fn visit_str<E>(self, text: &str) -> Result<AnyValue, E> {
        Ok(AnyValue(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<AnyValue, A::Error> {
        let mut list = Vec::new();
        while let Some(AnyValue(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(AnyValue(list.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<AnyValue, A::Error> {
        let mut table = Map::new();
        while let Some((key, AnyValue(value))) = entries.next_entry::<String, _>()? {
            if table.contains_key(&key) {
                return Err(de::Error::custom(format_args!("the key `{key}` is there twice")));
            }
            table.insert(key, value);
        }
        let date = table.remove(DATE);
        Ok(AnyValue(date.unwrap_or(Value::Object(table))))
    }
}
