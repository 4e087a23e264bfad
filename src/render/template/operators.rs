//! What operators do, where Python and minijinja differ.

use minijinja::value::ValueKind;
use minijinja::{Error, State, Value};

use super::numbers::{Number, from_int, int};
use super::objects::{Dict, Kind, Namespace, Seq, dict, is_scalar, items, places, seq, type_name};
use super::{compare, fail, format, room, text};

type Operator = fn(&State, &[Value]) -> Result<Value, Error>;

/// The filter whose blocks are the generation blocks: it puts marks around their text.
pub(super) const GENERATION: &str = "_generation_";
/// Whether an argument of a macro is missing. The machine takes white space and such signs out of a template's names.
pub(super) const MISSING: &str = "missing!";
/// Makes a macro of one of minijinja's.
pub(super) const MACRO: &str = "macro!";

/// The operators, by names that are no filters of a template.
pub(super) const OPERATORS: [(&str, Operator); 18] = [
    ("+", |state, args| add(state, &args[0], &args[1])),
    ("*", |state, args| multiply(state, &args[0], &args[1])),
    ("%", |state, args| remainder(state, &args[0], &args[1])),
    ("~", |state, args| concatenate(state, &args[0], &args[1])),
    ("==", |state, args| compare::equal(state, &args[0], &args[1]).map(Value::from)),
    ("!=", |state, args| compare::equal(state, &args[0], &args[1]).map(|same| Value::from(!same))),
    ("<", |_, args| compare::ordered("<", &args[0], &args[1]).map(Value::from)),
    ("<=", |_, args| compare::ordered("<=", &args[0], &args[1]).map(Value::from)),
    (">", |_, args| compare::ordered(">", &args[0], &args[1]).map(Value::from)),
    (">=", |_, args| compare::ordered(">=", &args[0], &args[1]).map(Value::from)),
    ("in!", |state, args| compare::contains(state, &args[1], &args[0]).map(Value::from)),
    ("[]", |state, args| item(state, &args[0], &args[1])),
    ("[:]", slice),
    ("for!", |state, args| iterable(state, &args[0])),
    ("list!", |state, args| Seq::list(state, args.to_vec())),
    ("tuple!", |state, args| Seq::make(state, Kind::Tuple, args.to_vec())),
    ("dict!", |state, args| {
        Dict::make(state, args.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
    }),
    (".=", |state, args| match args[1].downcast_object_ref::<Namespace>() {
        Some(namespace) => {
            namespace.set(state, args[2].as_str().unwrap_or_default(), args[0].clone()).map(Value::from)
        }
        None => fail(format!("`set` changes attributes of namespaces only, not of {}", type_name(&args[1]))),
    }),
];

fn add(state: &State, a: &Value, b: &Value) -> Result<Value, Error> {
    if let (Some(left), Some(right)) = (a.as_str(), b.as_str()) {
        room(state, 6 * (left.len() + right.len()))?;
        if !a.is_safe() && !b.is_safe() {
            return Ok(Value::from([left, right].concat()));
        }
        // Whichever is not marked as safe is escaped, as Markup does.
        let escaped = |text, value: &Value| if value.is_safe() { str::to_owned(text) } else { escape(text) };
        return Ok(Value::from_safe_string(escaped(left, a) + &escaped(right, b)));
    }
    if let (Some(left), Some(right)) = (seq(a), seq(b))
        && left.kind == right.kind
        && matches!(left.kind, Kind::List | Kind::Tuple)
    {
        room(state, 32 * (left.items.len() + right.items.len()))?;
        return Seq::make(state, left.kind, [left.items.as_slice(), &right.items].concat());
    }
    arithmetic("+", a, b, i128::checked_add, |a, b| a + b)
}

/// Numbers, and strings that are repeated.
fn multiply(state: &State, a: &Value, b: &Value) -> Result<Value, Error> {
    let (text, count) = if a.as_str().is_some() { (a, b) } else { (b, a) };
    let Some((string, count)) = text.as_str().zip(int(count)) else {
        return arithmetic("*", a, b, i128::checked_mul, |a, b| a * b);
    };
    let count = if string.is_empty() { 0 } else { usize::try_from(count.max(0)).unwrap_or(usize::MAX) };
    room(state, string.len().saturating_mul(count))?;
    Ok(like(text, string.repeat(count)))
}

/// The remainder of a division, which has the sign of the divisor, or a text with values in it.
fn remainder(state: &State, a: &Value, b: &Value) -> Result<Value, Error> {
    if let Some(text) = a.as_str() {
        return format::percent(state, text, b).map(|written| like(a, written));
    }
    if Number::of(b).is_some_and(|divisor| divisor.float() == 0.0) {
        return fail("modulo by zero");
    }
    let ints = |a: i128, b: i128| Some((a.checked_rem(b)? + b) % b);
    arithmetic("%", a, b, ints, |a, b| a - b * (a / b).floor())
}

fn arithmetic(
    operator: &str,
    a: &Value,
    b: &Value,
    ints: fn(i128, i128) -> Option<i128>,
    floats: fn(f64, f64) -> f64,
) -> Result<Value, Error> {
    match (Number::of(a), Number::of(b)) {
        (Some(Number::Int(a)), Some(Number::Int(b))) => match ints(a, b) {
            Some(result) => Ok(from_int(result)),
            None => fail("an integer is too large"),
        },
        (Some(a), Some(b)) => Ok(Value::from(floats(a.float(), b.float()))),
        _ => {
            let (a, b) = (type_name(a), type_name(b));
            fail(format!("unsupported operand types for {operator}: '{a}' and '{b}'"))
        }
    }
}

/// A part or a repetition of `value`, which is marked as safe if that is.
fn like(value: &Value, text: String) -> Value {
    if value.is_safe() { Value::from_safe_string(text) } else { Value::from(text) }
}

/// What `markupsafe.escape` makes of a text.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '>' => out.push_str("&gt;"),
            '<' => out.push_str("&lt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            _ => out.push(char),
        }
    }
    out
}

/// `a ~ b`.
fn concatenate(state: &State, a: &Value, b: &Value) -> Result<Value, Error> {
    room(state, a.as_str().map_or(0, str::len) + b.as_str().map_or(0, str::len))?;
    let mut out = text::string(a)?;
    text::write_str(&mut out, b)?;
    Ok(Value::from(out))
}

/// `object[key]`.
pub(super) fn item(state: &State, object: &Value, key: &Value) -> Result<Value, Error> {
    if let Some(dict) = dict(object) {
        let entry = if is_scalar(key) { dict.entries.get(key).cloned() } else { None };
        return Ok(entry.or_else(|| dict.attribute(key.as_str()?)).unwrap_or_default());
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
        let place = place(text.chars().count());
        return Ok(place.and_then(|place| text.chars().nth(place)).map(Value::from).unwrap_or_default());
    }
    match seq(object) {
        Some(seq) if seq.has_places() => {
            Ok(place(seq.items.len()).and_then(|place| seq.items.get(place)).cloned().unwrap_or_default())
        }
        Some(_) => Ok(Value::UNDEFINED),
        // A namespace or the loop, whose attributes are found by their names.
        None => Ok(object.get_item(key).unwrap_or_default()),
    }
}

/// `object[start:stop:step]`. What cannot be sliced is an error, where an item that is not there is undefined.
fn slice(state: &State, args: &[Value]) -> Result<Value, Error> {
    let [object, start, stop, step] = args else { return fail("a slice has three places") };
    let bound = |value: &Value| if value.is_none() { Some(None) } else { int(value).map(Some) };
    let (Some(start), Some(stop), Some(step)) = (bound(start), bound(stop), bound(step)) else {
        return fail("slice indices must be integers or None");
    };
    let step = step.unwrap_or(1);
    if step == 0 {
        return fail("slice step cannot be zero");
    }
    if let Some(text) = object.as_str() {
        room(state, text.len().saturating_mul(4))?;
        let chars: Vec<char> = text.chars().collect();
        return Ok(like(object, chosen(&chars, start, stop, step).collect()));
    }
    match places(object) {
        Some(seq) => Seq::make(state, seq.kind, chosen(&seq.items, start, stop, step).collect()),
        None => fail(format!("a value of the type {} cannot be sliced", type_name(object))),
    }
}

/// The items from `start` to before `stop`, as `slice.indices` reads them.
fn chosen<T: Clone>(
    items: &[T],
    start: Option<i128>,
    stop: Option<i128>,
    step: i128,
) -> impl Iterator<Item = T> {
    let length = items.len() as i128;
    let (least, most) = if step < 0 { (-1, length - 1) } else { (0, length) };
    let place =
        |bound: i128| if bound < 0 { bound.saturating_add(length).max(least) } else { bound.min(most) };
    let (first, last) = if step < 0 { (most, least) } else { (least, most) };
    let (mut at, stop) = (start.map_or(first, place), stop.map_or(last, place));
    std::iter::from_fn(move || {
        let within = if step < 0 { at > stop } else { at < stop };
        let item = within.then(|| usize::try_from(at).ok().and_then(|at| items.get(at)).cloned()).flatten();
        at = at.saturating_add(step);
        item
    })
}

/// The items of a loop. Refuses a value that Python refuses to iterate.
fn iterable(state: &State, value: &Value) -> Result<Value, Error> {
    match seq(value) {
        // It is iterated once, by what follows.
        Some(seq) if seq.kind != Kind::Iterator => Ok(value.clone()),
        _ => Seq::list(state, items(state, value)?),
    }
}

/// A constant of the template, whose lists and dicts minijinja has folded, as one of Python's. The entries of a dict
/// have their order by minijinja's feature `preserve_order`.
pub(super) fn constant(state: &State, value: &Value) -> Result<Value, Error> {
    let Some(object) = value.as_object() else { return Ok(value.clone()) };
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            let items = object.try_iter().into_iter().flatten().map(|item| constant(state, &item));
            let kind = if value.is_tuple() { Kind::Tuple } else { Kind::List };
            Seq::make(state, kind, items.collect::<Result<_, _>>()?)
        }
        ValueKind::Map => {
            let entries = object.try_iter_pairs().into_iter().flatten();
            let entries = entries.map(|(key, value)| Ok((constant(state, &key)?, constant(state, &value)?)));
            Dict::make(state, entries.collect::<Result<_, Error>>()?)
        }
        _ => Ok(value.clone()),
    }
}
