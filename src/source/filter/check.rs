//! Whether a `where` expression can be evaluated over columns of these kinds, before there are rows.

use std::fmt;

use super::expression::{Expression, Operand, Step};
use super::scalar::{Binary, Scalar};
use super::time::Clock;
use crate::excerpt::excerpt;

/// What the values of a column or an expression are, where they are not null.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
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

/// The kinds of the columns: of one row, or of all.
pub(super) struct Kinds<F> {
    pub(super) of: F,
    pub(super) are_of_all_rows: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Side<'a> {
    kind: Kind,
    column: Option<&'a str>,
}

impl Expression {
    /// The kind of its values, over columns of these kinds. If all rows have them, constant text to the right of a number
    /// or time is read as one, once. Elsewhere it is read in each row.
    pub(super) fn check(&self, kinds: &Kinds<impl Fn(&str) -> Kind>) -> Result<Side<'_>, String> {
        let kind = match &self.operand {
            Operand::Column(name) => (kinds.of)(name),
            Operand::Text(text, _) => Kind::Constant(text.clone()),
            Operand::Value(Scalar::Null) => Kind::Null,
            Operand::Value(Scalar::Truth(_)) => Kind::Truth,
            Operand::Value(_) => Kind::Number,
            Operand::Not(inner) => inner.check(kinds)?.truth()?,
            Operand::Negative(inner) => Side::from(Kind::Number).computed(inner, kinds)?,
        };
        let name = match &self.operand {
            Operand::Column(name) => Some(name.as_str()),
            _ => None,
        };
        let operand = Side { kind, column: name };
        self.steps.iter().try_fold(operand, |left, step| step.check(&left, kinds).map(Side::from))
    }
}

impl Step {
    /// The kind of its results, where `left` stands before it.
    fn check(&self, left: &Side<'_>, kinds: &Kinds<impl Fn(&str) -> Kind>) -> Result<Kind, String> {
        match self {
            Self::And(right) | Self::Or(right) => {
                left.truth()?;
                right.check(kinds)?.truth()
            }
            Self::Binary(operator, right) => match operator {
                Binary::Plus | Binary::Minus | Binary::Times | Binary::Divide | Binary::Remainder => {
                    left.computed(right, kinds)
                }
                _ => left.compared(right, kinds),
            },
            Self::Is { truth: Some(_), .. } => left.truth(),
            Self::Is { truth: None, .. } => Ok(Kind::Truth),
            Self::Between { low, high, .. } => {
                left.compared(low, kinds)?;
                left.compared(high, kinds)
            }
            Self::In { list, .. } => list.iter().try_fold(Kind::Truth, |_, item| left.compared(item, kinds)),
            Self::Like { pattern, .. } => {
                match [left, &pattern.check(kinds)?].into_iter().find(|side| !side.kind.is_text()) {
                    Some(other) => Err(other.misplaced("text")),
                    None => Ok(Kind::Truth),
                }
            }
        }
    }
}

impl<'a> Side<'a> {
    fn compared(&self, right: &'a Expression, kinds: &Kinds<impl Fn(&str) -> Kind>) -> Result<Kind, String> {
        let (left, right) = self.beside(right, kinds)?;
        let fits = match (&left.kind, &right.kind) {
            (Kind::Other(_), _) | (_, Kind::Other(_)) => false,
            (Kind::Null, _) | (_, Kind::Null) => true,
            (Kind::Time(left), Kind::Time(right)) => left.is_like(*right),
            (Kind::Time(_), text) | (text, Kind::Time(_)) => text.is_text(),
            (left, right) => left == right || (left.is_text() && right.is_text()),
        };
        let is_named = left.column.is_some() || right.column.is_none();
        let (one, other) = if is_named { (left, right) } else { (right, left) };
        if fits { Ok(Kind::Truth) } else { Err(format!("{one} cannot be compared with {}", other.kind)) }
    }

    fn computed(&self, right: &'a Expression, kinds: &Kinds<impl Fn(&str) -> Kind>) -> Result<Kind, String> {
        if matches!(self.kind, Kind::Time(_)) {
            return Err(self.misplaced("a number"));
        }
        let (left, right) = self.beside(right, kinds)?;
        match [left, right].into_iter().find(|side| !matches!(side.kind, Kind::Number | Kind::Null)) {
            Some(other) => Err(other.misplaced("a number")),
            None => Ok(Kind::Number),
        }
    }

    /// Both sides of an operator, after constant text on one is read as what stands on the other.
    fn beside(
        &self,
        right: &'a Expression,
        kinds: &Kinds<impl Fn(&str) -> Kind>,
    ) -> Result<(Self, Self), String> {
        let other = right.check(kinds)?;
        Ok(match (&self.kind, &other.kind) {
            (Kind::Truth | Kind::Number | Kind::Time(_), Kind::Constant(text)) => {
                let value = other.read(text, self)?;
                if let (Operand::Text(_, read), true) = (&right.operand, kinds.are_of_all_rows) {
                    read.get_or_init(|| value);
                }
                (self.clone(), self.clone())
            }
            (Kind::Constant(text), Kind::Truth | Kind::Number | Kind::Time(_)) => {
                self.read(text, &other)?;
                (other.clone(), other)
            }
            _ => (self.clone(), other),
        })
    }

    /// The truth value, number or time that its text writes: what `other` is, on the operator's other side.
    fn read(&self, text: &str, other: &Side<'_>) -> Result<Scalar<'static>, String> {
        let kind = &other.kind;
        let (value, remedy) = match kind {
            Kind::Time(clock) => {
                (clock.read(text).map(Scalar::Time), format!("; write it as {}", clock.example()))
            }
            Kind::Truth => (Scalar::read_truth(text).map(Scalar::Truth), String::new()),
            _ => (Scalar::read(text), String::new()),
        };
        let text = excerpt(text);
        value.ok_or_else(|| match (&self.column, &other.column) {
            (Some(name), _) => format!("column {name:?} is {text:?}, and not {kind}{remedy}"),
            (None, Some(_)) => format!("{other} {text:?} is not{remedy}"),
            (None, None) => format!("{text:?} is not {kind}{remedy}"),
        })
    }

    /// The kind of true and false, if its values are these.
    pub(super) fn truth(&self) -> Result<Kind, String> {
        match self.kind {
            Kind::Truth | Kind::Null => Ok(Kind::Truth),
            _ => Err(self.misplaced("true or false")),
        }
    }

    /// The problem that it is not what an operator takes, and what to write instead.
    fn misplaced(&self, wanted: &str) -> String {
        let instead = match self.kind {
            Kind::Number => "; numbers are compared by =, <, >, in and between".to_owned(),
            Kind::Time(clock) => {
                format!(
                    "; times are compared by =, <, >, in and between, for example with {}",
                    clock.example()
                )
            }
            _ => String::new(),
        };
        format!("{self} stands where {wanted} must be{instead}")
    }
}

impl From<Kind> for Side<'_> {
    fn from(kind: Kind) -> Self {
        Self { kind, column: None }
    }
}

impl fmt::Display for Side<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.column {
            Some(name) => write!(f, "column {name:?} is {}, and", self.kind),
            None => write!(f, "{}", self.kind),
        }
    }
}

impl Kind {
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
