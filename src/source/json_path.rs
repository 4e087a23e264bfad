//! Where the text is in a JSON object.

/// What is read from a JSON object.
#[derive(Debug)]
pub(crate) struct Json {
    pub(crate) text: FieldPath,
    /// Where the document's weight is, and the weight from which on a document is always drawn.
    pub(crate) weight: Option<(FieldPath, f64)>,
}

impl Json {
    /// The text at a dotted name.
    pub(crate) fn text(name: &str) -> Self {
        Self { text: FieldPath::new(name), weight: None }
    }
}

/// A dotted name: the key that is called so, and where there is none, the way through the objects that its parts name.
#[derive(Debug)]
pub(crate) struct FieldPath {
    pub(crate) name: String,
    pub(crate) parts: Vec<String>,
}

impl FieldPath {
    pub(crate) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), parts: name.split('.').map(str::to_owned).collect() }
    }
}
