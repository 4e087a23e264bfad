//! JSON whose objects keep the order of their keys, which templates write out again.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A key of an object. Those that most records have are not copied.
pub(crate) type Key = Cow<'static, str>;

/// The keys of most messages, tools and calls.
const KEYS: [&str; 16] = [
    "role",
    "content",
    "messages",
    "from",
    "value",
    "conversations",
    "type",
    "text",
    "tool_calls",
    "function",
    "name",
    "arguments",
    "id",
    "tool_call_id",
    "tools",
    "parameters",
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
        let json = read(text, None)?;
        // serde_json reads an integer beyond 64 bits as a float.
        if !json.has(&|json| matches!(json, Self::Float(x) if x.abs() >= INTEGERS_END)) {
            return Ok(json);
        }
        // No string of the text begins with this, so what does is an integer.
        let mut mark = String::from("\u{10FFFD}");
        while text.contains(&mark) {
            mark.push('\u{10FFFD}');
        }
        read(&with_marked_integers(text, &mark), Some(&mark))
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

fn read(text: &str, mark: Option<&str>) -> Result<Json, serde_json::Error> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let json = Seed { mark }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(json)
}

/// The text with each integer that 64 bits do not hold as a string: the mark, then the digits.
fn with_marked_integers(text: &str, mark: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len() + 64);
    let (mut at, mut copied, mut in_string) = (0, 0, false);
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_string => at += 1,
            b'"' => in_string = !in_string,
            b'-' | b'0'..=b'9' if !in_string => {
                let number = bytes[at..]
                    .iter()
                    .take_while(|byte| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9'));
                let end = at + number.count();
                let number = &text[at..end];
                if number.len() > 18 && number.parse::<i128>().is_ok() {
                    out.push_str(&text[copied..at]);
                    out.extend(["\"", mark, number, "\""]);
                    copied = end;
                }
                at = end - 1;
            }
            _ => {}
        }
        at += 1;
    }
    out.push_str(&text[copied..]);
    out
}

/// Reads a value. A string that begins with the mark is an integer.
#[derive(Clone, Copy)]
struct Seed<'a> {
    mark: Option<&'a str>,
}

impl Seed<'_> {
    fn string<E>(self, text: impl AsRef<str> + Into<String>) -> Result<Json, E> {
        let number = self.mark.and_then(|mark| text.as_ref().strip_prefix(mark)?.parse().ok());
        Ok(number.map_or_else(|| Json::String(text.into()), Json::Int))
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
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

    fn visit_i128<E>(self, value: i128) -> Result<Json, E> {
        Ok(Json::Int(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(Json::Float(value))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Json, E> {
        self.string(text)
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Json, E> {
        self.string(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut entries: Vec<(Key, Json)> = Vec::new();
        while let Some(key) = map.next_key_seed(KeySeed)? {
            entries.push((key, map.next_value_seed(self)?));
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
    let few = entries.len() <= FEW;
    if few
        && !entries.iter().enumerate().any(|(i, (key, _))| entries[..i].iter().any(|(other, _)| other == key))
    {
        return entries;
    }
    let mut places = HashMap::new();
    let mut kept: Vec<(Key, Json)> = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        match places.get(&key) {
            Some(&place) => {
                let (_, old): &mut (Key, Json) = &mut kept[place];
                *old = value;
            }
            None => {
                places.insert(key.clone(), kept.len());
                kept.push((key, value));
            }
        }
    }
    kept
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Seed { mark: None }.deserialize(deserializer)
    }
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

impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(value),
            serde_json::Value::Number(number) => match number.as_i128() {
                Some(value) => Self::Int(value),
                None => Self::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(text) => Self::String(text),
            serde_json::Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            serde_json::Value::Object(entries) => {
                Self::Object(entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
            }
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
        let marked = "[\"\u{10FFFD}7\", 18446744073709551616]";
        let Json::List(items) = Json::parse(marked).expect("JSON") else { panic!("a list") };
        assert_eq!(items[0].as_str(), Some("\u{10FFFD}7"));
    }

    #[test]
    fn deep_nesting_is_an_error() {
        assert!(Json::parse(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))).is_err());
        assert!(Json::parse("[1] 2").is_err());
    }
}
