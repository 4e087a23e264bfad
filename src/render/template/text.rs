//! Values as Python prints them: `str()`, `repr()` and `json.dumps()`.

use std::fmt::Write;

use minijinja::value::ValueKind;
use minijinja::{Error, State, Value};

use super::objects::{self, Kind, Seq, dict, seq};
use super::{MOST_BYTES, compare, fail};

/// A value as `str()` gives it. Of a plain string, that is itself.
pub(super) fn string(value: &Value) -> Result<String, Error> {
    let mut out = String::new();
    write_str(&mut out, value)?;
    Ok(out)
}

/// Writes a value as `str()` gives it.
pub(super) fn write_str(out: &mut String, value: &Value) -> Result<(), Error> {
    match value.as_str() {
        Some(text) => out.push_str(text),
        None if value.is_undefined() => {}
        None => write_repr(out, value)?,
    }
    Ok(())
}

/// Writes a value as `repr()` gives it.
pub(super) fn write_repr(out: &mut String, value: &Value) -> Result<(), Error> {
    check_length(out)?;
    match value.kind() {
        ValueKind::Undefined => out.push_str("Undefined"),
        ValueKind::None => out.push_str("None"),
        ValueKind::Bool => out.push_str(if value.is_true() { "True" } else { "False" }),
        ValueKind::Number => write_number(out, value),
        ValueKind::String => match value.as_str() {
            Some(text) if value.is_safe() => {
                out.push_str("Markup(");
                write_quoted(out, text);
                out.push(')');
            }
            text => write_quoted(out, text.unwrap_or_default()),
        },
        _ => {
            if let Some(seq) = seq(value) {
                return write_seq(out, seq);
            }
            let Some(dict) = dict(value) else {
                return fail(format!("a value of the type {} has no text", objects::type_name(value)));
            };
            out.push('{');
            for (i, (key, value)) in dict.entries.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                write_repr(out, key)?;
                out.push_str(": ");
                write_repr(out, value)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

fn check_length(out: &str) -> Result<(), Error> {
    if out.len() > MOST_BYTES { fail("a value's text is too long") } else { Ok(()) }
}

fn write_seq(out: &mut String, seq: &Seq) -> Result<(), Error> {
    let list = |out: &mut String| -> Result<(), Error> {
        for (i, item) in seq.items.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { ", " });
            write_repr(out, item)?;
        }
        Ok(())
    };
    match seq.kind {
        Kind::List => {
            out.push('[');
            list(out)?;
            out.push(']');
        }
        Kind::Tuple => {
            out.push('(');
            list(out)?;
            out.push_str(if seq.items.len() == 1 { ",)" } else { ")" });
        }
        Kind::View(name) => {
            out.push_str(name);
            out.push_str("([");
            list(out)?;
            out.push_str("])");
        }
        Kind::Range(start, stop, 1) => out.push_str(&format!("range({start}, {stop})")),
        Kind::Range(start, stop, step) => out.push_str(&format!("range({start}, {stop}, {step})")),
        Kind::Iterator => return fail("a generator has no text"),
    }
    Ok(())
}

fn write_number(out: &mut String, value: &Value) {
    if value.is_integer() {
        // Writing to a string does not fail.
        let _ = write!(out, "{value}");
    } else {
        write_float(out, f64::try_from(value.clone()).unwrap_or(f64::NAN));
    }
}

/// Writes a float as `repr()` does: the fewest digits that give it again, with an exponent below -4 and from 16 on.
pub(super) fn write_float(out: &mut String, value: f64) {
    if !value.is_finite() {
        out.push_str(match value {
            _ if value.is_nan() => "nan",
            _ if value > 0.0 => "inf",
            _ => "-inf",
        });
        return;
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let _ = if (-4..16).contains(&exponent) {
        // `{:?}` adds the `.0` of a whole number, but has an exponent from 16 on too.
        write!(out, "{value:?}")
    } else {
        write!(out, "{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
    };
}

/// Writes a string's `repr()`.
fn write_quoted(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    for char in text.chars() {
        // Writing to a string does not fail.
        let _ = match char {
            '\\' => write!(out, "\\\\"),
            '\n' => write!(out, "\\n"),
            '\r' => write!(out, "\\r"),
            '\t' => write!(out, "\\t"),
            _ if char == quote => write!(out, "\\{char}"),
            _ if is_printable(char) => write!(out, "{char}"),
            _ if u32::from(char) < 0x100 => write!(out, "\\x{:02x}", u32::from(char)),
            _ if u32::from(char) < 0x10000 => write!(out, "\\u{:04x}", u32::from(char)),
            _ => write!(out, "\\U{:08x}", u32::from(char)),
        };
    }
    out.push(quote);
}

/// Whether Python prints the character as it is. Rust escapes the same ones.
pub(super) fn is_printable(char: char) -> bool {
    match char {
        ' '..='~' => true,
        _ if char.is_whitespace() || char.is_control() => false,
        // Behind a letter, for Rust escapes a combining character at the beginning of a string.
        _ => ['a', char].iter().collect::<String>().escape_debug().count() == 2,
    }
}

/// How `json.dumps` writes.
pub(super) struct Dumps {
    pub(super) ensure_ascii: bool,
    pub(super) indent: Option<String>,
    pub(super) between: String,
    pub(super) after_key: String,
    pub(super) sort_keys: bool,
}

impl Dumps {
    /// The JSON of a value.
    pub(super) fn dump(&self, state: &State, value: &Value) -> Result<String, Error> {
        let mut out = String::new();
        self.write(&mut out, value, 0)?;
        state.consume_fuel(out.len() as u64 / 16)?;
        Ok(out)
    }

    fn write(&self, out: &mut String, value: &Value, level: usize) -> Result<(), Error> {
        check_length(out)?;
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.write_number(out, value),
            ValueKind::String => self.write_string(out, value.as_str().unwrap_or_default()),
            _ => {
                if let Some(seq) = seq(value).filter(|seq| matches!(seq.kind, Kind::List | Kind::Tuple)) {
                    return self.write_all(out, ['[', ']'], level, seq.items.len(), |out, i| {
                        self.write(out, &seq.items[i], level + 1)
                    });
                }
                let Some(dict) = dict(value) else {
                    return fail(format!("an object of the type {} is not JSON", objects::type_name(value)));
                };
                let mut entries: Vec<_> = dict.entries.iter().collect();
                if self.sort_keys {
                    sort(&mut entries)?;
                }
                self.write_all(out, ['{', '}'], level, entries.len(), |out, i| {
                    let (key, value) = entries[i];
                    match key.as_str() {
                        Some(text) => self.write_string(out, text),
                        None if objects::dict(key).is_some() || seq(key).is_some() || key.is_undefined() => {
                            return fail("keys of JSON are strings, numbers, true, false and null");
                        }
                        None => {
                            out.push('"');
                            self.write(out, key, 0)?;
                            out.push('"');
                        }
                    }
                    out.push_str(&self.after_key);
                    self.write(out, value, level + 1)
                })?;
            }
        }
        Ok(())
    }

    fn write_all(
        &self,
        out: &mut String,
        [open, close]: [char; 2],
        level: usize,
        count: usize,
        write: impl Fn(&mut String, usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let line = |out: &mut String, level: usize| {
            if let Some(indent) = &self.indent {
                out.push('\n');
                (0..level).for_each(|_| out.push_str(indent));
            }
        };
        out.push(open);
        for i in 0..count {
            out.push_str(if i == 0 { "" } else { &self.between });
            line(out, level + 1);
            write(out, i)?;
        }
        if count > 0 {
            line(out, level);
        }
        out.push(close);
        Ok(())
    }

    fn write_number(&self, out: &mut String, value: &Value) {
        let start = out.len();
        write_number(out, value);
        let json = match &out[start..] {
            "nan" => "NaN",
            "inf" => "Infinity",
            "-inf" => "-Infinity",
            _ => return,
        };
        out.replace_range(start.., json);
    }

    fn write_string(&self, out: &mut String, text: &str) {
        out.push('"');
        let mut plain = 0;
        for (at, char) in text.char_indices() {
            let escape = match char {
                '"' => "\\\"",
                '\\' => "\\\\",
                '\n' => "\\n",
                '\r' => "\\r",
                '\t' => "\\t",
                '\u{8}' => "\\b",
                '\u{c}' => "\\f",
                ..' ' => "",
                _ if self.ensure_ascii && char > '~' => "",
                _ => continue,
            };
            out.push_str(&text[plain..at]);
            plain = at + char.len_utf8();
            out.push_str(escape);
            if escape.is_empty() {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    // Writing to a string does not fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
        out.push_str(&text[plain..]);
        out.push('"');
    }
}

fn sort(entries: &mut [&(Value, Value)]) -> Result<(), Error> {
    let mut failed = None;
    entries.sort_by(|(a, _), (b, _)| {
        compare::order(a, b, &mut compare::budget())
            .map(|order| order.unwrap_or(std::cmp::Ordering::Equal))
            .unwrap_or_else(|e| {
                failed.get_or_insert(e);
                std::cmp::Ordering::Equal
            })
    });
    failed.map_or(Ok(()), Err)
}

/// What `markupsafe.escape` makes of a text.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '&' => out.push_str("&amp;"),
            '>' => out.push_str("&gt;"),
            '<' => out.push_str("&lt;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            _ => out.push(char),
        }
    }
    out
}
