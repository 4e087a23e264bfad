//! Problems of documents, and of the files that they are in.

use std::borrow::Cow;

use crate::error::Error;

/// The problem of a document that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Where the fault is, in bytes from the document's first.
    pub(crate) offset: usize,
    /// Where the fault is in the stored file, in bytes, if that differs.
    pub(crate) stored: Option<u64>,
    pub(crate) what: String,
    pub(crate) remedy: Cow<'static, str>,
}

impl Problem {
    pub(crate) fn new(offset: usize, what: impl Into<String>, remedy: impl Into<Cow<'static, str>>) -> Self {
        Self { offset, stored: None, what: what.into(), remedy: remedy.into() }
    }
}

/// Where and why a file cannot be decompressed any further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    /// The offset in the stored file, in bytes.
    pub(crate) byte: u64,
    pub(crate) what: String,
    pub(crate) remedy: &'static str,
}

impl Broken {
    /// The remedy for an incomplete file.
    pub(crate) const ANEW: &str = "get the file again";
}

/// Why the bytes of a text end before the text does.
#[derive(Debug)]
pub(crate) enum Unread {
    Broken(Broken),
    Failed(Error),
}

impl From<Broken> for Problem {
    fn from(Broken { byte, what, remedy }: Broken) -> Self {
        Self { offset: 0, stored: Some(byte), what, remedy: remedy.into() }
    }
}
