//! The methods of strings and dicts.
//!
//! Those that would change a dict or a list are refused, as the reference's sandbox does.

use minijinja::{Error, ErrorKind, State, Value};

use super::arguments::{Args, int, text};
use super::objects::{Dict, Kind, Seq, check_key, dict, items, seq};
use super::{MARKS, fail, format, room};

type Method<T> = fn(&State, &T, &Args) -> Result<Value, Error>;

/// A row of a table: a name, how many arguments it needs, its parameters, and what it does.
type Row<T> = (&'static str, usize, &'static [&'static str], Method<T>);

const OF_DICTS: [Row<Dict>; 4] = [
    ("get", 1, &["", ""], |_, dict, args| {
        check_key(&args[0])?;
        Ok(dict.entries.get(&args[0]).or(args.get(1)).cloned().unwrap_or_else(|| Value::from(())))
    }),
    ("items", 0, &[], |state, dict, _| Seq::make(state, Kind::View, dict.pairs(state)?)),
    ("keys", 0, &[], |state, dict, _| Seq::make(state, Kind::View, dict.keys())),
    ("values", 0, &[], |state, dict, _| {
        Seq::make(state, Kind::View, dict.entries.values().cloned().collect())
    }),
];

const OF_STRINGS: [Row<str>; 24] = [
    ("capitalize", 0, &[], |_, this, _| capitalize(this).map(Value::from)),
    ("center", 1, &["", ""], |state, this, args| {
        // Of an odd number, Python puts one more in front if the width is odd, too.
        pad(state, this, args, |missing, width| missing / 2 + (missing & width & 1))
    }),
    ("count", 1, &[""], |_, this, args| match text(&args[0])? {
        "" => Ok(Value::from(this.chars().count() + 1)),
        part => Ok(Value::from(this.matches(part).count())),
    }),
    ("endswith", 1, &[""], |_, this, args| any_affix(&args[0], |affix| this.ends_with(affix))),
    ("find", 1, &[""], |_, this, args| Ok(place(this, this.find(text(&args[0])?)))),
    ("join", 1, &[""], |state, this, args| {
        let parts = items(state, &args[0])?;
        let parts = parts.iter().map(text).collect::<Result<Vec<_>, _>>()?;
        room(state, parts.iter().map(|part| part.len() + this.len()).sum())?;
        Ok(Value::from(parts.join(this)))
    }),
    ("ljust", 1, &["", ""], |state, this, args| pad(state, this, args, |_, _| 0)),
    ("lower", 0, &[], |_, this, _| Ok(Value::from(this.to_lowercase()))),
    ("lstrip", 0, &[""], |_, this, args| strip(this, [true, false], args.some(0))),
    ("partition", 1, &[""], |state, this, args| {
        let between = separator(args)?.unwrap_or_default();
        let parts = this.split_once(between).map(|(before, after)| [before, between, after]);
        tuple(state, parts.unwrap_or([this, "", ""]))
    }),
    ("removeprefix", 1, &[""], |_, this, args| {
        Ok(Value::from(this.strip_prefix(text(&args[0])?).unwrap_or(this)))
    }),
    ("removesuffix", 1, &[""], |_, this, args| {
        Ok(Value::from(this.strip_suffix(text(&args[0])?).unwrap_or(this)))
    }),
    ("replace", 2, &["", "", ""], |state, this, args| {
        replace(state, this, text(&args[0])?, text(&args[1])?, args.int_or(2, -1)?)
    }),
    ("rfind", 1, &[""], |_, this, args| Ok(place(this, this.rfind(text(&args[0])?)))),
    ("rjust", 1, &["", ""], |state, this, args| pad(state, this, args, |missing, _| missing)),
    ("rpartition", 1, &[""], |state, this, args| {
        let between = separator(args)?.unwrap_or_default();
        let parts = this.rsplit_once(between).map(|(before, after)| [before, between, after]);
        tuple(state, parts.unwrap_or(["", "", this]))
    }),
    ("rsplit", 0, &["sep", "maxsplit"], |state, this, args| {
        let Some(separator) = separator(args)? else { return fail("`rsplit` needs a separator") };
        let mut parts: Vec<&str> = this.rsplitn(most(args)?, separator).collect();
        parts.reverse();
        list(state, this, parts)
    }),
    ("rstrip", 0, &[""], |_, this, args| strip(this, [false, true], args.some(0))),
    ("split", 0, &["sep", "maxsplit"], |state, this, args| match separator(args)? {
        Some(separator) => list(state, this, this.splitn(most(args)?, separator).collect()),
        None => list(state, this, split_at_spaces(this, most(args)?)),
    }),
    ("splitlines", 0, &[], |state, this, _| list(state, this, split_lines(this))),
    ("startswith", 1, &[""], |_, this, args| any_affix(&args[0], |affix| this.starts_with(affix))),
    ("strip", 0, &[""], |_, this, args| strip(this, [true, true], args.some(0))),
    ("title", 0, &[], |_, this, _| title(this).map(Value::from)),
    ("upper", 0, &[], |_, this, _| Ok(Value::from(this.to_uppercase()))),
];

/// Calls the method `name` of a value.
pub(super) fn call(state: &State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let Some(dict) = dict(value) {
        return choose(&OF_DICTS, state, dict, name, args);
    }
    match value.as_str() {
        Some(_) if value.is_safe() => fail(format!("call `{name}` before the text is marked as `safe`")),
        Some(text) => {
            state.consume_fuel(text.len() as u64 / 64)?;
            room(state, text.len().saturating_mul(16))?;
            match name {
                // Most texts have nothing to strip.
                "strip" | "lstrip" | "rstrip" if args.is_empty() && !has_ends(text) => Ok(value.clone()),
                "format" => format::braces(state, text, args).map(Value::from),
                _ => choose(&OF_STRINGS, state, text, name, args),
            }
        }
        None => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn choose<T: ?Sized>(
    table: &[Row<T>],
    state: &State,
    this: &T,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    match table.iter().find(|(known, ..)| *known == name) {
        Some((_, required, names, method)) => method(state, this, &Args::bind(name, *required, names, args)?),
        None => Err(Error::from(ErrorKind::UnknownMethod)),
    }
}

fn list(state: &State, this: &str, parts: Vec<&str>) -> Result<Value, Error> {
    room(state, this.len().saturating_add(parts.len().saturating_mul(32)))?;
    Seq::list(state, parts.into_iter().map(Value::from).collect())
}

fn tuple(state: &State, parts: [&str; 3]) -> Result<Value, Error> {
    Seq::make(state, Kind::Tuple, parts.map(Value::from).to_vec())
}

/// The text with as many more characters as it has fewer than a width. `front` says how many of them come first.
fn pad(state: &State, this: &str, args: &Args, front: fn(usize, usize) -> usize) -> Result<Value, Error> {
    let width = usize::try_from(int(&args[0])?.max(0)).unwrap_or(usize::MAX);
    let fill = args.get(1).map_or(Ok(" "), text)?;
    if fill.chars().nth(1).is_some() || fill.is_empty() {
        return fail("The fill character must be exactly one character long");
    }
    let missing = width.saturating_sub(this.chars().count());
    room(state, missing.saturating_mul(fill.len()).saturating_add(this.len()))?;
    let front = front(missing, width);
    Ok(Value::from(fill.repeat(front) + this + &fill.repeat(missing - front)))
}

/// A place in bytes as one in characters. That of what is not found is -1.
fn place(this: &str, at: Option<usize>) -> Value {
    at.map_or(Value::from(-1), |at| Value::from(this[..at].chars().count()))
}

/// Whether `is_affix` holds for a text, or for any of several in a tuple.
fn any_affix(value: &Value, is_affix: impl Fn(&str) -> bool) -> Result<Value, Error> {
    let Some(several) = seq(value).filter(|seq| seq.kind == Kind::Tuple) else {
        return Ok(is_affix(text(value)?).into());
    };
    let affixes = several.items.iter().map(text).collect::<Result<Vec<_>, _>>()?;
    Ok(affixes.into_iter().any(is_affix).into())
}

fn separator(args: &Args) -> Result<Option<&str>, Error> {
    match args.some(0).map(text).transpose()? {
        Some("") => fail("empty separator"),
        separator => Ok(separator),
    }
}

/// How many parts a split gives at most.
fn most(args: &Args) -> Result<usize, Error> {
    Ok(usize::try_from(args.int_or(1, -1)?).unwrap_or(usize::MAX).saturating_add(1))
}

/// Whether Python takes the character for white space: as Unicode does, and the four separators of ASCII.
pub(super) fn is_space(char: char) -> bool {
    char.is_whitespace() || matches!(char, '\u{1c}'..='\u{1f}')
}

/// Whether white space, or a mark of generated text, is at an end of the text.
fn has_ends(text: &str) -> bool {
    let goes = |char: char| is_space(char) || MARKS.contains(&char);
    text.starts_with(goes) || text.ends_with(goes)
}

/// The text without `chars`, or without white space, at its start and its end. Marks of generated text are looked
/// through.
fn strip(this: &str, [start, end]: [bool; 2], chars: Option<&Value>) -> Result<Value, Error> {
    let chars = chars.map(text).transpose()?;
    let goes = |char: char| chars.map_or_else(|| is_space(char), |chars| chars.contains(char));
    let ends = |marked: bool| {
        let goes = |char: char| goes(char) || marked && MARKS.contains(&char);
        let rest = if start { this.trim_start_matches(goes) } else { this };
        if end { rest.trim_end_matches(goes) } else { rest }
    };
    let plain = ends(false);
    if !plain.starts_with(MARKS) && !plain.ends_with(MARKS) {
        return Ok(Value::from(plain));
    }
    let middle = ends(true);
    let at = middle.as_ptr() as usize - this.as_ptr() as usize;
    let marks = |text: &str, strip: bool| -> String {
        text.chars().filter(|char| !strip || MARKS.contains(char)).collect()
    };
    Ok(Value::from(marks(&this[..at], start) + middle + &marks(&this[at + middle.len()..], end)))
}

fn split_at_spaces(this: &str, most: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = this.trim_start_matches(is_space);
    while !rest.is_empty() {
        let end = if parts.len() + 1 == most { None } else { rest.find(is_space) };
        let end = end.unwrap_or(rest.len());
        parts.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    parts
}

pub(super) fn split_lines(this: &str) -> Vec<&str> {
    let ends = |char: char| {
        matches!(
            char,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines = Vec::new();
    let mut rest = this;
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        lines.push(line);
        let end = if after.starts_with("\r\n") { 2 } else { after.chars().next().map_or(0, char::len_utf8) };
        rest = &after[end..];
    }
    lines
}

/// `str.replace`; a negative count replaces all.
pub(super) fn replace(state: &State, this: &str, old: &str, new: &str, count: i128) -> Result<Value, Error> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let found = if old.is_empty() { this.chars().count() + 1 } else { this.matches(old).count() };
    room(state, this.len().saturating_add(found.min(count).saturating_mul(new.len())))?;
    Ok(Value::from(this.replacen(old, new, count)))
}

/// The first letter of a word. Some have a title case that Rust does not know.
fn title_letter(char: char) -> Result<String, Error> {
    if matches!(char, 'ŉ' | 'Ǆ'..='ǌ' | 'Ǳ'..='ǳ' | 'ა'..='ჿ' | 'ᾀ'..='ῼ') {
        return fail(format!("the title case of {char:?} is not known"));
    }
    let mut upper = char.to_uppercase();
    Ok(upper.next().into_iter().chain(upper.flat_map(char::to_lowercase)).collect())
}

pub(super) fn capitalize(this: &str) -> Result<String, Error> {
    let mut chars = this.chars();
    let first = chars.next().map(title_letter).transpose()?;
    Ok(first.unwrap_or_default() + &chars.as_str().to_lowercase())
}

fn title(this: &str) -> Result<String, Error> {
    let mut inside = false;
    let mut out = String::with_capacity(this.len());
    for char in this.chars() {
        match inside {
            true => out.extend(char.to_lowercase()),
            false => out.push_str(&title_letter(char)?),
        }
        inside = char.is_lowercase() || char.is_uppercase();
    }
    Ok(out)
}
