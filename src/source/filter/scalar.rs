//! The values of a `where` expression, and what SQL's operators make of two of them: null, where one is null.

use std::cmp::Ordering;

use super::time::Time;

/// A value in one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar<'a> {
    Null,
    Truth(bool),
    /// A whole or decimal number: `digits` / 10^`scale`.
    Exact {
        digits: i128,
        scale: i8,
    },
    Float(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
    Time(Time),
    /// A list, for example: only `is null` looks at it.
    Other,
}

/// A comparison or a computation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Binary {
    Equal,
    NotEqual,
    Less,
    AtMost,
    Greater,
    AtLeast,
    Plus,
    Minus,
    Times,
    Divide,
    Remainder,
}

impl<'a> Scalar<'a> {
    pub(crate) fn whole(number: impl Into<i128>) -> Self {
        Self::Exact { digits: number.into(), scale: 0 }
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        let whole = text.parse::<i128>().map(Self::whole);
        whole.or_else(|_| text.parse().map(Self::Float)).ok()
    }

    /// What `true` and `false` write.
    pub(super) fn read_truth(text: &str) -> Option<bool> {
        text.trim().parse().ok()
    }

    /// True or false; none for null.
    pub(super) fn truth(self) -> Option<bool> {
        match self {
            Self::Truth(truth) => Some(truth),
            _ => None,
        }
    }

    /// A number, as near as a float can be.
    pub(crate) fn float(self) -> Option<f64> {
        match self {
            Self::Exact { digits, scale } => Some(digits as f64 / 10_f64.powi(scale.into())),
            Self::Float(number) => Some(number),
            _ => None,
        }
    }

    /// The bytes of text. Some programs do not mark it as text.
    pub(crate) fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Text(text) => Some(text.as_bytes()),
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(super) fn text(self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Bytes(bytes) => str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// A number, or what a text writes as one: a path has no types.
    fn number(self) -> Option<Self> {
        match self {
            Self::Exact { .. } | Self::Float(_) => Some(self),
            Self::Text(text) => Self::read(text),
            _ => None,
        }
    }

    /// Compares or computes. A division by zero is null.
    pub(super) fn binary(self, operator: Binary, other: Self) -> Self {
        let by_zero = || other.number().and_then(Self::float) == Some(0.0);
        let holds: fn(Ordering) -> bool = match operator {
            Binary::Divide | Binary::Remainder if by_zero() => return Self::Null,
            Binary::Equal => Ordering::is_eq,
            Binary::NotEqual => Ordering::is_ne,
            Binary::Less => Ordering::is_lt,
            Binary::AtMost => Ordering::is_le,
            Binary::Greater => Ordering::is_gt,
            Binary::AtLeast => Ordering::is_ge,
            Binary::Plus => return self.compute(other, true, i128::checked_add, |left, right| left + right),
            Binary::Minus => return self.compute(other, true, i128::checked_sub, |left, right| left - right),
            Binary::Times => {
                return self.compute(other, false, i128::checked_mul, |left, right| left * right);
            }
            Binary::Divide => {
                return self.compute(other, false, i128::checked_div, |left, right| left / right);
            }
            Binary::Remainder => {
                return self.compute(other, true, i128::checked_rem, |left, right| left % right);
            }
        };
        self.compare(other).map(holds).into()
    }

    /// The order of two values: none where one is null, or does not write what the other is.
    pub(super) fn compare(self, other: Self) -> Option<Ordering> {
        match (self, other) {
            (Self::Truth(left), Self::Truth(right)) => Some(left.cmp(&right)),
            (Self::Truth(left), Self::Text(right)) => Some(left.cmp(&Self::read_truth(right)?)),
            (Self::Text(left), Self::Truth(right)) => Some(Self::read_truth(left)?.cmp(&right)),
            (Self::Time(left), Self::Time(right)) => left.compare(right),
            (Self::Time(left), right) => left.compare(left.clock.read(right.text()?)?),
            (left, Self::Time(right)) => right.clock.read(left.text()?)?.compare(right),
            (Self::Text(_) | Self::Bytes(_), Self::Text(_) | Self::Bytes(_)) => {
                self.bytes().partial_cmp(&other.bytes())
            }
            _ => {
                let (left, right) = (self.number()?, other.number()?);
                if let Some((left, right, _)) = left.aligned(right) {
                    return Some(left.cmp(&right));
                }
                let (left, right) = (left.float()?, right.float()?);
                // As PostgreSQL does, NaN is itself and above all numbers.
                Some(left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan())))
            }
        }
    }

    /// Computes exactly where both numbers and the result are exact, and in floats elsewhere. `exact` takes digits of
    /// one scale: of any, or only of whole numbers.
    fn compute(
        self,
        other: Self,
        any_scale: bool,
        exact: fn(i128, i128) -> Option<i128>,
        float: fn(f64, f64) -> f64,
    ) -> Self {
        let (Some(left), Some(right)) = (self.number(), other.number()) else { return Self::Null };
        let aligned = left.aligned(right).filter(|&(_, _, scale)| any_scale || scale == 0);
        let digits = aligned.and_then(|(left, right, scale)| Some((exact(left, right)?, scale)));
        if let Some((digits, scale)) = digits {
            return Self::Exact { digits, scale };
        }
        let floats = left.float().zip(right.float());
        floats.map_or(Self::Null, |(left, right)| Self::Float(float(left, right)))
    }

    /// The digits of two exact numbers at one scale, and that scale.
    fn aligned(self, other: Self) -> Option<(i128, i128, i8)> {
        let (Self::Exact { digits: left, scale }, Self::Exact { digits: right, scale: other }) =
            (self, other)
        else {
            return None;
        };
        let to = scale.max(other);
        let at = |digits: i128, from: i8| match to.abs_diff(from) {
            0 => Some(digits),
            more => digits.checked_mul(10_i128.checked_pow(more.into())?),
        };
        Some((at(left, scale)?, at(right, other)?, to))
    }
}

impl From<Option<bool>> for Scalar<'_> {
    fn from(truth: Option<bool>) -> Self {
        truth.map_or(Self::Null, Self::Truth)
    }
}
