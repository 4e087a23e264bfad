//! Reads fields of a JSON object, wherever they are in it. serde_json gives them as events, so nothing else is kept.

use std::fmt;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

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
    let (start, path, weight) = (out.len(), paths.text.as_ref(), paths.weight.as_ref());
    let (text, whole) = (At::Missing, Names::default());
    let mut found = ExtractedFields { start, out, empty_list, text, weight: At::Missing, whole };
    let wanted = Wanted {
        text: path.map(|path| &*path.parts),
        weight: weight.map(|(path, _)| &*path.parts),
        whole: Names { text: path.map(|path| &*path.name), weight: weight.map(|(path, _)| &*path.name) },
    };
    let mut json = serde_json::Deserializer::from_str(line);
    let seed = Find { wanted, depth: 0, found: &mut found };
    seed.deserialize(&mut json).and_then(|()| json.end()).map_err(|error| broken(line, &error))?;
    if let At::Wrong { kind: NULL, .. } = found.text {
        found.out.truncate(start);
        return Ok(1.0);
    }
    if let Some(path) = path {
        found.text.expect(&path.parts, "a string")?;
    }
    let Some((path, max)) = weight else { return Ok(1.0) };
    let weight = found.weight.expect(&path.parts, "a number")?;
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

/// The paths that lead through or to one value. An empty path ends there.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    text: Option<&'a [String]>,
    weight: Option<&'a [String]>,
    /// The whole names. Only keys of the outermost object are compared with them.
    whole: Names<Option<&'a str>>,
}

/// A value for the text's name and one for the weight's.
#[derive(Clone, Copy, Default)]
struct Names<T> {
    text: T,
    weight: T,
}

impl Wanted<'_> {
    /// The paths that go on through `key`. A path ends at a key with its whole name: then its name stays.
    fn below(self, key: &str) -> Self {
        let whole = Names {
            text: self.whole.text.filter(|name| *name == key),
            weight: self.whole.weight.filter(|name| *name == key),
        };
        let below = |(name, rest)| (name == key).then_some(rest);
        let path = |path: Option<_>, whole: Option<_>| match whole {
            Some(_) => Some(&[][..]),
            None => path.and_then(<[_]>::split_first).and_then(below),
        };
        Self { text: path(self.text, whole.text), weight: path(self.weight, whole.weight), whole }
    }
}

struct ExtractedFields<'a> {
    /// The text is appended from `start` on.
    out: &'a mut String,
    start: usize,
    empty_list: &'static str,
    text: At<()>,
    weight: At<f64>,
    /// Whether a key with the whole name was found. Nothing else counts then.
    whole: Names<bool>,
}

#[derive(Clone, Copy)]
enum At<T> {
    Missing,
    /// A value of another kind, after `depth` names of the path.
    Wrong {
        depth: usize,
        kind: &'static str,
    },
    Value(T),
}

impl<T> At<T> {
    /// The value, or the problem that another kind was found instead of `wanted`.
    fn expect(self, path: &[String], wanted: &str) -> Result<T, Problem> {
        let what = match self {
            At::Value(value) => return Ok(value),
            At::Missing => format!("there is no field `{}`", path.join(".")),
            At::Wrong { depth: 0, kind } => format!("the document is {kind} and not an object"),
            At::Wrong { depth, kind } => {
                let wanted = if depth == path.len() { wanted } else { "an object" };
                format!("field `{}` is {kind} and not {wanted}", path[..depth].join("."))
            }
        };
        Err(not_usable(what))
    }
}

fn not_usable(what: String) -> Problem {
    Problem::new(0, what, "mend it, or name another field")
}

/// Looks into one value, `depth` names down the paths.
struct Find<'a, 'b> {
    wanted: Wanted<'a>,
    depth: usize,
    found: &'a mut ExtractedFields<'b>,
}

impl Find<'_, '_> {
    /// Notes a value of this kind on each path, where something else was wanted.
    fn wrong(&mut self, kind: &'static str) {
        let wrong = At::Wrong { depth: self.depth, kind };
        self.found.text = self.wanted.text.map_or(self.found.text, |_| wrong);
        let wrong = At::Wrong { depth: self.depth, kind };
        self.found.weight = self.wanted.weight.map_or(self.found.weight, |_| wrong);
    }

    fn number<E>(mut self, number: f64) -> Result<(), E> {
        self.wrong("a number");
        if self.wanted.weight.is_some_and(<[_]>::is_empty) {
            self.found.weight = At::Value(number);
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Find<'_, '_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Find<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_str<E>(mut self, text: &str) -> Result<(), E> {
        self.wrong("a string");
        if self.wanted.text.is_some_and(<[_]>::is_empty) {
            self.found.out.truncate(self.found.start);
            self.found.out.push_str(text);
            self.found.text = At::Value(());
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        self.wrong("an object");
        if self.wanted.text.is_some_and(|path| !path.is_empty()) {
            self.found.text = At::Missing;
        }
        if self.wanted.weight.is_some_and(|path| !path.is_empty()) {
            self.found.weight = At::Missing;
        }
        while let Some(mut wanted) = map.next_key_seed(WantedKey(self.wanted))? {
            let Names { text, weight } = std::mem::take(&mut wanted.whole);
            let found = &mut self.found.whole;
            (found.text, found.weight) = (found.text || text.is_some(), found.weight || weight.is_some());
            if self.depth == 0 && found.text && text.is_none() {
                wanted.text = None;
            }
            if self.depth == 0 && found.weight && weight.is_none() {
                wanted.weight = None;
            }
            if wanted.text.is_some() || wanted.weight.is_some() {
                let name = text.or(weight);
                let depth = name.map_or(self.depth + 1, |name| name.split('.').count());
                map.next_value_seed(Find { wanted, depth, found: self.found })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        let mut kind = self.found.empty_list;
        while list.next_element::<IgnoredAny>()?.is_some() {
            kind = LIST;
        }
        self.wrong(kind);
        Ok(())
    }

    fn visit_bool<E>(mut self, _: bool) -> Result<(), E> {
        self.wrong("a boolean");
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.number(number as f64)
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.number(number as f64)
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.number(number)
    }

    fn visit_unit<E>(mut self) -> Result<(), E> {
        self.wrong(NULL);
        Ok(())
    }
}

/// Reads a key, and returns which wanted paths go on through it.
struct WantedKey<'a>(Wanted<'a>);

impl<'de, 'a> DeserializeSeed<'de> for WantedKey<'a> {
    type Value = Wanted<'a>;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Wanted<'a>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for WantedKey<'a> {
    type Value = Wanted<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Wanted<'a>, E> {
        Ok(self.0.below(key))
    }
}
