//! From the bytes of one document to its text.

use std::fmt;

use serde::de::{self, DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Why a document cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// Where the fault is, in bytes from the document's first.
    pub(super) offset: usize,
    pub(super) what: String,
    pub(super) remedy: &'static str,
}

impl Problem {
    fn new(offset: usize, what: impl Into<String>, remedy: &'static str) -> Self {
        Self { offset, what: what.into(), remedy }
    }
}

/// The text that `bytes` are.
pub(super) fn utf8(bytes: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(bytes).map_err(|e| {
        let offset = e.valid_up_to();
        Problem::new(
            offset,
            format!("byte 0x{:02x} is not UTF-8", bytes[offset]),
            "convert the file to UTF-8",
        )
    })
}

/// At most the first `max` of `bytes`, cut before a character that does not fit whole.
pub(super) fn truncated(bytes: &[u8], max: usize) -> &[u8] {
    let is_boundary = |at: &usize| bytes.get(*at).is_none_or(|byte| byte & 0xc0 != 0x80);
    // A character has four bytes at most; what looks longer is not UTF-8, and that is found later.
    let end = (max.saturating_sub(3)..=max).rev().find(is_boundary).unwrap_or(max);
    &bytes[..end.min(bytes.len())]
}

/// Appends the string at the dotted `path` in `line`, one JSON object. Of equal keys the last counts.
///
/// Nothing else of the line is kept, but all of it must be JSON. After a problem what was appended means
/// nothing.
pub(super) fn field(line: &str, path: &[String], out: &mut String) -> Result<(), Problem> {
    let start = out.len();
    let mut found = Found::Missing;
    let mut json = serde_json::Deserializer::from_str(line);
    let seed = Find { path, depth: 0, start, out, found: &mut found };
    seed.deserialize(&mut json).and_then(|()| json.end()).map_err(|e| {
        let text = e.to_string();
        let what = text.split(" at line ").next().unwrap_or(&text);
        let offset = if e.is_eof() { line.len() } else { e.column().saturating_sub(1) };
        Problem::new(offset, format!("broken JSON: {what}"), "mend the line")
    })?;
    let what = match found {
        Found::Text => return Ok(()),
        Found::Missing => format!("there is no field `{}`", path.join(".")),
        Found::Wrong { depth: 0, kind } => format!("the line is {kind} and not an object"),
        Found::Wrong { depth, kind } => {
            let wanted = if depth == path.len() { "a string" } else { "an object" };
            format!("field `{}` is {kind} and not {wanted}", path[..depth].join("."))
        }
    };
    Err(Problem::new(0, what, "mend the line, or name another field"))
}

/// What lies at the path.
enum Found {
    Missing,
    /// After `depth` names of the path something of another kind.
    Wrong {
        depth: usize,
        kind: &'static str,
    },
    /// The string, appended.
    Text,
}

/// Looks for the string below one value, `depth` names down the path.
struct Find<'a> {
    path: &'a [String],
    depth: usize,
    start: usize,
    out: &'a mut String,
    found: &'a mut Found,
}

impl Find<'_> {
    fn wrong<E>(self, kind: &'static str) -> Result<(), E> {
        *self.found = Found::Wrong { depth: self.depth, kind };
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = ();

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if self.depth < self.path.len() {
            return self.wrong("a string");
        }
        self.out.truncate(self.start);
        self.out.push_str(text);
        *self.found = Found::Text;
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some(name) = self.path.get(self.depth) else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return self.wrong("an object");
        };
        *self.found = Found::Missing;
        while let Some(is_wanted) = map.next_key_seed(Is(name))? {
            if is_wanted {
                map.next_value_seed(Find {
                    path: self.path,
                    depth: self.depth + 1,
                    start: self.start,
                    out: self.out,
                    found: self.found,
                })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        self.wrong("a list")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        self.wrong("a boolean")
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        self.wrong("a number")
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        self.wrong("a number")
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        self.wrong("a number")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.wrong("null")
    }
}

/// Whether a key is this one.
struct Is<'a>(&'a str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(key == self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn get(line: &str, path: &str) -> Result<String, (usize, String)> {
        let path: Vec<_> = path.split('.').map(str::to_owned).collect();
        let mut out = "kept ".to_owned();
        field(line, &path, &mut out).map(|()| out.split_off(5)).map_err(|p| (p.offset, p.what))
    }

    #[test]
    fn takes_the_string_at_the_path() {
        assert_eq!(get(r#"{"a": 1, "text": "x\ny\u00e9"}"#, "text"), Ok("x\nyé".to_owned()));
        assert_eq!(
            get(r#" {"doc": {"text": "deep", "n": [1, {}]}, "text": "no"} "#, "doc.text"),
            Ok("deep".to_owned())
        );
        assert_eq!(get(r#"{"text": ""}"#, "text"), Ok(String::new()));
        assert_eq!(get(r#"{"te\u0078t": "escaped key"}"#, "text"), Ok("escaped key".to_owned()));
    }

    #[test]
    fn of_equal_keys_the_last_counts() {
        assert_eq!(get(r#"{"text": "first", "text": "last"}"#, "text"), Ok("last".to_owned()));
        assert_eq!(
            get(r#"{"text": "first", "text": 2}"#, "text"),
            Err((0, "field `text` is a number and not a string".to_owned()))
        );
        assert_eq!(
            get(r#"{"a": {"text": "first"}, "a": {}}"#, "a.text"),
            Err((0, "there is no field `a.text`".to_owned()))
        );
    }

    #[test]
    fn says_what_is_there_instead() {
        let cases = [
            ("{}", "there is no field `a.b`"),
            (r#"{"a": {"c": "x"}}"#, "there is no field `a.b`"),
            (r#"{"a": "x"}"#, "field `a` is a string and not an object"),
            (r#"{"a": {"b": null}}"#, "field `a.b` is null and not a string"),
            (r#"{"a": {"b": [1]}}"#, "field `a.b` is a list and not a string"),
            (r#"{"a": {"b": {"c": 1}}}"#, "field `a.b` is an object and not a string"),
            (r#"{"a": {"b": 1.5}}"#, "field `a.b` is a number and not a string"),
            (r#"{"a": true}"#, "field `a` is a boolean and not an object"),
            ("[1, 2]", "the line is a list and not an object"),
        ];
        for (line, what) in cases {
            assert_eq!(get(line, "a.b"), Err((0, what.to_owned())), "{line}");
        }
    }

    #[test]
    fn broken_json_is_found_where_it_is() {
        let cases = [
            (r#"{"text": "x"} y"#, 14, "trailing characters"),
            (r#"{"text": "x""#, 12, "EOF while parsing an object"),
            (r#"{"text": "x", "n": nope}"#, 20, "expected ident"),
            (r#"{"text": tru}"#, 12, "expected ident"),
            (r#"{"é": 1, "text" "x"}"#, 17, "expected `:`"),
        ];
        for (line, offset, what) in cases {
            assert_eq!(get(line, "text"), Err((offset, format!("broken JSON: {what}"))), "{line}");
        }
    }

    #[test]
    fn cuts_between_characters() {
        assert_eq!(truncated("aé漢".as_bytes(), 100), "aé漢".as_bytes());
        assert_eq!(truncated("aé漢".as_bytes(), 6), "aé漢".as_bytes());
        assert_eq!(truncated("aé漢".as_bytes(), 5), "aé".as_bytes());
        assert_eq!(truncated("aé漢".as_bytes(), 3), "aé".as_bytes());
        assert_eq!(truncated("aé漢".as_bytes(), 2), b"a");
        assert_eq!(truncated("漢".as_bytes(), 2), b"");
        assert_eq!(truncated(&[0x80; 9], 6), [0x80; 6]);
    }

    #[test]
    fn names_the_first_byte_that_is_not_utf8() {
        let problem = utf8(b"ab\xff").expect_err("not UTF-8");
        assert_eq!((problem.offset, problem.what.as_str()), (2, "byte 0xff is not UTF-8"));
    }

    proptest! {
        #[test]
        fn agrees_with_a_whole_parse(text in ".*", other in ".*", deep in any::<bool>()) {
            let value = if deep {
                serde_json::json!({"z": other, "a": {"b": text, "c": [other]}})
            } else {
                serde_json::json!({"a": other, "text": text})
            };
            let path = if deep { "a.b" } else { "text" };
            prop_assert_eq!(get(&value.to_string(), path), Ok(text));
        }
    }
}
