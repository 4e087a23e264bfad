//! Which field of a record holds its text, by the first records.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::{Error, Result};

/// The names that the text usually has, the most usual first.
const USUAL: [&str; 10] =
    ["text", "content", "txt", "body", "document", "article", "raw_content", "markdown", "story", "md"];

/// How deep fields may lie in each other.
const DEEPEST: usize = 4;

/// What the user has said already.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish<'a> {
    pub(super) field: Option<&'a str>,
    /// Of a Hugging Face directory.
    pub(super) subset: Option<&'a str>,
    /// Of a Hugging Face directory.
    pub(super) part: Option<&'a str>,
}

/// The fields of some records that hold strings.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// For each, how many bytes of text it has in all records together.
    lengths: BTreeMap<String, u64>,
    /// How many records these are.
    pub(super) records: u64,
    /// How many records were counted, and about how many bytes of the file's text they take.
    pub(super) counted: u64,
    pub(super) bytes: u64,
    /// How many records the whole file has, if that is known.
    pub(super) in_file: Option<u64>,
}

/// How long some files are, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    /// The one that was looked at, as it is stored.
    pub(super) first: u64,
    /// All of them, as they are stored.
    pub(super) stored: u64,
    /// All of them, decompressed, about.
    pub(super) text: u64,
}

impl Lengths {
    /// Of files of which the one at `first` was looked at.
    pub(super) fn new(first: &Path, stored: u64, text: u64) -> Result<Self> {
        let first = std::fs::metadata(first).map_err(|e| Error::io(first, "look at", e))?.len();
        Ok(Self { first, stored, text })
    }
}

impl Fields {
    /// Adds the text of a field of a record.
    pub(super) fn add(&mut self, field: &str, bytes: usize) {
        *self.lengths.entry(field.to_owned()).or_default() += bytes as u64;
    }

    /// Adds all strings of a JSON value, by their dotted paths below `at`. Within an object, a name with a dot in it
    /// cannot be told from a path, so it is left out; and so is what is below such a name.
    pub(super) fn add_json(&mut self, at: &str, value: &Value) {
        match value {
            Value::String(text) if !at.is_empty() => self.add(at, text.len()),
            Value::Object(fields) => {
                let is_named = |(name, value): &(&String, &Value)| match name.contains('.') {
                    true => at.is_empty() && value.is_string(),
                    false => !name.is_empty(),
                };
                for (name, value) in fields.iter().filter(is_named) {
                    let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                    if path.split('.').count() <= DEEPEST {
                        self.add_json(&path, value);
                    }
                }
            }
            _ => {}
        }
    }

    /// The field that holds the text: one with a usual name, or else the one with the longest strings.
    pub(super) fn text(&self) -> Option<&str> {
        let usual = |field: &str| {
            let last = field.rsplit('.').next().unwrap_or(field);
            USUAL.iter().position(|name| last.eq_ignore_ascii_case(name))
        };
        let filled = || self.lengths.iter().filter(|(_, bytes)| **bytes > 0);
        let named =
            filled().filter_map(|(field, _)| Some((usual(field)?, field.matches('.').count(), field)));
        let longest = || filled().max_by_key(|(_, bytes)| **bytes).map(|(field, _)| field);
        named.min().map(|(_, _, field)| field).or_else(longest).map(String::as_str)
    }

    /// How many records there are in all files, about.
    pub(super) fn count(&self, lengths: Lengths) -> u64 {
        let Lengths { first, stored, text } = lengths;
        let scaled = |n: u64, by: u64, of: u64| {
            let of = u128::from(of.max(1));
            u64::try_from((u128::from(n) * u128::from(by) + of / 2) / of).unwrap_or(u64::MAX)
        };
        match self.in_file {
            Some(records) => scaled(records, stored, first),
            None => scaled(self.counted, text, self.bytes),
        }
    }

    /// How many bytes of text a record has in a field, on average.
    pub(super) fn mean(&self, field: &str) -> u64 {
        self.lengths.get(field).copied().unwrap_or_default() / self.records.max(1)
    }

    /// The field that holds the text: the one that was wished for, or the one that looks like it.
    pub(super) fn chosen(&self, path: &Path, wish: Wish<'_>) -> Result<String> {
        let names = self.names();
        let there = names.join(", ");
        let path = path.display();
        let problem = match (wish.field, self.text()) {
            (Some(wanted), _) if names.contains(&wanted) => return Ok(wanted.to_owned()),
            (None, Some(found)) => return Ok(found.to_owned()),
            (Some(wanted), _) => {
                format!("{path}: no text at {wanted:?} in its first records; there is some at {there}")
            }
            (None, None) if names.is_empty() => {
                format!(
                    "{path}: no field of its first records holds text; name the one that does with --field NAME"
                )
            }
            (None, None) => {
                format!(
                    "{path}: the text in its first records is empty ({there}); name the field with --field NAME"
                )
            }
        };
        Err(Error::Corpus { problem })
    }

    /// Which fields there are to choose from.
    pub(super) fn beside(&self, chosen: &str) -> String {
        let others: Vec<&str> = self.names().into_iter().filter(|name| *name != chosen).collect();
        match &others[..] {
            [] => "the only field with text".to_owned(),
            others => format!("other fields with text: {}", others.join(", ")),
        }
    }

    /// The names of all fields with strings.
    pub(super) fn names(&self) -> Vec<&str> {
        self.lengths.keys().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(records: &[Value]) -> Option<String> {
        let mut fields = Fields::default();
        records.iter().for_each(|record| fields.add_json("", record));
        fields.text().map(str::to_owned)
    }

    #[test]
    fn a_usual_name_goes_before_a_longer_field() {
        let long = "https://example.org/a/very/long/address";
        assert_eq!(text(&[json!({ "url": long, "text": "short" })]).as_deref(), Some("text"));
        assert_eq!(text(&[json!({ "content": "c", "text": "t" })]).as_deref(), Some("text"));
        assert_eq!(text(&[json!({ "meta": { "text": "t" }, "content": "c" })]).as_deref(), Some("meta.text"));
        assert_eq!(text(&[json!({ "meta": { "text": "t" }, "text": "c" })]).as_deref(), Some("text"));
        assert_eq!(
            text(&[json!({ "url": long, "said": "s" }), json!({ "said": "s".repeat(99) })]).as_deref(),
            Some("said")
        );
    }

    #[test]
    fn without_a_string_there_is_none() {
        assert_eq!(text(&[json!({ "id": 1, "text": null }), json!([1, "x"]), json!("x")]), None);
        assert_eq!(text(&[json!({ "": "cannot be named" })]), None);
    }
}
