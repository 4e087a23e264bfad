//! Where the text is in a JSON line.

/// What is read from a JSON line: dotted paths, split into their parts.
#[derive(Debug)]
pub(crate) struct Json {
    pub(crate) text: Vec<String>,
    /// Where the document's weight is, and the weight from which on a document is always drawn.
    pub(crate) weight: Option<(Vec<String>, f64)>,
}

/// The parts of a dotted path.
pub(crate) fn parts(path: &str) -> Vec<String> {
    path.split('.').map(str::to_owned).collect()
}
