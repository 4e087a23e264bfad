//! The names of columns' values, where documents are told apart by them.

use std::borrow::Cow;

use super::ColumnValue;
use crate::cursor::{NONE, OTHER};
use crate::excerpt::cut;

/// How many characters of a value are kept.
const LONGEST: usize = 64;

/// The value of a document whose record lacks one.
const NULL: &str = "null";

/// What a value of a column is called where documents are told apart by it: its first 64 characters. `none` is that of
/// documents without the column, and `null` that of records without a value.
pub fn label(value: Option<&ColumnValue>) -> Cow<'_, str> {
    match value {
        None => Cow::Borrowed(NONE),
        // There may be thousands of documents, and so most are not copied.
        Some(ColumnValue::Text(text)) => quoted(cut(text, LONGEST)),
        Some(value) => Cow::Owned(value.to_string()),
    }
}

/// A text as such a name: in quotes, if it would be taken for another value without them.
pub fn quoted(text: Cow<'_, str>) -> Cow<'_, str> {
    match text.starts_with('"') || [NONE, OTHER, NULL].contains(&&*text) {
        true => Cow::Owned(format!("{text:?}")),
        false => text,
    }
}
