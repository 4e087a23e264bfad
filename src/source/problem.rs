//! What can be wrong with a document, or with the file that it is in.

/// Why a document cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// Where the fault is, in bytes from the document's first.
    pub(super) offset: usize,
    /// Where in the file as it is stored, in bytes, if that is something else.
    pub(super) stored: Option<u64>,
    pub(super) what: String,
    pub(super) remedy: &'static str,
}

impl Problem {
    pub(super) fn new(offset: usize, what: impl Into<String>, remedy: &'static str) -> Self {
        Self { offset, stored: None, what: what.into(), remedy }
    }
}

/// Where and why a file cannot be decompressed any further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    /// The offset in the file as it is stored, in bytes.
    pub(super) byte: u64,
    pub(super) what: String,
    pub(super) remedy: &'static str,
}

impl Broken {
    /// What to do about a file that is not whole.
    pub(super) const ANEW: &str = "get the file anew";
}

impl From<Broken> for Problem {
    fn from(Broken { byte, what, remedy }: Broken) -> Self {
        Self { offset: 0, stored: Some(byte), what, remedy }
    }
}
