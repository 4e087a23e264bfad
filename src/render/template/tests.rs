//! The tests of Jinja.

use minijinja::value::ValueKind;
use minijinja::{Error, State, Value};

use super::arguments::int;
use super::calls::Calls;
use super::compare::{contains, equal, ordered};
use super::fail;
use super::objects::{dict, places, seq};

type Test = fn(&State, &[Value]) -> Result<bool, Error>;

/// Each test, with how many arguments it takes, and what it tells.
const TESTS: [(&str, usize, Test); 31] = [
    ("!=", 1, |state, args| equal(state, &args[0], &args[1]).map(|same| !same)),
    ("<", 1, |_, args| ordered("<", &args[0], &args[1])),
    ("<=", 1, |_, args| ordered("<=", &args[0], &args[1])),
    ("==", 1, |state, args| equal(state, &args[0], &args[1])),
    (">", 1, |_, args| ordered(">", &args[0], &args[1])),
    (">=", 1, |_, args| ordered(">=", &args[0], &args[1])),
    ("boolean", 0, |_, args| Ok(args[0].kind() == ValueKind::Bool)),
    ("defined", 0, |_, args| Ok(!args[0].is_undefined())),
    ("eq", 1, |state, args| equal(state, &args[0], &args[1])),
    ("equalto", 1, |state, args| equal(state, &args[0], &args[1])),
    ("even", 0, |_, args| Ok(int(&args[0])?.rem_euclid(2) == 0)),
    ("false", 0, |_, args| Ok(args[0].kind() == ValueKind::Bool && !args[0].is_true())),
    ("float", 0, |_, args| Ok(args[0].kind() == ValueKind::Number && !args[0].is_integer())),
    ("ge", 1, |_, args| ordered(">=", &args[0], &args[1])),
    ("greaterthan", 1, |_, args| ordered(">", &args[0], &args[1])),
    ("gt", 1, |_, args| ordered(">", &args[0], &args[1])),
    ("in", 1, |state, args| contains(state, &args[1], &args[0])),
    ("integer", 0, |_, args| Ok(args[0].kind() == ValueKind::Number && args[0].is_integer())),
    ("iterable", 0, |_, args| Ok(is_sequence(&args[0]) || seq(&args[0]).is_some())),
    ("le", 1, |_, args| ordered("<=", &args[0], &args[1])),
    ("lessthan", 1, |_, args| ordered("<", &args[0], &args[1])),
    ("lt", 1, |_, args| ordered("<", &args[0], &args[1])),
    ("mapping", 0, |_, args| Ok(dict(&args[0]).is_some())),
    ("ne", 1, |state, args| equal(state, &args[0], &args[1]).map(|same| !same)),
    ("none", 0, |_, args| Ok(args[0].is_none())),
    ("number", 0, |_, args| Ok(matches!(args[0].kind(), ValueKind::Bool | ValueKind::Number))),
    ("odd", 0, |_, args| Ok(int(&args[0])?.rem_euclid(2) == 1)),
    ("sequence", 0, |_, args| Ok(is_sequence(&args[0]))),
    ("string", 0, |_, args| Ok(args[0].as_str().is_some())),
    ("true", 0, |_, args| Ok(args[0].kind() == ValueKind::Bool && args[0].is_true())),
    ("undefined", 0, |_, args| Ok(args[0].is_undefined())),
];

/// Adds the tests to an environment.
pub(super) fn add(calls: &mut Calls) {
    for (name, count, test) in TESTS {
        calls.test(name, move |state, args| {
            if args.len() != 1 + count || args.iter().any(Value::is_kwargs) {
                return fail(format!("the test `{name}` takes {count} arguments"));
            }
            test(state, args)
        });
    }
}

/// Whether the value has a length and items. An undefined one has.
fn is_sequence(value: &Value) -> bool {
    value.as_str().is_some() || value.is_undefined() || places(value).is_some() || dict(value).is_some()
}
