//! What one read found: bytes, the documents in them, and the splits that they are of.

use std::ops::Range;

use super::framing::{Frame, Place};
use super::problem::Problem;
use super::split::Split;

/// How many documents a window has at most, so that slabs of the shortest lines do not grow tenfold by what is
/// noted of each.
pub(super) const WINDOW_DOCUMENTS: usize = 16384;

/// What was read, and what was found in it.
#[derive(Debug, Default)]
pub(super) struct Window {
    pub(super) bytes: Vec<u8>,
    pub(super) framed: Vec<Framed>,
    pub(super) pieces: Vec<Piece>,
}

/// A frame that lies at `at` in what was read.
#[derive(Debug)]
pub(super) struct Framed {
    pub(super) at: usize,
    pub(super) frame: Frame,
    /// What the format knows of the document beside its bytes.
    pub(super) finding: Option<Box<Finding>>,
}

/// What a format knows of a document beside its bytes.
#[derive(Debug)]
pub(super) enum Finding {
    /// The share of epochs that it is in.
    Share(f64),
    /// Why it cannot be used.
    Problem(Problem),
}

/// The frames of one split in what was read.
#[derive(Debug)]
pub(super) struct Piece {
    /// Which of the lane's splits of the epoch it is.
    pub(super) ordinal: u64,
    pub(super) split: Split,
    pub(super) frames: Range<usize>,
    /// Where its bytes begin in what was read.
    pub(super) at: usize,
}

impl Window {
    /// Whether it holds as many documents as it may.
    pub(super) fn is_full(&self) -> bool {
        self.framed.len() >= WINDOW_DOCUMENTS
    }

    /// Drops the bytes behind the last document that was found.
    pub(super) fn drop_rest(&mut self) {
        let end = self.framed.last().map_or(0, |last| last.at.saturating_add(last.frame.len as usize));
        self.bytes.truncate(end);
    }

    /// Notes a document that lies at `at`; one of no bytes is no document.
    pub(super) fn note(&mut self, at: usize, frame: Frame) {
        if frame.len > 0 {
            self.framed.push(Framed { at, frame, finding: None });
        }
    }

    /// Notes that no document can be had at `start`, and why; what follows begins at `next`.
    pub(super) fn refuse(&mut self, start: Place, next: Place, problem: Problem) {
        let finding = Some(Box::new(Finding::Problem(problem)));
        self.framed.push(Framed { at: self.bytes.len(), frame: Frame { start, len: 0, next }, finding });
    }

    /// Appends record `start`'s document, which is in `share` of all epochs; record `next` follows it. Of a text of
    /// `len` bytes that is longer than its bound, the first ones are enough, if they are more than the bound.
    pub(super) fn record(&mut self, start: u64, next: u64, (text, len): (&[u8], u64), share: f64) {
        if text.is_empty() {
            return;
        }
        let frame = Frame { start: Place::record(start), len, next: Place::record(next) };
        let finding = (share < 1.0).then(|| Box::new(Finding::Share(share)));
        self.framed.push(Framed { at: self.bytes.len(), frame, finding });
        self.bytes.extend_from_slice(text);
    }

    /// Notes that record `start` has no document that can be used, and why; record `next` follows it.
    pub(super) fn refuse_record(&mut self, start: u64, next: u64, problem: Problem) {
        self.refuse(Place::record(start), Place::record(next), problem);
    }
}
