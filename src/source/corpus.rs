//! The files of a corpus, how documents lie in them, and their splits.
//!
//! Split k of a file is the documents that begin in its bytes from k × split on and before (k + 1) × split:
//! arithmetic over the file's length, so that opening a corpus reads nothing. A lane looks for the first of
//! them when it comes to the split, and stops at the first document that begins beyond it. So neighbours
//! agree without a word: the cut between them is the first place at or after (k + 1) × split where a document
//! may begin.

use std::ops::Range;
use std::sync::Arc;

use super::framing::Shape;
use crate::config::{ByteCount, DocumentKind, OnError, Oversize, SampleConfig, SourceConfig, SourceKind};
use crate::error::{Error, Result};
use crate::files::Files;

/// The least length of a split, in bytes, so that a byte order mark is never apart from what follows it.
const LEAST_SPLIT: u64 = 4;

/// The files, the format of each source's, and their splits.
#[derive(Debug)]
pub(super) struct Corpus {
    pub(super) files: Arc<Files>,
    formats: Vec<Format>,
    /// The number of each file's first split, and then the number of all splits.
    first_splits: Vec<u32>,
}

/// How documents lie in the files of one source.
#[derive(Debug)]
pub(super) struct Format {
    pub(super) shape: Shape,
    /// Where the text lies in a JSON line; none for plain text.
    pub(super) json: Option<Json>,
    pub(super) max: usize,
    pub(super) max_document_bytes: ByteCount,
    pub(super) oversize: Oversize,
    pub(super) on_error: OnError,
    /// The nominal length of a split, in bytes.
    split: u64,
}

/// What is read of a JSON line: dotted paths, taken apart.
#[derive(Debug)]
pub(super) struct Json {
    pub(super) text: Vec<String>,
    /// Where the document's weight is, and the weight that is always drawn.
    pub(super) weight: Option<(Vec<String>, f64)>,
}

/// A range of one file's bytes; its documents are those that begin there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    pub(super) file: u32,
    pub(super) begin: u64,
    pub(super) end: u64,
}

impl Corpus {
    pub(super) fn new(files: Files, sources: &[SourceConfig]) -> Result<Self> {
        let formats: Vec<_> = sources.iter().map(Format::from).collect();
        let mut first_splits = Vec::with_capacity(files.len() + 1);
        let mut splits = 0_u64;
        for file in files.iter() {
            first_splits.push(splits as u32);
            splits += file.len.div_ceil(formats[file.source].split).max(1);
            if splits > u64::from(u32::MAX) {
                let key = format!("source.{}.split", file.source);
                return Err(Error::config(key, "the files have more than 2^32 - 1 splits; raise it"));
            }
        }
        first_splits.push(splits as u32);
        Ok(Self { files: Arc::new(files), formats, first_splits })
    }

    pub(super) fn format(&self, file: u32) -> &Format {
        &self.formats[self.files[file as usize].source]
    }

    /// The number of a file among those of its source, whichever sources stand before it.
    pub(super) fn number_in_source(&self, file: u32) -> u32 {
        let source = self.files[file as usize].source;
        file - self.files.partition_point(|file| file.source < source) as u32
    }

    /// How many sources there are.
    pub(super) fn sources(&self) -> usize {
        self.formats.len()
    }

    /// The splits of some files that follow each other.
    pub(super) fn splits(&self, files: Range<usize>) -> Range<u32> {
        self.first_splits[files.start]..self.first_splits[files.end]
    }

    pub(super) fn split(&self, number: u32) -> Split {
        let file = self.first_splits.partition_point(|&first| first <= number) - 1;
        let (len, nominal) = (self.files[file].len, self.format(file as u32).split);
        let begin = u64::from(number - self.first_splits[file]) * nominal;
        Split { file: file as u32, begin, end: len.min(begin.saturating_add(nominal)) }
    }
}

impl From<&SourceConfig> for Format {
    fn from(config: &SourceConfig) -> Self {
        let shape = match (config.kind, config.document) {
            (SourceKind::Jsonl, _) | (SourceKind::Text, DocumentKind::Line) => Shape::Line,
            (SourceKind::Text, DocumentKind::Paragraph) => Shape::Paragraph,
            (SourceKind::Text, DocumentKind::File) => Shape::File,
        };
        let parts = |path: &String| path.split('.').map(str::to_owned).collect();
        let weight = config.sample.as_ref().map(|SampleConfig { field, max }| (parts(field), *max));
        Self {
            shape,
            json: config.field.as_ref().map(|field| Json { text: parts(field), weight }),
            max: config.max_document_bytes.as_usize(),
            max_document_bytes: config.max_document_bytes,
            oversize: config.oversize,
            on_error: config.on_error,
            split: if shape == Shape::File { u64::MAX } else { config.split.0.max(LEAST_SPLIT) },
        }
    }
}
