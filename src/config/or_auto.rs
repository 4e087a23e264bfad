//! A number that may be left to the loader.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number, or `auto`: then the loader chooses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", expecting = "must be a number of at least 1, or \"auto\"")]
pub enum OrAuto {
    /// The loader chooses. Lanes and windows follow from the files. Workers and depth grow while the consumer
    /// waits, and shrink while it does not.
    #[default]
    Auto,
    /// A number that stays as it is, at least 1.
    #[serde(untagged)]
    Fixed(#[cfg_attr(feature = "schema", schemars(range(min = 1)))] usize),
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
