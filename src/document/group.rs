//! The documents of one job of the tokenizer, and what happens between them.

use std::collections::VecDeque;
use std::fmt;
use std::task::{Context, Poll};

use super::Document;
use crate::budget::Moving;
use crate::cursor::Tracked;
use crate::error::Error;
use crate::segment::Boundary;

#[derive(Debug)]
pub(crate) struct DocumentGroup {
    pub(crate) documents: Vec<Tracked<Document>>,
    /// What happens between them, each with the number of documents before it.
    pub(crate) events: VecDeque<(usize, SplitEvent)>,
    /// The error that ends the stream after them.
    pub(crate) error: Option<Error>,
    pub(crate) moving: Option<Moving>,
}

/// What a lane's reader says between two of its documents. Splits are named by their ordinals among the lane's splits of
/// the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SplitEvent {
    /// The text of a split is read from its beginning. It has this number among the splits of its source.
    Begin {
        split: u64,
        number: u32,
    },
    /// A document of a split is skipped. It begins there.
    Skip {
        split: u64,
        start: Boundary,
    },
    /// The same, of a document that may be left out however many there are.
    LeftOut {
        split: u64,
        start: Boundary,
    },
    /// The text of a split has been read to its end.
    End {
        split: u64,
    },
    EpochEnd,
}

/// Reads a lane's groups one after the other, each within the job that tokenizes it.
pub(crate) trait DocumentReads: fmt::Debug + Send {
    /// The next read, once it may begin; `None` after the last.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Option<DocumentRead>>;

    /// Whether the documents come with their ids.
    fn are_stored(&self) -> bool;
}

/// A read, for a thread that may block.
pub(crate) struct DocumentRead {
    pub(crate) read: Box<dyn FnOnce() -> DocumentGroup + Send>,
    /// Whether it may have to wait long, for a store or standard input.
    pub(crate) waits: bool,
}
