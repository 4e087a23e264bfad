//! `paths`: one, or a list.

use std::fmt;

use serde::de::{Deserializer, Error, SeqAccess, Visitor};

/// Reads a list of paths; a path alone is a list of one.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Paths;

    impl<'de> Visitor<'de> for Paths {
        type Value = Vec<String>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a path in quotes, such as \"corpus/*.txt\", or a list of paths")
        }

        fn visit_str<E: Error>(self, path: &str) -> Result<Vec<String>, E> {
            Ok(vec![path.to_owned()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut paths: A) -> Result<Vec<String>, A::Error> {
            let mut list = Vec::new();
            while let Some(path) = paths.next_element()? {
                list.push(path);
            }
            Ok(list)
        }
    }

    deserializer.deserialize_any(Paths)
}

/// The schema of one path or a list.
#[cfg(feature = "schema")]
pub(super) fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "anyOf": [
            { "type": "string" },
            { "type": "array", "items": { "type": "string" } },
        ],
    })
}
