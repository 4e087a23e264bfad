//! Problems of documents, and of the files that they are in.

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::render::RenderError;

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
    /// The remedy for an incomplete file.
    pub(crate) const ANEW: &str = "get the file again";

    pub(crate) fn new(offset: usize, what: impl Into<String>, remedy: impl Into<Cow<'static, str>>) -> Self {
        Self { offset, stored: None, what: what.into(), remedy: remedy.into() }
    }

    /// The problem of a damaged file.
    pub(crate) fn damage(what: impl Into<String>) -> Self {
        Self::new(0, what, Self::ANEW)
    }

    /// The same, where the damage is at this byte of the stored file.
    pub(crate) fn damage_at(byte: u64, what: impl Into<String>) -> Self {
        Self { stored: Some(byte), ..Self::damage(what) }
    }
}

/// Why something in a file could not be read.
#[derive(Debug)]
pub(crate) enum Unread {
    /// For the policy for bad input.
    Damaged(Problem),
    /// For the end of the stream.
    Failed(Error),
}

impl Unread {
    /// Tells a problem in `read` from an error that ends the stream.
    pub(crate) fn split<T>(read: Result<T, Self>) -> Result<Result<T, Problem>> {
        match read {
            Ok(read) => Ok(Ok(read)),
            Err(Self::Damaged(problem)) => Ok(Err(problem)),
            Err(Self::Failed(error)) => Err(error),
        }
    }
}

impl From<Problem> for Unread {
    fn from(problem: Problem) -> Self {
        Self::Damaged(problem)
    }
}

impl From<Error> for Unread {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<RenderError> for Problem {
    fn from(RenderError { what, remedy }: RenderError) -> Self {
        Self::new(0, what, remedy)
    }
}
