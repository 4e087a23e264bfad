//! `where`: which records are documents.
//!
//! The expression is SQL, as far as `grammar` reads it. `check` compares it with the kinds of the values that it names, and
//! `expression` finds its own value. Neither knows what the values come from. The logic has SQL's three values, so a record
//! is a document only where the expression is true, not where it is false or null.

// Only tables have times and bytes.
#![cfg_attr(not(feature = "columnar"), allow(dead_code))]

use std::collections::BTreeSet;
use std::sync::Arc;

mod check;
mod expression;
mod grammar;
mod scalar;
#[cfg(test)]
mod tests;
mod time;

pub(crate) use check::Kind;
use check::Kinds;
use expression::Expression;
pub(crate) use scalar::Scalar;
#[cfg(feature = "columnar")]
pub(crate) use time::{Clock, Time};

/// An expression over named values.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    expression: Arc<Expression>,
    names: Arc<[String]>,
}

/// An expression that fits the kinds of its values, in all rows.
#[derive(Debug)]
pub(crate) struct Checked(Expression);

impl Filter {
    /// Parses an expression.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let expression = grammar::parse(text)?;
        let mut names = BTreeSet::new();
        expression.names(&mut names);
        let names = names.into_iter().map(str::to_owned).collect();
        Ok(Self { expression: Arc::new(expression), names })
    }

    /// The dotted names of the values that it uses.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// The expression over many rows whose values are of these kinds.
    pub(crate) fn check(&self, kind: impl Fn(&str) -> Kind) -> Result<Checked, String> {
        let expression = Expression::clone(&self.expression);
        expression.check(&Kinds { of: kind, are_of_all_rows: true })?.truth()?;
        Ok(Checked(expression))
    }

    /// Whether it is true of one row, whose values are of these kinds.
    pub(crate) fn is_true<'a>(
        &'a self,
        kind: impl Fn(&str) -> Kind,
        value: impl Fn(&str) -> Scalar<'a>,
    ) -> Result<bool, String> {
        self.expression.check(&Kinds { of: kind, are_of_all_rows: false })?.truth()?;
        Ok(self.expression.evaluate(&value) == Scalar::Truth(true))
    }
}

impl Checked {
    /// Whether it is true of these values.
    pub(crate) fn is_true<'a>(&'a self, value: &impl Fn(&str) -> Scalar<'a>) -> bool {
        self.0.evaluate(value) == Scalar::Truth(true)
    }
}
