//! The bounds of numbers, each written once: configs are checked with them, and the schema tells them.

use std::fmt;

use super::{ByteCount, OrAuto};
use crate::error::{Error, Result};

/// What a number may be. No bound has room for infinity.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// This or more.
    AtLeast(f64),
    /// More than this.
    Above(f64),
    /// From the first to the second.
    Within(f64, f64),
    /// From the first to below the second.
    Below(f64, f64),
    /// Above the first, and at most the second.
    AboveUpTo(f64, f64),
    /// From the first to the second, in bytes. The schema has none: there, a size may be text.
    Bytes(u64, u64),
    /// A bound, and what messages say behind it.
    Noted(&'static Bound, &'static str),
}

/// The bound of what is counted.
pub const COUNT: Bound = Bound::AtLeast(1.0);
/// The bound of what has to be there.
pub const POSITIVE: Bound = Bound::Above(0.0);
/// The bound of what may be missing.
pub const NOT_NEGATIVE: Bound = Bound::AtLeast(0.0);
/// The bound of a part of a whole.
pub const SHARE: Bound = Bound::Below(0.0, 1.0);
pub(super) const WEIGHT: Bound = Bound::Within(0.0, 1e15);

impl Bound {
    /// Returns an [`Error::Config`] unless the number is within.
    pub(super) fn check(self, key: &str, number: f64) -> Result<()> {
        require(self.holds(number), key, self.shown(number), &self.to_string())
    }

    fn holds(self, number: f64) -> bool {
        let is_within = match self {
            Self::AtLeast(least) => number >= least,
            Self::Above(least) => number > least,
            Self::Within(least, most) => (least..=most).contains(&number),
            Self::Below(least, most) => (least..most).contains(&number),
            Self::AboveUpTo(least, most) => number > least && number <= most,
            Self::Bytes(least, most) => (least as f64..=most as f64).contains(&number),
            Self::Noted(bound, _) => bound.holds(number),
        };
        is_within && number.is_finite()
    }

    /// The number as it was written: 0.1, and not the 0.10000000149011612 that an `f32` makes of it.
    fn shown(self, number: f64) -> String {
        let short = number as f32;
        match self {
            Self::Bytes(..) => ByteCount(number as u64).to_string(),
            _ if number.fract() != 0.0 && f64::from(short) == number => short.to_string(),
            _ => readable(number),
        }
    }

    /// The bound in the words of JSON Schema.
    #[cfg(feature = "schema")]
    fn in_schema(self) -> Vec<(&'static str, f64)> {
        match self {
            Self::AtLeast(least) => vec![("minimum", least)],
            Self::Above(least) => vec![("exclusiveMinimum", least)],
            Self::Within(least, most) => vec![("minimum", least), ("maximum", most)],
            Self::Below(least, most) => vec![("minimum", least), ("exclusiveMaximum", most)],
            Self::AboveUpTo(least, most) => vec![("exclusiveMinimum", least), ("maximum", most)],
            Self::Bytes(..) => Vec::new(),
            Self::Noted(bound, _) => bound.in_schema(),
        }
    }
}

impl fmt::Display for Bound {
    /// Writes what a number must be.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = |bytes: u64| match bytes {
            1 => "1 byte".to_owned(),
            2..1024 => format!("{bytes} bytes"),
            _ => ByteCount(bytes).to_string(),
        };
        match *self {
            Self::AtLeast(least) => write!(f, "at least {}", readable(least)),
            Self::Above(least) => write!(f, "above {}", readable(least)),
            Self::Within(least, most) => write!(f, "from {} to {}", readable(least), readable(most)),
            Self::Below(least, most) => {
                write!(f, "at least {} and less than {}", readable(least), readable(most))
            }
            Self::AboveUpTo(least, most) => {
                write!(f, "above {} and at most {}", readable(least), readable(most))
            }
            Self::Bytes(least, u64::MAX) => write!(f, "at least {}", size(least)),
            Self::Bytes(least, most) => write!(f, "from {} to {}", size(least), size(most)),
            Self::Noted(bound, note) => write!(f, "{bound}{note}"),
        }
    }
}

/// A number as one would write it: 1e300, and not its 301 digits.
fn readable(number: f64) -> String {
    let (digits, short) = (number.to_string(), format!("{number:e}"));
    if number.abs() >= 1e9 && short.len() < digits.len() { short } else { digits }
}

/// A key with its bound, and how its number is read.
pub type Limit<T> = (&'static str, Bound, fn(&T) -> Option<f64>);

/// A table of a config that has numbers with bounds.
pub trait Bounded: Sized + 'static {
    /// The bounds. Rules over several keys are not among them.
    const BOUNDS: &'static [Limit<Self>];

    /// Checks the numbers.
    ///
    /// # Errors
    /// [`Error::Config`] with the first key of `table` that is out of its bound.
    fn check_bounds(&self, table: &str) -> Result<()> {
        Self::BOUNDS.iter().try_for_each(|(key, bound, number)| match number(self) {
            Some(number) => bound.check(&format!("{table}.{key}"), number),
            None => Ok(()),
        })
    }
}

/// Writes the bounds of a table into its schema.
#[cfg(feature = "schema")]
pub fn describe<T: Bounded>(schema: &mut schemars::Schema) {
    let properties = &mut schema.ensure_object()["properties"];
    for (key, bound, _) in T::BOUNDS {
        assert!(properties.get(key).is_some(), "`{key}` has a bound, and is not a key");
        for (name, limit) in bound.in_schema() {
            // A whole number is written as one.
            properties[*key][name] = if limit.fract() == 0.0 { (limit as i64).into() } else { limit.into() };
        }
    }
}

/// A number of a config; none if it is absent, or left to the loader.
pub trait Number {
    /// The number.
    fn number(&self) -> Option<f64>;
}

macro_rules! numbers {
    ($($of:ty),*) => {
        $(impl Number for $of {
            fn number(&self) -> Option<f64> {
                Some(*self as f64)
            }
        })*
    };
}

numbers!(usize, u64, f32, f64);

impl Number for ByteCount {
    fn number(&self) -> Option<f64> {
        self.0.number()
    }
}

impl Number for OrAuto {
    fn number(&self) -> Option<f64> {
        match self {
            Self::Auto => None,
            Self::Fixed(number) => number.number(),
        }
    }
}

impl<T: Number> Number for Option<T> {
    fn number(&self) -> Option<f64> {
        self.as_ref()?.number()
    }
}

/// Returns an [`Error::Config`] unless `holds`.
///
/// # Errors
/// [`Error::Config`] with the key, the bound and the value.
pub fn require(holds: bool, key: &str, value: impl fmt::Display, bound: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::config(key, format!("must be {bound}, not {value}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_holds_to_its_ends_and_says_what_it_is() {
        let day = Bound::Noted(&Bound::AboveUpTo(0.0, 86_400.0), " seconds");
        let cases: [(Bound, &[f64], &[f64], &str); 8] = [
            (COUNT, &[1.0, 1e18], &[0.0], "at least 1"),
            (POSITIVE, &[1e-9], &[0.0], "above 0"),
            (Bound::Within(1.0, 8.0), &[1.0, 8.0], &[0.0, 9.0], "from 1 to 8"),
            (WEIGHT, &[0.0, 1e15], &[1e16], "from 0 to 1e15"),
            (SHARE, &[0.0, 0.9], &[-0.1, 1.0], "at least 0 and less than 1"),
            (day, &[0.1, 86_400.0], &[0.0, 86_401.0], "above 0 and at most 86400 seconds"),
            (Bound::Bytes(1, 1 << 20), &[1.0, 1_048_576.0], &[0.0, 1_048_577.0], "from 1 byte to 1MiB"),
            (Bound::Bytes(16, u64::MAX), &[16.0], &[15.0], "at least 16 bytes"),
        ];
        for (bound, within, beyond, words) in cases {
            within.iter().for_each(|&number| assert!(bound.holds(number), "{bound}: {number}"));
            for &number in beyond.iter().chain(&[f64::NAN, f64::INFINITY]) {
                let refused = bound.check("key", number).expect_err("out of bounds").to_string();
                assert!(refused.contains(&format!("`key` must be {words}, not ")), "{refused}");
            }
        }
    }

    #[test]
    fn a_number_is_shown_as_it_was_written() {
        for (bound, number, shown) in [
            (SHARE, f64::from(-0.1_f32), "-0.1"),
            (SHARE, -0.1, "-0.1"),
            (COUNT, 16_777_217.0, "16777217"),
            (COUNT, 1_073_741_824.0, "1073741824"),
            (WEIGHT, 1e300, "1e300"),
            (Bound::Bytes(1 << 20, u64::MAX), 1024.0, "1KiB"),
        ] {
            assert_eq!(bound.shown(number), shown);
        }
    }
}
