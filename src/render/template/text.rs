//! Values as Python writes them: `str()`, `repr()` and `json.dumps()`.

use std::borrow::Cow;
use std::fmt::Write;

use minijinja::value::ValueKind;
use minijinja::{Error, State, Value};

use super::objects::{Kind, dict, seq, type_name};
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
        None => REPR.write(out, value, 0)?,
    }
    Ok(())
}

/// Writes a value as `repr()` gives it.
pub(super) fn write_repr(out: &mut String, value: &Value) -> Result<(), Error> {
    REPR.write(out, value, 0)
}

/// How a value is written.
pub(super) struct Style {
    /// As `json.dumps`, not as `repr`.
    pub(super) json: bool,
    pub(super) ensure_ascii: bool,
    pub(super) indent: Option<String>,
    pub(super) between: Cow<'static, str>,
    pub(super) after_key: Cow<'static, str>,
    pub(super) sort_keys: bool,
}

const REPR: Style = Style {
    json: false,
    ensure_ascii: false,
    indent: None,
    between: Cow::Borrowed(", "),
    after_key: Cow::Borrowed(": "),
    sort_keys: false,
};

impl Style {
    pub(super) fn text(&self, state: &State, value: &Value) -> Result<String, Error> {
        let mut out = String::new();
        self.write(&mut out, value, 0)?;
        state.consume_fuel(out.len() as u64 / 16)?;
        Ok(out)
    }

    fn write(&self, out: &mut String, value: &Value, level: usize) -> Result<(), Error> {
        if out.len() > MOST_BYTES {
            return fail("a value's text is too long");
        }
        let [none, yes, no] = if self.json { ["null", "true", "false"] } else { ["None", "True", "False"] };
        match value.kind() {
            ValueKind::None => out.push_str(none),
            ValueKind::Bool => out.push_str(if value.is_true() { yes } else { no }),
            ValueKind::Number => self.write_number(out, value),
            ValueKind::String if self.json => self.write_json(out, value.as_str().unwrap_or_default()),
            ValueKind::String => write_quoted(out, value),
            ValueKind::Undefined if !self.json => out.push_str("Undefined"),
            _ => return self.write_object(out, value, level),
        }
        Ok(())
    }

    fn write_object(&self, out: &mut String, value: &Value, level: usize) -> Result<(), Error> {
        if let Some(seq) = seq(value).filter(|seq| matches!(seq.kind, Kind::List | Kind::Tuple)) {
            let [open, close] = match seq.kind {
                Kind::Tuple if !self.json => ["(", if seq.items.len() == 1 { ",)" } else { ")" }],
                _ => ["[", "]"],
            };
            return self.write_all(out, [open, close], level, &seq.items, |out, item| {
                self.write(out, item, level + 1)
            });
        }
        let Some(dict) = dict(value) else {
            return fail(format!("a value of the type {} cannot be written", type_name(value)));
        };
        let mut entries: Vec<_> = dict.entries.iter().collect();
        if self.sort_keys {
            compare::sort(&mut entries, false, |(key, _)| key)?;
        }
        self.write_all(out, ["{", "}"], level, &entries, |out, (key, value)| {
            let quote = if self.json && key.as_str().is_none() { "\"" } else { "" };
            out.push_str(quote);
            self.write(out, key, 0)?;
            out.push_str(quote);
            out.push_str(&self.after_key);
            self.write(out, value, level + 1)
        })
    }

    fn write_all<T>(
        &self,
        out: &mut String,
        [open, close]: [&str; 2],
        level: usize,
        parts: &[T],
        write: impl Fn(&mut String, &T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let line = |out: &mut String, level: usize| {
            if let Some(indent) = &self.indent {
                out.push('\n');
                (0..level).for_each(|_| out.push_str(indent));
            }
        };
        out.push_str(open);
        for (i, part) in parts.iter().enumerate() {
            out.push_str(if i == 0 { "" } else { &self.between });
            line(out, level + 1);
            write(out, part)?;
        }
        if !parts.is_empty() {
            line(out, level);
        }
        out.push_str(close);
        Ok(())
    }

    /// Writes a number. A float has the fewest digits that give it again, with an exponent below -4 and from 16 on.
    fn write_number(&self, out: &mut String, number: &Value) {
        let value = match f64::try_from(number.clone()) {
            Ok(value) if !number.is_integer() => value,
            _ => return out.push_str(&number.to_string()),
        };
        if !value.is_finite() {
            let [nan, infinity] = if self.json { ["NaN", "Infinity"] } else { ["nan", "inf"] };
            out.push_str(if value < 0.0 { "-" } else { "" });
            return out.push_str(if value.is_nan() { nan } else { infinity });
        }
        let scientific = format!("{value:e}");
        let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let exponent: i32 = exponent.parse().unwrap_or_default();
        // Writing to a string does not fail.
        let _ = if (-4..16).contains(&exponent) {
            // `{:?}` adds the `.0` of a whole number, but has an exponent from 16 on too.
            write!(out, "{value:?}")
        } else {
            write!(out, "{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
        };
    }

    fn write_json(&self, out: &mut String, text: &str) {
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

/// Writes the `repr()` of a string.
fn write_quoted(out: &mut String, value: &Value) {
    let text = value.as_str().unwrap_or_default();
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push_str(if value.is_safe() { "Markup(" } else { "" });
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
    out.push_str(if value.is_safe() { ")" } else { "" });
}

/// Whether Python prints the character as it is. Rust escapes the same ones.
fn is_printable(char: char) -> bool {
    match char {
        ' '..='~' => true,
        _ if char.is_whitespace() || char.is_control() => false,
        // Behind a letter, for Rust escapes a combining character at the beginning of a string.
        _ => ['a', char].iter().collect::<String>().escape_debug().count() == 2,
    }
}
