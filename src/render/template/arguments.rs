//! Arguments of functions, filters and methods, by their places and names.

use minijinja::{Error, Value};

use super::fail;
use super::numbers;
use super::objects::type_name;

/// The arguments that stand at places, and the named ones.
pub(super) fn split(args: &[Value]) -> (&[Value], Vec<(String, Value)>) {
    match args.split_last() {
        Some((last, rest)) if last.is_kwargs() => {
            let pairs = last.as_object().and_then(|named| named.try_iter_pairs()).into_iter().flatten();
            (rest, pairs.map(|(name, value)| (name.as_str().unwrap_or_default().to_owned(), value)).collect())
        }
        _ => (args, Vec::new()),
    }
}

/// A parameter that takes an argument at its place only. No argument has this name.
pub(super) const PLACED: &str = "";

/// The arguments in the order of `names`.
pub(super) fn bind<const N: usize>(names: [&str; N], args: &[Value]) -> Result<[Option<Value>; N], Error> {
    let (placed, named) = split(args);
    if placed.len() > N {
        return fail(format!("at most {N} arguments are taken, and {} are given", placed.len()));
    }
    let mut bound: [Option<Value>; N] = std::array::from_fn(|i| placed.get(i).cloned());
    for (name, value) in named {
        match names.iter().position(|known| *known == name) {
            Some(place) if bound[place].is_none() => bound[place] = Some(value),
            Some(_) => return fail(format!("the argument `{name}` is given twice")),
            None => return fail(format!("unexpected keyword argument `{name}`")),
        }
    }
    Ok(bound)
}

/// An argument that has to be given.
pub(super) fn required(argument: Option<Value>, name: &str) -> Result<Value, Error> {
    argument.map_or_else(|| fail(format!("the argument `{name}` is missing")), Ok)
}

/// An argument that is a string.
pub(super) fn text(value: &Value) -> Result<&str, Error> {
    match value.as_str() {
        Some(text) => Ok(text),
        None => fail(format!("a str is expected, not {}", type_name(value))),
    }
}

/// An argument that is an integer.
pub(super) fn int(value: &Value) -> Result<i128, Error> {
    match numbers::int(value) {
        Some(value) => Ok(value),
        None => fail(format!("an int is expected, not {}", type_name(value))),
    }
}

/// The truth of an argument, `otherwise` if it is not given.
pub(super) fn flag(argument: Option<&Value>, otherwise: bool) -> bool {
    argument.map_or(otherwise, Value::is_true)
}

/// An argument that is an integer, or `otherwise` if it is not given.
pub(super) fn int_or(argument: Option<&Value>, otherwise: i128) -> Result<i128, Error> {
    argument.map_or(Ok(otherwise), int)
}

/// An argument that may be absent or `None`.
pub(super) fn some(argument: Option<&Value>) -> Option<&Value> {
    argument.filter(|value| !value.is_none())
}
