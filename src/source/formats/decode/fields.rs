//! The text and the weight in a JSON object.

use std::borrow::Cow;

use super::look::{Found, LIST, Manner, look};
use super::{Problem, share};
use crate::document::ColumnValue;
use crate::source::carried::FieldValue;
use crate::source::json_path::Json;

/// The result of [`json`](super::json), for any line.
pub(super) fn find(line: &str, paths: &Json, out: &mut String) -> Result<f64, Problem> {
    let start = out.len();
    find_strictly(line, paths, &LIST, out).or_else(|problem| {
        let Some(line) = finite(line) else { return Err(problem) };
        out.truncate(start);
        find_strictly(&line, paths, &NOT_FINITE, out)
    })
}

/// The line with empty lists of equal length in place of `NaN`, `Infinity` and `-Infinity`, which Python writes into
/// JSON: a list is neither a text nor a weight. `None` if it has none of them outside its strings.
pub(super) fn finite(line: &str) -> Option<String> {
    let (mut out, mut is_string) = (String::with_capacity(line.len()), false);
    for piece in line.split_inclusive('"') {
        let inner = piece.strip_suffix('"').unwrap_or(piece);
        if is_string {
            out.push_str(piece);
            let escapes = inner.len() - inner.trim_end_matches('\\').len();
            is_string = escapes % 2 == 1;
        } else {
            let piece = piece.replace("-Infinity", "[]       ").replace("Infinity", "[]      ");
            out.push_str(&piece.replace("NaN", "[] "));
            is_string = true;
        }
    }
    (out != line).then_some(out)
}

/// The result, where `empty_list` stands for an empty list.
fn find_strictly(
    line: &str,
    paths: &Json,
    empty_list: &FieldValue,
    out: &mut String,
) -> Result<f64, Problem> {
    let (text, weight) = (paths.text.as_ref(), paths.weight.as_ref());
    let wanted = text.into_iter().chain(weight.map(|(path, _)| path));
    let found = look(line, wanted, Manner { is_lenient: false, empty_list });
    let mut found = found.map_err(|error| broken(line, &error))?.into_iter();
    if let Some(path) = text {
        match found.next().flatten() {
            Some(Found { left: 0, value: FieldValue::Value(ColumnValue::Text(text)) }) => out.push_str(&text),
            Some(Found { value: FieldValue::Value(ColumnValue::Null), .. }) => return Ok(1.0),
            other => return Err(another(other, &path.parts, "a string")),
        }
    }
    let Some((path, max)) = weight else { return Ok(1.0) };
    let weight = match found.next().flatten() {
        Some(Found { left: 0, value: FieldValue::Value(ColumnValue::Integer(weight)) }) => weight as f64,
        Some(Found { left: 0, value: FieldValue::Value(ColumnValue::Float(weight)) }) => weight,
        other => return Err(another(other, &path.parts, "a number")),
    };
    share(weight, *max).map_err(|what| not_usable(format!("field `{}` is {what}", path.name)))
}

/// The problem of a line that is not JSON.
pub(super) fn broken(line: &str, error: &serde_json::Error) -> Problem {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    let behind = what.ends_with("hex escape").then(|| line.as_bytes().get(..error.column())).flatten();
    if let Some(at) = behind.and_then(lone_surrogate) {
        let what = format!("`{}` is half of a character (a surrogate) and stands alone", &line[at..at + 6]);
        return Problem::new(at, what, "write the whole character, or remove it");
    }
    let offset = if error.is_eof() { line.len() } else { error.column().saturating_sub(1) };
    let is_of_an_array =
        line.trim_start().starts_with('[') || line.get(offset..).is_some_and(|rest| rest.trim() == ",");
    let remedy = if is_of_an_array { ARRAY } else { "mend it" };
    Problem::new(offset, format!("broken JSON: {what}"), remedy)
}

/// The remedy for a line that looks like a part of an array.
const ARRAY: &str = "mend it, or, if the file is one array of records, name it .json";

/// The place of an escape that is half of a character and stands alone. `line` ends where the parser noticed it: after
/// the escape, or after the text that follows instead of the other half.
fn lone_surrogate(line: &[u8]) -> Option<usize> {
    let unit = |at: usize| {
        let digits = line[at..].strip_prefix(b"\\u")?.get(..4)?;
        u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let back = [(6, 0xdc00), (7, 0xd800), (8, 0xd800), (12, 0xd800)];
    let places = back.into_iter().filter_map(|(back, half)| Some((line.len().checked_sub(back)?, half)));
    places
        .into_iter()
        .find(|&(at, half)| unit(at).is_some_and(|unit| unit & 0xfc00 == half))
        .map(|(at, _)| at)
}

/// The numbers that JSON does not have.
const NOT_FINITE: FieldValue = FieldValue::Other(Cow::Borrowed("NaN or infinite"));

/// The problem that something else was found at a path than `wanted`, or nothing.
fn another(found: Option<Found>, path: &[String], wanted: &str) -> Problem {
    let Some(Found { left, value }) = found else {
        return not_usable(format!("there is no field `{}`", path.join(".")));
    };
    let kind = match &value {
        FieldValue::Value(ColumnValue::Null) => "null",
        FieldValue::Value(ColumnValue::Bool(_)) => "a boolean",
        FieldValue::Value(ColumnValue::Integer(_) | ColumnValue::Float(_)) => "a number",
        FieldValue::Value(ColumnValue::Text(_)) | FieldValue::Untyped(_) => "a string",
        FieldValue::Other(kind) => kind,
    };
    let wanted = if left == 0 { wanted } else { "an object" };
    if left == path.len() {
        let what = format!("the document is {kind} and not an object");
        return if kind == "a list" { Problem::new(0, what, ARRAY) } else { not_usable(what) };
    }
    not_usable(format!("field `{}` is {kind} and not {wanted}", path[..path.len() - left].join(".")))
}

fn not_usable(what: String) -> Problem {
    Problem::new(0, what, "mend it, or name another field")
}
