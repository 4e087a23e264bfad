//! How documents are stored in files. A format is one file in this folder and one line in the registry at the end of
//! this file.
//!
//! All formats share one trait, [`Format`], which says where a file is cut and opens it. Text is framed by its bytes
//! alone (lines, paragraphs, files); every other format gives [`records`].

use std::fmt::Debug;
use std::sync::Arc;

use super::content::Content;
use super::framing::Shape;
use super::json_path::{Json, parts};
use super::layout::{Laid, Layout};
use super::nominal::Nominal;
use crate::config::{ByteCount, OnError, Oversize, SampleConfig, SourceConfig, SourceKind, Synthetic};
use crate::error::Result;
use crate::store::{Shelf, Stored};

#[cfg(feature = "columnar")]
mod columns;
mod csv;
pub(super) mod decode;
/// The guide's example of a format.
#[cfg(test)]
mod lengths;
pub(super) mod mds;
pub(super) mod records;
mod synthetic;
mod tar;
mod text;

use records::Records;

/// How documents are stored in a file, with what the config says about it.
pub(crate) trait Format: Debug + Send + Sync {
    /// The shape of its documents, if it is framed text.
    fn shape(&self) -> Option<Shape> {
        None
    }

    /// Whether a file has to be looked at before it can be cut. The first file of a source always is, so that a missing
    /// column is found at once.
    fn looks_at(&self, file: Candidate) -> bool {
        file.is_first || file.is_long || file.is_longest
    }

    /// How a file is cut into splits. A damaged file is not cut: the policy for bad input decides once it is opened.
    fn layout(&self, file: Unopened<'_>, nominal: &Nominal) -> Result<Laid>;

    /// Opens a file that is cut as `layout` says.
    fn open(&self, file: Unopened<'_>, layout: &Layout) -> Result<Opened>;
}

/// A file of a shelf, for a format to open, if it reads any.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unopened<'a> {
    shelf: &'a Shelf,
    number: u32,
}

impl<'a> Unopened<'a> {
    /// File `number` of the corpus.
    pub(crate) fn new(shelf: &'a Shelf, number: u32) -> Self {
        Self { shelf, number }
    }

    /// Its bytes, as they are stored.
    fn stored(self) -> Result<Arc<dyn Stored>> {
        self.shelf.open(self.number)
    }
}

/// What is known of a file before it is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    /// Whether it is the first of its source.
    pub(crate) is_first: bool,
    /// Whether it is longer than a split.
    pub(crate) is_long: bool,
    /// Whether it is the longest of its source's long files.
    pub(crate) is_longest: bool,
}

/// An open file.
#[derive(Debug)]
pub(crate) enum Opened {
    Text(Content, Shape),
    Records(Box<dyn Records>),
}

impl Opened {
    /// An open file of records.
    fn records(records: impl Records + 'static) -> Self {
        Self::Records(Box::new(records))
    }
}

/// How the files of one source are read: their format, and the policy for their documents.
#[derive(Debug)]
pub(crate) struct SourceFormat {
    pub(crate) format: Box<dyn Format>,
    /// Where the text is in a JSON line; `None` for other formats.
    pub(crate) json: Option<Json>,
    pub(crate) max: usize,
    pub(crate) max_document_bytes: ByteCount,
    pub(crate) oversize: Oversize,
    pub(crate) on_error: OnError,
    pub(crate) nominal: Nominal,
}

impl SourceFormat {
    /// The format of the files of `source.<index>` of the config.
    pub(crate) fn new(index: usize, config: &SourceConfig, nominal: Nominal) -> Result<Self> {
        let weight = config.sample.as_ref().map(|SampleConfig { field, max }| (parts(field), *max));
        let json = config.field.as_ref().filter(|_| config.kind == SourceKind::Jsonl);
        Ok(Self {
            format: registered(index, config)?,
            json: json.map(|field| Json { text: parts(field), weight }),
            max: config.max_document_bytes.as_usize(),
            max_document_bytes: config.max_document_bytes,
            oversize: config.oversize,
            on_error: config.on_error,
            nominal,
        })
    }

    /// Whether each file is one document.
    pub(crate) fn is_one_document(&self) -> bool {
        self.format.shape() == Some(Shape::File)
    }
}

/// The registry: the format of each kind of source.
fn registered(index: usize, config: &SourceConfig) -> Result<Box<dyn Format>> {
    Ok(match config.kind {
        SourceKind::Text => Box::new(text::Text::new(config.document)),
        SourceKind::Jsonl => Box::new(text::Text::lines()),
        SourceKind::Csv => Box::new(csv::Csv::new(b',', config)),
        SourceKind::Tsv => Box::new(csv::Csv::new(b'\t', config)),
        SourceKind::Tar => Box::new(tar::Tar::new(config)),
        SourceKind::Mds => Box::new(mds::Mds::new(config)),
        SourceKind::Synthetic => Box::new(Synthetic::from_source(config)),
        #[cfg(feature = "columnar")]
        SourceKind::Parquet => Box::new(columns::ParquetFormat::new(index, config)?),
        #[cfg(feature = "columnar")]
        SourceKind::Arrow => Box::new(columns::ArrowFormat::new(index, config)?),
        other => {
            let problem =
                format!("this build cannot read {}; build with the feature `columnar`", other.name());
            return Err(crate::error::Error::config(format!("source.{index}.kind"), problem));
        }
    })
}
