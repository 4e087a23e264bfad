//! How many documents are shuffled together.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How many documents of a lane are shuffled together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", expecting = "must be a number of at least 1, \"auto\" or \"all\"")]
pub enum ShuffleWindow {
    /// The loader chooses: 2,048 documents, divided among the lanes.
    #[default]
    Auto,
    /// All documents of a source, of all lanes. Their tokens have to be stored in token shards.
    All,
    /// So many, at least 1.
    #[serde(untagged)]
    Fixed(usize),
}

impl From<usize> for ShuffleWindow {
    fn from(number: usize) -> Self {
        Self::Fixed(number)
    }
}

impl fmt::Display for ShuffleWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(number) => number.fmt(f),
            Self::All => f.write_str("all"),
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for ShuffleWindow {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ShuffleWindow".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A number of at least 1, \"auto\" or \"all\".",
            "anyOf": [
                { "type": "integer", "minimum": 1 },
                { "enum": ["auto", "all"] },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_words_are_read_and_written() {
        let cases = [
            ("3", ShuffleWindow::from(3)),
            ("\"auto\"", ShuffleWindow::Auto),
            ("\"all\"", ShuffleWindow::All),
        ];
        for (text, value) in cases {
            assert_eq!(serde_json::from_str::<ShuffleWindow>(text).unwrap(), value);
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
            assert_eq!(value.to_string(), text.trim_matches('"'));
        }
        for wrong in ["-1", "1.5", "\"many\"", "true"] {
            let error = serde_json::from_str::<ShuffleWindow>(wrong).unwrap_err().to_string();
            assert!(error.contains("at least 1, \"auto\" or \"all\""), "{error}");
        }
    }
}
