//! The documents of one split, with everything that token shards store about them.

use super::group::{Group, GroupEnd, Grouper};
use super::reader::Reader;
use crate::budget::Lease;
use crate::cursor::LaneCursor;
use crate::document::Document;
use crate::error::Result;
use crate::source::lane::Lane;
use crate::store::{CancelToken, FileOpener};

/// Reads all documents of one split, held-out and weighted ones too. It blocks. If the file is remote, use it within a
/// tokio runtime.
#[derive(Debug)]
pub(crate) struct SplitReader {
    reader: Reader,
    group: Group,
    skipped: u64,
    _cancel: CancelToken,
}

/// A document of a split.
#[derive(Debug)]
pub(crate) struct SplitDocument {
    pub(crate) document: Document,
    /// Where it begins, and where reading goes on after it: byte and line, counted from the beginning of the split.
    pub(crate) start: (u64, u64),
    pub(crate) next: (u64, u64),
    /// The share of epochs that include it.
    pub(crate) share: f64,
    /// How many documents of the split were skipped before it.
    pub(crate) skipped: u64,
}

impl SplitReader {
    /// Reads the split with the number `number` among all.
    pub(crate) fn new(
        grouper: Grouper,
        number: u32,
        opener: FileOpener,
        slab_bytes: usize,
        cancel: CancelToken,
    ) -> Self {
        let (lane, splits) = (Lane::default(), number..number + 1);
        let reader = Reader::new(grouper, lane, splits, opener, slab_bytes, &LaneCursor::default());
        Self { reader, group: Group::empty(GroupEnd::More), skipped: 0, _cancel: cancel }
    }

    /// Returns the next document.
    ///
    /// # Errors
    /// As for a stream of documents.
    pub(crate) fn next(&mut self) -> Result<Option<SplitDocument>> {
        loop {
            if let Some(tracked) = self.group.pop() {
                let (start, next, share) = self.group.last().map_or_else(Default::default, |item| {
                    ((item.start.byte, item.start.line), (item.next.byte, item.next.line), item.share)
                });
                let skipped = tracked.cursor.skipped;
                return Ok(Some(SplitDocument { document: tracked.value, start, next, share, skipped }));
            }
            match std::mem::replace(&mut self.group.after, GroupEnd::End) {
                GroupEnd::Failed(error) => return Err(error),
                GroupEnd::End => return Ok(None),
                GroupEnd::More => {}
            }
            self.group = self.reader.step(Lease::none());
            // A lane's count starts again at its end.
            self.skipped = self.skipped.max(self.reader.skipped());
        }
    }

    /// How many documents have been skipped: those of the whole split once its last document was returned.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }
}
