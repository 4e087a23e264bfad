//! The methods of strings, dicts and lists.
//!
//! Those that would change a dict or a list are refused, as the reference's sandbox does.

pub(super) mod strings;

use std::sync::Arc;

use minijinja::{Error, ErrorKind, State, Value};

use super::arguments::{PLACED, bind, int_or, required};
use super::objects::{Dict, Kind, Seq, check_hashable};
use super::{compare, fail};

/// Calls a method of what minijinja has no methods for.
pub(super) fn of_value(state: &State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    match value.as_str() {
        Some(text) => strings::call(state, text, value.is_safe(), name, args),
        None => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

pub(super) fn of_dict(state: &State, dict: &Arc<Dict>, name: &str, args: &[Value]) -> Result<Value, Error> {
    let view = |name, items| Seq::make(state, Kind::View(name), items);
    match name {
        "get" => {
            let [key, otherwise] = bind([PLACED, PLACED], args)?;
            let key = required(key, "key")?;
            check_hashable(&key)?;
            Ok(dict.get(&key).cloned().or(otherwise).unwrap_or_else(|| Value::from(())))
        }
        "items" => {
            let [] = bind([], args)?;
            let pairs =
                dict.entries.iter().map(|(key, value)| Seq::tuple(state, vec![key.clone(), value.clone()]));
            view("dict_items", pairs.collect::<Result<_, _>>()?)
        }
        "keys" => {
            let [] = bind([], args)?;
            view("dict_keys", dict.keys())
        }
        "values" => {
            let [] = bind([], args)?;
            view("dict_values", dict.entries.iter().map(|(_, value)| value.clone()).collect())
        }
        "copy" => {
            let [] = bind([], args)?;
            Ok(Value::from_dyn_object(Arc::clone(dict)))
        }
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

pub(super) fn of_seq(state: &State, seq: &Seq, name: &str, args: &[Value]) -> Result<Value, Error> {
    if !seq.has_places() {
        return Err(Error::from(ErrorKind::UnknownMethod));
    }
    state.consume_fuel(seq.items.len() as u64 / 2)?;
    let mut budget = compare::budget();
    match name {
        "count" => {
            let [value] = bind([PLACED], args)?;
            let value = required(value, "value")?;
            let mut count = 0;
            for item in &seq.items {
                count += i64::from(compare::equal(item, &value, &mut budget)?);
            }
            Ok(Value::from(count))
        }
        "index" => {
            let [value, start, stop] = bind([PLACED, PLACED, PLACED], args)?;
            let value = required(value, "value")?;
            let length = seq.items.len() as i128;
            let place = |bound: i128| if bound < 0 { bound.saturating_add(length).max(0) } else { bound };
            let within = place(int_or(start.as_ref(), 0)?)..place(int_or(stop.as_ref(), i128::MAX)?);
            for (i, item) in seq.items.iter().enumerate() {
                if within.contains(&(i as i128)) && compare::equal(item, &value, &mut budget)? {
                    return Ok(Value::from(i));
                }
            }
            fail("the value is not in the list")
        }
        "copy" if seq.kind == Kind::List => Seq::list(state, seq.items.clone()),
        _ => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}
