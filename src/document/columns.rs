//! The columns that come along with a document: values of its record that are not its text.

use std::fmt;
use std::sync::Arc;

/// A value of a column of one document.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ColumnValue {
    /// The record has no value there, or a null.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number. Files hold none beyond 64 bits.
    Integer(i128),
    /// A number with a fraction, or an exponent, or of a column of floats.
    Float(f64),
    /// A string; of times and decimal numbers, how they are written.
    Text(Box<str>),
}

impl fmt::Display for ColumnValue {
    /// As JSON has it, but without quotes around text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            // One that is whole is told from an integer.
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(value) => f.write_str(value),
        }
    }
}

impl ColumnValue {
    /// The memory that it takes, in bytes.
    fn bytes(&self) -> usize {
        let text = if let Self::Text(text) = self { text.len() } else { 0 };
        size_of::<Self>() + text
    }
}

/// The values of a document's columns, in the order in which its source's `columns` names them.
#[derive(Debug)]
pub(crate) struct Columns {
    names: Arc<[String]>,
    values: Vec<ColumnValue>,
}

impl Columns {
    pub(crate) fn new(names: &Arc<[String]>, values: Vec<ColumnValue>) -> Arc<Self> {
        Arc::new(Self { names: names.clone(), values })
    }

    /// The memory that they take, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.values.iter().map(ColumnValue::bytes).sum::<usize>()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&ColumnValue> {
        self.iter().find(|(other, _)| *other == name).map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &ColumnValue)> {
        self.names.iter().map(String::as_str).zip(&self.values)
    }
}

/// Those of a document, if its source carries any.
pub(crate) type CarriedColumns = Option<Arc<Columns>>;
