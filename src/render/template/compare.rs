//! Comparing as Python compares.

use std::cmp::Ordering;

use minijinja::value::ValueKind;
use minijinja::{Error, State, Value};

use super::fail;
use super::objects::{self, Dict, Kind, Seq, dict, seq};

/// How many parts of two values are compared at most. Parts that are shared could otherwise be visited for ever.
pub(super) fn budget() -> usize {
    1_000_000
}

fn spend(budget: &mut usize) -> Result<(), Error> {
    match budget.checked_sub(1) {
        Some(rest) => {
            *budget = rest;
            Ok(())
        }
        None => fail("the values are too large to be compared"),
    }
}

pub(super) fn equal(a: &Value, b: &Value, budget: &mut usize) -> Result<bool, Error> {
    spend(budget)?;
    match (a.as_object(), b.as_object()) {
        (Some(one), Some(other)) if objects::is_same(one, other) => Ok(true),
        (Some(_), Some(_)) => match (seq(a), seq(b), dict(a), dict(b)) {
            (Some(a), Some(b), ..) => same_seqs(a, b, budget),
            (.., Some(a), Some(b)) => same_dicts(a, b, budget),
            _ => Ok(false),
        },
        (None, None) => Ok(a == b),
        _ => Ok(false),
    }
}

pub(super) fn same_seqs(a: &Seq, b: &Seq, budget: &mut usize) -> Result<bool, Error> {
    let comparable = match (a.kind, b.kind) {
        (Kind::Range(..), Kind::Range(..)) => true,
        (a, b) => a == b && a != Kind::Iterator,
    };
    if !comparable || a.items.len() != b.items.len() {
        return Ok(false);
    }
    for (a, b) in a.items.iter().zip(&b.items) {
        if !equal(a, b, budget)? {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn same_dicts(a: &Dict, b: &Dict, budget: &mut usize) -> Result<bool, Error> {
    if a.entries.len() != b.entries.len() {
        return Ok(false);
    }
    for (key, value) in &a.entries {
        match b.get(key) {
            Some(other) if equal(value, other, budget)? => {}
            _ => return Ok(false),
        }
    }
    Ok(true)
}

/// The order of two values that have one: numbers, strings, lists, tuples. NaN has none, but is an answer.
pub(super) fn order(a: &Value, b: &Value, budget: &mut usize) -> Result<Option<Ordering>, Error> {
    spend(budget)?;
    let number = |value: &Value| matches!(value.kind(), ValueKind::Bool | ValueKind::Number);
    if let (Some(a), Some(b)) = (a.as_str(), b.as_str()) {
        return Ok(Some(a.cmp(b)));
    }
    if number(a) && number(b) {
        let float = |value: &Value| f64::try_from(value.clone()).is_ok_and(f64::is_nan);
        return Ok(if float(a) || float(b) { None } else { Some(a.cmp(b)) });
    }
    if let (Some(a), Some(b)) = (seq(a), seq(b))
        && a.kind == b.kind
        && matches!(a.kind, Kind::List | Kind::Tuple)
    {
        for (a, b) in a.items.iter().zip(&b.items) {
            if !equal(a, b, budget)? {
                return order(a, b, budget);
            }
        }
        return Ok(Some(a.items.len().cmp(&b.items.len())));
    }
    let (a, b) = (objects::type_name(a), objects::type_name(b));
    fail(format!("values of the types {a} and {b} have no order"))
}

/// Whether `item` is in `container`.
pub(super) fn contains(state: &State, container: &Value, item: &Value) -> Result<bool, Error> {
    if let Some(text) = container.as_str() {
        state.consume_fuel(text.len() as u64 / 64)?;
        return match item.as_str() {
            Some(part) => Ok(text.contains(part)),
            None => fail(format!(
                "'in <string>' requires string as left operand, not {}",
                objects::type_name(item)
            )),
        };
    }
    if let Some(dict) = dict(container) {
        objects::check_hashable(item)?;
        return Ok(dict.get(item).is_some());
    }
    if let Some(seq) = seq(container) {
        let items = seq.take();
        state.consume_fuel(items.len() as u64 / 2)?;
        let mut budget = budget();
        for other in items {
            if equal(other, item, &mut budget)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    if container.is_undefined() {
        return Ok(false);
    }
    fail(format!("argument of type '{}' is not iterable", objects::type_name(container)))
}
