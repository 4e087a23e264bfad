//! The order of the shuffle's windows, for the shuffle and for stages before it.
//!
//! After a resume, the documents of the first window that were delivered before are not needed again. A stage before
//! the shuffle can tell which they are, since the cursor says how long the window is.

use super::window;
use crate::cursor::{LaneCursor, Tracked};
use crate::document::Document;
use crate::order::permutation;

/// The length of the first window: every lane must read one before the first batch is complete.
const FIRST_WINDOW: u64 = 2;

/// The settings that decide the windows of a lane and their order.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowOrder {
    pub(super) window: u64,
    pub(super) seed: u64,
    pub(super) lane: u64,
}

impl WindowOrder {
    /// How long the window after `anchor` is, unless its epoch or the stream ends before.
    pub(super) fn length(&self, anchor: &LaneCursor) -> u64 {
        window::length(anchor.documents, FIRST_WINDOW, self.window)
    }

    /// The order of the window after `anchor`, which has `len` documents of `epoch`.
    pub(super) fn permutation(&self, anchor: &LaneCursor, epoch: u64, len: usize) -> Vec<u32> {
        permutation("window", &[self.seed, self.lane, epoch, anchor.documents], len)
    }
}

/// The number that the shuffle adds to a cursor, as two halves.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowSkip {
    /// How long the window is; 0 if the cursor does not say it.
    pub(super) len: u64,
    /// How many of its documents were delivered.
    pub(super) delivered: u64,
}

impl WindowSkip {
    pub(super) fn encode(self) -> u64 {
        self.len << 32 | self.delivered
    }

    pub(super) fn decode(skip: u64) -> Self {
        Self { len: skip >> 32, delivered: skip & u64::from(u32::MAX) }
    }
}

/// Tells which documents of a resumed window were delivered before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivered {
    order: WindowOrder,
    start: LaneCursor,
}

impl Delivered {
    /// Of the first window after `start`, in lane `lane` of a shuffle by `seed`.
    pub(crate) fn new(window: usize, seed: u64, lane: usize, start: &LaneCursor) -> Self {
        let order = WindowOrder { window: window as u64, seed, lane: lane as u64 };
        Self { order, start: *start }
    }

    /// Whether each of these documents was delivered, if they come as the source counts them. Empty if the cursor does
    /// not tell, or they are not of that window.
    pub(super) fn of_group(&self, documents: &[Tracked<Document>]) -> Vec<bool> {
        let Some(Tracked { cursor: first, .. }) = documents.first() else { return Vec::new() };
        let place = |cursor: &LaneCursor| cursor.documents.saturating_sub(self.start.documents + 1) as usize;
        if place(first) as u64 >= WindowSkip::decode(self.start.skip(first.depth())).len {
            return Vec::new();
        }
        let window = self.in_window(first);
        let is_delivered = |document: &Tracked<Document>| window.get(place(&document.cursor)) == Some(&true);
        documents.iter().map(is_delivered).collect()
    }

    /// Whether each document of the window was delivered, in the order in which they are read. `first` is the cursor of
    /// the first. Empty if the cursor does not tell.
    pub(super) fn in_window(&self, first: &LaneCursor) -> Vec<bool> {
        let WindowSkip { len, delivered } = WindowSkip::decode(self.start.skip(first.depth()));
        // The shuffle refuses a window that is too long.
        if delivered >= len || len > self.order.length(&self.start) {
            return Vec::new();
        }
        let mut is_delivered = vec![false; len as usize];
        let order = self.order.permutation(&self.start, first.epoch, is_delivered.len());
        order.iter().take(delivered as usize).for_each(|&index| is_delivered[index as usize] = true);
        is_delivered
    }
}
