//! A parsed `where` expression.

use std::collections::BTreeSet;

use super::scalar::{Binary, Scalar};

/// An operand, and the steps on it from left to right: `a + b > 3` adds `b`, and then compares with 3.
///
/// A chain is a list, however long it is. Only the right side of an operator nests.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Expression {
    pub(super) operand: Operand,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand {
    /// The dotted name of a column.
    Column(String),
    Text(String),
    /// Another constant.
    Value(Scalar<'static>),
    Not(Box<Expression>),
    Negative(Box<Expression>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    And(Expression),
    Or(Expression),
    Binary(Binary, Expression),
    /// `is` this truth value, or `is null` if there is none.
    Is {
        truth: Option<bool>,
        negated: bool,
    },
    Between {
        low: Expression,
        high: Expression,
        negated: bool,
    },
    In {
        list: Vec<Expression>,
        negated: bool,
    },
    Like {
        pattern: Expression,
        any_case: bool,
        negated: bool,
    },
}

impl Expression {
    /// Adds the dotted names of its columns to `names`.
    pub(super) fn names<'a>(&'a self, names: &mut BTreeSet<&'a str>) {
        match &self.operand {
            Operand::Column(name) => {
                names.insert(name);
            }
            Operand::Text(_) | Operand::Value(_) => {}
            Operand::Not(inner) | Operand::Negative(inner) => inner.names(names),
        }
        for step in &self.steps {
            match step {
                Step::And(right) | Step::Or(right) | Step::Binary(_, right) => right.names(names),
                Step::Is { .. } => {}
                Step::Between { low, high, .. } => {
                    low.names(names);
                    high.names(names);
                }
                Step::In { list, .. } => list.iter().for_each(|item| item.names(names)),
                Step::Like { pattern, .. } => pattern.names(names),
            }
        }
    }
}
