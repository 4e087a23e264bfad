//! The record of a sample, from its JSON members: the fields of the member `json`, and a field `x` for each `x.json`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::source::formats::decode::{Bound, Text, utf8};
use crate::source::formats::wanted::{Object, TOO_LONG};
use crate::source::problem::Problem;

/// The JSON members of a sample so far.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// Each by the name of its field, which is empty for the member `json`. So that comes first, and others win over its
    /// fields.
    members: BTreeMap<String, Vec<u8>>,
    len: u64,
    problem: Option<Problem>,
}

/// The name of the field that a member with this extension is; `None` if it is not JSON.
pub(super) fn field(extension: &str) -> Option<String> {
    let (name, last) = extension.rsplit_once('.').unwrap_or(("", extension));
    last.eq_ignore_ascii_case("json").then(|| name.to_owned())
}

impl Members {
    pub(super) fn add(&mut self, field: String, member: Result<Text, Problem>, bound: Bound) {
        let (mut bytes, len) = match member {
            Ok(found) => found,
            Err(problem) => {
                self.problem.get_or_insert(problem);
                return;
            }
        };
        self.len = self.len.saturating_add(len);
        if bound.is_exceeded(self.len) {
            bytes.clear();
        }
        match self.members.entry(field) {
            Entry::Vacant(free) => drop(free.insert(bytes)),
            Entry::Occupied(taken) => {
                let what = match &**taken.key() {
                    "" => "the sample has the member `json` twice".to_owned(),
                    name => format!("the sample has the member `{name}.json` twice"),
                };
                self.problem.get_or_insert(Problem::new(0, what, "keep only one of them"));
            }
        }
    }

    /// The record; empty if the sample has no JSON.
    pub(super) fn record(self, bound: Bound) -> Result<Text, Problem> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        if bound.is_exceeded(self.len) {
            return Ok((TOO_LONG.to_vec(), self.len));
        }
        let mut object = Object::default();
        for (name, bytes) in &self.members {
            let added = utf8(bytes).and_then(|text| match &**name {
                "" => object.fields(text),
                name => object.json(name, text),
            });
            // A place within a member is not a place in the archive.
            added.map_err(|problem| Problem { offset: 0, ..problem })?;
        }
        let record = object.finish();
        let len = record.len() as u64;
        Ok((record, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ByteCount, SourceConfig};

    fn record(members: &[(&str, &str)], max: u64) -> Result<(String, u64), String> {
        let config = SourceConfig { max_document_bytes: ByteCount(max), ..SourceConfig::default() };
        let bound = Bound::new(&config);
        let mut all = Members::default();
        for (extension, json) in members {
            let field = field(extension).expect("it is JSON");
            all.add(field, Ok((json.as_bytes().to_vec(), json.len() as u64)), bound);
        }
        let record = all.record(bound).map_err(|problem| problem.what)?;
        Ok((String::from_utf8(record.0).expect("text"), record.1))
    }

    #[test]
    fn members_are_fields_of_one_object() {
        assert_eq!((field("txt"), field("a.JSON"), field("json")), (None, Some("a".into()), Some("".into())));
        let written = |members: &[(&str, &str)]| record(members, 1000).map(|(record, _)| record);
        assert_eq!(
            written(&[("tools.json", "[]"), ("json", " {\"a\": 1} ")]),
            Ok("{\"a\": 1,\"tools\":[]}".into())
        );
        assert_eq!(written(&[("json", "{ }"), ("b.json", "2")]), Ok("{\"b\":2}".into()));
        assert_eq!(written(&[]), Ok(String::new()));
        assert!(written(&[("json", "[1]")]).is_err_and(|what| what.contains("not an object")));
        assert!(written(&[("a.json", "1, 2")]).is_err_and(|what| what.contains("\"a\" is broken JSON")));
        assert!(
            written(&[("a.json", "1"), ("a.json", "2")]).is_err_and(|what| what.contains("`a.json` twice"))
        );
    }

    #[test]
    fn a_record_beyond_the_bound_has_its_length() {
        assert_eq!(record(&[("a.json", "12345"), ("b.json", "123456")], 10).map(|(_, len)| len), Ok(11));
    }
}
