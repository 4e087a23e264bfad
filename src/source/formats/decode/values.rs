//! Reads the values of columns out of a JSON object, wherever they are in it.

use std::fmt;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::fields::finite;
use crate::document::ColumnValue;
use crate::source::json_path::FieldPath;
use crate::source::problem::Problem;

/// The value at each path; `None` where the object has no such field. As for the text, a key with the whole name comes
/// before what its dots lead to, and of equal keys the last counts. `NaN` and the infinities, which are no JSON, are
/// null.
///
/// The line was read as JSON before.
pub(super) fn values(line: &str, paths: &[FieldPath]) -> Result<Vec<Option<ColumnValue>>, Problem> {
    let read = |line: &str, empty_list| {
        let mut found: Vec<Found> = paths.iter().map(|_| Found::default()).collect();
        let wanted = paths.iter().enumerate().map(|(nth, path)| Way {
            nth,
            name: Some(&path.name),
            rest: &path.parts,
        });
        let seed = Values { ways: wanted.collect(), empty_list, found: &mut found };
        seed.deserialize(&mut serde_json::Deserializer::from_str(line)).map(|()| found)
    };
    let found = match (read(line, Leaf::Several("a list")), finite(line)) {
        (Ok(found), _) => Ok(found),
        (Err(_), Some(line)) => read(&line, Leaf::Value(ColumnValue::Null)),
        (Err(error), None) => Err(error),
    };
    let found = found.map_err(|error| Problem::new(0, format!("broken JSON: {error}"), "mend it"))?;
    let value = |(found, path): (Found, &FieldPath)| match found.leaf {
        None => Ok(None),
        Some(Leaf::Value(value)) => Ok(Some(value)),
        Some(Leaf::Several(kind)) => Err(Problem::new(
            0,
            format!("field `{}` is {kind}, and a column has single values", path.name),
            "name a field within it, or another one",
        )),
    };
    found.into_iter().zip(paths).map(value).collect()
}

/// What was found on the way to a column.
#[derive(Debug, Default)]
struct Found {
    leaf: Option<Leaf>,
    /// Whether a key with the whole name was found. Nothing else counts then.
    is_whole: bool,
}

#[derive(Clone, Debug)]
enum Leaf {
    Value(ColumnValue),
    /// A list or an object.
    Several(&'static str),
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
    empty_list: Leaf,
    found: &'b mut [Found],
}

impl<'a> Values<'a, '_> {
    /// Notes a value on the ways that end here.
    fn note<E>(self, leaf: Leaf) -> Result<(), E> {
        for way in self.ways.iter().filter(|way| way.rest.is_empty()) {
            self.found[way.nth].leaf = Some(leaf.clone());
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
                found.leaf = None;
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
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            let ways = self.through(&key);
            if ways.is_empty() {
                map.next_value::<IgnoredAny>()?;
            } else {
                let empty_list = self.empty_list.clone();
                map.next_value_seed(Values { ways, empty_list, found: &mut *self.found })?;
            }
        }
        self.note(Leaf::Several("an object"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut leaf = self.empty_list.clone();
        while list.next_element::<IgnoredAny>()?.is_some() {
            leaf = Leaf::Several("a list");
        }
        self.note(leaf)
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.note(Leaf::Value(ColumnValue::Text(text.into())))
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.note(Leaf::Value(ColumnValue::Bool(value)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.note(Leaf::Value(ColumnValue::Integer(number.into())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.note(Leaf::Value(ColumnValue::Integer(number.into())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.note(Leaf::Value(ColumnValue::Float(number)))
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.note(Leaf::Value(ColumnValue::Null))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn read(line: &str, names: &[&str]) -> Result<Vec<Option<ColumnValue>>, String> {
        let paths: Vec<_> = names.iter().map(|name| FieldPath::new(name)).collect();
        values(line, &paths).map_err(|problem| problem.what)
    }

    fn one(line: &str, name: &str) -> Option<ColumnValue> {
        read(line, &[name]).expect("values").swap_remove(0)
    }

    #[test]
    fn each_value_keeps_its_type() {
        let line = r#"{"s": "é\n", "i": -7, "u": 18446744073709551615, "f": 1.0, "b": true, "n": null, "m": {"url": "x"}}"#;
        let found =
            read(line, &["m.url", "s", "i", "u", "f", "b", "n", "none", "m.none", "s.x"]).expect("values");
        let expected = [
            Some(ColumnValue::Text("x".into())),
            Some(ColumnValue::Text("é\n".into())),
            Some(ColumnValue::Integer(-7)),
            Some(ColumnValue::Integer(u64::MAX.into())),
            Some(ColumnValue::Float(1.0)),
            Some(ColumnValue::Bool(true)),
            Some(ColumnValue::Null),
            None,
            None,
            None,
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_list_or_an_object_is_no_value() {
        let says = |line: &str| read(line, &["m"]).expect_err("a problem");
        assert_eq!(says(r#"{"m": {"a": 1}}"#), "field `m` is an object, and a column has single values");
        assert_eq!(says(r#"{"m": []}"#), "field `m` is a list, and a column has single values");
        assert_eq!(says(r#"{"m": [1], "x": NaN}"#), "field `m` is a list, and a column has single values");
    }

    #[test]
    fn numbers_that_json_does_not_have_are_null() {
        for number in ["NaN", "Infinity", "-Infinity"] {
            assert_eq!(one(&format!(r#"{{"a": {number}}}"#), "a"), Some(ColumnValue::Null));
        }
    }

    #[test]
    fn the_last_of_equal_keys_counts_and_a_whole_name_comes_first() {
        let whole = |line: &str| one(line, "a.b");
        let number = |n| Some(ColumnValue::Integer(n));
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
            for (name, value) in fields.as_object().expect("fields") {
                let expected = match value {
                    Value::String(text) => ColumnValue::Text(text.as_str().into()),
                    Value::Bool(truth) => ColumnValue::Bool(*truth),
                    Value::Null => ColumnValue::Null,
                    number => number.as_i64().map_or_else(
                        || ColumnValue::Float(number.as_f64().expect("a float")),
                        |number| ColumnValue::Integer(number.into()),
                    ),
                };
                prop_assert_eq!(one(&line.to_string(), &format!("{at}{name}")), Some(expected));
            }
        }
    }
}
