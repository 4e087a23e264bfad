//! Values of columns as JSON, for records that a template renders. Lists and structs may lie in one another.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, Field};
use serde::de::IgnoredAny;

use super::cell::cell;
use super::value::{decimal, utf8, written};
use crate::excerpt::excerpt;
use crate::source::filter::Scalar;
use crate::source::formats::wanted::write_text;

/// Where a field names the type that it extends, and the name for strings of JSON. The Hugging Face libraries write them
/// for values of any type. [Source](https://arrow.apache.org/docs/format/CanonicalExtensions.html#json)
const EXTENSION: &str = "ARROW:extension:name";
const JSON: &str = "arrow.json";

/// The problem of a type that has no values in JSON, if it or one within it is such a type.
pub(super) fn unwritable(of: &DataType) -> Option<String> {
    use DataType as T;
    match of {
        T::Dictionary(_, values) => unwritable(values),
        T::Struct(fields) => fields.iter().find_map(|field| unwritable(field.data_type())),
        T::List(field)
        | T::LargeList(field)
        | T::FixedSizeList(field, _)
        | T::ListView(field)
        | T::LargeListView(field)
        | T::Map(field, _) => unwritable(field.data_type()),
        T::Union(..) | T::RunEndEncoded(..) | T::Interval(_) | T::Duration(_) => {
            Some(format!("{}, which has no values in JSON", excerpt(&of.to_string())))
        }
        _ => None,
    }
}

pub(super) fn is_json(field: &Field) -> bool {
    field.metadata().get(EXTENSION).is_some_and(|name| name == JSON)
}

/// Appends the value in a row, or says why it cannot. If there are more than `most` bytes then, the value may be cut.
pub(super) fn write(
    values: &dyn Array,
    is_json: bool,
    row: usize,
    out: &mut Vec<u8>,
    most: usize,
) -> Result<(), String> {
    match cell(values, row) {
        Scalar::Null => out.extend_from_slice(b"null"),
        Scalar::Truth(truth) => out.extend_from_slice(if truth { b"true" } else { b"false" }),
        Scalar::Exact { digits, scale } => out.extend_from_slice(decimal(digits, scale).as_bytes()),
        // JSON has no other floats.
        Scalar::Float(number) if !number.is_finite() => out.extend_from_slice(b"null"),
        Scalar::Float(number) => drop(serde_json::to_writer(out, &number)),
        Scalar::Text(text) if is_json && serde_json::from_str::<IgnoredAny>(text).is_ok() => {
            out.extend_from_slice(text.as_bytes());
        }
        Scalar::Text(text) => write_text(text, out),
        Scalar::Bytes(bytes) => write_text(utf8(bytes)?, out),
        Scalar::Time(time) => write_text(&written(time, values.data_type()), out),
        Scalar::Other => write_nested(values, row, out, most)?,
    }
    Ok(())
}

/// The same for a value that has others within it.
fn write_nested(values: &dyn Array, row: usize, out: &mut Vec<u8>, most: usize) -> Result<(), String> {
    use DataType as T;
    let (items, field): (ArrayRef, _) = match values.data_type() {
        T::List(field) => (values.as_list::<i32>().value(row), field),
        T::LargeList(field) => (values.as_list::<i64>().value(row), field),
        T::FixedSizeList(field, _) => (values.as_fixed_size_list().value(row), field),
        T::ListView(field) => (values.as_list_view::<i32>().value(row), field),
        T::LargeListView(field) => (values.as_list_view::<i64>().value(row), field),
        T::Struct(_) => return write_struct(values.as_struct(), row, out, most),
        T::Map(..) => return write_map(&values.as_map().value(row), out, most),
        other => return Err(excerpt(&other.to_string())),
    };
    let is_json = is_json(field);
    out.push(b'[');
    for item in 0..items.len() {
        if out.len() > most {
            break;
        }
        separate(item, out);
        write(&items, is_json, item, out, most)?;
    }
    out.push(b']');
    Ok(())
}

/// A struct is an object without the fields that are null: it has those of all rows. Nulls within JSON stay.
fn write_struct(values: &StructArray, row: usize, out: &mut Vec<u8>, most: usize) -> Result<(), String> {
    out.push(b'{');
    let columns = values.fields().iter().zip(values.columns());
    let there = columns.filter(|(_, values)| cell(values, row) != Scalar::Null);
    for (nth, (field, values)) in there.enumerate() {
        if out.len() > most {
            break;
        }
        separate(nth, out);
        write_text(field.name(), out);
        out.push(b':');
        write(values, is_json(field), row, out, most)?;
    }
    out.push(b'}');
    Ok(())
}

/// A map is an object. Keys that are no text are written as text.
fn write_map(entries: &StructArray, out: &mut Vec<u8>, most: usize) -> Result<(), String> {
    let [(_, keys), (field, values)] = [0, 1].map(|nth| (&entries.fields()[nth], entries.column(nth)));
    out.push(b'{');
    for entry in 0..entries.len() {
        if out.len() > most {
            break;
        }
        separate(entry, out);
        let mut key = Vec::new();
        write(keys, false, entry, &mut key, most)?;
        match key.first() {
            Some(b'"') => out.append(&mut key),
            _ => write_text(&String::from_utf8_lossy(&key), out),
        }
        out.push(b':');
        write(values, is_json(field), entry, out, most)?;
    }
    out.push(b'}');
    Ok(())
}

fn separate(nth: usize, out: &mut Vec<u8>) {
    if nth > 0 {
        out.push(b',');
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{Int64Builder, ListBuilder, MapBuilder, StringBuilder, StructBuilder};
    use arrow_array::{
        BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, NullArray, StringArray,
        Time64MicrosecondArray, TimestampMillisecondArray, UInt64Array,
    };
    use arrow_schema::Fields;
    use serde_json::{Value, json};

    use super::*;

    fn written(values: &dyn Array, is_json: bool) -> Vec<Value> {
        let value = |row| {
            let mut out = Vec::new();
            write(values, is_json, row, &mut out, usize::MAX).expect("it is written");
            serde_json::from_slice(&out).unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out)))
        };
        (0..values.len()).map(value).collect()
    }

    #[test]
    fn plain_values_are_those_of_json() {
        let cases: [(ArrayRef, Vec<Value>); 9] = [
            (Arc::new(NullArray::new(1)), vec![Value::Null]),
            (Arc::new(BooleanArray::from(vec![Some(true), None])), vec![json!(true), Value::Null]),
            (Arc::new(UInt64Array::from(vec![u64::MAX])), vec![json!(u64::MAX)]),
            (Arc::new(Float32Array::from(vec![0.5, f32::NAN])), vec![json!(0.5), Value::Null]),
            (Arc::new(StringArray::from(vec!["é\"\n"])), vec![json!("é\"\n")]),
            (Arc::new(BinaryArray::from(vec![&b"ab"[..]])), vec![json!("ab")]),
            (
                Arc::new(Date32Array::from(vec![0, 19_782, -1])),
                vec![json!("1970-01-01"), json!("2024-02-29"), json!("1969-12-31")],
            ),
            (
                Arc::new(TimestampMillisecondArray::from(vec![1_709_251_199_250])),
                vec![json!("2024-02-29T23:59:59.25")],
            ),
            (Arc::new(Time64MicrosecondArray::from(vec![45_000_000_000])), vec![json!("12:30:00")]),
        ];
        for (values, expected) in cases {
            assert_eq!(written(&values, false), expected, "{}", values.data_type());
        }
        assert_eq!(
            written(&StringArray::from(vec!["{\"a\": [1]}", "no"]), true),
            [json!({"a": [1]}), json!("no")]
        );
        assert!(write(&BinaryArray::from(vec![&b"\xff"[..]]), false, 0, &mut Vec::new(), 9).is_err());
    }

    #[test]
    fn a_decimal_keeps_its_digits() {
        let numbers = Decimal128Array::from(vec![-5, 1250]).with_precision_and_scale(9, 2).expect("it fits");
        assert_eq!(written(&numbers, false), [json!(-0.05), json!(12.5)]);
        assert_eq!(
            (decimal(-5, 2), decimal(7, -2), decimal(0, -2)),
            ("-0.05".into(), "700".into(), "0".into())
        );
    }

    #[test]
    fn lists_structs_and_maps_lie_in_one_another() {
        let fields = Fields::from(vec![
            Field::new("role", DataType::Utf8, true),
            Field::new("weight", DataType::Int64, true),
        ]);
        let mut list = ListBuilder::new(StructBuilder::from_fields(fields, 2));
        for (role, weight) in [(Some("user"), Some(1)), (None, None)] {
            let message = list.values();
            message.field_builder::<StringBuilder>(0).expect("text").append_option(role);
            message.field_builder::<Int64Builder>(1).expect("numbers").append_option(weight);
            message.append(true);
        }
        list.append(true);
        list.append(true);
        list.append(false);
        let expected = json!([{"role": "user", "weight": 1}, {}]);
        assert_eq!(written(&list.finish(), false), [expected, json!([]), Value::Null]);

        let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
        map.keys().append_value("a");
        map.values().append_value(1);
        map.append(true).expect("a map");
        assert_eq!(written(&map.finish(), false), [json!({"a": 1})]);
    }

    #[test]
    fn a_value_beyond_the_bound_ends_soon() {
        let mut list = ListBuilder::new(StringBuilder::new());
        (0..1000).for_each(|_| list.values().append_value("0123456789"));
        list.append(true);
        let mut out = Vec::new();
        write(&list.finish(), false, 0, &mut out, 100).expect("it is written");
        assert!((101..150).contains(&out.len()), "{}", out.len());
    }
}
