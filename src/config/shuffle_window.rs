//! How many documents are shuffled together.

use std::fmt;

use serde::de::Unexpected;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How many documents of a lane are shuffled together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShuffleWindow {
    /// The loader chooses: 2,048 documents, divided among the lanes.
    #[default]
    Auto,
    /// So many, at least 1.
    Fixed(usize),
    /// All documents of a source, of all lanes. Their tokens have to be stored in token shards.
    All,
}

impl ShuffleWindow {
    /// The words that stand for no number.
    const AUTO: &str = "auto";
    const ALL: &str = "all";
}

impl From<usize> for ShuffleWindow {
    fn from(number: usize) -> Self {
        Self::Fixed(number)
    }
}

impl fmt::Display for ShuffleWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str(Self::AUTO),
            Self::Fixed(number) => number.fmt(f),
            Self::All => f.write_str(Self::ALL),
        }
    }
}

impl Serialize for ShuffleWindow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(number) => number.serialize(serializer),
            Self::Auto | Self::All => serializer.collect_str(self),
        }
    }
}

impl<'de> Deserialize<'de> for ShuffleWindow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl serde::de::Visitor<'_> for Visitor {
            type Value = ShuffleWindow;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of at least 1, \"auto\" or \"all\"")
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<ShuffleWindow, E> {
                let fits = usize::try_from(number).ok().filter(|&number| number > 0);
                fits.map(ShuffleWindow::Fixed)
                    .ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<ShuffleWindow, E> {
                let positive =
                    u64::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))?;
                self.visit_u64(positive)
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ShuffleWindow, E> {
                match text {
                    ShuffleWindow::AUTO => Ok(ShuffleWindow::Auto),
                    ShuffleWindow::ALL => Ok(ShuffleWindow::All),
                    other => Err(E::invalid_value(Unexpected::Str(other), &self)),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
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
                { "enum": [Self::AUTO, Self::ALL] },
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
        for wrong in ["0", "-1", "1.5", "\"many\"", "true"] {
            let error = serde_json::from_str::<ShuffleWindow>(wrong).unwrap_err().to_string();
            assert!(error.contains("at least 1, \"auto\" or \"all\""), "{error}");
        }
    }
}
