//! TOML as a tree.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Node, Spot, Table, Value, Written};
use crate::error::Result;

pub(super) fn read(written: &Written<'_>) -> Result<Value> {
    let root = DeTable::parse(written.text).map_err(|e| {
        let spot = e.span().map_or(Spot::Nowhere, |span| written.spot(span.start));
        written.invalid(spot, e.message())
    })?;
    Ok(Value::Table(table(root.get_ref(), &|byte| written.spot(byte))))
}

/// Reads a setting's value as TOML; `None` if it is not.
pub(in crate::config) fn literal(text: &str, spot: &Spot) -> Option<Value> {
    let parsed = DeValue::parse(text).ok()?;
    Some(value(parsed.get_ref(), &|_| spot.clone()))
}

fn table(table: &DeTable<'_>, spot: &impl Fn(usize) -> Spot) -> Table {
    let entry = |(key, of): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        let node = Node { spot: spot(key.span().start), value: value(of.get_ref(), spot) };
        (key.get_ref().to_string(), node)
    };
    table.iter().map(entry).collect()
}

fn value(written: &DeValue<'_>, spot: &impl Fn(usize) -> Spot) -> Value {
    match written {
        DeValue::String(text) => Value::Text(text.to_string()),
        // A number that does not fit is larger than any key may be.
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => Value::Integer(number),
            Err(_) => Value::Float(f64::INFINITY),
        },
        DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(value) => Value::Bool(*value),
        DeValue::Datetime(date) => Value::Date(date.to_string()),
        DeValue::Array(list) => {
            let node = |of: &Spanned<DeValue<'_>>| Node {
                spot: spot(of.span().start),
                value: value(of.get_ref(), spot),
            };
            Value::List(list.iter().map(node).collect())
        }
        DeValue::Table(of) => Value::Table(table(of, spot)),
    }
}
