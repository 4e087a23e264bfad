//! The functions that a template can call.

use minijinja::{Environment, Error, State, Value};

use super::arguments::{bind, int, required, split, text};
use super::date::Date;
use super::objects::{Dict, Function, Kind, Namespace, Seq, dict, items};
use super::{NO_DATE, REFUSED, fail};

/// Adds the functions to an environment.
pub(super) fn add(env: &mut Environment<'_>, date: Option<Date>) {
    type Call = fn(&mut State<'_, '_>, &[Value]) -> Result<Value, Error>;
    let functions: [(&str, Call); 4] = [
        ("dict", |state, args| {
            let entries = entries(state, args)?;
            Dict::make(state, entries)
        }),
        ("namespace", |state, args| {
            let entries =
                entries(state, args)?.into_iter().map(|(name, value)| Ok((text(&name)?.to_owned(), value)));
            let entries = entries.collect::<Result<_, Error>>()?;
            Namespace::make(state, entries)
        }),
        ("raise_exception", |_, args| {
            let [message] = bind(["message"], args)?;
            fail(format!("{REFUSED}{}", super::text::string(&required(message, "message")?)?))
        }),
        ("range", range),
    ];
    for (name, function) in functions {
        env.add_global(name, Value::from_object(Function(function)));
    }
    // The template itself, of which nothing is known.
    env.add_global("self", Value::from_object(Namespace::default()));
    env.add_function("strftime_now", move |format: &str| match date {
        Some(date) => Ok(date.strftime(format)),
        None => fail(NO_DATE),
    });
}

/// The entries of `dict(...)`: those of a dict or of pairs, then the named arguments.
fn entries(state: &State, args: &[Value]) -> Result<Vec<(Value, Value)>, Error> {
    let (placed, named) = split(args);
    let mut entries = match placed {
        [] => Vec::new(),
        [only] => match dict(only) {
            Some(dict) => dict.entries.clone(),
            None => {
                let pair = |pair: Value| match items(state, &pair)?.as_slice() {
                    [key, value] => Ok((key.clone(), value.clone())),
                    _ => fail("dict wants pairs"),
                };
                items(state, only)?.into_iter().map(pair).collect::<Result<_, Error>>()?
            }
        },
        _ => return fail(format!("dict expected at most 1 argument, got {}", placed.len())),
    };
    entries.extend(named.into_iter().map(|(name, value)| (Value::from(name), value)));
    Ok(entries)
}

/// As many numbers as the reference's sandbox allows.
const LONGEST_RANGE: i128 = 100_000;

fn range(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [first, second, step] = bind(["start", "stop", "step"], args)?;
    let first = int(&required(first, "stop")?)?;
    let (start, stop) = match second {
        Some(stop) => (first, int(&stop)?),
        None => (0, first),
    };
    let step = step.as_ref().map_or(Ok(1), int)?;
    if step == 0 {
        return fail("range() arg 3 must not be zero");
    }
    let [start, stop, step] = [start, stop, step].map(i64::try_from);
    let (Ok(start), Ok(stop), Ok(step)) = (start, stop, step) else {
        return fail("a number of the range is too large");
    };
    let (from, to, by) = (i128::from(start), i128::from(stop), i128::from(step));
    let count = if by > 0 { (to - from + by - 1) / by } else { (from - to - by - 1) / -by };
    if count > LONGEST_RANGE {
        return fail(format!("Range too big. The sandbox blocks ranges larger than {LONGEST_RANGE}."));
    }
    let items = (0..count.max(0)).map(|i| super::numbers::from_int(from + i * by)).collect();
    Seq::make(state, Kind::Range(start, stop, step), items)
}
