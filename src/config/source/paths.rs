//! `paths`: one, or a list.

use serde::{Deserialize, Deserializer};

/// Reads a list of paths; a path alone is a list of one.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "must be a path in quotes, such as \"corpus/*.txt\", or a list of paths")]
    enum Paths {
        One(String),
        Many(Vec<String>),
    }

    Ok(match Paths::deserialize(deserializer)? {
        Paths::One(path) => vec![path],
        Paths::Many(paths) => paths,
    })
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
