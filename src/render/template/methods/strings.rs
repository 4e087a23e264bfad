//! The methods of `str`.

use std::borrow::Cow;

use minijinja::{Error, ErrorKind, State, Value};

use super::super::arguments::{PLACED, bind, flag, int, int_or, required, some, split, text};
use super::super::objects::{Kind, Seq, items, seq};
use super::super::text::{escape, is_printable};
use super::super::{MARKS, fail, format, room};

/// Calls the method `name` of a string. `safe` says that it is marked as safe, which its parts are too.
pub(in super::super) fn call(
    state: &State,
    this: &str,
    safe: bool,
    name: &str,
    args: &[Value],
) -> Result<Value, Error> {
    state.consume_fuel(this.len() as u64 / 64)?;
    let of = |text: Cow<'_, str>| match safe {
        true => Value::from_safe_string(text.into_owned()),
        false => Value::from(text.as_ref()),
    };
    let part = |text: &str| of(Cow::Borrowed(text));
    let whole = |text: String| Ok(of(Cow::Owned(text)));
    let list = |parts: Vec<&str>| Seq::list(state, parts.into_iter().map(part).collect());
    Ok(match name {
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = bind([PLACED], args)?;
            let chars = some(chars.as_ref()).map(text).transpose()?;
            return whole(strip(this, name != "rstrip", name != "lstrip", chars).into_owned());
        }
        "split" | "rsplit" => {
            let [separator, most] = bind(["sep", "maxsplit"], args)?;
            let most = usize::try_from(int_or(most.as_ref(), -1)?).unwrap_or(usize::MAX);
            room(state, this.len().saturating_mul(32))?;
            return list(match some(separator.as_ref()).map(text).transpose()? {
                Some("") => return fail("empty separator"),
                Some(separator) if name == "split" => {
                    this.splitn(most.saturating_add(1), separator).collect()
                }
                Some(separator) => reversed(this.rsplitn(most.saturating_add(1), separator).collect()),
                None if name == "split" => split_at_spaces(this, most),
                None => rsplit_at_spaces(this, most),
            });
        }
        "splitlines" => {
            let [keep] = bind(["keepends"], args)?;
            room(state, this.len().saturating_mul(32))?;
            return list(split_lines(this, flag(keep.as_ref(), false)));
        }
        "partition" | "rpartition" => {
            let [separator] = bind([PLACED], args)?;
            let separator = required(separator, "sep")?;
            let separator = text(&separator)?;
            if separator.is_empty() {
                return fail("empty separator");
            }
            let (before, middle, after) =
                match (name, this.split_once(separator), this.rsplit_once(separator)) {
                    ("partition", Some((before, after)), _) | ("rpartition", _, Some((before, after))) => {
                        (before, separator, after)
                    }
                    ("partition", ..) => (this, "", ""),
                    _ => ("", "", this),
                };
            return Seq::tuple(state, [before, middle, after].map(part).to_vec());
        }
        "startswith" | "endswith" => {
            let [affix, start, end] = bind([PLACED, PLACED, PLACED], args)?;
            let affix = required(affix, "prefix")?;
            let within = section(this, start.as_ref(), end.as_ref())?;
            let affixes = match seq(&affix) {
                Some(several) if several.kind == Kind::Tuple => {
                    several.items.iter().map(text).collect::<Result<Vec<_>, _>>()?
                }
                _ => vec![text(&affix)?],
            };
            let fits = |affix: &&str| match within {
                Some((_, within)) if name == "startswith" => within.starts_with(affix),
                Some((_, within)) => within.ends_with(affix),
                None => false,
            };
            Value::from(affixes.iter().any(fits))
        }
        "find" | "rfind" | "index" | "rindex" => {
            let [sub, start, end] = bind([PLACED, PLACED, PLACED], args)?;
            let sub = required(sub, "sub")?;
            let sub = text(&sub)?;
            let found = section(this, start.as_ref(), end.as_ref())?.and_then(|(before, within)| {
                let at = if name.starts_with('r') { within.rfind(sub) } else { within.find(sub) };
                Some(this[..before + at?].chars().count())
            });
            match found {
                Some(place) => Value::from(place),
                None if name.ends_with("find") => Value::from(-1),
                None => return fail("substring not found"),
            }
        }
        "count" => {
            let [sub, start, end] = bind([PLACED, PLACED, PLACED], args)?;
            let sub = required(sub, "sub")?;
            let sub = text(&sub)?;
            let within = section(this, start.as_ref(), end.as_ref())?;
            Value::from(within.map_or(0, |(_, within)| match sub {
                "" => within.chars().count() + 1,
                sub => within.matches(sub).count(),
            }))
        }
        "removeprefix" | "removesuffix" => {
            let [affix] = bind([PLACED], args)?;
            let affix = required(affix, "prefix")?;
            let affix = text(&affix)?;
            let rest =
                if name == "removeprefix" { this.strip_prefix(affix) } else { this.strip_suffix(affix) };
            part(rest.unwrap_or(this))
        }
        "replace" => {
            let [old, new, count] = bind([PLACED, PLACED, PLACED], args)?;
            let (old, new) = (required(old, "old")?, required(new, "new")?);
            // Markup escapes what it puts in.
            let new = if safe && !new.is_safe() { Value::from(escape(text(&new)?)) } else { new };
            return whole(replace(state, this, text(&old)?, text(&new)?, int_or(count.as_ref(), -1)?)?);
        }
        "ljust" | "rjust" | "center" => {
            let [width, fill] = bind([PLACED, PLACED], args)?;
            let fill = fill.as_ref().map_or(Ok(" "), text)?;
            return whole(justify(state, this, name, int(&required(width, "width")?)?, fill)?);
        }
        "zfill" => {
            let [width] = bind([PLACED], args)?;
            let width = int(&required(width, "width")?)?;
            let digits = this.strip_prefix(['+', '-']).unwrap_or(this);
            let sign = &this[..this.len() - digits.len()];
            return whole(
                sign.to_owned() + &justify(state, digits, "rjust", width - sign.len() as i128, "0")?,
            );
        }
        "expandtabs" => {
            let [size] = bind(["tabsize"], args)?;
            return whole(expand_tabs(state, this, int_or(size.as_ref(), 8)?)?);
        }
        "join" => {
            let [parts] = bind([PLACED], args)?;
            let parts = items(state, &required(parts, "iterable")?)?;
            let parts = parts.iter().map(text).collect::<Result<Vec<_>, _>>()?;
            let length: usize = parts.iter().map(|part| part.len() + this.len()).sum();
            room(state, length)?;
            return whole(parts.join(this));
        }
        "format" => {
            let (placed, named) = split(args);
            return whole(format::braces(state, this, placed, &named)?);
        }
        _ => {
            let changed = cased(this, name);
            if changed.is_none() && !name.starts_with("is") {
                return Err(Error::from(ErrorKind::UnknownMethod));
            }
            let [] = bind([], args)?;
            match changed {
                Some(changed) => return whole(changed),
                None => {
                    return is(this, name)
                        .map(Value::from)
                        .ok_or_else(|| Error::from(ErrorKind::UnknownMethod));
                }
            }
        }
    })
}

/// Whether Python takes the character for white space: as Unicode does, and the four separators of ASCII.
pub(in super::super) fn is_space(char: char) -> bool {
    char.is_whitespace() || matches!(char, '\u{1c}'..='\u{1f}')
}

/// The text without `chars`, or without white space, at its ends. Marks of generated text are looked through.
pub(in super::super) fn strip<'a>(
    this: &'a str,
    left: bool,
    right: bool,
    chars: Option<&str>,
) -> Cow<'a, str> {
    let goes = |char: char| chars.map_or_else(|| is_space(char), |chars| chars.contains(char));
    let ends = |marked: bool| {
        let goes = |char: char| goes(char) || marked && MARKS.contains(&char);
        let rest = if left { this.trim_start_matches(goes) } else { this };
        if right { rest.trim_end_matches(goes) } else { rest }
    };
    let plain = ends(false);
    if !plain.starts_with(MARKS) && !plain.ends_with(MARKS) {
        return Cow::Borrowed(plain);
    }
    let middle = ends(true);
    let start = middle.as_ptr() as usize - this.as_ptr() as usize;
    let marks = |text: &str, strip: bool| -> String {
        text.chars().filter(|char| !strip || MARKS.contains(char)).collect()
    };
    Cow::Owned(marks(&this[..start], left) + middle + &marks(&this[start + middle.len()..], right))
}

fn reversed<T>(mut items: Vec<T>) -> Vec<T> {
    items.reverse();
    items
}

fn split_at_spaces(this: &str, most: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = this.trim_start_matches(is_space);
    while !rest.is_empty() {
        if parts.len() == most {
            parts.push(rest);
            break;
        }
        let end = rest.find(is_space).unwrap_or(rest.len());
        parts.push(&rest[..end]);
        rest = rest[end..].trim_start_matches(is_space);
    }
    parts
}

fn rsplit_at_spaces(this: &str, most: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = this.trim_end_matches(is_space);
    while !rest.is_empty() {
        if parts.len() == most {
            parts.push(rest);
            break;
        }
        let start = rest.char_indices().rev().find(|(_, char)| is_space(*char));
        let start = start.map_or(0, |(at, char)| at + char.len_utf8());
        parts.push(&rest[start..]);
        rest = rest[..start].trim_end_matches(is_space);
    }
    reversed(parts)
}

pub(in super::super) fn split_lines(this: &str, keep: bool) -> Vec<&str> {
    let ends = |char: char| {
        matches!(
            char,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    let mut lines = Vec::new();
    let mut rest = this;
    while !rest.is_empty() {
        let end = rest.find(ends).unwrap_or(rest.len());
        let next = &rest[end..];
        let width = if next.starts_with("\r\n") { 2 } else { next.chars().next().map_or(0, char::len_utf8) };
        lines.push(&rest[..if keep { end + width } else { end }]);
        rest = &rest[end + width..];
    }
    lines
}

/// The part of the text between two places, and where it begins in bytes. `None` if they lie beyond each other.
fn section<'a>(
    this: &'a str,
    start: Option<&Value>,
    end: Option<&Value>,
) -> Result<Option<(usize, &'a str)>, Error> {
    let (start, end) = (some(start), some(end));
    if start.is_none() && end.is_none() {
        return Ok(Some((0, this)));
    }
    let length = this.chars().count() as i128;
    let place = |bound: i128| if bound < 0 { bound.saturating_add(length).max(0) } else { bound };
    let start = place(int_or(start, 0)?);
    let end = place(int_or(end, length)?).min(length);
    if start > end {
        return Ok(None);
    }
    let byte = |place: i128| {
        let place = usize::try_from(place).unwrap_or(usize::MAX);
        this.char_indices().nth(place).map_or(this.len(), |(at, _)| at)
    };
    Ok(Some((byte(start), &this[byte(start)..byte(end)])))
}

/// `str.replace`; a negative count replaces all.
pub(in super::super) fn replace(
    state: &State,
    this: &str,
    old: &str,
    new: &str,
    count: i128,
) -> Result<String, Error> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let found = if old.is_empty() { this.chars().count() + 1 } else { this.matches(old).count() };
    room(state, this.len().saturating_add(found.min(count).saturating_mul(new.len())))?;
    Ok(this.replacen(old, new, count))
}

fn justify(state: &State, this: &str, how: &str, width: i128, fill: &str) -> Result<String, Error> {
    let mut chars = fill.chars();
    let (Some(fill), None) = (chars.next(), chars.next()) else {
        return fail("The fill character must be exactly one character long");
    };
    let length = this.chars().count() as i128;
    let missing = usize::try_from(width.saturating_sub(length).max(0)).unwrap_or(usize::MAX);
    room(state, missing.saturating_mul(fill.len_utf8()).saturating_add(this.len()))?;
    let left = match how {
        "ljust" => 0,
        "rjust" => missing,
        // Python's own rule for what is left over.
        _ => missing / 2 + (missing & usize::try_from(width.max(0)).unwrap_or_default() & 1),
    };
    let pad = |count: usize| std::iter::repeat_n(fill, count);
    Ok(pad(left).chain(this.chars()).chain(pad(missing - left)).collect())
}

fn expand_tabs(state: &State, this: &str, size: i128) -> Result<String, Error> {
    let size = usize::try_from(size.max(0)).unwrap_or(usize::MAX);
    room(state, this.matches('\t').count().saturating_mul(size).saturating_add(this.len()))?;
    let mut out = String::new();
    let mut column = 0;
    for char in this.chars() {
        if char == '\t' {
            let spaces = if size == 0 { 0 } else { size - column % size };
            out.extend(std::iter::repeat_n(' ', spaces));
            column += spaces;
        } else {
            out.push(char);
            column = if matches!(char, '\n' | '\r') { 0 } else { column + 1 };
        }
    }
    Ok(out)
}

/// The first letter of a word, in title case. Where a capital letter is written as several, the first of them is large.
fn title_letter(char: char) -> String {
    let letter = match char {
        'Ǆ'..='ǆ' => 'ǅ',
        'Ǉ'..='ǉ' => 'ǈ',
        'Ǌ'..='ǌ' => 'ǋ',
        'Ǳ'..='ǳ' => 'ǲ',
        // Georgian sentences begin with small letters.
        'ა'..='ჿ' => char,
        // Greek letters with an iota below have capitals of their own, eight places on.
        'ᾀ'..='ᾯ' => char::from_u32(u32::from(char) | 8).unwrap_or(char),
        'ᾳ' | 'ᾼ' => 'ᾼ',
        'ῃ' | 'ῌ' => 'ῌ',
        'ῳ' | 'ῼ' => 'ῼ',
        'ŉ' => return "ʼN".to_owned(),
        _ => {
            let mut upper = char.to_uppercase();
            let first = upper.next().into_iter();
            // With an accent the iota stays below.
            let rest = |char| if char == 'Ι' { '\u{345}' } else { char };
            return first.chain(upper.map(rest).flat_map(char::to_lowercase)).collect();
        }
    };
    letter.to_string()
}

pub(in super::super) fn capitalize(this: &str) -> String {
    let mut chars = this.chars();
    chars.next().map(title_letter).unwrap_or_default() + &chars.as_str().to_lowercase()
}

/// The text with its letters changed, for the methods that do so.
fn cased(this: &str, name: &str) -> Option<String> {
    Some(match name {
        "upper" => this.to_uppercase(),
        "lower" => this.to_lowercase(),
        // Folding differs from it for few letters.
        "casefold" => this.to_lowercase().replace('ß', "ss"),
        "capitalize" => capitalize(this),
        "swapcase" => {
            let swap = |char: char| match char.is_uppercase() {
                true => char.to_lowercase().collect::<String>(),
                false => char.to_uppercase().collect(),
            };
            this.chars().map(swap).collect()
        }
        "title" => {
            let mut inside = false;
            let mut out = String::with_capacity(this.len());
            for char in this.chars() {
                match inside {
                    true => out.extend(char.to_lowercase()),
                    false => out.push_str(&title_letter(char)),
                }
                inside = char.is_lowercase() || char.is_uppercase();
            }
            out
        }
        _ => return None,
    })
}

fn is(this: &str, name: &str) -> Option<bool> {
    let all = |holds: fn(char) -> bool| !this.is_empty() && this.chars().all(holds);
    let cased = || this.chars().any(|char| char.is_lowercase() || char.is_uppercase());
    Some(match name {
        "isspace" => all(is_space),
        "isdigit" => all(is_digit),
        "isdecimal" => all(is_decimal),
        "isnumeric" => all(char::is_numeric),
        "isalpha" => all(char::is_alphabetic),
        "isalnum" => all(char::is_alphanumeric),
        "isascii" => this.is_ascii(),
        "isprintable" => this.chars().all(is_printable),
        "islower" => cased() && !this.chars().any(char::is_uppercase),
        "isupper" => cased() && !this.chars().any(char::is_lowercase),
        "istitle" => {
            let mut inside = false;
            let fits = this.chars().all(|char| {
                let fits = if char.is_uppercase() { !inside } else { !char.is_lowercase() || inside };
                inside = char.is_lowercase() || char.is_uppercase();
                fits
            });
            cased() && fits
        }
        "isidentifier" => {
            let first = |char: char| char == '_' || char.is_alphabetic();
            this.starts_with(first) && this.chars().all(|char| char == '_' || char.is_alphanumeric())
        }
        _ => return None,
    })
}

/// A decimal digit of some script: one of ten that follow each other.
fn is_decimal(char: char) -> bool {
    /// The zeros.
    const ZEROS: [u32; 66] = [
        0x30, 0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6,
        0xe50, 0xed0, 0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0,
        0x1c40, 0x1c50, 0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30,
        0x11066, 0x110f0, 0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0,
        0x11950, 0x11c50, 0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec,
        0x1d7f6, 0x1e140, 0x1e2f0, 0x1e950, 0x1fbf0,
    ];
    let place = ZEROS.partition_point(|zero| *zero <= u32::from(char));
    place > 0 && u32::from(char) - ZEROS[place - 1] < 10
}

/// A digit, also one that is raised, in a circle, or with a dot.
fn is_digit(char: char) -> bool {
    is_decimal(char)
        || matches!(
            char,
            '\u{b2}'..='\u{b3}' | '\u{b9}' | '\u{1369}'..='\u{1371}' | '\u{19da}' | '\u{2070}'
                | '\u{2074}'..='\u{2079}' | '\u{2080}'..='\u{2089}' | '\u{2460}'..='\u{2468}'
                | '\u{2474}'..='\u{247c}' | '\u{2488}'..='\u{2490}' | '\u{24ea}' | '\u{24f5}'..='\u{24fd}'
                | '\u{24ff}' | '\u{2776}'..='\u{277e}' | '\u{2780}'..='\u{2788}' | '\u{278a}'..='\u{2792}'
                | '\u{10a40}'..='\u{10a43}' | '\u{10e60}'..='\u{10e68}' | '\u{11052}'..='\u{1105a}'
                | '\u{1f100}'..='\u{1f10a}'
        )
}
