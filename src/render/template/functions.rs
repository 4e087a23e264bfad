//! The functions that a template can call.

use chrono::NaiveDate;
use minijinja::{Error, State, Value};

use super::arguments::{Args, int, split, text};
use super::calls::Calls;
use super::date::strftime;
use super::objects::{Dict, Kind, Namespace, Seq, dict};
use super::text::string;
use super::{NO_DATE, REFUSED, fail};

pub(super) fn add(calls: &mut Calls, date: Option<NaiveDate>) {
    type Call = fn(&State, &[Value]) -> Result<Value, Error>;
    let functions: [(&str, Call); 4] = [
        ("dict", |state, args| Dict::make(state, entries(args)?)),
        ("namespace", |state, args| {
            let entries =
                entries(args)?.into_iter().map(|(name, value)| Ok((text(&name)?.to_owned(), value)));
            Namespace::make(state, entries.collect::<Result<_, Error>>()?)
        }),
        ("raise_exception", |_, args| {
            let args = Args::bind("raise_exception", 1, &["message"], args)?;
            fail(format!("{REFUSED}{}", string(&args[0])?))
        }),
        ("range", range),
    ];
    for (name, function) in functions {
        calls.function(name, function);
    }
    calls.function("strftime_now", move |_, args| {
        let args = Args::bind("strftime_now", 1, &[""], args)?;
        match date {
            Some(date) => strftime(date, text(&args[0])?).map(Value::from),
            None => fail(NO_DATE),
        }
    });
}

/// The entries of `dict(...)`: those of a dict, then the named arguments.
fn entries(args: &[Value]) -> Result<Vec<(Value, Value)>, Error> {
    let (placed, named) = split(args);
    let placed = match placed {
        [] => None,
        [only] if let Some(dict) = dict(only) => Some(dict),
        _ => return fail("`dict` and `namespace` take a dict and named arguments"),
    };
    let placed = placed.into_iter().flat_map(|dict| dict.entries.clone());
    Ok(placed.chain(named.into_iter().map(|(name, value)| (Value::from(name), value))).collect())
}

/// As many numbers as the reference's sandbox allows.
const LONGEST_RANGE: i128 = 100_000;

fn range(state: &State, args: &[Value]) -> Result<Value, Error> {
    let args = Args::bind("range", 1, &["", "", ""], args)?;
    let (start, stop) = match args.get(1) {
        Some(stop) => (int(&args[0])?, int(stop)?),
        None => (0, int(&args[0])?),
    };
    let step = args.int_or(2, 1)?;
    if step == 0 {
        return fail("range() arg 3 must not be zero");
    }
    if [start, stop, step].iter().any(|number| i64::try_from(*number).is_err()) {
        return fail("a number of the range is too large");
    }
    let count = if step > 0 { (stop - start + step - 1) / step } else { (start - stop - step - 1) / -step };
    if count > LONGEST_RANGE {
        return fail(format!("Range too big. The sandbox blocks ranges larger than {LONGEST_RANGE}."));
    }
    let items = (0..count.max(0)).map(|i| super::numbers::from_int(start + i * step)).collect();
    Seq::make(state, Kind::Range, items)
}
