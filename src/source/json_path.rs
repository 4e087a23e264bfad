//! Where text lies in JSON.

/// What is read of a JSON line: dotted paths, taken apart.
#[derive(Debug)]
pub(super) struct Json {
    pub(super) text: Vec<String>,
    /// Where the document's weight is, and the weight that is always drawn.
    pub(super) weight: Option<(Vec<String>, f64)>,
}

/// The parts of a dotted path.
pub(super) fn parts(path: &str) -> Vec<String> {
    path.split('.').map(str::to_owned).collect()
}
