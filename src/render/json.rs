//! JSON whose objects keep the order of their keys, which templates write out again.

use std::borrow::Cow;
use std::fmt;

use indexmap::IndexMap;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

/// A key of an object. Those that most records have are not copied.
pub(crate) type Key = Cow<'static, str>;

/// The keys of most messages, tools and calls.
const KEYS: [&str; 16] = [
    "role", "content", "messages", "from", "value", "conversations", "type", "text", "tool_calls",
    "function", "name", "arguments", "id", "tool_call_id", "tools", "parameters",
];

fn key(text: &str) -> Key {
    match KEYS.into_iter().find(|key| *key == text) {
        Some(key) => Cow::Borrowed(key),
        None => Cow::Owned(text.to_owned()),
    }
}

/// A JSON value. Integers are exact up to 38 digits.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Json {
    #[default]
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    String(String),
    List(Vec<Json>),
    /// Each key once, in the order of the text. Of equal keys the last value counts.
    Object(Vec<(Key, Json)>),
}

impl Json {
    /// Reads a text. One that nests deeper than 127 levels is an error.
    pub(crate) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let json: Self = serde_json::from_str(text)?;
        // serde_json reads an integer beyond 64 bits as a float.
        match json.has(&|json| matches!(json, Self::Float(x) if x.abs() >= INTEGERS_END)) {
            true => Self::with_long_integers(text),
            false => Ok(json),
        }
    }

    /// Reads a text that may have integers beyond 64 bits, one level after the other.
    fn with_long_integers(text: &str) -> Result<Self, serde_json::Error> {
        let text = text.trim();
        Ok(match text.as_bytes().first() {
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text)?;
                let items = items.into_iter().map(|item| Self::with_long_integers(item.get()));
                Self::List(items.collect::<Result<_, _>>()?)
            }
            Some(b'{') => {
                let entries: IndexMap<String, &RawValue> = serde_json::from_str(text)?;
                let read = |(name, value): (String, &RawValue)| {
                    Ok((key(&name), Self::with_long_integers(value.get())?))
                };
                Self::Object(entries.into_iter().map(read).collect::<Result<_, serde_json::Error>>()?)
            }
            _ => match text.parse() {
                Ok(integer) if text.len() > SHORT => Self::Int(integer),
                _ => serde_json::from_str(text)?,
            },
        })
    }

    /// The value of a key, if this is an object that has it.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(entries) = self else { return None };
        entries.iter().find_map(|(name, value)| (name == key).then_some(value))
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// Whether `wanted` holds for this or for anything in it.
    fn has(&self, wanted: &impl Fn(&Self) -> bool) -> bool {
        wanted(self)
            || match self {
                Self::List(items) => items.iter().any(|item| item.has(wanted)),
                Self::Object(entries) => entries.iter().any(|(_, value)| value.has(wanted)),
                _ => false,
            }
    }
}

/// From here on, 64 bits do not hold an integer.
const INTEGERS_END: f64 = 9.2e18;

/// So many letters of an integer fit into 64 bits.
const SHORT: usize = 18;

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(Json::Int(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Float(value))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Json, E> {
        Ok(Json::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut entries: Vec<(Key, Json)> = Vec::new();
        while let Some(key) = map.next_key_seed(KeySeed)? {
            entries.push((key, map.next_value()?));
        }
        Ok(Json::Object(each_once(entries)))
    }
}

/// Reads a key.
struct KeySeed;

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Key, E> {
        Ok(key(text))
    }
}

/// The entries with each key once, at the place of its first and with the value of its last.
fn each_once(entries: Vec<(Key, Json)>) -> Vec<(Key, Json)> {
    const FEW: usize = 12;
    let is_before =
        |(nth, (key, _)): (usize, &(Key, Json))| entries[..nth].iter().any(|(other, _)| other == key);
    if entries.len() <= FEW && !entries.iter().enumerate().any(is_before) {
        return entries;
    }
    entries.into_iter().collect::<IndexMap<_, _>>().into_iter().collect()
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i128(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::String(text) => serializer.serialize_str(text),
            Self::List(items) => serializer.collect_seq(items),
            Self::Object(entries) => serializer.collect_map(entries.iter().map(|(key, value)| (key, value))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(text: &str) -> String {
        serde_json::to_string(&Json::parse(text).expect(text)).expect("JSON")
    }

    #[test]
    fn keys_keep_their_order_and_the_last_value_counts() {
        assert_eq!(
            again(r#"{"b":1,"a":[{"z":null,"y":true}],"b":2.5}"#),
            r#"{"b":2.5,"a":[{"z":null,"y":true}]}"#
        );
        let many: Vec<String> = (0..40).map(|i| format!("\"{}\":{i}", i % 20)).collect();
        let once: Vec<String> = (20..40).map(|i| format!("\"{}\":{i}", i % 20)).collect();
        assert_eq!(again(&format!("{{{}}}", many.join(","))), format!("{{{}}}", once.join(",")));
    }

    #[test]
    fn integers_are_exact_and_floats_stay_floats() {
        let text = r#"[18446744073709551616,-123456789012345678901234567890,1e22,"18446744073709551616\\\" 18446744073709551617",9300000000000000000]"#;
        let Json::List(items) = Json::parse(text).expect("JSON") else { panic!("a list") };
        assert_eq!(items[0], Json::Int(1 << 64));
        assert_eq!(items[1], Json::Int(-123_456_789_012_345_678_901_234_567_890));
        assert_eq!(items[2], Json::Float(1e22));
        assert_eq!(items[3].as_str(), Some("18446744073709551616\\\" 18446744073709551617"));
        assert_eq!(items[4], Json::Int(9_300_000_000_000_000_000));
        let nested =
            r#"{"b": {"c": [-0, 18446744073709551616]}, "a": 0, "b": [" 1", 36893488147419103232 ]}"#;
        let expected = Json::List(vec![Json::String(" 1".to_owned()), Json::Int(1 << 65)]);
        assert_eq!(
            Json::parse(nested).expect("JSON"),
            Json::Object(vec![("b".into(), expected), ("a".into(), Json::Int(0))])
        );
        assert_eq!(
            Json::parse("[-0, 18446744073709551616]").expect("JSON"),
            Json::List(vec![Json::Float(-0.0), Json::Int(1 << 64)])
        );
    }

    #[test]
    fn deep_nesting_is_an_error() {
        assert!(Json::parse(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))).is_err());
        assert!(Json::parse("[1] 2").is_err());
    }
}
