//! The documents that were skipped, each with its reason.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::error::Unit;

/// How many skipped documents a stage remembers until they are taken. The others are only counted.
const MOST: usize = 1000;

/// A document that was skipped: where it begins, or where its fault is, and why.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Skipped {
    /// Its file, for people: bytes that are not UTF-8 are replaced.
    pub path: String,
    /// The line, from 1; 0 where lines mean nothing, or are not counted.
    pub line: u64,
    /// The unit of `byte`.
    pub unit: Unit,
    /// The offset in the file's text, or the number of the row.
    pub byte: u64,
    /// Why it was skipped.
    pub reason: String,
}

/// The first skipped documents since they were last taken.
#[derive(Debug, Default)]
pub(super) struct Remembered(Mutex<Vec<Skipped>>);

impl Remembered {
    /// Remembers one, if there is room.
    pub(super) fn push(&self, skipped: impl FnOnce() -> Skipped) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MOST {
            all.push(skipped());
        }
    }

    pub(super) fn take(&self) -> Vec<Skipped> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
