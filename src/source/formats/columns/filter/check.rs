//! Whether a `where` expression can be evaluated over columns of these kinds, before there are rows.

use std::fmt;

use super::expression::{Expression, Operand, Step};
use super::scalar::{Binary, Scalar};
use super::time::Clock;
use crate::source::excerpt::excerpt;

/// What the values of a column or an expression are, where they are not null.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Null,
    Truth,
    Number,
    Text,
    /// The same text in every row.
    Constant(String),
    Time(Clock),
    /// Another type: its values may be null, and that is all that is known of them.
    Other(String),
}

impl Expression {
    /// The kind of its values, where `column` gives those of the columns. Constant text beside numbers or times becomes
    /// one of them, so that it is read once and not for each row.
    ///
    /// # Errors
    /// The operator that cannot take what stands beside it.
    pub(super) fn check(&mut self, column: &impl Fn(&str) -> Kind) -> Result<Kind, String> {
        let operand = match &mut self.operand {
            Operand::Column(name) => column(name),
            Operand::Text(text) => Kind::Constant(text.clone()),
            Operand::Value(Scalar::Null) => Kind::Null,
            Operand::Value(Scalar::Truth(_)) => Kind::Truth,
            Operand::Value(_) => Kind::Number,
            Operand::Not(inner) => inner.check(column)?.truth()?,
            Operand::Negative(inner) => Kind::Number.computed(inner, column)?,
        };
        self.steps.iter_mut().try_fold(operand, |kind, step| step.check(&kind, column))
    }
}

impl Step {
    /// The kind of its results on values of kind `left`.
    fn check(&mut self, left: &Kind, column: &impl Fn(&str) -> Kind) -> Result<Kind, String> {
        match self {
            Self::And(right) | Self::Or(right) => {
                left.truth()?;
                right.check(column)?.truth()
            }
            Self::Binary(operator, right) => match operator {
                Binary::Plus | Binary::Minus | Binary::Times | Binary::Divide | Binary::Remainder => {
                    left.computed(right, column)
                }
                _ => left.compared(right, column),
            },
            Self::Is { truth: Some(_), .. } => left.truth(),
            Self::Is { truth: None, .. } => Ok(Kind::Truth),
            Self::Between { low, high, .. } => {
                left.compared(low, column)?;
                left.compared(high, column)
            }
            Self::In { list, .. } => {
                list.iter_mut().try_fold(Kind::Truth, |_, item| left.compared(item, column))
            }
            Self::Like { pattern, .. } => {
                match [left, &pattern.check(column)?].into_iter().find(|kind| !kind.is_text()) {
                    Some(other) => Err(format!("{other} stands where text must be")),
                    None => Ok(Kind::Truth),
                }
            }
        }
    }
}

impl Kind {
    /// The kind of comparisons with `right`.
    fn compared(&self, right: &mut Expression, column: &impl Fn(&str) -> Kind) -> Result<Self, String> {
        let (left, right) = self.beside(right, column)?;
        let fits = match (&left, &right) {
            (Self::Other(_), _) | (_, Self::Other(_)) => false,
            (Self::Null, _) | (_, Self::Null) => true,
            (Self::Time(left), Self::Time(right)) => left.is_like(*right),
            (Self::Time(_), text) | (text, Self::Time(_)) => text.is_text(),
            (left, right) => left == right || (left.is_text() && right.is_text()),
        };
        if fits { Ok(Self::Truth) } else { Err(format!("{left} cannot be compared with {right}")) }
    }

    /// The kind of computations with `right`.
    fn computed(&self, right: &mut Expression, column: &impl Fn(&str) -> Kind) -> Result<Self, String> {
        let (left, right) = self.beside(right, column)?;
        match [left, right].into_iter().find(|kind| !matches!(kind, Self::Number | Self::Null)) {
            Some(other) => Err(format!("{other} stands where a number must be")),
            None => Ok(Self::Number),
        }
    }

    /// The kinds of both sides of an operator, after constant text on one is read as what stands on the other.
    fn beside(&self, right: &mut Expression, column: &impl Fn(&str) -> Kind) -> Result<(Self, Self), String> {
        Ok(match (self, right.check(column)?) {
            (Self::Number | Self::Time(_), Self::Constant(text)) => {
                right.operand = Operand::Value(self.read(&text)?);
                (self.clone(), self.clone())
            }
            (Self::Constant(text), kind @ (Self::Number | Self::Time(_))) => {
                kind.read(text)?;
                (kind.clone(), kind)
            }
            (left, right) => (left.clone(), right),
        })
    }

    /// The number or time that a text writes.
    fn read(&self, text: &str) -> Result<Scalar<'static>, String> {
        match self {
            Self::Time(clock) => clock
                .read(text)
                .map(Scalar::Time)
                .ok_or_else(|| format!("{:?} is not {self}; write it as {}", excerpt(text), clock.example())),
            _ => Scalar::read(text).ok_or_else(|| format!("{:?} is not a number", excerpt(text))),
        }
    }

    /// That of true and false, if this is it.
    pub(super) fn truth(&self) -> Result<Self, String> {
        match self {
            Self::Truth | Self::Null => Ok(Self::Truth),
            other => Err(format!("{other} stands where true or false must be")),
        }
    }

    fn is_text(&self) -> bool {
        matches!(self, Self::Text | Self::Constant(_) | Self::Null)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Truth => "true or false",
            Self::Number => "a number",
            Self::Text | Self::Constant(_) => "text",
            Self::Time(Clock::OfDay) => "a time of day",
            Self::Time(_) => "a date or time",
            Self::Other(of) => return write!(f, "a value of {of}"),
        })
    }
}
