//! `"…" % values` and `"…".format(values)`, as far as chat templates write values: without widths and fillings.

use minijinja::{Error, State, Value};

use super::arguments::split;
use super::numbers::Number;
use super::objects::{Kind, dict, seq, type_name};
use super::text::{write_repr, write_str};
use super::{fail, room};

/// The most digits behind a point.
const MOST_DIGITS: usize = 100;

/// `format % values`: `%s`, `%r`, `%d`, `%i`, `%f` and `%.2f`, with the name of a dict's entry in front or without one.
pub(super) fn percent(state: &State, format: &str, values: &Value) -> Result<String, Error> {
    let tuple = seq(values).filter(|seq| seq.kind == Kind::Tuple);
    let placed = tuple.map_or(std::slice::from_ref(values), |tuple| &tuple.items);
    let (mut out, mut rest, mut used) = (String::new(), format, 0);
    let is_dict = tuple.is_none() && dict(values).is_some();
    let mut is_named = false;
    while let Some((text, field)) = rest.split_once('%') {
        out.push_str(text);
        if let Some(after) = field.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let (value, field) = match field.strip_prefix('(').and_then(|named| named.split_once(')')) {
            Some((name, field)) => {
                is_named = true;
                let Some(dict) = dict(values) else { return fail("format requires a mapping") };
                (dict.entries.get(&Value::from(name)), field)
            }
            None if is_named => (None, field),
            None => {
                used += 1;
                (placed.get(used - 1), field)
            }
        };
        let Some(value) = value else { return fail("not enough arguments for format string") };
        let end = field.find(|char: char| char != '.' && !char.is_ascii_digit()).unwrap_or(field.len());
        let (precision, field) = field.split_at(end);
        let digits = match precision.strip_prefix('.') {
            Some(digits) => digits.parse().ok().filter(|digits| *digits <= MOST_DIGITS),
            None if precision.is_empty() => Some(6),
            None => None,
        };
        let kind = field.chars().next();
        match (kind, Number::of(value), digits) {
            (Some('s'), ..) if precision.is_empty() => write_str(&mut out, value)?,
            (Some('r'), ..) if precision.is_empty() => write_repr(&mut out, value)?,
            (Some('d' | 'i'), Some(Number::Int(number)), _) if precision.is_empty() => {
                out.push_str(&number.to_string());
            }
            (Some('d' | 'i'), Some(Number::Float(number)), _)
                if precision.is_empty() && number.abs() < 1e38 =>
            {
                out.push_str(&(number as i128).to_string());
            }
            (Some('f'), Some(number), Some(digits)) if number.float().is_finite() => {
                out.push_str(&format!("{:.digits$}", number.float()));
            }
            _ => {
                let kind = kind.map_or_else(String::new, String::from);
                let value = type_name(value);
                return fail(format!("`%{precision}{kind}` cannot write a value of the type {value}"));
            }
        }
        room(state, out.len())?;
        rest = kind.map_or("", |kind| &field[kind.len_utf8()..]);
    }
    match used == placed.len() || is_named || is_dict {
        true => Ok(out + rest),
        false => fail("not all arguments converted during string formatting"),
    }
}

/// `format.format(…)`, whose fields are plain: `{}`, `{0}` or `{name}`.
pub(super) fn braces(state: &State, this: &str, args: &[Value]) -> Result<String, Error> {
    let (placed, named) = split(args);
    let (mut out, mut rest, mut next) = (String::new(), this, 0);
    while let Some((text, field)) = rest.split_once(['{', '}']) {
        out.push_str(text);
        let brace = &rest[text.len()..=text.len()];
        if let Some(after) = field.strip_prefix(brace) {
            (out, rest) = (out + brace, after);
            continue;
        }
        let Some((name, after)) = field.split_once('}').filter(|_| brace == "{") else {
            return fail(format!("Single '{brace}' encountered in format string"));
        };
        let value = match name.parse::<usize>() {
            Ok(place) => placed.get(place),
            Err(_) if name.is_empty() => placed.get(next),
            Err(_) => named.iter().find_map(|(known, value)| (known == name).then_some(value)),
        };
        next += usize::from(name.is_empty());
        let Some(value) = value else { return fail(format!("`format` has no argument for `{{{name}}}`")) };
        write_str(&mut out, value)?;
        room(state, out.len())?;
        rest = after;
    }
    Ok(out + rest)
}
