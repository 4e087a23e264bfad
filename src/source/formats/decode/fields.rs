//! The text and the weight in a JSON object.

use super::look::{Find, Seen, look};
use super::{Problem, share};
use crate::source::json_path::Json;

/// The result of [`json`](super::json), for any line.
pub(super) fn find(line: &str, paths: &Json, out: &mut String) -> Result<f64, Problem> {
    let start = out.len();
    find_strictly(line, paths, LIST, out).or_else(|problem| {
        let Some(line) = finite(line) else { return Err(problem) };
        out.truncate(start);
        find_strictly(&line, paths, NOT_FINITE, out)
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

/// The result, where `empty_list` names an empty list.
fn find_strictly(
    line: &str,
    paths: &Json,
    empty_list: &'static str,
    out: &mut String,
) -> Result<f64, Problem> {
    let (start, text, weight) = (out.len(), paths.text.as_ref(), paths.weight.as_ref());
    let mut found = Extracted { out, start, empty_list, has_text: text.is_some(), at: [At::Missing; 2] };
    let wanted = text.into_iter().chain(weight.map(|(path, _)| path));
    look(line, wanted, false, &mut found).map_err(|error| broken(line, &error))?;
    let [at_text, at_weight] = found.at;
    if let At::Wrong { kind: NULL, .. } = at_text {
        found.out.truncate(start);
        return Ok(1.0);
    }
    if let Some(path) = text {
        at_text.expect(&path.parts, "a string")?;
    }
    let Some((path, max)) = weight else { return Ok(1.0) };
    let weight = at_weight.expect(&path.parts, "a number")?;
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
    Problem::new(offset, format!("broken JSON: {what}"), "mend it")
}

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

const NULL: &str = "null";

const LIST: &str = "a list";

/// The name of the numbers that JSON does not have.
const NOT_FINITE: &str = "NaN or infinite";

/// What was found so far of the text, if there is to be one, and then of the weight.
struct Extracted<'a> {
    /// The text is appended from `start` on.
    out: &'a mut String,
    start: usize,
    empty_list: &'static str,
    has_text: bool,
    at: [At; 2],
}

#[derive(Clone, Copy)]
enum At {
    Missing,
    /// A value of another kind, where some names were `left` of the path.
    Wrong {
        left: usize,
        kind: &'static str,
    },
    /// The weight, or the text.
    Value(f64),
}

impl Find for Extracted<'_> {
    fn see(&mut self, nth: usize, left: usize, seen: Seen<'_>) {
        let is_text = self.has_text && nth == 0;
        let wrong = |kind| At::Wrong { left, kind };
        self.at[usize::from(!is_text)] = match seen {
            Seen::Text(text) if is_text && left == 0 => {
                self.out.truncate(self.start);
                self.out.push_str(text);
                At::Value(0.0)
            }
            Seen::Integer(number) if !is_text && left == 0 => At::Value(number as f64),
            Seen::Float(number) if !is_text && left == 0 => At::Value(number),
            Seen::Object if left > 0 => At::Missing,
            Seen::Object => wrong("an object"),
            Seen::List { is_empty: true } => wrong(self.empty_list),
            Seen::List { is_empty: false } => wrong(LIST),
            Seen::Null => wrong(NULL),
            Seen::Truth(_) => wrong("a boolean"),
            Seen::Integer(_) | Seen::Float(_) => wrong("a number"),
            Seen::Text(_) => wrong("a string"),
            Seen::Unreadable(_) => wrong("JSON that cannot be read"),
        };
    }
}

impl At {
    /// The value, or the problem that another kind was found instead of `wanted`.
    fn expect(self, path: &[String], wanted: &str) -> Result<f64, Problem> {
        let what = match self {
            At::Value(value) => return Ok(value),
            At::Missing => format!("there is no field `{}`", path.join(".")),
            At::Wrong { left, kind } if left == path.len() => {
                format!("the document is {kind} and not an object")
            }
            At::Wrong { left, kind } => {
                let wanted = if left == 0 { wanted } else { "an object" };
                format!("field `{}` is {kind} and not {wanted}", path[..path.len() - left].join("."))
            }
        };
        Err(not_usable(what))
    }
}

fn not_usable(what: String) -> Problem {
    Problem::new(0, what, "mend it, or name another field")
}
