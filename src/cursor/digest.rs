//! A running digest of rows.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use twox_hash::XxHash3_128;
use twox_hash::xxhash3_128::{RawHasher, SecretBuffer};

/// A digest of all rows so far, in order. Each row's ids are hashed by themselves (XXH3, 128 bits), and then the places
/// that are not learned from, if there are any. That hash is hashed after the digest of the rows before it, so rows can be
/// hashed anywhere. It detects accidents, not tampering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digest(u128);

impl Digest {
    /// Returns the digest after one more row, of which every id is learned from.
    #[must_use]
    pub fn after(self, ids: &[u32]) -> Self {
        self.then(Self::of_row(ids))
    }

    pub(crate) fn of_row(ids: &[u32]) -> Self {
        if cfg!(target_endian = "little") {
            return Self(XxHash3_128::oneshot(bytemuck::cast_slice(ids)));
        }
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        Self(XxHash3_128::oneshot(&bytes))
    }

    /// The hash of a row of which these places are not learned from, given the [hash](Self::of_row) of its ids.
    pub(crate) fn masking(self, masked: impl Iterator<Item = Range<u32>>) -> Self {
        let places: Vec<u32> = masked.flat_map(|places| [places.start, places.end]).collect();
        if places.is_empty() { self } else { self.then(Self::of_row(&places)) }
    }

    /// Returns the digest after one more row, given the [hash](Self::of_row) of that row.
    pub(crate) fn then(self, row: Self) -> Self {
        let mut both = [0_u8; 2 * size_of::<u128>()];
        let (before, last) = both.split_at_mut(size_of::<u128>());
        before.copy_from_slice(&self.0.to_le_bytes());
        last.copy_from_slice(&row.0.to_le_bytes());
        Self(XxHash3_128::oneshot(&both))
    }

    /// Combines several digests into one, in order.
    #[must_use]
    pub fn combine(digests: impl Iterator<Item = Self>) -> Self {
        let mut hasher = RawHasher::new(SecretBuffer::default());
        digests.for_each(|digest| hasher.write(&digest.0.to_le_bytes()));
        Self(hasher.finish_128())
    }
}

impl fmt::Display for Digest {
    /// Writes 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_digest = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let digest = is_digest.then(|| u128::from_str_radix(&text, 16).ok()).flatten();
        let wrong = || de::Error::custom(format!("{text:?} is not a digest of 32 hexadecimal digits"));
        digest.map(Self).ok_or_else(wrong)
    }
}
