//! Comparing as Python compares. What is visited costs fuel, for parts that are shared could be visited for ever.

use std::cmp::Ordering;

use minijinja::value::ValueKind;
use minijinja::{Error, State, Value};

use super::fail;
use super::numbers::Number;
use super::objects::{Kind, check_key, dict, is_same, is_scalar, seq, type_name};

pub(super) fn equal(state: &State, a: &Value, b: &Value) -> Result<bool, Error> {
    let size = match (a.as_str(), b.as_str()) {
        (Some(a), Some(b)) if a.len() == b.len() => a.len(),
        _ => 0,
    };
    state.consume_fuel(1 + size as u64 / 64)?;
    if is_same(a, b) {
        return Ok(true);
    }
    if let (Some(a), Some(b)) = (seq(a), seq(b)) {
        let comparable = a.kind == b.kind && matches!(a.kind, Kind::List | Kind::Tuple | Kind::Range);
        if !comparable || a.items.len() != b.items.len() {
            return Ok(false);
        }
        for (a, b) in a.items.iter().zip(&b.items) {
            if !equal(state, a, b)? {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    if let (Some(a), Some(b)) = (dict(a), dict(b)) {
        if a.entries.len() != b.entries.len() {
            return Ok(false);
        }
        for (key, value) in &a.entries {
            match b.entries.get(key) {
                Some(other) if equal(state, value, other)? => {}
                _ => return Ok(false),
            }
        }
        return Ok(true);
    }
    Ok(is_scalar(a) && is_scalar(b) && a == b)
}

/// The order of two numbers or strings. NaN has none, but is an answer.
pub(super) fn order(a: &Value, b: &Value) -> Result<Option<Ordering>, Error> {
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        return Ok(Some(a.cmp(b)));
    }
    match (Number::of(a), Number::of(b)) {
        (Some(one), Some(other)) => Ok((!one.is_nan() && !other.is_nan()).then(|| a.cmp(b))),
        _ => fail(format!("values of the types {} and {} have no order", type_name(a), type_name(b))),
    }
}

/// Whether the order of `a` and `b` is the one that `operator` asks for.
pub(super) fn ordered(operator: &str, a: &Value, b: &Value) -> Result<bool, Error> {
    Ok(order(a, b)?.is_some_and(|order| match operator {
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    }))
}

/// Sorts items by their keys; equal ones stay in their order.
pub(super) fn sort<T>(items: &mut [T], reverse: bool, key: impl Fn(&T) -> &Value) -> Result<(), Error> {
    let mut failed = None;
    items.sort_by(|a, b| match order(key(a), key(b)) {
        Ok(order) if reverse => order.unwrap_or(Ordering::Equal).reverse(),
        Ok(order) => order.unwrap_or(Ordering::Equal),
        Err(e) => {
            failed.get_or_insert(e);
            Ordering::Equal
        }
    });
    failed.map_or(Ok(()), Err)
}

/// Whether `item` is in `container`.
pub(super) fn contains(state: &State, container: &Value, item: &Value) -> Result<bool, Error> {
    if let Some(text) = container.as_str() {
        state.consume_fuel(text.len() as u64 / 64)?;
        return match item.as_str() {
            Some(part) => Ok(text.contains(part)),
            None => fail(format!("'in <string>' requires string as left operand, not {}", type_name(item))),
        };
    }
    if let Some(dict) = dict(container) {
        check_key(item)?;
        return Ok(dict.entries.contains_key(item));
    }
    if let Some(seq) = seq(container) {
        for other in seq.take() {
            if equal(state, other, item)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    if container.kind() == ValueKind::Undefined {
        return Ok(false);
    }
    fail(format!("argument of type '{}' is not iterable", type_name(container)))
}
