//! Reads named values out of a JSON object, wherever they are in it.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::fields::{broken, finite};
use crate::document::ColumnValue;
use crate::source::carried::FieldValue;
use crate::source::excerpt::excerpt;
use crate::source::json_path::FieldPath;
use crate::source::problem::Problem;

/// The value at each path; `None` where the object has no such field. As for the text, a key with the whole name comes
/// before what its dots lead to, and of equal keys the last counts. `NaN` and the infinities, which are no JSON, are
/// null. All of the line must be JSON; a blank one has no values. A value that is JSON and cannot be read, such as `1e400`,
/// is an [`Other`](FieldValue::Other) one: whoever reads the text does not look at it either.
pub(crate) fn values(line: &str, paths: &[FieldPath]) -> Result<Vec<Option<FieldValue>>, Problem> {
    if paths.is_empty() || line.trim_ascii().is_empty() {
        return Ok(Vec::new());
    }
    let read = |line: &str, empty_list, is_lenient| {
        let mut found: Vec<Found> = paths.iter().map(|_| Found::default()).collect();
        let wanted = paths.iter().enumerate().map(|(nth, path)| Way {
            nth,
            name: Some(&path.name),
            rest: &path.parts,
        });
        let seed = Values { ways: wanted.collect(), empty_list, is_lenient, found: &mut found };
        let mut json = serde_json::Deserializer::from_str(line);
        let read = seed.deserialize(&mut json).and_then(|()| json.end());
        read.map(|()| found).map_err(|error| broken(line, &error))
    };
    let found = read(line, LIST, false).or_else(|_| match finite(line) {
        Some(line) => read(&line, FieldValue::NULL, true),
        None => read(line, LIST, true),
    })?;
    Ok(found.into_iter().map(|found| found.value).collect())
}

/// The value at a path in bytes that are JSON by themselves; `None` where they have no such field.
pub(crate) fn value_in_json(json: &[u8], path: &FieldPath) -> Option<FieldValue> {
    let Ok(json) = str::from_utf8(json) else { return Some(FieldValue::NOT_UTF8) };
    match values(json, std::slice::from_ref(path)) {
        Ok(found) => found.into_iter().next().flatten(),
        Err(_) => Some(FieldValue::Other("JSON that cannot be read".into())),
    }
}

const LIST: FieldValue = FieldValue::Other(Cow::Borrowed("a list"));

/// What was found on the way to a column.
#[derive(Debug, Default)]
struct Found {
    value: Option<FieldValue>,
    /// Whether a key with the whole name was found. Nothing else counts then.
    is_whole: bool,
}

/// The way to a column from here on: the rest of its path. An empty one ends here.
#[derive(Clone, Copy, Debug)]
struct Way<'a> {
    nth: usize,
    /// Its whole name, while keys are compared with it: those of the outermost object.
    name: Option<&'a str>,
    rest: &'a [String],
}

/// Looks into one value.
struct Values<'a, 'b> {
    ways: Vec<Way<'a>>,
    /// What an empty list stands for.
    empty_list: FieldValue,
    /// Whether a value that cannot be read is noted as such. It is looked at twice then.
    is_lenient: bool,
    found: &'b mut [Found],
}

impl<'a> Values<'a, '_> {
    /// Looks into JSON, or notes on all ways that it cannot be read.
    fn look_into(self, json: &str) {
        let numbers: Vec<usize> = self.ways.iter().map(|way| way.nth).collect();
        let inner = Values { found: &mut *self.found, ..self };
        if inner.deserialize(&mut serde_json::Deserializer::from_str(json)).is_err() {
            let what = format!("{}, which cannot be read", excerpt(json));
            for nth in numbers {
                self.found[nth].value = Some(FieldValue::Other(what.clone().into()));
            }
        }
    }

    /// Notes a value on the ways that end here.
    fn note<E>(self, value: FieldValue) -> Result<(), E> {
        for way in self.ways.iter().filter(|way| way.rest.is_empty()) {
            self.found[way.nth].value = Some(value.clone());
        }
        Ok(())
    }

    /// The ways that go on through `key`. Those found before through an equal key are forgotten.
    fn through(&mut self, key: &str) -> Vec<Way<'a>> {
        let mut through = Vec::new();
        for way in &self.ways {
            let found = &mut self.found[way.nth];
            let is_whole = way.name == Some(key);
            let rest = match way.rest.split_first() {
                _ if is_whole => Some(&[][..]),
                Some((first, rest)) if first == key && !found.is_whole => Some(rest),
                _ => None,
            };
            if let Some(rest) = rest {
                found.is_whole |= is_whole;
                found.value = None;
                through.push(Way { nth: way.nth, name: None, rest });
            }
        }
        through
    }
}

impl<'de> DeserializeSeed<'de> for Values<'_, '_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Values<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            let ways = self.through(&key);
            if ways.is_empty() {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let (empty_list, is_lenient) = (self.empty_list.clone(), self.is_lenient);
            let inner = Values { ways, empty_list, is_lenient, found: &mut *self.found };
            match is_lenient {
                true => inner.look_into(map.next_value::<&RawValue>()?.get()),
                false => map.next_value_seed(inner)?,
            }
        }
        self.note(FieldValue::Other("an object".into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut value = self.empty_list.clone();
        while list.next_element::<IgnoredAny>()?.is_some() {
            value = LIST;
        }
        self.note(value)
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.note(FieldValue::Value(ColumnValue::Text(text.into())))
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.note(FieldValue::Value(ColumnValue::Bool(value)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.note(FieldValue::Value(ColumnValue::Integer(number.into())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.note(FieldValue::Value(ColumnValue::Integer(number.into())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.note(FieldValue::Value(ColumnValue::Float(number)))
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.note(FieldValue::Value(ColumnValue::Null))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn read(line: &str, names: &[&str]) -> Vec<Option<FieldValue>> {
        let paths: Vec<_> = names.iter().map(|name| FieldPath::new(name)).collect();
        values(line, &paths).expect("values")
    }

    fn one(line: &str, name: &str) -> Option<FieldValue> {
        read(line, &[name]).swap_remove(0)
    }

    fn value(value: ColumnValue) -> Option<FieldValue> {
        Some(FieldValue::Value(value))
    }

    #[test]
    fn each_value_keeps_its_type() {
        let line = r#"{"s": "é\n", "i": -7, "u": 18446744073709551615, "f": 1.0, "b": true, "n": null, "m": {"url": "x"}}"#;
        let found = read(line, &["m.url", "s", "i", "u", "f", "b", "n", "none", "m.none", "s.x"]);
        let expected = [
            value(ColumnValue::Text("x".into())),
            value(ColumnValue::Text("é\n".into())),
            value(ColumnValue::Integer(-7)),
            value(ColumnValue::Integer(u64::MAX.into())),
            value(ColumnValue::Float(1.0)),
            value(ColumnValue::Bool(true)),
            value(ColumnValue::Null),
            None,
            None,
            None,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_list_or_an_object_is_no_single_value() {
        let several = |line: &str| match one(line, "m") {
            Some(FieldValue::Other(kind)) => kind,
            other => panic!("{other:?}"),
        };
        assert_eq!(several(r#"{"m": {"a": 1}}"#), "an object");
        assert_eq!(several(r#"{"m": []}"#), "a list");
        assert_eq!(several(r#"{"m": [1], "x": NaN}"#), "a list");
    }

    #[test]
    fn all_of_a_line_is_json_or_it_is_blank() {
        let problem = |line: &str| values(line, &[FieldPath::new("a")]).expect_err("no JSON");
        for (line, offset) in [(r#"{"a": 1"#, 7), (r#"{"a": 1} x"#, 9), (r#"{"a": 1, "b": NaN, c}"#, 19)] {
            assert_eq!(problem(line).offset, offset, "{line}");
        }
        assert_eq!(values(" ", &[FieldPath::new("a")]), Ok(Vec::new()));
    }

    #[test]
    fn numbers_that_json_does_not_have_are_null() {
        for number in ["NaN", "Infinity", "-Infinity"] {
            assert_eq!(one(&format!(r#"{{"a": {number}}}"#), "a"), value(ColumnValue::Null));
        }
    }

    #[test]
    fn the_last_of_equal_keys_counts_and_a_whole_name_comes_first() {
        let whole = |line: &str| one(line, "a.b");
        let number = |n| value(ColumnValue::Integer(n));
        assert_eq!(whole(r#"{"a.b": 1, "a": {"b": 2}}"#), number(1));
        assert_eq!(whole(r#"{"a": {"b": 2}, "a.b": 1}"#), number(1));
        assert_eq!(whole(r#"{"a": {"b": 2}, "a": {"b": 3}}"#), number(3));
        assert_eq!(whole(r#"{"a": {"b": 2}, "a": {}}"#), None);
        assert_eq!(whole(r#"{"c": {"a.b": 2}}"#), None);
    }

    proptest! {
        #[test]
        fn agrees_with_a_whole_parse(
            text in ".*", number in any::<i64>(), float in -1e9..1e9_f64, truth: bool, deep: bool,
        ) {
            let fields = json!({"text": text, "number": number, "float": float, "truth": truth, "none": null});
            let (line, at) = match deep {
                true => (json!({"z": [1, {"a": 2}], "a": fields}), "a."),
                false => (fields.clone(), ""),
            };
            for (name, field) in fields.as_object().expect("fields") {
                let expected = match field {
                    Value::String(text) => ColumnValue::Text(text.as_str().into()),
                    Value::Bool(truth) => ColumnValue::Bool(*truth),
                    Value::Null => ColumnValue::Null,
                    number => number.as_i64().map_or_else(
                        || ColumnValue::Float(number.as_f64().expect("a float")),
                        |number| ColumnValue::Integer(number.into()),
                    ),
                };
                prop_assert_eq!(one(&line.to_string(), &format!("{at}{name}")), Some(FieldValue::Value(expected)));
            }
        }
    }
}
