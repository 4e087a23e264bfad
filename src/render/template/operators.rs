//! What operators do, where Python and minijinja differ.

use std::cmp::Ordering;

use minijinja::value::ValueKind;
use minijinja::{Error, State, Value};

use super::format;
use super::numbers::{Number, from_int, int};
use super::objects::{self, Kind, Seq, dict, places, seq, type_name};
use super::{compare, fail, room, text};

fn unsupported<T>(operator: &str, a: &Value, b: &Value) -> Result<T, Error> {
    if a.is_undefined() || b.is_undefined() {
        return fail(format!("an undefined value is given to `{operator}`"));
    }
    let (a, b) = (type_name(a), type_name(b));
    fail(format!("unsupported operand types for {operator}: '{a}' and '{b}'"))
}

fn too_large<T>(result: Option<T>) -> Result<T, Error> {
    result.map_or_else(|| fail("an integer is too large"), Ok)
}

pub(super) fn add(state: &State, a: &Value, b: &Value) -> Result<Value, Error> {
    if let (Some(left), Some(right)) = (a.as_str(), b.as_str()) {
        if a.is_safe() == b.is_safe() {
            room(state, left.len() + right.len())?;
            let sum = [left, right].concat();
            return Ok(if a.is_safe() { Value::from_safe_string(sum) } else { Value::from(sum) });
        }
        // Whichever is not marked as safe is escaped, as Markup does.
        let escaped =
            |text: &str, value: &Value| if value.is_safe() { text.to_owned() } else { text::escape(text) };
        room(state, 6 * (left.len() + right.len()))?;
        return Ok(Value::from_safe_string(escaped(left, a) + &escaped(right, b)));
    }
    if let (Some(left), Some(right)) = (seq(a), seq(b))
        && left.kind == right.kind
        && matches!(left.kind, Kind::List | Kind::Tuple)
    {
        room(state, 32 * (left.items.len() + right.items.len()))?;
        return Seq::make(state, left.kind, [left.items.as_slice(), &right.items].concat());
    }
    match (Number::of(a), Number::of(b)) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => too_large(a.checked_add(b)).map(from_int),
        (Some(a), Some(b)) => Ok(Value::from(a.float() + b.float())),
        _ => unsupported("+", a, b),
    }
}

pub(super) fn multiply(state: &State, a: &Value, b: &Value) -> Result<Value, Error> {
    let repeated = |value: &Value, count: &Value| -> Option<Result<Value, Error>> {
        let count = usize::try_from(int(count)?.max(0)).unwrap_or(usize::MAX);
        if let Some(text) = value.as_str() {
            return Some(room(state, text.len().saturating_mul(count)).map(|()| {
                let text = text.repeat(if text.is_empty() { 0 } else { count });
                if value.is_safe() { Value::from_safe_string(text) } else { Value::from(text) }
            }));
        }
        let seq = seq(value).filter(|seq| matches!(seq.kind, Kind::List | Kind::Tuple))?;
        let size = seq.items.len().saturating_mul(count).saturating_mul(32);
        Some(room(state, size).and_then(|()| {
            let length = seq.items.len().saturating_mul(count);
            Seq::make(state, seq.kind, seq.items.iter().cycle().take(length).cloned().collect())
        }))
    };
    if let Some(repeated) = repeated(a, b).or_else(|| repeated(b, a)) {
        return repeated;
    }
    match (Number::of(a), Number::of(b)) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => too_large(a.checked_mul(b)).map(from_int),
        (Some(a), Some(b)) => Ok(Value::from(a.float() * b.float())),
        _ => unsupported("*", a, b),
    }
}

pub(super) fn remainder(state: &State, a: &Value, b: &Value) -> Result<Value, Error> {
    if let Some(text) = a.as_str() {
        return format::percent(state, text, b);
    }
    match (Number::of(a), Number::of(b)) {
        (Some(Number::Int(_)), Some(Number::Int(0))) => fail("modulo by zero"),
        (Some(Number::Int(a)), Some(Number::Int(b))) => {
            let rest = a.checked_rem(b).unwrap_or_default();
            Ok(from_int(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }))
        }
        (Some(a), Some(b)) => {
            let (a, b) = (a.float(), b.float());
            if b == 0.0 {
                return fail("modulo by zero");
            }
            let rest = a % b;
            let rest = if rest == 0.0 { 0.0_f64.copysign(b) } else { rest };
            Ok(Value::from(if (rest < 0.0) == (b < 0.0) { rest } else { rest + b }))
        }
        _ => unsupported("%", a, b),
    }
}

/// `a ~ b`.
pub(super) fn concatenate(state: &State, a: &Value, b: &Value) -> Result<Value, Error> {
    room(state, a.as_str().map_or(0, str::len) + b.as_str().map_or(0, str::len))?;
    let mut out = String::new();
    text::write_str(&mut out, a)?;
    text::write_str(&mut out, b)?;
    Ok(Value::from(out))
}

/// Whether the order of two values is one that `holds` takes, for `operator`: `<`, `<=`, `>` or `>=`.
pub(super) fn ordered(
    operator: &str,
    holds: fn(Ordering) -> bool,
    a: &Value,
    b: &Value,
) -> Result<bool, Error> {
    if a.is_undefined() || b.is_undefined() {
        return unsupported(operator, a, b);
    }
    Ok(compare::order(a, b, &mut compare::budget())?.is_some_and(holds))
}

/// `object[key]`.
pub(super) fn item(state: &State, object: &Value, key: &Value) -> Result<Value, Error> {
    if let Some(dict) = object.downcast_object::<objects::Dict>() {
        if let Some(value) = dict.get(key) {
            return Ok(value.clone());
        }
        return Ok(key.as_str().and_then(|name| objects::bound(&dict, name)).unwrap_or_default());
    }
    if object.is_undefined() {
        return fail("an undefined value has no items");
    }
    let place = |length: usize| {
        let place = int(key)?;
        usize::try_from(if place < 0 { place + length as i128 } else { place }).ok()
    };
    if let Some(text) = object.as_str() {
        state.consume_fuel(text.len() as u64 / 64)?;
        if text.is_ascii() {
            return Ok(place(text.len())
                .and_then(|place| text.get(place..=place))
                .map(Value::from)
                .unwrap_or_default());
        }
        let place = place(text.chars().count());
        return Ok(place.and_then(|place| text.chars().nth(place)).map(Value::from).unwrap_or_default());
    }
    if let Some(seq) = places(object) {
        return Ok(place(seq.items.len())
            .and_then(|place| seq.items.get(place))
            .cloned()
            .unwrap_or_default());
    }
    // A view of a dict, or a generator.
    if seq(object).is_some() {
        return Ok(Value::UNDEFINED);
    }
    // A namespace or the loop, whose attributes are found by their names.
    Ok(object.get_item(key).unwrap_or_default())
}

/// `object[start:stop:step]`. What cannot be sliced is an error, where an item that is not there is undefined.
pub(super) fn slice(
    state: &State,
    object: &Value,
    start: &Value,
    stop: &Value,
    step: &Value,
) -> Result<Value, Error> {
    if object.is_undefined() {
        return fail("an undefined value cannot be sliced");
    }
    if object.as_str().is_none() && places(object).is_none() {
        return fail(format!("a value of the type {} cannot be sliced", objects::type_name(object)));
    }
    let bound = |value: &Value| if value.is_none() { Some(None) } else { int(value).map(Some) };
    let (Some(start), Some(stop), Some(step)) = (bound(start), bound(stop), bound(step)) else {
        return fail("slice indices must be integers or None");
    };
    let step = step.unwrap_or(1);
    if step == 0 {
        return fail("slice step cannot be zero");
    }
    if let Some(text) = object.as_str() {
        state.consume_fuel(text.len() as u64 / 64)?;
        let of =
            |text: String| if object.is_safe() { Value::from_safe_string(text) } else { Value::from(text) };
        if text.is_ascii() && step == 1 {
            let (start, stop) = ends(text.len(), start, stop, 1);
            return Ok(of(text.get(start as usize..stop.max(start) as usize).unwrap_or_default().to_owned()));
        }
        room(state, text.len().saturating_mul(4))?;
        let chars: Vec<char> = text.chars().collect();
        return Ok(of(chosen(&chars, start, stop, step).collect()));
    }
    match places(object) {
        Some(seq) => {
            let kind = match seq.kind {
                Kind::Range(first, _, by) => {
                    part_of_range(first, by, ends(seq.items.len(), start, stop, step), step)?
                }
                kind => kind,
            };
            Seq::make(state, kind, chosen(&seq.items, start, stop, step).collect())
        }
        None => Ok(Value::UNDEFINED),
    }
}

/// The slice of a range that begins at `first` and goes on `by` steps, from one place to before another.
fn part_of_range(first: i64, by: i64, (start, stop): (i128, i128), step: i128) -> Result<Kind, Error> {
    let (first, by) = (i128::from(first), i128::from(by));
    let number = |number: Option<i128>| too_large(number.and_then(|number| i64::try_from(number).ok()));
    Ok(Kind::Range(
        number(Some(first + start * by))?,
        number(Some(first + stop * by))?,
        number(by.checked_mul(step))?,
    ))
}

/// The first place of a slice, and the one before which it stops, as `slice.indices` gives them.
fn ends(length: usize, start: Option<i128>, stop: Option<i128>, step: i128) -> (i128, i128) {
    let length = length as i128;
    let (least, most) = if step < 0 { (-1, length - 1) } else { (0, length) };
    let place =
        |bound: i128| if bound < 0 { (bound.saturating_add(length)).max(least) } else { bound.min(most) };
    let (first, last) = if step < 0 { (most, least) } else { (least, most) };
    (start.map_or(first, place), stop.map_or(last, place))
}

fn chosen<T: Clone>(
    items: &[T],
    start: Option<i128>,
    stop: Option<i128>,
    step: i128,
) -> impl Iterator<Item = T> {
    let (start, stop) = ends(items.len(), start, stop, step);
    let mut at = start;
    std::iter::from_fn(move || {
        let within = if step < 0 { at > stop } else { at < stop };
        let item = within.then(|| usize::try_from(at).ok().and_then(|at| items.get(at)).cloned()).flatten();
        at = at.saturating_add(step);
        item
    })
}

/// The items of a loop. Refuses a value that Python refuses to iterate.
pub(super) fn iterable(state: &State, value: &Value) -> Result<Value, Error> {
    match seq(value) {
        // It is iterated once, by what follows.
        Some(seq) if seq.kind != Kind::Iterator => Ok(value.clone()),
        _ => Seq::list(state, objects::items(state, value)?),
    }
}

pub(super) fn list(state: &State, items: &[Value]) -> Result<Value, Error> {
    Seq::list(state, items.to_vec())
}

pub(super) fn tuple(state: &State, items: &[Value]) -> Result<Value, Error> {
    Seq::tuple(state, items.to_vec())
}

/// A dict of keys, each followed by its value.
pub(super) fn mapping(state: &State, parts: &[Value]) -> Result<Value, Error> {
    let entries = parts.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
    objects::Dict::make(state, entries.collect())
}

/// A constant of the template, whose lists and dicts minijinja has folded, as one of Python's. The entries of a dict
/// have their order by minijinja's feature `preserve_order`.
pub(super) fn constant(state: &State, value: &Value) -> Result<Value, Error> {
    let Some(object) = value.as_object() else { return Ok(value.clone()) };
    if seq(value).is_some() || dict(value).is_some() {
        return Ok(value.clone());
    }
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            let items = object.try_iter().into_iter().flatten().map(|item| constant(state, &item));
            let kind = if value.is_tuple() { Kind::Tuple } else { Kind::List };
            Seq::make(state, kind, items.collect::<Result<_, _>>()?)
        }
        ValueKind::Map => {
            let entries = object.try_iter_pairs().into_iter().flatten();
            let entries = entries.map(|(key, value)| Ok((constant(state, &key)?, constant(state, &value)?)));
            objects::Dict::make(state, entries.collect::<Result<_, Error>>()?)
        }
        _ => Ok(value.clone()),
    }
}
