//! Where the text is in a JSON object.

use std::collections::BTreeSet;

use serde_json::Value;

/// How many names deep the named strings may lie.
const DEEPEST: usize = 4;

/// The fields that are read from a JSON object.
#[derive(Debug)]
pub(crate) struct Json {
    /// The path of the text; none if the whole object is the document.
    pub(crate) text: Option<FieldPath>,
    /// The path of the document's weight, and the weight from which on a document is always drawn.
    pub(crate) weight: Option<(FieldPath, f64)>,
}

impl Json {
    /// The text at a dotted name.
    pub(crate) fn text(name: &str) -> Self {
        Self { text: Some(FieldPath::new(name)), weight: None }
    }
}

/// A dotted name: the key with that whole name or, without one, the way through the objects that its parts name.
#[derive(Debug)]
pub(crate) struct FieldPath {
    pub(crate) name: String,
    pub(crate) parts: Vec<String>,
}

impl FieldPath {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), parts: name.split('.').map(str::to_owned).collect() }
    }

    /// The path of the whole value.
    pub(crate) fn whole() -> Self {
        Self { name: String::new(), parts: Vec::new() }
    }
}

/// Adds the dotted names of the strings in the JSON value at `at`, which is empty for a whole document.
pub(crate) fn strings(value: &Value, at: &str, names: &mut BTreeSet<String>) {
    match value {
        Value::String(_) if !at.is_empty() => {
            names.insert(at.to_owned());
        }
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                // A key with dots in it is found only in the outermost object, and nothing is within it.
                let is_key = !name.contains('.') || at.is_empty() && value.is_string();
                if is_key
                    && path.split('.').count() <= DEEPEST
                    && path.split('.').all(|part| !part.is_empty())
                {
                    strings(value, &path, names);
                }
            }
        }
        _ => {}
    }
}
