//! Sizes as people write them.

use std::fmt;
use std::str::FromStr;

use bytesize::ByteSize;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::Error;

/// A number of bytes, written as a number or as `"512MiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteCount(pub u64);

impl ByteCount {
    /// `n` times 2^20 bytes.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// The number as a length in memory; the greatest `usize` if it does not fit.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ByteCount {
    /// Writes the number in the largest binary unit that divides it, so that nothing is rounded.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.iter().find(|(bits, _)| self.0 != 0 && self.0.trailing_zeros() >= *bits) {
            Some((bits, unit)) => write!(f, "{}{unit}", self.0 >> bits),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl From<u64> for ByteCount {
    fn from(bytes: u64) -> Self {
        Self(bytes)
    }
}

impl FromStr for ByteCount {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |_| Error::config(text, "write a number of bytes, such as 1048576 or 1MiB");
        ByteSize::from_str(text).map(|size| Self(size.as_u64())).map_err(wrong)
    }
}

impl Serialize for ByteCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wrong = |_| de::Error::custom("must be a number of bytes, such as 1048576 or \"1MiB\"");
        ByteSize::deserialize(deserializer).map(|size| Self(size.as_u64())).map_err(wrong)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for ByteCount {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ByteCount".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A number of bytes, such as 1048576 or \"1MiB\".",
            "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "pattern": PATTERN },
            ],
        })
    }
}

/// The strings that are accepted: a whole number, or any number with a unit. Case is ignored.
#[cfg(feature = "schema")]
const PATTERN: &str = r"^(\+?[0-9]+|([0-9]+\.?[0-9]*|\.[0-9]+)\s*([bB]|[kKmMgGtTpPeE][iI]?[bB]?))$";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn written_and_read_again_is_the_same(n in any::<u64>(), shift in 0_u32..40) {
            let count = ByteCount(n << shift >> shift << shift.min(20));
            prop_assert_eq!(count.to_string().parse::<ByteCount>().expect("a size"), count);
        }
    }
}
