//! Generated documents: no file is read, and document i follows from the source's seed and i alone.
//!
//! A place is the number of a document, from 0. Making one takes about as long as reading it would, and any one can be
//! made without those before it, so that resuming costs nothing. Held in memory: one document.

use super::format::{Candidate, Format, Opened, Unopened};
use super::records::{Records, Stop, take_each};
use crate::config::Synthetic;
use crate::error::Result;
use crate::source::carried::Metadata;
use crate::source::layout::{Laid, Layout};
use crate::source::split_size::{MOST_SPLITS, SplitSize};
use crate::source::window::Window;

mod text;
mod words;

use text::Writer;

impl Format for Synthetic {
    /// Where it is cut is arithmetic.
    fn looks_at(&self, _: Candidate) -> bool {
        true
    }

    fn layout(&self, _: Unopened<'_>, split_size: &SplitSize) -> Result<Laid> {
        let of_bytes = split_size.bytes / self.document_bytes;
        let each = of_bytes.max(self.documents.div_ceil(MOST_SPLITS)).max(1);
        let cuts: Vec<u64> = (1..self.documents.div_ceil(each)).map(|nth| nth * each).collect();
        Ok(Layout::between(cuts).into())
    }

    fn open(&self, _: Unopened<'_>, _: &Layout) -> Result<Opened> {
        let writer = Writer::new(self.seed, self.document_bytes as usize);
        Ok(Opened::records(SyntheticRecords { documents: self.documents, writer }))
    }
}

/// The documents of a source, in order.
#[derive(Debug)]
struct SyntheticRecords {
    documents: u64,
    writer: Writer,
}

impl Records for SyntheticRecords {
    fn take(&mut self, from: u64, end: u64, room: usize, window: &mut Window) -> Result<Stop> {
        take_each(from, end, room, window, |at, window| {
            if at >= self.documents {
                return Ok(Stop::End);
            }
            let text = self.writer.document(at);
            window.record(at, at + 1, text, text.len() as u64, Metadata::default());
            Ok(Stop::At(at + 1))
        })
    }

    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        let documents = self.documents;
        Ok((at > documents).then(|| format!("the source has {documents} documents")))
    }
}
