//! Sizes as people write them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A number of bytes, written as a number or as `"512MiB"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteCount(pub u64);

impl ByteCount {
    /// `n` times 2^20 bytes.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// As a length in memory.
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl fmt::Display for ByteCount {
    /// The largest binary unit that divides it, so that nothing is rounded.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.iter().find(|(bits, _)| self.0 != 0 && self.0.trailing_zeros() >= *bits) {
            Some((bits, unit)) => write!(f, "{}{unit}", self.0 >> bits),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl FromStr for ByteCount {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        bytesize::ByteSize::from_str(text).map(|size| Self(size.as_u64()))
    }
}

impl Serialize for ByteCount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ByteCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = ByteCount;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, such as 1048576 or \"1MiB\"")
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<ByteCount, E> {
                Ok(ByteCount(value))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<ByteCount, E> {
                u64::try_from(value)
                    .map(ByteCount)
                    .map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteCount, E> {
                text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn written_and_read_again_is_the_same(n in any::<u64>(), shift in 0_u32..40) {
            let count = ByteCount(n << shift >> shift << shift.min(20));
            prop_assert_eq!(count.to_string().parse::<ByteCount>(), Ok(count));
        }
    }
}
