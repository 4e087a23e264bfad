//! The result of one read: bytes, the documents in them, and the splits they belong to.

use std::ops::Range;

use super::carried::Metadata;
use super::framing::Frame;
use super::problem::Problem;
use crate::segment::Boundary;

/// The most documents in one window: without this bound, the notes about each document would make slabs of very short
/// lines ten times larger.
pub(crate) const WINDOW_DOCUMENTS: usize = 16384;

/// The bytes of a read, and the documents in them.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub(crate) bytes: Vec<u8>,
    pub(crate) framed: Vec<Framed>,
    pub(crate) pieces: Vec<WindowPiece>,
}

/// A frame that begins at `at` in the bytes that were read.
#[derive(Debug)]
pub(crate) struct Framed {
    pub(crate) at: usize,
    pub(crate) frame: Frame,
    /// The format's finding about the document, beside its bytes.
    pub(crate) finding: Option<Box<Finding>>,
}

/// A format's finding about a document, beside its bytes.
#[derive(Debug)]
pub(crate) enum Finding {
    /// What its record says beside its text.
    Metadata(Metadata),
    /// Why it cannot be used.
    Problem(Problem),
}

/// The frames of one split in the bytes that were read.
#[derive(Debug)]
pub(crate) struct WindowPiece {
    /// Which of the lane's splits of the epoch it is.
    pub(crate) ordinal: u64,
    pub(crate) frames: Range<usize>,
    /// Where its bytes begin in the bytes that were read.
    pub(crate) at: usize,
}

impl Window {
    /// Whether it holds as many documents as allowed.
    pub(crate) fn is_full(&self) -> bool {
        self.framed.len() >= WINDOW_DOCUMENTS
    }

    /// Drops the bytes after the last document that was found.
    pub(crate) fn drop_rest(&mut self) {
        let end = self.framed.last().map_or(0, |last| last.at.saturating_add(last.frame.len as usize));
        self.bytes.truncate(end);
    }

    /// Notes a document that begins at `at`, unless it has no bytes.
    pub(crate) fn note(&mut self, at: usize, frame: Frame) {
        if frame.len > 0 {
            self.framed.push(Framed { at, frame, finding: None });
        }
    }

    /// Notes that the document at `start` cannot be used, and why. What follows begins at `next`.
    pub(crate) fn refuse(&mut self, start: Boundary, next: Boundary, problem: Problem) {
        let finding = Some(Box::new(Finding::Problem(problem)));
        self.framed.push(Framed { at: self.bytes.len(), frame: Frame { start, len: 0, next }, finding });
    }

    /// Appends the document of the record at `start`, which says this beside its text. Record `next` follows it.
    /// `len` is the whole length of the text; if it exceeds the bound on documents, `text` may be cut anywhere beyond
    /// that bound.
    pub(crate) fn record(
        &mut self,
        start: impl Into<Boundary>,
        next: u64,
        text: &[u8],
        len: u64,
        metadata: Metadata,
    ) {
        if text.is_empty() {
            return;
        }
        let frame = Frame { start: start.into(), len, next: Boundary::record(next) };
        let is_plain = metadata.share >= 1.0 && metadata.values.is_empty();
        let finding = (!is_plain).then(|| Box::new(Finding::Metadata(metadata)));
        self.framed.push(Framed { at: self.bytes.len(), frame, finding });
        self.bytes.extend_from_slice(text);
    }

    /// Notes that the document of the record at `start` cannot be used, and why. Record `next` follows it.
    pub(crate) fn refuse_record(&mut self, start: impl Into<Boundary>, next: u64, problem: Problem) {
        self.refuse(start.into(), Boundary::record(next), problem);
    }
}
