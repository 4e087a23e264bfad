//! From the bytes of one document to its text.

mod fields;
mod flat;
mod look;
mod values;

pub(crate) use values::{value_in_json, values};

use crate::config::{Oversize, SourceConfig, SourceKind};
use crate::source::json_path::Json;
use crate::source::problem::Problem;

pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(bytes).map_err(|e| {
        let offset = e.valid_up_to();
        // Standard input, and what is in an archive or compressed: files are known before they are read.
        if let Some(kind) = SourceKind::of_signature(bytes) {
            let what = format!("the file looks like {kind}, not text");
            return Problem::new(offset, what, format!("set kind = {:?}", kind.name()));
        }
        let what = match bytes {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "the text is UTF-16, and only UTF-8 is read".to_owned(),
            _ => format!("byte 0x{:02x} is not UTF-8", bytes[offset]),
        };
        Problem::new(offset, what, "convert the file to UTF-8")
    })
}

/// Returns at most the first `max` of `bytes`, without the beginning of a character that does not fit whole.
pub(crate) fn truncated(bytes: &[u8], max: usize) -> &[u8] {
    let fitting = &bytes[..bytes.len().min(max)];
    match std::str::from_utf8(fitting) {
        Err(e) if fitting.len() < bytes.len() && e.error_len().is_none() => &fitting[..e.valid_up_to()],
        _ => fitting,
    }
}

/// Appends the text in `line`, which is one JSON object; nothing where the text, or an object around it, is null. If the
/// whole object is wanted, appends the line. Returns the share of epochs that include its document: its weight over the
/// largest, at most 1, and 1 without weights. Of equal keys the last counts.
///
/// All of the line must be JSON, but nothing else of it is kept. After a problem, ignore what was appended.
pub(crate) fn json(line: &str, paths: &Json, out: &mut String) -> Result<f64, Problem> {
    if let (Some(text), None) = (&paths.text, &paths.weight)
        && let [key] = &*text.parts
    {
        let start = out.len();
        if flat::text(line, key, out).is_some() {
            return Ok(1.0);
        }
        out.truncate(start);
    }
    let is_whole = paths.text.is_none();
    // What renders a whole record reads its JSON.
    let share = if is_whole && paths.weight.is_none() { 1.0 } else { fields::find(line, paths, out)? };
    if is_whole {
        out.push_str(line);
    }
    Ok(share)
}

/// The share of epochs that include a document of `weight`, if `max` is the largest weight that counts; or the weight's
/// problem.
pub(crate) fn share(weight: f64, max: f64) -> Result<f64, String> {
    if weight < 0.0 || weight.is_nan() {
        return Err(format!("{weight}, but a weight must be 0 or more"));
    }
    Ok((weight / max).min(1.0))
}

/// The text of a record: its held bytes, and its whole length.
pub(crate) type Text = (Vec<u8>, u64);

/// The bound on a text that is a record's own bytes, or within JSON there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    max: u64,
    cuts: bool,
}

impl Bound {
    pub(crate) fn new(config: &SourceConfig) -> Self {
        Self { max: config.max_document_bytes.0, cuts: config.oversize == Oversize::Truncate }
    }

    /// Whether a record of `len` bytes is too long.
    pub(crate) fn is_exceeded(self, len: u64) -> bool {
        len > self.max
    }

    /// How many of `len` bytes are held: at most one more than the bound.
    pub(crate) fn held(self, len: u64) -> u64 {
        len.min(self.max + 1)
    }

    /// The text of a record of `len` bytes, of which `bytes` are held: these bytes, or with `json` the text within
    /// them.
    pub(crate) fn text(self, bytes: Vec<u8>, len: u64, json: Option<&Json>) -> Result<Text, Problem> {
        match json {
            Some(_) if len > self.max && self.cuts => {
                let what = "the JSON is longer than max_document_bytes, and cannot be cut";
                Err(Problem::new(0, what, "raise it, or set oversize = \"skip\""))
            }
            Some(paths) if len <= self.max => {
                let mut text = String::new();
                // A place within the value is not a place in the file.
                utf8(&bytes)
                    .and_then(|value| self::json(value, paths, &mut text))
                    .map_err(|problem| Problem { offset: 0, ..problem })?;
                let len = text.len() as u64;
                Ok((text.into_bytes(), len))
            }
            _ => Ok((bytes, len)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::json_path::FieldPath;

    fn get(line: &str, path: &str) -> Result<String, (usize, String)> {
        let mut out = "kept ".to_owned();
        let share = json(line, &Json::text(path), &mut out);
        share.map(|_| out.split_off(5)).map_err(|p| (p.offset, p.what))
    }

    /// The text at `a.text`, and the share by the weight at `path` out of 4.
    fn weighted(line: &str, path: &str) -> Result<(String, f64), String> {
        let mut out = String::new();
        let share =
            json(line, &Json { weight: Some((FieldPath::new(path), 4.0)), ..Json::text("a.text") }, &mut out);
        share.map(|share| (out, share)).map_err(|p| p.what)
    }

    #[test]
    fn the_share_is_the_weight_over_the_largest() {
        let text = || "x".to_owned();
        assert_eq!(weighted(r#"{"w": 1, "a": {"text": "x"}}"#, "w"), Ok((text(), 0.25)));
        assert_eq!(weighted(r#"{"a": {"text": "x", "w": 3.0, "v": 9}}"#, "a.w"), Ok((text(), 0.75)));
        assert_eq!(weighted(r#"{"a": {"text": "x"}, "w": 5e3}"#, "w"), Ok((text(), 1.0)));
        assert_eq!(weighted(r#"{"w": 1, "a": {"text": "x"}, "w": -0}"#, "w"), Ok((text(), 0.0)));
        let cases = [
            (r#"{"a": {"text": "x"}}"#, "w", "there is no field `w`"),
            (r#"{"w": 1, "a": {}}"#, "w", "there is no field `a.text`"),
            (r#"{"w": "1", "a": {"text": "x"}}"#, "w", "field `w` is a string and not a number"),
            (r#"{"w": {}, "a": {"text": "x"}}"#, "w", "field `w` is an object and not a number"),
            (r#"{"w": 2, "a": {"text": 7}}"#, "w", "field `a.text` is a number and not a string"),
            (r#"{"a": {"text": "x"}}"#, "a.text.w", "field `a.text` is a string and not an object"),
            (
                r#"{"a": {"text": "x", "w": -0.5}}"#,
                "a.w",
                "field `a.w` is -0.5, but a weight must be 0 or more",
            ),
            (r#"{"a": {"text": "x"}, "w": NaN}"#, "w", "field `w` is NaN or infinite and not a number"),
            (r#"{"a": {"text": "x"}, "w": 1e999}"#, "w", "broken JSON: number out of range"),
        ];
        for (line, path, what) in cases {
            assert_eq!(weighted(line, path), Err(what.to_owned()), "{line}");
        }
    }

    #[test]
    fn a_whole_record_has_a_weight_too() {
        let whole = |line: &str, weight: Option<&str>| {
            let weight = weight.map(|path| (FieldPath::new(path), 4.0));
            let mut out = "kept ".to_owned();
            let share = json(line, &Json { text: None, weight }, &mut out);
            share.map(|share| (out.split_off(5), share)).map_err(|p| p.what)
        };
        let line = r#"{"messages": [], "w": 1}"#;
        assert_eq!(whole(line, None), Ok((line.to_owned(), 1.0)));
        assert_eq!(whole(line, Some("w")), Ok((line.to_owned(), 0.25)));
        assert_eq!(whole(line, Some("v")), Err("there is no field `v`".to_owned()));
    }

    #[test]
    fn a_null_is_no_text() {
        for line in [r#"{"a": {"b": null}}"#, r#"{"a": null}"#, "null", r#"{"a": {"b": "x"}, "a.b": null}"#] {
            assert_eq!(get(line, "a.b"), Ok(String::new()), "{line}");
        }
        assert_eq!(get(r#"{"text": "first", "text": null}"#, "text"), Ok(String::new()));
        assert_eq!(weighted(r#"{"w": 1, "a": {"text": null}}"#, "w"), Ok((String::new(), 1.0)));
    }

    #[test]
    fn a_key_with_the_whole_name_comes_first() {
        for line in [
            r#"{"a.b": "x", "a": {"b": "y"}}"#,
            r#"{"a": {"b": "y"}, "a.b": "x"}"#,
            r#"{"a.b": "x", "a": 7}"#,
        ] {
            assert_eq!(get(line, "a.b"), Ok("x".to_owned()), "{line}");
        }
        assert_eq!(get(r#"{"a.b": "x", "a.b": "y", "a": {"b": "z"}}"#, "a.b"), Ok("y".to_owned()));
        assert_eq!(get(r#"{"a": {"b": "z"}, "b": "y"}"#, "a.b"), Ok("z".to_owned()));
        let line = r#"{"a.w": 2, "a": {"text": "x", "w": 1}}"#;
        assert_eq!(weighted(line, "a.w"), Ok(("x".to_owned(), 0.5)));
    }

    #[test]
    fn says_what_is_there_instead() {
        let cases = [
            ("{}", "there is no field `a.b`"),
            (r#"{"a": {"c": "x"}}"#, "there is no field `a.b`"),
            (r#"{"a": "x"}"#, "field `a` is a string and not an object"),
            (r#"{"a": {"b": [1]}}"#, "field `a.b` is a list and not a string"),
            (r#"{"a": {"b": []}}"#, "field `a.b` is a list and not a string"),
            (r#"{"n": NaN, "a": {"b": [1]}}"#, "field `a.b` is a list and not a string"),
            (r#"{"a": {"b": -Infinity}, "n": 1}"#, "field `a.b` is NaN or infinite and not a string"),
            (r#"{"a": NaN}"#, "field `a` is NaN or infinite and not an object"),
            (r#"{"a": {"b": {"c": 1}}}"#, "field `a.b` is an object and not a string"),
            (r#"{"a": {"b": 1.5}}"#, "field `a.b` is a number and not a string"),
            (r#"{"a": true}"#, "field `a` is a boolean and not an object"),
            (r#"{"a.b": 1, "a": {"b": "x"}}"#, "field `a.b` is a number and not a string"),
            (r#"{"a": {"b": "first", "b": 2}}"#, "field `a.b` is a number and not a string"),
            (r#"{"a": {"b": "first"}, "a": {}}"#, "there is no field `a.b`"),
            ("[1, 2]", "the document is a list and not an object"),
        ];
        assert_eq!(get(r#"{"\u0061": {"\u0062": "escaped keys"}}"#, "a.b"), Ok("escaped keys".to_owned()));
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
            (r#"{"n": NaN, "text": tru}"#, 22, "expected ident"),
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
        assert_eq!(truncated(b"a\xc3", 2), b"a\xc3", "what is cut in the file itself is not UTF-8");
    }
}
