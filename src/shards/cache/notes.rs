//! Notes of a lane's reader about the splits that it reads as text.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::cursor::LaneCursor;

/// A queue between a lane's reader and its recorder. The reader is ahead: its notes on a document's split are
/// there before the document is, except for the split's end.
#[derive(Debug)]
pub(crate) struct Notes {
    queue: Mutex<VecDeque<Note>>,
    /// How many documents come before the first note; `u64::MAX` if there is none.
    first: AtomicU64,
}

/// An event between two documents of a lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Note {
    pub(super) at: LaneCounts,
    pub(super) what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The split of this number begins, and is to be recorded. A split that began before and has not ended
    /// never will.
    Begin(u32),
    /// The split of this number ends.
    End(u32),
    /// The split of this number begins, the lane's `ordinal`th of the epoch. It is read beside others, which
    /// have other `slot`s.
    BeginInterleaved { number: u32, ordinal: u64, slot: usize },
    /// A document of this split was skipped.
    SkipInterleaved { ordinal: u64 },
    /// The split ends. `delivered` of its documents were delivered.
    EndInterleaved { number: u32, delivered: u64 },
    /// The epoch ends.
    EpochEnd,
}

/// How many documents a lane has delivered, and how many it has skipped in the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneCounts {
    pub(crate) documents: u64,
    pub(crate) skipped: u64,
}

impl From<&LaneCursor> for LaneCounts {
    fn from(cursor: &LaneCursor) -> Self {
        Self { documents: cursor.documents, skipped: cursor.skipped }
    }
}

impl Notes {
    /// Split `number` of the source begins.
    pub(crate) fn begin(&self, number: u32, at: LaneCounts) {
        self.push(Note { at, what: What::Begin(number) });
    }

    /// Split `number` ends, if it has begun.
    pub(crate) fn end(&self, number: u32, at: LaneCounts) {
        self.push(Note { at, what: What::End(number) });
    }

    /// Split `number`, the lane's `ordinal`th of the epoch, begins beside others.
    pub(crate) fn begin_interleaved(&self, number: u32, ordinal: u64, slot: usize, documents: u64) {
        let what = What::BeginInterleaved { number, ordinal, slot };
        self.push(Note { at: LaneCounts { documents, skipped: 0 }, what });
    }

    /// A document of the lane's `ordinal`th split of the epoch was skipped.
    pub(crate) fn skip_interleaved(&self, ordinal: u64, documents: u64) {
        self.push(Note { at: LaneCounts { documents, skipped: 0 }, what: What::SkipInterleaved { ordinal } });
    }

    /// Split `number`, which was read beside others, ends. `delivered` of its documents were delivered.
    pub(crate) fn end_interleaved(&self, number: u32, delivered: u64, documents: u64) {
        let what = What::EndInterleaved { number, delivered };
        self.push(Note { at: LaneCounts { documents, skipped: 0 }, what });
    }

    /// The epoch ends.
    pub(crate) fn end_epoch(&self, at: LaneCounts) {
        self.push(Note { at, what: What::EpochEnd });
    }

    /// Returns the next note, if it comes before document number `documents`, counted from 0.
    pub(super) fn next(&self, documents: u64) -> Option<Note> {
        if self.first.load(Relaxed) > documents {
            return None;
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let note = queue.pop_front_if(|note| note.at.documents <= documents);
        self.first.store(queue.front().map_or(u64::MAX, |note| note.at.documents), Relaxed);
        note
    }

    fn push(&self, note: Note) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.push_back(note);
        self.first.store(queue[0].at.documents, Relaxed);
    }
}

impl Default for Notes {
    fn default() -> Self {
        Self { queue: Mutex::default(), first: AtomicU64::new(u64::MAX) }
    }
}
