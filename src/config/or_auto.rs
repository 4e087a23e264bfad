//! A number that may be left to the loader.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number, or `auto`: then the loader chooses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", expecting = "must be a number of at least 1, or \"auto\"")]
pub enum OrAuto {
    /// The loader chooses. Lanes and windows follow from the files. Workers and depth grow while the consumer
    /// waits, and shrink while it does not.
    #[default]
    Auto,
    /// A number that stays as it is, at least 1.
    #[serde(untagged)]
    Fixed(usize),
}

impl OrAuto {
    /// The number, or `most` for `Auto`.
    pub fn or(self, most: usize) -> usize {
        match self {
            Self::Auto => most,
            Self::Fixed(number) => number,
        }
    }
}

impl From<usize> for OrAuto {
    fn from(number: usize) -> Self {
        Self::Fixed(number)
    }
}

impl fmt::Display for OrAuto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Fixed(number) => number.fmt(f),
        }
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for OrAuto {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OrAuto".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A number of at least 1, or \"auto\".",
            "anyOf": [
                { "type": "integer", "minimum": 1 },
                { "const": "auto" },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_auto_are_read_and_written() {
        for (text, value) in [("3", OrAuto::from(3)), ("\"auto\"", OrAuto::Auto)] {
            assert_eq!(serde_json::from_str::<OrAuto>(text).unwrap(), value);
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
            assert_eq!(value.to_string(), text.trim_matches('"'));
        }
        for wrong in ["-1", "1.5", "\"many\"", "true"] {
            let error = serde_json::from_str::<OrAuto>(wrong).unwrap_err().to_string();
            assert!(error.contains("at least 1, or \"auto\""), "{error}");
        }
    }
}
