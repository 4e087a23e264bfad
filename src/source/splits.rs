//! The documents of one split, with all that token shards keep of them.

use super::group::{After, Group, Grouping};
use super::read::Reader;
use super::{Holdout, Lane, Source};
use crate::budget::Lease;
use crate::cursor::LaneCursor;
use crate::document::Document;
use crate::error::Result;
use crate::store::{Leash, Shelf};

/// Reads one split, neither held out nor drawn. It blocks, and must be used within a tokio runtime if the file is
/// remote.
#[derive(Debug)]
pub(crate) struct SplitReader {
    reader: Reader,
    group: Group,
    skipped: u64,
    _leash: Leash,
}

/// A document of a split.
#[derive(Debug)]
pub(crate) struct SplitDocument {
    pub(crate) document: Document,
    /// Where it begins, and where reading goes on behind it: byte and line, counted from the split's begin.
    pub(crate) start: (u64, u64),
    pub(crate) next: (u64, u64),
    /// The share of epochs that it is in.
    pub(crate) share: f64,
    /// How many documents of the split were skipped before it.
    pub(crate) skipped: u64,
}

impl Source {
    /// Reads split `number` of all.
    pub(crate) fn split(&self, number: u32) -> SplitReader {
        let grouping = Grouping {
            corpus: self.corpus.clone(),
            holdout: Holdout::default(),
            seed: 0,
            draws_all: true,
            meter: self.meter.clone(),
            logs: self.logs,
        };
        let (leash, leashed) = Leash::new();
        let shelf = Shelf::unplanned(self.files().clone(), self.corpus.stores.clone(), leashed);
        let splits = number..number + 1;
        let reader =
            Reader::new(grouping, Lane::default(), splits, shelf, self.slab_bytes, &LaneCursor::default());
        SplitReader { reader, group: Group::empty(After::More), skipped: 0, _leash: leash }
    }
}

impl SplitReader {
    /// The next document.
    ///
    /// # Errors
    /// As a stream of documents.
    pub(crate) fn next(&mut self) -> Result<Option<SplitDocument>> {
        loop {
            if let Some(tracked) = self.group.pop() {
                let (start, next, share) = self.group.last().map_or_else(Default::default, |item| {
                    ((item.start.byte, item.start.line), (item.next.byte, item.next.line), item.share)
                });
                let skipped = tracked.cursor.skipped;
                return Ok(Some(SplitDocument { document: tracked.value, start, next, share, skipped }));
            }
            match std::mem::replace(&mut self.group.after, After::End) {
                After::Failed(error) => return Err(error),
                After::End => return Ok(None),
                After::More => {}
            }
            self.group = self.reader.step(Lease::none());
            // At its end a lane counts anew.
            self.skipped = self.skipped.max(self.reader.skipped());
        }
    }

    /// How many documents were skipped; of the whole split, once its last document was given.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }
}
