//! The filters of Jinja that chat templates use.

use std::cmp::Ordering;

use minijinja::value::{Rest, ValueOrKwargs};
use minijinja::{Environment, Error, State, Value};

use super::arguments::{bind, flag, int, int_or, required, some, split, text as text_of};
use super::methods::strings;
use super::numbers::{self, Number};
use super::objects::{Dict, Kind, Seq, dict, items, places, seq, type_name};
use super::text::{self, Dumps};
use super::{compare, fail, format, operators, room};

type Filter = fn(&mut State<'_, '_>, &[Value]) -> Result<Value, Error>;

const FILTERS: [(&str, Filter); 42] = [
    ("abs", abs),
    ("attr", attr),
    ("capitalize", |state, args| string_method(state, "capitalize", args)),
    ("center", center),
    ("count", length),
    ("d", default),
    ("default", default),
    ("dictsort", dictsort),
    ("e", escape),
    ("escape", escape),
    ("first", first),
    ("float", float),
    ("forceescape", |state, args| escape(state, &[Value::from(string(&args[0])?)])),
    ("format", format_filter),
    ("indent", indent),
    ("int", int_filter),
    ("items", items_filter),
    ("join", join),
    ("last", last),
    ("length", length),
    ("list", |state, args| list(state, args)),
    ("lower", |state, args| string_method(state, "lower", args)),
    ("map", map),
    ("max", |state, args| extreme(state, args, Ordering::Greater)),
    ("min", |state, args| extreme(state, args, Ordering::Less)),
    ("reject", |state, args| choose(state, args, false, false)),
    ("rejectattr", |state, args| choose(state, args, true, false)),
    ("replace", replace),
    ("reverse", reverse),
    ("round", round),
    ("safe", |_, args| Ok(Value::from_safe_string(string(&args[0])?))),
    ("select", |state, args| choose(state, args, false, true)),
    ("selectattr", |state, args| choose(state, args, true, true)),
    ("sort", sort),
    ("string", |_, args| soft(&args[0])),
    ("sum", sum),
    ("title", title),
    ("tojson", tojson),
    ("trim", trim),
    ("truncate", truncate),
    ("unique", unique),
    ("upper", |state, args| string_method(state, "upper", args)),
];

/// Adds the filters to an environment.
pub(super) fn add(env: &mut Environment<'_>) {
    for (name, filter) in FILTERS {
        env.add_filter(name, move |state: &mut State<'_, '_>, args: Rest<ValueOrKwargs>| {
            let args: Vec<Value> = args.iter().map(|value| Value::clone(value)).collect();
            filter(state, &args)
        });
    }
}

fn string(value: &Value) -> Result<String, Error> {
    text::string(value)
}

/// A value as a string, which stays marked as safe if it is.
fn soft(value: &Value) -> Result<Value, Error> {
    if value.as_str().is_some() { Ok(value.clone()) } else { Ok(Value::from(string(value)?)) }
}

fn string_method(state: &mut State<'_, '_>, name: &str, args: &[Value]) -> Result<Value, Error> {
    let value = soft(&args[0])?;
    strings::call(state, text_of(&value)?, value.is_safe(), name, &args[1..])
}

fn trim(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value, chars] = bind(["value", "chars"], args)?;
    let chars = chars.unwrap_or_else(|| Value::from(()));
    string_method(state, "strip", &[required(value, "value")?, chars])
}

fn center(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value, width] = bind(["value", "width"], args)?;
    string_method(state, "center", &[required(value, "value")?, width.unwrap_or_else(|| Value::from(80))])
}

fn title(_: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value] = bind(["value"], args)?;
    let mut out = String::new();
    let mut begins = true;
    for char in string(&required(value, "value")?)?.chars() {
        match begins {
            true => out.extend(char.to_uppercase()),
            false => out.extend(char.to_lowercase()),
        }
        begins = strings::is_space(char) || "-({[<".contains(char);
    }
    Ok(Value::from(out))
}

fn default(_: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value, otherwise, boolean] = bind(["value", "default_value", "boolean"], args)?;
    let value = required(value, "value")?;
    let missing = value.is_undefined() || flag(boolean.as_ref(), false) && !value.is_true();
    Ok(if missing { otherwise.unwrap_or_else(|| Value::from("")) } else { value })
}

/// The length of a value.
fn length(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value] = bind(["value"], args)?;
    let value = required(value, "value")?;
    Ok(Value::from(if let Some(text) = value.as_str() {
        state.consume_fuel(text.len() as u64 / 64)?;
        text.chars().count()
    } else if let Some(seq) = seq(&value).filter(|seq| seq.kind != Kind::Iterator) {
        seq.items.len()
    } else if let Some(dict) = dict(&value) {
        dict.entries.len()
    } else if value.is_undefined() {
        0
    } else {
        return fail(format!("object of type '{}' has no len()", type_name(&value)));
    }))
}

fn list(state: &State, args: &[Value]) -> Result<Value, Error> {
    let [value] = bind(["value"], args)?;
    Seq::list(state, items(state, &required(value, "value")?)?)
}

fn first(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value] = bind(["seq"], args)?;
    Ok(items(state, &required(value, "seq")?)?.into_iter().next().unwrap_or_default())
}

fn last(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value] = bind(["seq"], args)?;
    Ok(reversible(state, &required(value, "seq")?)?.pop().unwrap_or_default())
}

/// The items of something that can be gone through from its end.
fn reversible(state: &State, value: &Value) -> Result<Vec<Value>, Error> {
    match seq(value) {
        Some(seq) if seq.kind == Kind::Iterator => fail("'generator' object is not reversible"),
        _ => items(state, value),
    }
}

fn reverse(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value] = bind(["value"], args)?;
    let value = required(value, "value")?;
    if let Some(text) = value.as_str() {
        return Ok(Value::from(text.chars().rev().collect::<String>()));
    }
    let mut items = items(state, &value)?;
    items.reverse();
    // What has no order from its end is made a list, and the others give an iterator.
    let listed = seq(&value).is_some_and(|seq| seq.kind == Kind::Iterator);
    if listed { Seq::list(state, items) } else { Seq::iterator(state, items) }
}

fn items_filter(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value] = bind(["value"], args)?;
    let value = required(value, "value")?;
    let Some(dict) = dict(&value) else {
        return if value.is_undefined() {
            Seq::iterator(state, Vec::new())
        } else {
            fail("Can only get item pairs from a mapping.")
        };
    };
    let pairs = dict.entries.iter().map(|(key, value)| Seq::tuple(state, vec![key.clone(), value.clone()]));
    Seq::iterator(state, pairs.collect::<Result<_, _>>()?)
}

fn join(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value, between, attribute] = bind(["value", "d", "attribute"], args)?;
    let between = between.map_or(Ok(String::new()), |between| string(&between))?;
    let mut out = String::new();
    for (i, item) in items(state, &required(value, "value")?)?.iter().enumerate() {
        if i > 0 {
            out.push_str(&between);
        }
        match some(attribute.as_ref()) {
            Some(attribute) => text::write_str(&mut out, &attribute_of(state, item, attribute)?)?,
            None => text::write_str(&mut out, item)?,
        }
        room(state, out.len())?;
    }
    Ok(Value::from(out))
}

fn replace(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value, old, new, count] = bind(["s", "old", "new", "count"], args)?;
    let value = string(&required(value, "s")?)?;
    let (old, new) = (string(&required(old, "old")?)?, string(&required(new, "new")?)?);
    Ok(Value::from(strings::replace(state, &value, &old, &new, int_or(some(count.as_ref()), -1)?)?))
}

fn escape(_: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value] = bind(["s"], args)?;
    let value = required(value, "s")?;
    if value.is_safe() { Ok(value) } else { Ok(Value::from_safe_string(text::escape(&string(&value)?))) }
}

fn indent(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value, width, first, blank] = bind(["s", "width", "first", "blank"], args)?;
    let value = required(value, "s")?;
    let indent = match width {
        Some(width) if width.as_str().is_some() => string(&width)?,
        width => {
            let width = usize::try_from(int_or(width.as_ref(), 4)?.max(0)).unwrap_or(usize::MAX);
            room(state, width)?;
            " ".repeat(width)
        }
    };
    let text = text_of(&value)?.to_owned() + "\n";
    let ends = |char: char| {
        matches!(
            char,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let lines = text.matches(ends).count();
    room(state, text.len().saturating_add(lines.saturating_mul(indent.len() + 1)))?;
    let lines = strings::split_lines(&text, false);
    let blank = flag(blank.as_ref(), false);
    let mut out = if flag(first.as_ref(), false) { indent.clone() } else { String::new() };
    for (i, line) in lines.iter().enumerate() {
        if i > 0 {
            out.push('\n');
            out.push_str(if blank || !line.is_empty() { &indent } else { "" });
        }
        out.push_str(line);
    }
    Ok(if value.is_safe() { Value::from_safe_string(out) } else { Value::from(out) })
}

fn truncate(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value, length, kill, end, leeway] = bind(["s", "length", "killwords", "end", "leeway"], args)?;
    let value = required(value, "s")?;
    let text = text_of(&value)?;
    let end = end.map_or(Ok("...".to_owned()), |end| string(&end))?;
    let (length, leeway) = (int_or(length.as_ref(), 255)?, int_or(some(leeway.as_ref()), 5)?);
    let kept = length - end.chars().count() as i128;
    if kept < 0 || leeway < 0 {
        return fail("truncate wants a length of at least its end, and a leeway of at least 0");
    }
    state.consume_fuel(text.len() as u64 / 64)?;
    if text.chars().count() as i128 <= length.saturating_add(leeway) {
        return Ok(value);
    }
    let start: String = text.chars().take(usize::try_from(kept).unwrap_or(usize::MAX)).collect();
    let start = if flag(kill.as_ref(), false) {
        &start
    } else {
        start.rsplit_once(' ').map_or(&*start, |(start, _)| start)
    };
    Ok(Value::from(start.to_owned() + &end))
}

fn format_filter(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let (placed, named) = split(args);
    let format = string(&placed[0])?;
    let values = match (named.is_empty(), placed.len()) {
        (true, _) => Seq::tuple(state, placed[1..].to_vec())?,
        (false, 1) => {
            Dict::make(state, named.into_iter().map(|(name, value)| (Value::from(name), value)).collect())?
        }
        (false, _) => return fail("can't handle positional and keyword arguments at the same time"),
    };
    format::percent(state, &format, &values)
}

fn abs(_: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    match Number::of(&args[0]) {
        Some(Number::Int(value)) => Ok(numbers::from_int(value.saturating_abs())),
        Some(Number::Float(value)) => Ok(Value::from(value.abs())),
        None => fail(format!("bad operand type for abs(): '{}'", type_name(&args[0]))),
    }
}

fn round(_: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value, precision, method] = bind(["value", "precision", "method"], args)?;
    let value = required(value, "value")?;
    let precision = int_or(precision.as_ref(), 0)?.clamp(-400, 400) as i32;
    let method = method.map_or(Ok("common".to_owned()), |method| string(&method))?;
    let Some(number) = Number::of(&value) else {
        return fail(format!("a {} cannot be rounded", type_name(&value)));
    };
    let scale = 10f64.powi(precision);
    let rounded = match (method.as_str(), number) {
        // True and false become numbers.
        ("common", Number::Int(value)) if precision >= 0 => return Ok(numbers::from_int(value)),
        // The digits are those of the exact value, of which ties go to the even one.
        ("common", number) if precision >= 0 => {
            let digits = format!("{:.*}", precision as usize, number.float());
            digits.parse().unwrap_or(number.float())
        }
        ("common", Number::Int(value)) => {
            let rounded = (value as f64 * scale).round_ties_even() / scale;
            return Ok(numbers::from_int(rounded as i128));
        }
        ("common", Number::Float(value)) => (value * scale).round_ties_even() / scale,
        ("ceil", number) => (number.float() * scale).ceil() / scale,
        ("floor", number) => (number.float() * scale).floor() / scale,
        _ => return fail("method must be common, ceil or floor"),
    };
    Ok(Value::from(rounded))
}

fn int_filter(_: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value, otherwise, base] = bind(["value", "default", "base"], args)?;
    let value = required(value, "value")?;
    let otherwise = otherwise.unwrap_or_else(|| Value::from(0));
    let from_float = |value: f64| {
        if value.is_finite() && value.abs() < 1e38 {
            numbers::from_int(value.trunc() as i128)
        } else {
            otherwise.clone()
        }
    };
    if let Some(text) = value.as_str() {
        let base = u32::try_from(int_or(base.as_ref(), 10)?)
            .ok()
            .filter(|base| (2..=36).contains(base))
            .unwrap_or(10);
        let digits = number_text(text);
        let (sign, size) = match digits.strip_prefix('-') {
            Some(size) => ("-", size),
            None => ("", digits.strip_prefix('+').unwrap_or(&digits)),
        };
        let prefix = match base {
            16 => "0x",
            8 => "0o",
            2 => "0b",
            _ => "",
        };
        let size = size.strip_prefix(prefix).unwrap_or(size);
        if !size.starts_with(['+', '-'])
            && let Ok(value) = i128::from_str_radix(&format!("{sign}{size}"), base)
        {
            return Ok(numbers::from_int(value));
        }
        return Ok(parse_float(text).map_or(otherwise.clone(), from_float));
    }
    match Number::of(&value) {
        Some(Number::Int(value)) => Ok(numbers::from_int(value)),
        Some(Number::Float(value)) => Ok(from_float(value)),
        None if value.is_undefined() => fail("an undefined value is no number"),
        None => Ok(otherwise),
    }
}

fn float(_: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value, otherwise] = bind(["value", "default"], args)?;
    let value = required(value, "value")?;
    let parsed = match value.as_str() {
        Some(text) => parse_float(text),
        None if value.is_undefined() => return fail("an undefined value is no number"),
        None => Number::of(&value).map(Number::float),
    };
    Ok(parsed.map(Value::from).or(otherwise).unwrap_or_else(|| Value::from(0.0)))
}

/// The digits of a number as Python reads them: white space around, and `_` between digits.
fn number_text(text: &str) -> String {
    let text = text.trim_matches(strings::is_space);
    let bytes = text.as_bytes();
    let between = |i: usize| {
        i > 0
            && bytes[i - 1].is_ascii_alphanumeric()
            && bytes.get(i + 1).is_some_and(u8::is_ascii_alphanumeric)
    };
    text.char_indices().filter(|(i, char)| *char != '_' || !between(*i)).map(|(_, char)| char).collect()
}

fn parse_float(text: &str) -> Option<f64> {
    number_text(text).parse().ok()
}

fn sum(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value, attribute, start] = bind(["iterable", "attribute", "start"], args)?;
    let mut total = start.unwrap_or_else(|| Value::from(0));
    for item in items(state, &required(value, "iterable")?)? {
        let item = match some(attribute.as_ref()) {
            Some(attribute) => attribute_of(state, &item, attribute)?,
            None => item,
        };
        total = operators::add(state, &total, &item)?;
    }
    Ok(total)
}

/// `item.a.b`, as filters look attributes up: by items first.
fn attribute_of(state: &State, item: &Value, attribute: &Value) -> Result<Value, Error> {
    let Some(path) = attribute.as_str() else { return operators::item(state, item, attribute) };
    let mut value = item.clone();
    for part in path.split('.') {
        let place =
            part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<i64>().ok()).flatten();
        value = operators::item(state, &value, &place.map_or_else(|| Value::from(part), Value::from))?;
    }
    Ok(value)
}

fn attr(_: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value, name] = bind(["obj", "name"], args)?;
    let (value, name) = (required(value, "obj")?, required(name, "name")?);
    match dict(&value) {
        _ if value.is_undefined() => fail("an undefined value has no attributes"),
        Some(_) => Ok(Value::UNDEFINED),
        None => Ok(value.get_attr(text_of(&name)?).unwrap_or_default()),
    }
}

fn map(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let (placed, named) = split(args);
    let items = items_if_any(state, &placed[0])?;
    let mut mapped = Vec::with_capacity(items.len());
    if let Some((_, attribute)) = named.iter().find(|(name, _)| placed.len() == 1 && name == "attribute") {
        let otherwise = named.iter().find_map(|(name, value)| (name == "default").then_some(value));
        for item in &items {
            let value = attribute_of(state, item, attribute)?;
            mapped.push(match otherwise {
                Some(otherwise) if value.is_undefined() => otherwise.clone(),
                _ => value,
            });
        }
    } else {
        let Some(name) = placed.get(1) else { return fail("map requires a filter argument") };
        let name = text_of(name)?.to_owned();
        for item in items {
            let mut args = vec![item];
            args.extend_from_slice(&placed[2..]);
            args.extend(last_named(&named));
            mapped.push(state.apply_filter(&name, &args)?);
        }
    }
    Seq::iterator(state, mapped)
}

/// The items of a value, of which a false one has none: `None` and 0 too.
fn items_if_any(state: &State, value: &Value) -> Result<Vec<Value>, Error> {
    if value.is_true() { items(state, value) } else { Ok(Vec::new()) }
}

/// `select`, `reject`, `selectattr` and `rejectattr`.
fn choose(state: &mut State<'_, '_>, args: &[Value], by_attribute: bool, keep: bool) -> Result<Value, Error> {
    let (placed, named) = split(args);
    let mut rest = &placed[1..];
    let mut attribute = None;
    if by_attribute {
        let Some((first, others)) = rest.split_first() else {
            return fail("Missing parameter for attribute name");
        };
        (attribute, rest) = (Some(first.clone()), others);
    }
    let mut chosen = Vec::new();
    for item in items_if_any(state, &placed[0])? {
        let value = match &attribute {
            Some(attribute) => attribute_of(state, &item, attribute)?,
            None => item.clone(),
        };
        let holds = match rest.split_first() {
            None => value.is_true(),
            Some((test, others)) => {
                let mut args = vec![value];
                args.extend_from_slice(others);
                args.extend(last_named(&named));
                state.perform_test(text_of(test)?, &args)?
            }
        };
        if holds == keep {
            chosen.push(item);
        }
    }
    Seq::iterator(state, chosen)
}

/// Named arguments as minijinja hands them on.
fn last_named(named: &[(String, Value)]) -> Option<Value> {
    let all = named.iter().map(|(name, value)| (name.clone(), value.clone()));
    (!named.is_empty()).then(|| Value::from(all.collect::<minijinja::value::Kwargs>()))
}

/// What values are sorted by: their attribute, in small letters unless the case counts.
fn sort_key(state: &State, item: &Value, attribute: Option<&Value>, case: bool) -> Result<Value, Error> {
    let small = |value: Value| match value.as_str() {
        Some(text) if !case => Value::from(text.to_lowercase()),
        _ => value,
    };
    match attribute {
        None => Ok(small(item.clone())),
        Some(attribute) => match attribute.as_str() {
            Some(several) if several.contains(',') => {
                let keys =
                    several.split(',').map(|part| Ok(small(attribute_of(state, item, &Value::from(part))?)));
                Seq::list(state, keys.collect::<Result<_, Error>>()?)
            }
            _ => Ok(small(attribute_of(state, item, attribute)?)),
        },
    }
}

/// Sorts items by their keys; equal ones stay in their order.
fn sorted(state: &State, mut items: Vec<(Value, Value)>, reverse: bool) -> Result<Vec<Value>, Error> {
    state.consume_fuel((items.len() * items.len().max(1).ilog2() as usize) as u64)?;
    let mut failed = None;
    items.sort_by(|(a, _), (b, _)| match compare::order(a, b, &mut compare::budget()) {
        Ok(order) if reverse => order.unwrap_or(Ordering::Equal).reverse(),
        Ok(order) => order.unwrap_or(Ordering::Equal),
        Err(e) => {
            failed.get_or_insert(e);
            Ordering::Equal
        }
    });
    failed.map_or_else(|| Ok(items.into_iter().map(|(_, item)| item).collect()), Err)
}

fn sort(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value, reverse, case, attribute] = bind(["value", "reverse", "case_sensitive", "attribute"], args)?;
    let case = flag(case.as_ref(), false);
    let mut keyed = Vec::new();
    for item in items(state, &required(value, "value")?)? {
        keyed.push((sort_key(state, &item, some(attribute.as_ref()), case)?, item));
    }
    Seq::list(state, sorted(state, keyed, flag(reverse.as_ref(), false))?)
}

fn dictsort(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value, case, by, reverse] = bind(["value", "case_sensitive", "by", "reverse"], args)?;
    let value = required(value, "value")?;
    let Some(dict) = dict(&value) else {
        return fail(format!("'{}' object has no attribute 'items'", type_name(&value)));
    };
    let by = by.map_or(Ok("key".to_owned()), |by| string(&by))?;
    let case = flag(case.as_ref(), false);
    let mut keyed = Vec::new();
    for (key, value) in &dict.entries {
        let by = match by.as_str() {
            "key" => key,
            "value" => value,
            _ => return fail("You can only sort by either \"key\" or \"value\""),
        };
        keyed.push((sort_key(state, by, None, case)?, Seq::tuple(state, vec![key.clone(), value.clone()])?));
    }
    Seq::list(state, sorted(state, keyed, flag(reverse.as_ref(), false))?)
}

fn unique(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value, case, attribute] = bind(["value", "case_sensitive", "attribute"], args)?;
    let case = flag(case.as_ref(), false);
    let mut seen: Vec<(Value, Value)> = Vec::new();
    let mut kept = Vec::new();
    for item in items(state, &required(value, "value")?)? {
        seen.push((sort_key(state, &item, some(attribute.as_ref()), case)?, item));
    }
    let none = Value::from(());
    let keys = Dict::make(state, seen.iter().map(|(key, _)| (key.clone(), none.clone())).collect())?;
    let mut rest = dict(&keys).map(Dict::keys).unwrap_or_default().into_iter().peekable();
    for (key, item) in seen {
        // The dict has the keys in the order of their first items.
        if rest.next_if(|next| *next == key).is_some() {
            kept.push(item);
        }
    }
    Seq::iterator(state, kept)
}

fn extreme(state: &mut State<'_, '_>, args: &[Value], wanted: Ordering) -> Result<Value, Error> {
    let [value, case, attribute] = bind(["value", "case_sensitive", "attribute"], args)?;
    let case = flag(case.as_ref(), false);
    let mut best: Option<(Value, Value)> = None;
    for item in items(state, &required(value, "value")?)? {
        let key = sort_key(state, &item, some(attribute.as_ref()), case)?;
        let better = match &best {
            Some((other, _)) => compare::order(&key, other, &mut compare::budget())? == Some(wanted),
            None => true,
        };
        if better {
            best = Some((key, item));
        }
    }
    Ok(best.map(|(_, item)| item).unwrap_or_default())
}

/// `json.dumps`, without escaping what HTML escapes.
fn tojson(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let [value, ascii, indent, separators, sort_keys] =
        bind(["x", "ensure_ascii", "indent", "separators", "sort_keys"], args)?;
    let value = required(value, "x")?;
    let indent = match some(indent.as_ref()) {
        None => None,
        Some(indent) => Some(match indent.as_str() {
            Some(text) => text.to_owned(),
            None => {
                let width = usize::try_from(int(indent)?.max(0)).unwrap_or(usize::MAX);
                room(state, width)?;
                " ".repeat(width)
            }
        }),
    };
    let (between, after_key) = match some(separators.as_ref())
        .map(|pair| places(pair).map(|pair| pair.items.as_slice()))
    {
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
        Some(Some([between, after_key])) => (text_of(between)?.to_owned(), text_of(after_key)?.to_owned()),
        Some(_) => return fail("separators are a pair of strings"),
    };
    let (ensure_ascii, sort_keys) = (flag(ascii.as_ref(), false), flag(sort_keys.as_ref(), false));
    Dumps { ensure_ascii, indent, between, after_key, sort_keys }.dump(state, &value).map(Value::from)
}
