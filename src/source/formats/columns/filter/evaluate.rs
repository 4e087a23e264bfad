//! The value of a `where` expression in a row, with SQL's three-valued logic.

use std::cmp::Ordering;

use super::expression::{Expression, Operand, Step};
use super::like::like;
use super::scalar::{Binary, Scalar};

impl Expression {
    /// Its value, where `column` gives those of the columns. Values of kinds that do not fit are null.
    pub(super) fn evaluate<'a>(&'a self, column: &impl Fn(&str) -> Scalar<'a>) -> Scalar<'a> {
        let operand = match &self.operand {
            Operand::Column(name) => column(name),
            Operand::Text(text) => Scalar::Text(text),
            Operand::Value(value) => *value,
            Operand::Not(inner) => inner.evaluate(column).truth().map(|truth| !truth).into(),
            Operand::Negative(inner) => Scalar::whole(0).binary(Binary::Minus, inner.evaluate(column)),
        };
        self.steps.iter().fold(operand, |value, step| step.evaluate(value, column))
    }
}

impl Step {
    /// Its result on the value before it.
    fn evaluate<'a>(&'a self, value: Scalar<'a>, column: &impl Fn(&str) -> Scalar<'a>) -> Scalar<'a> {
        let (truth, negated) = match self {
            Self::And(_) if value == Scalar::Truth(false) => return value,
            Self::Or(_) if value == Scalar::Truth(true) => return value,
            Self::And(right) => (and(value.truth(), right.evaluate(column).truth()), false),
            Self::Or(right) => (or(value.truth(), right.evaluate(column).truth()), false),
            Self::Binary(operator, right) => return value.binary(*operator, right.evaluate(column)),
            Self::Is { truth: None, negated } => (Some(value == Scalar::Null), *negated),
            Self::Is { truth, negated } => (Some(value.truth() == *truth), *negated),
            Self::Between { low, high, negated } => {
                let above = value.compare(low.evaluate(column)).map(Ordering::is_ge);
                let below = value.compare(high.evaluate(column)).map(Ordering::is_le);
                (and(above, below), *negated)
            }
            Self::In { list, negated } => {
                let mut found = Some(false);
                for item in list {
                    found = or(found, value.compare(item.evaluate(column)).map(Ordering::is_eq));
                    if found == Some(true) {
                        break;
                    }
                }
                (found, *negated)
            }
            Self::Like { pattern, any_case, negated } => {
                let texts = value.text().zip(pattern.evaluate(column).text());
                (texts.map(|(text, pattern)| like(text, pattern, *any_case)), *negated)
            }
        };
        truth.map(|truth| truth != negated).into()
    }
}

fn and(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        _ => left.and(right),
    }
}

fn or(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        _ => left.and(right),
    }
}
