//! The documents of one split, with everything that token shards store about them.

use super::group::{Group, GroupEnd};
use super::grouper::Grouper;
use super::reader::Reader;
use crate::budget::Lease;
use crate::cursor::{LaneCursor, Tracked};
use crate::document::{CarriedColumns, Document, SplitEvent};
use crate::error::Result;
use crate::segment::{Boundary, COUNTED};
use crate::source::lane::Lane;
use crate::store::{CancelToken, FileOpener};

/// Reads all documents of one split, held-out and weighted ones too. It blocks. If the file is remote, use it within a
/// tokio runtime.
#[derive(Debug)]
pub(crate) struct SplitReader {
    reader: Reader,
    group: Group,
    _cancel: CancelToken,
}

/// What a split has next.
#[derive(Debug)]
pub(crate) enum SplitItem {
    Document(SplitDocument),
    /// A document that is skipped, and where it begins.
    Skipped(Boundary),
    LeftOut(LeftOutDocument),
}

/// A document that may be left out however many there are: where it begins, and what decides who counts it.
#[derive(Debug)]
pub(crate) struct LeftOutDocument {
    pub(crate) start: Boundary,
    pub(crate) share: f64,
    /// The digest of its record; [`COUNTED`] if everybody counts it.
    pub(crate) digest: u64,
    pub(crate) columns: CarriedColumns,
}

/// A document of a split.
#[derive(Debug)]
pub(crate) struct SplitDocument {
    pub(crate) document: Document,
    /// Where it begins.
    pub(crate) start: Boundary,
    /// The share of epochs that include it.
    pub(crate) share: f64,
    /// The digest of its record, if it was rendered; that of its text is not known yet.
    pub(crate) digest: Option<u64>,
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
        Self { reader, group: Group::empty(GroupEnd::More), _cancel: cancel }
    }

    /// Returns the next document, or where one is skipped.
    pub(crate) fn next(&mut self) -> Result<Option<SplitItem>> {
        loop {
            match self.group.pop_event() {
                Some(SplitEvent::Skip { start, .. }) => return Ok(Some(SplitItem::Skipped(start))),
                Some(SplitEvent::LeftOut { start, .. }) => {
                    let columns = None;
                    let left_out = LeftOutDocument { start, share: 1.0, digest: COUNTED, columns };
                    return Ok(Some(SplitItem::LeftOut(left_out)));
                }
                Some(SplitEvent::Begin { .. } | SplitEvent::End { .. } | SplitEvent::EpochEnd) | None => {}
            }
            if let Some(Tracked { value: document, .. }) = self.group.pop() {
                let (start, share, digest) = self
                    .group
                    .last()
                    .map_or_else(Default::default, |(item, digest)| (item.start, item.share, digest));
                return Ok(Some(match digest {
                    Some(digest) if document.text().is_empty() => {
                        let columns = document.columns().clone();
                        SplitItem::LeftOut(LeftOutDocument { start, share, digest, columns })
                    }
                    _ => SplitItem::Document(SplitDocument { document, start, share, digest }),
                }));
            }
            match std::mem::replace(&mut self.group.after, GroupEnd::End) {
                GroupEnd::Failed(error) => return Err(error),
                GroupEnd::End => return Ok(None),
                GroupEnd::More => {}
            }
            self.group = self.reader.step(Lease::none());
        }
    }
}
