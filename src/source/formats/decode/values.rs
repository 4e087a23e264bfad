//! Named values of a JSON object.

use super::fields::{broken, finite};
use super::look::{Found, LIST, Manner, look};
use crate::source::carried::FieldValue;
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
        let found = look(line, paths.iter(), Manner { is_lenient, empty_list });
        // What is around the value is none.
        let value = |found: Option<Found>| found.filter(|found| found.left == 0).map(|found| found.value);
        let values = |found: Vec<_>| found.into_iter().map(value).collect();
        found.map(values).map_err(|error| broken(line, &error))
    };
    read(line, &LIST, false).or_else(|_| match finite(line) {
        Some(line) => read(&line, &FieldValue::NULL, true),
        None => read(line, &LIST, true),
    })
}

/// The value at a path in bytes that are JSON by themselves; `None` where they have no such field.
pub(crate) fn value_in_json(json: &[u8], path: &FieldPath) -> Option<FieldValue> {
    let Ok(json) = str::from_utf8(json) else { return Some(FieldValue::NOT_UTF8) };
    match values(json, std::slice::from_ref(path)) {
        Ok(found) => found.into_iter().next().flatten(),
        Err(_) => Some(FieldValue::Other("JSON that cannot be read".into())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::document::ColumnValue;

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
