//! The filters of Jinja that chat templates use.

use indexmap::IndexMap;
use minijinja::{Error, ErrorKind, State, Value};

use super::arguments::{Args, int, split, text as text_of};
use super::calls::Calls;
use super::numbers::{Number, from_int};
use super::objects::{Kind, Seq, check_key, dict, items, places, seq, type_name};
use super::text::{self, Style, string};
use super::{compare, fail, methods, operators, room};

type Filter = fn(&State, &Args) -> Result<Value, Error>;

/// Each filter, how many arguments it needs, its parameters, and what it does.
const FILTERS: [(&str, usize, &[&str], Filter); 27] = [
    ("capitalize", 1, &["s"], |state, args| method(state, args, "capitalize")),
    ("count", 1, &["value"], length),
    ("d", 1, &["value", "default_value", "boolean"], default),
    ("default", 1, &["value", "default_value", "boolean"], default),
    ("dictsort", 1, &["value", "case_sensitive", "by", "reverse"], dictsort),
    ("first", 1, &["seq"], |state, args| Ok(items(state, &args[0])?.into_iter().next().unwrap_or_default())),
    ("float", 1, &["value", "default"], float),
    ("indent", 1, &["s", "width", "first", "blank"], indent),
    ("int", 1, &["value", "default"], int_filter),
    ("items", 1, &["value"], |state, args| match dict(&args[0]) {
        Some(dict) => Seq::make(state, Kind::Iterator, dict.pairs(state)?),
        None if args[0].is_undefined() => Seq::make(state, Kind::Iterator, Vec::new()),
        None => fail("Can only get item pairs from a mapping."),
    }),
    ("join", 1, &["value", "d", "attribute"], join),
    ("last", 1, &["seq"], |state, args| match seq(&args[0]) {
        Some(seq) if seq.kind == Kind::Iterator => fail("'generator' object is not reversible"),
        _ => Ok(items(state, &args[0])?.pop().unwrap_or_default()),
    }),
    ("length", 1, &["value"], length),
    ("list", 1, &["value"], |state, args| Seq::list(state, items(state, &args[0])?)),
    ("lower", 1, &["s"], |state, args| method(state, args, "lower")),
    ("max", 1, &["value", "case_sensitive", "attribute"], |state, args| extreme(state, args, true)),
    ("min", 1, &["value", "case_sensitive", "attribute"], |state, args| extreme(state, args, false)),
    ("replace", 3, &["s", "old", "new", "count"], |state, args| {
        let [this, old, new] = [string(&args[0])?, string(&args[1])?, string(&args[2])?];
        methods::replace(state, &this, &old, &new, args.some(3).map_or(Ok(-1), int)?)
    }),
    ("reverse", 1, &["value"], |state, args| {
        let mut items = items(state, &args[0])?;
        items.reverse();
        match args[0].as_str() {
            Some(text) => Ok(Value::from(text.chars().rev().collect::<String>())),
            None => Seq::make(state, Kind::Iterator, items),
        }
    }),
    ("safe", 1, &["value"], |_, args| Ok(Value::from_safe_string(string(&args[0])?))),
    ("sort", 1, &["value", "reverse", "case_sensitive", "attribute"], sort),
    ("string", 1, &["object"], |_, args| match args[0].as_str() {
        Some(_) => Ok(args[0].clone()),
        None => string(&args[0]).map(Value::from),
    }),
    ("title", 1, &["s"], title),
    ("tojson", 1, &["x", "ensure_ascii", "indent", "separators", "sort_keys"], tojson),
    ("trim", 1, &["value", "chars"], |state, args| method(state, args, "strip")),
    ("unique", 1, &["value", "case_sensitive", "attribute"], unique),
    ("upper", 1, &["s"], |state, args| method(state, args, "upper")),
];

pub(super) fn add(calls: &mut Calls) {
    for (name, required, names, filter) in FILTERS {
        calls.filter(name, move |state, args| filter(state, &Args::bind(name, required, names, args)?));
    }
    calls.filter_of_filters("map", map);
    let choices = [
        ("select", false, true),
        ("reject", false, false),
        ("selectattr", true, true),
        ("rejectattr", true, false),
    ];
    for (name, by_attribute, keep) in choices {
        calls.filter_of_filters(name, move |state, args| choose(state, args, by_attribute, keep));
    }
}

/// A method of the text of a value.
fn method(state: &State, args: &Args, name: &str) -> Result<Value, Error> {
    let value = if args[0].as_str().is_some() { args[0].clone() } else { Value::from(string(&args[0])?) };
    methods::call(state, &value, name, args.get(1).map_or(&[], std::slice::from_ref))
}

fn title(_: &State, args: &Args) -> Result<Value, Error> {
    let mut out = String::new();
    let mut begins = true;
    for char in string(&args[0])?.chars() {
        match begins {
            true => out.extend(char.to_uppercase()),
            false => out.extend(char.to_lowercase()),
        }
        begins = methods::is_space(char) || "-({[<".contains(char);
    }
    Ok(Value::from(out))
}

fn default(_: &State, args: &Args) -> Result<Value, Error> {
    let missing = args[0].is_undefined() || args.flag(2) && !args[0].is_true();
    Ok(if missing { args.get(1).cloned().unwrap_or_else(|| Value::from("")) } else { args[0].clone() })
}

fn length(state: &State, args: &Args) -> Result<Value, Error> {
    let value = &args[0];
    if let Some(text) = value.as_str() {
        state.consume_fuel(text.len() as u64 / 64)?;
        return Ok(Value::from(text.chars().count()));
    }
    match (seq(value).filter(|seq| seq.kind != Kind::Iterator), dict(value)) {
        (Some(seq), _) => Ok(Value::from(seq.items.len())),
        (_, Some(dict)) => Ok(Value::from(dict.entries.len())),
        _ if value.is_undefined() => Ok(Value::from(0)),
        _ => fail(format!("object of type '{}' has no len()", type_name(value))),
    }
}

fn join(state: &State, args: &Args) -> Result<Value, Error> {
    let between = string(&args[1])?;
    let mut out = String::new();
    for (i, item) in items(state, &args[0])?.iter().enumerate() {
        out.push_str(if i > 0 { &between } else { "" });
        text::write_str(&mut out, &attribute_of(state, item, args.some(2))?)?;
        room(state, out.len())?;
    }
    Ok(Value::from(out))
}

fn indent(state: &State, args: &Args) -> Result<Value, Error> {
    let indent = spaces(state, args.get(1), 4)?;
    let text = text_of(&args[0])?.to_owned() + "\n";
    room(state, text.len().saturating_mul(16))?;
    let lines = methods::split_lines(&text);
    room(state, text.len().saturating_add(lines.len().saturating_mul(indent.len() + 1)))?;
    let mut out = if args.flag(2) { indent.clone() } else { String::new() };
    for (i, line) in lines.iter().enumerate() {
        if i > 0 {
            out.push('\n');
            out.push_str(if args.flag(3) || !line.is_empty() { &indent } else { "" });
        }
        out.push_str(line);
    }
    Ok(Value::from(out))
}

/// So many spaces, or a text that stands for them.
fn spaces(state: &State, width: Option<&Value>, otherwise: usize) -> Result<String, Error> {
    let width = match width {
        Some(width) if width.as_str().is_some() => return string(width),
        Some(width) => usize::try_from(int(width)?.max(0)).unwrap_or(usize::MAX),
        None => otherwise,
    };
    room(state, width)?;
    Ok(" ".repeat(width))
}

fn int_filter(_: &State, args: &Args) -> Result<Value, Error> {
    let number = match args[0].as_str() {
        Some(text) => match plain_number(text)?.parse() {
            Ok(value) => Some(Number::Int(value)),
            Err(_) => plain_number(text)?.parse().ok().map(Number::Float),
        },
        None if args[0].is_undefined() => return fail("an undefined value is no number"),
        None => Number::of(&args[0]),
    };
    Ok(match number {
        Some(Number::Int(value)) => from_int(value),
        Some(Number::Float(value)) if value.abs() < 1e38 => from_int(value.trunc() as i128),
        _ => args.get(1).cloned().unwrap_or_else(|| Value::from(0)),
    })
}

fn float(_: &State, args: &Args) -> Result<Value, Error> {
    let parsed = match args[0].as_str() {
        Some(text) => plain_number(text)?.parse().ok(),
        None if args[0].is_undefined() => return fail("an undefined value is no number"),
        None => Number::of(&args[0]).map(Number::float),
    };
    Ok(parsed.map(Value::from).or(args.get(1).cloned()).unwrap_or_else(|| Value::from(0.0)))
}

/// A text that may be a number, as Rust reads it. Python reads more.
fn plain_number(text: &str) -> Result<&str, Error> {
    if text.contains(|char: char| char == '_' || !char.is_ascii() && char.is_numeric()) {
        return fail(format!("only plain digits are read as a number, not {text:?}"));
    }
    Ok(text.trim_matches(methods::is_space))
}

/// `item.a.b`, as filters look attributes up: by items first. Without a path it is the item.
fn attribute_of(state: &State, item: &Value, path: Option<&Value>) -> Result<Value, Error> {
    let Some(path) = path else { return Ok(item.clone()) };
    let Some(path) = path.as_str() else { return operators::item(state, item, path) };
    let mut value = item.clone();
    for part in path.split('.') {
        let place =
            part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse::<i64>().ok()).flatten();
        value = operators::item(state, &value, &place.map_or_else(|| Value::from(part), Value::from))?;
    }
    Ok(value)
}

fn map(state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let (placed, named) = split(args);
    let of = |wanted: &str| named.iter().find_map(|(name, value)| (name == wanted).then_some(value));
    let mut mapped = Vec::new();
    for item in items_if_any(state, &args[0])? {
        mapped.push(match (placed.get(1), of("attribute")) {
            (Some(name), _) => {
                let name = text_of(name)?;
                // The names of operators are others.
                if !name.bytes().all(|byte| byte.is_ascii_alphabetic()) {
                    return fail(format!("filter {name} is unknown"));
                }
                // The machine charges for what it filters itself.
                charge(state, &item)?;
                let args = [&[item], &args[2..]].concat();
                let value = state.apply_filter(name, &args).map_err(|e| unknown(e, name))?;
                charge(state, &value)?;
                value
            }
            (None, Some(attribute)) => match attribute_of(state, &item, Some(attribute))? {
                value if value.is_undefined() => of("default").cloned().unwrap_or(value),
                value => value,
            },
            (None, None) => return fail("`map` needs a filter or an attribute"),
        });
    }
    Seq::make(state, Kind::Iterator, mapped)
}

/// Consumes fuel for the text of a value.
fn charge(state: &State, value: &Value) -> Result<(), Error> {
    state.consume_fuel(value.as_str().map_or(0, str::len) as u64 / 64)
}

/// Names the filter or test that is unknown.
fn unknown(error: Error, name: &str) -> Error {
    match error.kind() {
        ErrorKind::UnknownFilter => Error::new(error.kind(), format!("filter {name} is unknown")),
        ErrorKind::UnknownTest => Error::new(error.kind(), format!("test {name} is unknown")),
        _ => error,
    }
}

/// The items of a value, of which a false one has none: `None` and 0 too.
fn items_if_any(state: &State, value: &Value) -> Result<Vec<Value>, Error> {
    if value.is_true() { items(state, value) } else { Ok(Vec::new()) }
}

/// `select`, `reject`, `selectattr` and `rejectattr`.
fn choose(state: &mut State<'_, '_>, args: &[Value], by_attribute: bool, keep: bool) -> Result<Value, Error> {
    let (placed, _) = split(args);
    let attribute = placed.get(1).filter(|_| by_attribute);
    if by_attribute && attribute.is_none() {
        return fail("Missing parameter for attribute name");
    }
    let test = 1 + usize::from(by_attribute);
    let mut chosen = Vec::new();
    for item in items_if_any(state, &args[0])? {
        let value = attribute_of(state, &item, attribute)?;
        let holds = match placed.get(test) {
            None => value.is_true(),
            Some(name) => {
                let name = text_of(name)?;
                let args = [&[value], &args[test + 1..]].concat();
                state.perform_test(name, &args).map_err(|e| unknown(e, name))?
            }
        };
        if holds == keep {
            chosen.push(item);
        }
    }
    Seq::make(state, Kind::Iterator, chosen)
}

/// What values are sorted by: they themselves, in small letters unless the case counts.
fn sort_key(state: &State, value: Value, case: bool) -> Result<Value, Error> {
    charge(state, &value)?;
    match value.as_str() {
        Some(text) if !case => Ok(Value::from(text.to_lowercase())),
        _ => Ok(value),
    }
}

/// The items of a value, with their attributes as keys.
fn keyed(
    state: &State,
    value: &Value,
    case: bool,
    attribute: Option<&Value>,
) -> Result<Vec<(Value, Value)>, Error> {
    let mut keyed = Vec::new();
    for item in items(state, value)? {
        keyed.push((sort_key(state, attribute_of(state, &item, attribute)?, case)?, item));
    }
    Ok(keyed)
}

fn sorted(state: &State, mut keyed: Vec<(Value, Value)>, reverse: bool) -> Result<Vec<Value>, Error> {
    state.consume_fuel((keyed.len() * keyed.len().max(1).ilog2() as usize) as u64)?;
    compare::sort(&mut keyed, reverse, |(key, _)| key)?;
    Ok(keyed.into_iter().map(|(_, item)| item).collect())
}

fn sort(state: &State, args: &Args) -> Result<Value, Error> {
    if args.some(3).and_then(Value::as_str).is_some_and(|path| path.contains(',')) {
        return fail("`sort` takes one attribute");
    }
    let keyed = keyed(state, &args[0], args.flag(2), args.some(3))?;
    Seq::list(state, sorted(state, keyed, args.flag(1))?)
}

/// The first of the largest or of the smallest items.
fn extreme(state: &State, args: &Args, largest: bool) -> Result<Value, Error> {
    let keyed = keyed(state, &args[0], args.flag(1), args.some(2))?;
    Ok(sorted(state, keyed, largest)?.into_iter().next().unwrap_or_default())
}

fn unique(state: &State, args: &Args) -> Result<Value, Error> {
    let mut first = IndexMap::new();
    for (key, item) in keyed(state, &args[0], args.flag(1), args.some(2))? {
        check_key(&key)?;
        first.entry(key).or_insert(item);
    }
    Seq::make(state, Kind::Iterator, first.into_values().collect())
}

fn dictsort(state: &State, args: &Args) -> Result<Value, Error> {
    let Some(dict) = dict(&args[0]) else {
        return fail(format!("'{}' object has no attribute 'items'", type_name(&args[0])));
    };
    let by = match args.get(2).map_or(Some("key"), Value::as_str) {
        Some("key") => 0,
        Some("value") => 1,
        _ => return fail("You can only sort by either \"key\" or \"value\""),
    };
    let mut keyed = Vec::new();
    for pair in dict.pairs(state)? {
        let key = operators::item(state, &pair, &Value::from(by))?;
        keyed.push((sort_key(state, key, args.flag(1))?, pair));
    }
    Seq::list(state, sorted(state, keyed, args.flag(3))?)
}

/// `json.dumps`, without escaping what HTML escapes.
fn tojson(state: &State, args: &Args) -> Result<Value, Error> {
    let indent = args.some(2).map(|width| spaces(state, Some(width), 0)).transpose()?;
    let [between, after_key] = match args.some(3).map(|pair| places(pair).map(|pair| pair.items.as_slice())) {
        None => [if indent.is_some() { "," } else { ", " }, ": "].map(str::to_owned),
        Some(Some([between, after_key])) => [text_of(between)?.to_owned(), text_of(after_key)?.to_owned()],
        Some(_) => return fail("separators are a pair of strings"),
    };
    let (between, after_key) = (between.into(), after_key.into());
    let (ensure_ascii, sort_keys) = (args.flag(1), args.flag(4));
    let style = Style { json: true, ensure_ascii, indent, between, after_key, sort_keys };
    style.text(state, &args[0]).map(Value::from)
}
