//! The documents of one split in groups. One worker tokenizes each group.

use std::sync::mpsc::{self, Receiver, Sender};

use crate::document::Mask;
use crate::error::Result;
use crate::source::{SplitDocument, SplitItem, SplitReader, digest};
use crate::tokenizer::Encoder;

/// Text in one group, in bytes: enough that handing it over costs next to nothing.
const GROUP_BYTES: usize = 128 << 10;

/// The most documents in one group, for short documents.
const GROUP_DOCUMENTS: usize = 4096;

/// Reads a split in groups.
#[derive(Debug)]
pub(super) struct Groups {
    documents: SplitReader,
    /// The end after the last document, or why reading failed.
    end: Option<Result<()>>,
}

/// Documents that wait to be tokenized, and where to send the result.
#[derive(Debug)]
pub(super) struct Group {
    documents: Vec<SplitItem>,
    answer: Sender<Encoded>,
}

/// A group that was tokenized.
#[derive(Debug)]
pub(super) struct Encoded {
    /// The ids of all documents, in order, and which of them are masked.
    pub(super) ids: Vec<u32>,
    pub(super) mask: Mask,
    /// Each with where its ids end in the group's ids, or why it has none.
    pub(super) documents: Vec<(SplitItem, Result<usize>)>,
}

impl Groups {
    pub(super) fn new(documents: SplitReader) -> Self {
        Self { documents, end: None }
    }

    /// Returns the next group and the receiver of its ids, or `None` at the split's end or if reading fails.
    pub(super) fn next(&mut self) -> Option<(Group, Receiver<Encoded>)> {
        let (mut documents, mut bytes) = (Vec::new(), 0);
        while self.end.is_none() && bytes < GROUP_BYTES && documents.len() < GROUP_DOCUMENTS {
            match self.documents.next() {
                Ok(Some(item)) => {
                    if let SplitItem::Document(read) = &item {
                        bytes += read.document.text_bytes();
                    }
                    documents.push(item);
                }
                Ok(None) => self.end = Some(Ok(())),
                Err(error) => self.end = Some(Err(error)),
            }
        }
        if documents.is_empty() {
            return None;
        }
        let (answer, answers) = mpsc::channel();
        Some((Group { documents, answer }, answers))
    }

    /// Returns why reading failed, if it did. Call it after the last group.
    pub(super) fn finish(self) -> Result<()> {
        self.end.unwrap_or(Ok(()))
    }
}

impl Group {
    /// Tokenizes the group and sends the result, unless `is_stopped` first.
    pub(super) fn encode(self, encoder: &Encoder, is_stopped: impl Fn() -> bool) {
        let (mut ids, mut mask) = (Vec::new(), Mask::default());
        let mut documents = Vec::with_capacity(self.documents.len());
        for mut item in self.documents {
            if is_stopped() {
                return;
            }
            let encoded = match &mut item {
                SplitItem::Document(SplitDocument { document, digest: of_record, .. }) => {
                    // The hold-out goes by the record, however it is rendered.
                    of_record.get_or_insert_with(|| digest(document.text().as_bytes()));
                    encoder.encode_document(document, &mut ids, &mut mask)
                }
                SplitItem::Skipped(_) | SplitItem::LeftOut(_) => Ok(()),
            };
            documents.push((item, encoded.map(|()| ids.len())));
        }
        // A receiver that has gone away needs no answer.
        let _ = self.answer.send(Encoded { ids, mask, documents });
    }
}
