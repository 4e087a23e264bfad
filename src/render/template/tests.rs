//! The tests of Jinja.

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, State, Value};

use super::numbers::Number;
use super::objects::{Bound, Function, dict, is_iterable, places};
use super::program::Macro;
use super::{compare, fail, methods, objects, operators, text};

type Test = fn(&State, &[Value]) -> Result<bool, Error>;

const TESTS: [(&str, usize, Test); 38] = [
    ("!=", 2, |_, args| compare::equal(&args[0], &args[1], &mut compare::budget()).map(|same| !same)),
    ("<", 2, |_, args| ordered(args, "<")),
    ("<=", 2, |_, args| ordered(args, "<=")),
    ("==", 2, |_, args| compare::equal(&args[0], &args[1], &mut compare::budget())),
    (">", 2, |_, args| ordered(args, ">")),
    (">=", 2, |_, args| ordered(args, ">=")),
    ("boolean", 1, |_, args| Ok(args[0].kind() == ValueKind::Bool)),
    ("callable", 1, |_, args| Ok(is_callable(&args[0]))),
    ("defined", 1, |_, args| Ok(!args[0].is_undefined())),
    ("divisibleby", 2, |state, args| is_zero(&operators::remainder(state, &args[0], &args[1])?)),
    ("eq", 2, |_, args| compare::equal(&args[0], &args[1], &mut compare::budget())),
    ("equalto", 2, |_, args| compare::equal(&args[0], &args[1], &mut compare::budget())),
    ("escaped", 1, |_, args| Ok(args[0].is_safe())),
    ("even", 1, |state, args| is_zero(&operators::remainder(state, &args[0], &Value::from(2))?)),
    ("false", 1, |_, args| Ok(args[0].kind() == ValueKind::Bool && !args[0].is_true())),
    ("float", 1, |_, args| Ok(args[0].kind() == ValueKind::Number && !args[0].is_integer())),
    ("ge", 2, |_, args| ordered(args, ">=")),
    ("greaterthan", 2, |_, args| ordered(args, ">")),
    ("gt", 2, |_, args| ordered(args, ">")),
    ("in", 2, |state, args| compare::contains(state, &args[1], &args[0])),
    ("integer", 1, |_, args| Ok(args[0].kind() == ValueKind::Number && args[0].is_integer())),
    ("iterable", 1, |_, args| Ok(is_iterable(&args[0]))),
    ("le", 2, |_, args| ordered(args, "<=")),
    ("lessthan", 2, |_, args| ordered(args, "<")),
    ("lower", 1, |state, args| string_is(state, &args[0], "islower")),
    ("lt", 2, |_, args| ordered(args, "<")),
    ("mapping", 1, |_, args| Ok(dict(&args[0]).is_some())),
    ("ne", 2, |_, args| compare::equal(&args[0], &args[1], &mut compare::budget()).map(|same| !same)),
    ("none", 1, |_, args| Ok(args[0].is_none())),
    ("number", 1, |_, args| Ok(matches!(args[0].kind(), ValueKind::Bool | ValueKind::Number))),
    ("odd", 1, |state, args| {
        let rest = operators::remainder(state, &args[0], &Value::from(2))?;
        compare::equal(&rest, &Value::from(1), &mut compare::budget())
    }),
    ("safe", 1, |_, args| Ok(args[0].is_safe())),
    ("sameas", 2, |_, args| Ok(same(&args[0], &args[1]))),
    ("sequence", 1, |_, args| Ok(is_sequence(&args[0]))),
    ("string", 1, |_, args| Ok(args[0].as_str().is_some())),
    ("true", 1, |_, args| Ok(args[0].kind() == ValueKind::Bool && args[0].is_true())),
    ("undefined", 1, |_, args| Ok(args[0].is_undefined())),
    ("upper", 1, |state, args| string_is(state, &args[0], "isupper")),
];

/// Adds the tests to an environment.
pub(super) fn add(env: &mut Environment<'_>) {
    for (name, count, test) in TESTS {
        env.add_test(name, move |state: &State<'_, '_>, args: Rest<ValueOrKwargs>| {
            let args: Vec<Value> = args.iter().map(|value| Value::clone(value)).collect();
            if args.len() != count || args.iter().any(Value::is_kwargs) {
                return fail(format!("the test `{name}` wants {} arguments", count - 1));
            }
            test(state, &args)
        });
    }
}

fn ordered(args: &[Value], operator: &'static str) -> Result<bool, Error> {
    let holds = match operator {
        "<" => std::cmp::Ordering::is_lt,
        "<=" => std::cmp::Ordering::is_le,
        ">" => std::cmp::Ordering::is_gt,
        _ => std::cmp::Ordering::is_ge,
    };
    operators::ordered(operator, holds, &args[0], &args[1])
}

fn is_zero(value: &Value) -> Result<bool, Error> {
    compare::equal(value, &Value::from(0), &mut compare::budget())
}

/// An undefined value has a `__call__`, which fails.
fn is_callable(value: &Value) -> bool {
    value.is_undefined()
        || value.downcast_object_ref::<Bound>().is_some()
        || value.downcast_object_ref::<Function>().is_some()
        || value.downcast_object_ref::<Macro>().is_some()
        // A macro is an object with these attributes, and nothing else of a template is.
        || value.as_object().is_some_and(|object| object.type_name().ends_with("::Macro"))
}

/// An undefined value has a length, and a method for its items.
fn is_sequence(value: &Value) -> bool {
    value.as_str().is_some() || value.is_undefined() || places(value).is_some() || dict(value).is_some()
}

/// `a is b`, which is told for what there is once, and for objects.
fn same(a: &Value, b: &Value) -> bool {
    match (a.as_object(), b.as_object()) {
        (Some(a), Some(b)) => objects::is_same(a, b),
        (None, None) => match (a.kind(), b.kind()) {
            (ValueKind::Number, ValueKind::Number) => {
                let small = |value: &Value| matches!(Number::of(value), Some(Number::Int(-5..=256)));
                a == b && small(a) && small(b)
            }
            // Each is one of its own.
            (ValueKind::Undefined, _) => false,
            (one, other) => one == other && a == b,
        },
        _ => false,
    }
}

fn string_is(state: &State, value: &Value, method: &str) -> Result<bool, Error> {
    methods::strings::call(state, &text::string(value)?, false, method, &[]).map(|holds| holds.is_true())
}
