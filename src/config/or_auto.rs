//! A number that may be left to the loader.

use std::fmt;
use std::num::NonZeroUsize;

use serde::de::Unexpected;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number, or what the loader finds to be best.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrAuto {
    /// Lanes and windows follow from the files; what runs at once or ahead grows while the consumer waits, and shrinks
    /// while it does not.
    #[default]
    Auto,
    /// Stays as it is.
    Fixed(NonZeroUsize),
}

impl OrAuto {
    /// The number, or `most` where it is left to the loader.
    pub fn or(self, most: NonZeroUsize) -> NonZeroUsize {
        match self {
            Self::Auto => most,
            Self::Fixed(number) => number,
        }
    }
}

impl From<NonZeroUsize> for OrAuto {
    fn from(number: NonZeroUsize) -> Self {
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
                let fits = usize::try_from(number).ok().and_then(NonZeroUsize::new);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_auto_are_read_and_written() {
        for (text, value) in [("3", OrAuto::from(NonZeroUsize::new(3).unwrap())), ("\"auto\"", OrAuto::Auto)]
        {
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
