//! A number that may be left to the loader.

use std::fmt;

use serde::de::Unexpected;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number, or `auto`: then the loader chooses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrAuto {
    /// The loader chooses. Lanes and windows follow from the files. Workers and depth grow while the consumer
    /// waits, and shrink while it does not.
    #[default]
    Auto,
    /// A number that stays as it is, at least 1.
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

impl Serialize for OrAuto {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::Fixed(number) => number.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for OrAuto {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = OrAuto;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of at least 1, or \"auto\"")
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<OrAuto, E> {
                let fits = usize::try_from(number).ok().filter(|&number| number > 0);
                fits.map(OrAuto::Fixed).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(number), &self))
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<OrAuto, E> {
                let positive =
                    u64::try_from(number).map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))?;
                self.visit_u64(positive)
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<OrAuto, E> {
                match text {
                    "auto" => Ok(OrAuto::Auto),
                    other => Err(E::invalid_value(Unexpected::Str(other), &self)),
                }
            }
        }
        deserializer.deserialize_any(Visitor)
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
        for wrong in ["0", "-1", "1.5", "\"many\"", "true"] {
            let error = serde_json::from_str::<OrAuto>(wrong).unwrap_err().to_string();
            assert!(error.contains("at least 1, or \"auto\""), "{error}");
        }
    }
}
