//! A parsed `where` expression, and its value in a row, with SQL's three-valued logic.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::OnceLock;

use memchr::memmem;

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
    Column(String),
    /// Text, and the number, time or truth value that it is read as in all rows, if it is.
    Text(String, OnceLock<Scalar<'static>>),
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

impl Operand {
    pub(super) fn text(text: String) -> Self {
        Self::Text(text, OnceLock::new())
    }
}

impl Expression {
    /// Adds the dotted names of its columns to `names`.
    pub(super) fn names<'a>(&'a self, names: &mut BTreeSet<&'a str>) {
        match &self.operand {
            Operand::Column(name) => {
                names.insert(name);
            }
            Operand::Text(..) | Operand::Value(_) => {}
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

impl Expression {
    /// Its value, where `column` gives those of the columns. Values of kinds that do not fit are null.
    pub(super) fn evaluate<'a>(&'a self, column: &impl Fn(&str) -> Scalar<'a>) -> Scalar<'a> {
        let operand = match &self.operand {
            Operand::Column(name) => column(name),
            Operand::Text(text, read) => read.get().copied().unwrap_or(Scalar::Text(text)),
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

/// Whether a text has the form of a pattern of `like`, in the same or any case: `%` is any text, `_` any character, and
/// what stands after a backslash is itself.
pub(super) fn like(mut text: &str, mut pattern: &str, any_case: bool) -> bool {
    // What is behind the last `%`, and from where on it is looked for.
    let mut sought: Option<(&str, &str)> = None;
    loop {
        let (mut here, mut wanted) = (text.chars(), pattern.chars());
        let is_same = match (wanted.next(), here.next()) {
            (None, None) => return true,
            (Some('%'), _) => {
                sought = Some((wanted.as_str(), text));
                false
            }
            (Some('_'), Some(_)) => true,
            (Some('\\'), Some(found)) => is_letter(found, wanted.next().unwrap_or('\\'), any_case),
            (Some(wanted), Some(found)) => is_letter(found, wanted, any_case),
            _ => false,
        };
        if is_same {
            (text, pattern) = (here.as_str(), wanted.as_str());
            continue;
        }
        let Some((behind, from)) = sought else { return false };
        if behind.is_empty() {
            return true;
        }
        let word = &behind[..behind.find(['%', '_', '\\']).unwrap_or(behind.len())];
        let found = if any_case { Some(0) } else { memmem::find(from.as_bytes(), word.as_bytes()) };
        let Some(found) = found else { return false };
        (text, pattern) = (&from[found..], behind);
        // If it is not here, it is looked for one character further on.
        let next = text.chars().next().map_or(0, char::len_utf8);
        sought = (next > 0).then(|| (behind, &text[next..]));
    }
}

fn is_letter(one: char, other: char, any_case: bool) -> bool {
    match any_case {
        true if one.is_ascii() && other.is_ascii() => one.eq_ignore_ascii_case(&other),
        true => one.to_lowercase().eq(other.to_lowercase()) || one.to_uppercase().eq(other.to_uppercase()),
        false => one == other,
    }
}
