//! The columns that come along with a document: values of its record that are not its text.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// A value of a column of one document.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
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

/// The first byte of a value as it is stored.
const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INTEGER: u8 = 3;
const FLOAT: u8 = 4;
const TEXT: u8 = 5;

impl ColumnValue {
    /// Appends it as it is stored: a byte that says what it is, and then its bytes, little-endian. Those of text have their
    /// number before them.
    fn store(&self, into: &mut Vec<u8>) {
        match self {
            Self::Null => into.push(NULL),
            Self::Bool(value) => into.push(if *value { TRUE } else { FALSE }),
            Self::Integer(value) => {
                into.push(INTEGER);
                into.extend(value.to_le_bytes());
            }
            Self::Float(value) => {
                into.push(FLOAT);
                into.extend(value.to_le_bytes());
            }
            Self::Text(text) => {
                into.push(TEXT);
                into.extend((text.len() as u32).to_le_bytes());
                into.extend(text.as_bytes());
            }
        }
    }

    /// Takes a value off the front of some bytes; `None` if they begin with none.
    fn take(bytes: &mut &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (value, rest) = match *kind {
            NULL => (Self::Null, rest),
            FALSE | TRUE => (Self::Bool(*kind == TRUE), rest),
            INTEGER => {
                let (value, rest) = rest.split_first_chunk()?;
                (Self::Integer(i128::from_le_bytes(*value)), rest)
            }
            FLOAT => {
                let (value, rest) = rest.split_first_chunk()?;
                (Self::Float(f64::from_le_bytes(*value)), rest)
            }
            TEXT => {
                let (len, rest) = rest.split_first_chunk()?;
                let (text, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
                (Self::Text(std::str::from_utf8(text).ok()?.into()), rest)
            }
            _ => return None,
        };
        *bytes = rest;
        Some(value)
    }

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

    /// The values as they are stored.
    pub(crate) fn store(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.values.iter().for_each(|value| value.store(&mut bytes));
        bytes
    }

    /// The columns with the names `wanted` of those that were stored under the names `stored`. `None` if the bytes do not
    /// hold these, or one is not among them.
    pub(crate) fn stored(mut bytes: &[u8], stored: &[String], wanted: &Arc<[String]>) -> Option<Arc<Self>> {
        let all = stored.iter().map(|_| ColumnValue::take(&mut bytes)).collect::<Option<Vec<_>>>()?;
        let value = |name: &String| Some(all[stored.iter().position(|other| other == name)?].clone());
        let values = wanted.iter().map(value).collect::<Option<_>>()?;
        bytes.is_empty().then(|| Self::new(wanted, values))
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value() -> impl Strategy<Value = ColumnValue> {
        prop_oneof![
            Just(ColumnValue::Null),
            any::<bool>().prop_map(ColumnValue::Bool),
            any::<i128>().prop_map(ColumnValue::Integer),
            any::<f64>().prop_map(ColumnValue::Float),
            ".*".prop_map(|text| ColumnValue::Text(text.into())),
        ]
    }

    /// Values that can be compared, where a float that is no number equals itself.
    fn shown(columns: &Columns) -> Vec<String> {
        columns.iter().map(|(name, value)| format!("{name} {value:?}")).collect()
    }

    proptest! {
        #[test]
        fn stored_columns_come_back(values in prop::collection::vec(value(), 0..6), wanted: prop::sample::Index, cut: prop::sample::Index) {
            let names: Arc<[String]> = (0..values.len()).map(|nth| format!("c{nth}")).collect();
            let columns = Columns::new(&names, values);
            let bytes = columns.store();
            let stored = |bytes: &[u8], wanted: &Arc<[String]>| Columns::stored(bytes, &names, wanted);
            prop_assert_eq!(shown(&stored(&bytes, &names).expect("all")), shown(&columns));
            if !names.is_empty() {
                let one: Arc<[String]> = [wanted.get(&names).clone()].into();
                let found = stored(&bytes, &one).expect("one");
                prop_assert_eq!(shown(&found), &shown(&columns)[wanted.index(names.len())..][..1]);
                prop_assert!(stored(&bytes[..cut.index(bytes.len())], &names).is_none());
            }
            prop_assert!(stored(&[&bytes[..], &[NULL]].concat(), &names).is_none());
            prop_assert!(stored(&bytes, &["other".to_owned()].into()).is_none());
        }
    }
}
