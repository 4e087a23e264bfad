//! A running digest of rows.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use twox_hash::xxhash3_128::{RawHasher, SecretBuffer};

/// A digest of all rows so far, in order: each row's length and ids are hashed (XXH3, 128 bits) behind the
/// digest of the rows before it. It tells accidents apart, not adversaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(u128);

impl Digest {
    /// The digest after one more row.
    #[must_use]
    pub fn after(self, ids: &[u32]) -> Self {
        let mut hasher = RawHasher::new(SecretBuffer::default());
        hasher.write(&self.0.to_le_bytes());
        if cfg!(target_endian = "little") {
            hasher.write(bytemuck::cast_slice(ids));
        } else {
            ids.iter().for_each(|id| hasher.write(&id.to_le_bytes()));
        }
        hasher.write(&(ids.len() as u64).to_le_bytes());
        Self(hasher.finish_128())
    }

    /// One digest of several, in order.
    #[must_use]
    pub fn of(digests: impl Iterator<Item = Self>) -> Self {
        let mut hasher = RawHasher::new(SecretBuffer::default());
        digests.for_each(|digest| hasher.write(&digest.0.to_le_bytes()));
        Self(hasher.finish_128())
    }
}

impl fmt::Display for Digest {
    /// 32 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_digest = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let digest = is_digest.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        digest.map(Self).ok_or_else(|| format!("{text:?} is no digest of 32 hexadecimal digits"))
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}
