//! Generated documents: no file is read, and document i follows from the source's seed and i alone.
//!
//! A place is the number of a document, from 0. Making one takes about as long as reading it would, and any one can be
//! made without those before it, so that resuming costs nothing. Held in memory: one document.

use super::format::{Candidate, Format, Opened, Unopened};
use super::records::{Records, Stop};
use crate::config::Synthetic;
use crate::error::Result;
use crate::source::carried::Metadata;
use crate::source::cuts::Cuts;
use crate::source::layout::{Laid, Layout};
use crate::source::split_size::{MOST_SPLITS, SplitSize};
use crate::source::window::{WINDOW_DOCUMENTS, Window};

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
        Ok(if cuts.is_empty() { Layout::Whole } else { Layout::Cuts(Cuts::new(cuts)) }.into())
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
        let full = window.bytes.len() + room;
        for number in from..end.min(self.documents) {
            if number - from == WINDOW_DOCUMENTS as u64 {
                return Ok(Stop::At(number));
            }
            let text = self.writer.document(number);
            window.record(number, number + 1, text, text.len() as u64, Metadata::default());
            if window.is_full() || window.bytes.len() >= full {
                return Ok(Stop::At(number + 1));
            }
        }
        Ok(if end < self.documents { Stop::At(end.max(from)) } else { Stop::End })
    }

    fn problem(&mut self, at: u64) -> Result<Option<String>> {
        let documents = self.documents;
        Ok((at > documents).then(|| format!("the source has {documents} documents")))
    }
}
