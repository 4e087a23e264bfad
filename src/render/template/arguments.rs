//! Arguments of filters, functions and methods, by their places and names.

use std::ops::Index;

use minijinja::{Error, Value};

use super::objects::type_name;
use super::{fail, numbers};

/// The positional arguments, and the named ones.
pub(super) fn split(args: &[Value]) -> (&[Value], Vec<(String, Value)>) {
    match args.split_last() {
        Some((last, rest)) if last.is_kwargs() => {
            let pairs = last.as_object().and_then(|named| named.try_iter_pairs()).into_iter().flatten();
            (rest, pairs.map(|(name, value)| (name.as_str().unwrap_or_default().to_owned(), value)).collect())
        }
        _ => (args, Vec::new()),
    }
}

/// The most parameters of a function.
const MOST: usize = 5;

/// The arguments of a call, in the order of the parameters. One that is missing reads as undefined.
#[derive(Debug)]
pub(super) struct Args([Option<Value>; MOST]);

impl Args {
    /// Binds arguments to the parameters `names` of `function`, of which the first `required` must be there. A parameter
    /// whose name is empty takes a positional argument only.
    pub(super) fn bind(
        function: &str,
        required: usize,
        names: &[&str],
        args: &[Value],
    ) -> Result<Self, Error> {
        let (placed, named) = split(args);
        if placed.len() > names.len() {
            return fail(format!(
                "`{function}` takes at most {} arguments, not {}",
                names.len(),
                placed.len()
            ));
        }
        let mut bound: [Option<Value>; MOST] = std::array::from_fn(|place| placed.get(place).cloned());
        for (name, value) in named {
            match names.iter().position(|known| *known == name) {
                Some(place) if bound[place].is_none() => bound[place] = Some(value),
                Some(_) => return fail(format!("`{function}` takes `{name}` once")),
                None => return fail(format!("`{function}` has no parameter `{name}`")),
            }
        }
        match bound[..required].iter().position(Option::is_none) {
            Some(place) => fail(format!("`{function}` needs {required} arguments, not {place}")),
            None => Ok(Self(bound)),
        }
    }

    pub(super) fn get(&self, place: usize) -> Option<&Value> {
        self.0.get(place)?.as_ref()
    }

    /// An argument that may be missing or `None`.
    pub(super) fn some(&self, place: usize) -> Option<&Value> {
        self.get(place).filter(|value| !value.is_none())
    }

    /// Whether an argument is true. A missing one is not.
    pub(super) fn flag(&self, place: usize) -> bool {
        self[place].is_true()
    }

    pub(super) fn int_or(&self, place: usize, otherwise: i128) -> Result<i128, Error> {
        self.get(place).map_or(Ok(otherwise), int)
    }
}

impl Index<usize> for Args {
    type Output = Value;

    fn index(&self, place: usize) -> &Value {
        static MISSING: Value = Value::UNDEFINED;
        self.get(place).unwrap_or(&MISSING)
    }
}

pub(super) fn text(value: &Value) -> Result<&str, Error> {
    match value.as_str() {
        Some(text) => Ok(text),
        None => fail(format!("expected a str, not {}", type_name(value))),
    }
}

pub(super) fn int(value: &Value) -> Result<i128, Error> {
    match numbers::int(value) {
        Some(value) => Ok(value),
        None => fail(format!("expected an int, not {}", type_name(value))),
    }
}
