//! The documents that were skipped, each with its reason.

use std::collections::HashMap;
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::error::Unit;
use crate::threads::lock;

/// How many skipped documents a stage remembers until they are taken. The others are only counted.
const MOST: usize = 1000;

/// How many documents the log names for one reason, and how many reasons it names.
const NAMED: u32 = 3;
const REASONS: usize = 64;

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

/// For how many documents each reason was logged.
#[derive(Debug, Default)]
pub(crate) struct Reasons(HashMap<String, u32>);

impl Reasons {
    /// What the log says of the next document that is skipped for a reason; `None` if it has named enough of them.
    pub(crate) fn message(&mut self, reason: &str) -> Option<&'static str> {
        if !self.0.contains_key(reason) && self.0.len() < REASONS {
            self.0.insert(reason.to_owned(), 0);
        }
        let named = self.0.get_mut(reason).filter(|named| **named < NAMED)?;
        *named += 1;
        Some(match *named {
            NAMED => "document skipped; later ones like it are counted, not named",
            _ => "document skipped",
        })
    }
}

/// The first skipped documents since they were last taken.
#[derive(Debug, Default)]
pub(super) struct Remembered {
    all: Mutex<Vec<Skipped>>,
    reasons: Mutex<Reasons>,
}

impl Remembered {
    /// Remembers one, if there is room. The log names the first ones for each reason, if it is to.
    pub(super) fn push(&self, is_logged: bool, reason: &str, skipped: impl FnOnce(String) -> Skipped) {
        let mut reasons = lock(&self.reasons);
        let message = is_logged.then(|| reasons.message(reason)).flatten();
        drop(reasons);
        if message.is_none() && lock(&self.all).len() >= MOST {
            return;
        }
        let skipped = skipped(reason.to_owned());
        if let Some(message) = message {
            let Skipped { path, line, unit, byte, .. } = &skipped;
            let line = Some(*line).filter(|line| *line > 0);
            match unit {
                Unit::Byte => tracing::warn!(path, line, byte, reason, "{message}"),
                unit => tracing::warn!(path, line, %unit, byte, reason, "{message}"),
            }
        }
        let mut all = lock(&self.all);
        if all.len() < MOST {
            all.push(skipped);
        }
    }

    pub(super) fn take(&self) -> Vec<Skipped> {
        std::mem::take(&mut lock(&self.all))
    }
}
