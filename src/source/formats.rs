//! How documents are stored in files. A format is one file in this folder and one line in the registry at the end of
//! this file.
//!
//! All formats share one trait, [`Format`], which says where a file is cut and opens it. Text is framed by its bytes
//! alone (lines, paragraphs, files); every other format gives [`records`].

use std::sync::Arc;

use super::carried::Carried;
use super::framing::Shape;
use super::json_path::{FieldPath, Json};
use super::split_size::SplitSize;
use crate::config::{ByteCount, OnError, Oversize, SampleConfig, SourceConfig, SourceKind, Synthetic};
use crate::error::Result;
use crate::render::Renderer;

mod array;
mod chunks;
#[cfg(feature = "columnar")]
mod columns;
mod csv;
mod custom;
pub(super) mod decode;
mod footers;
mod format;
mod in_memory;
pub(super) mod mds;
pub(super) mod records;
mod synthetic;
mod tar;
pub(super) mod text;
mod wanted;

#[cfg(feature = "columnar")]
use columns::Columns;
pub(crate) use format::{Candidate, Format, Opened, Unopened};
pub(super) use wanted::Wanted;

/// How the files of one source are read: their format, and the policy for their documents.
#[derive(Debug)]
pub(crate) struct SourceFormat {
    pub(crate) format: Box<dyn Format>,
    /// Where the text is in a JSON line, or in another record that is given as JSON; `None` for plain text.
    pub(crate) json: Option<Json>,
    /// Which values are read beside a text.
    pub(crate) carried: Carried,
    /// Where these values are in a JSON line. Other formats give each record with them.
    pub(crate) values: Vec<FieldPath>,
    /// How records become texts, if they have to be rendered.
    pub(crate) rendering: Option<Arc<Renderer>>,
    pub(crate) max: usize,
    pub(crate) max_document_bytes: ByteCount,
    pub(crate) oversize: Oversize,
    pub(crate) on_error: OnError,
    pub(crate) split_size: SplitSize,
}

impl SourceFormat {
    /// The format of the files of `source.<index>` of the config.
    pub(crate) fn new(
        index: usize,
        config: &SourceConfig,
        split_size: SplitSize,
        rendering: Option<Arc<Renderer>>,
    ) -> Result<Self> {
        let wanted = Wanted::new(config, rendering.as_deref());
        let is_jsonl = config.kind == SourceKind::Jsonl;
        // Tables give each document with its weight.
        let sample = config.sample.as_ref().filter(|_| is_jsonl);
        let weight = sample.map(|SampleConfig { field, max }| (FieldPath::new(field), *max));
        let json = match &wanted {
            Wanted::Record(_) => Some(Json { text: None, weight }),
            Wanted::Text(field) => is_jsonl.then(|| Json { text: Some(FieldPath::new(field)), weight }),
        };
        let carried = Carried::new(index, config)?;
        let values = carried.names().iter().filter(|_| is_jsonl).map(|name| FieldPath::new(name)).collect();
        Ok(Self {
            format: registered(index, config, wanted, carried.names())?,
            json,
            carried,
            values,
            rendering,
            max: config.max_document_bytes.as_usize(),
            max_document_bytes: config.max_document_bytes,
            oversize: config.oversize,
            on_error: config.on_error,
            split_size,
        })
    }

    pub(crate) fn is_one_document(&self) -> bool {
        self.format.shape() == Some(Shape::File)
    }
}

/// The registry: the code that reads each kind of source. What else is known about it stands in the table of kinds, in
/// `config::source::kinds`.
///
/// Records are given with the values of these `names`, as far as they have them.
pub(super) fn registered(
    index: usize,
    config: &SourceConfig,
    wanted: Wanted,
    names: &Arc<[String]>,
) -> Result<Box<dyn Format>> {
    if let Some(texts) = &config.texts {
        return Ok(Box::new(texts.clone()));
    }
    let names = names.clone();
    Ok(match config.kind {
        SourceKind::Text | SourceKind::Jsonl => Box::new(text::Text::new(config)),
        SourceKind::Csv => Box::new(csv::Csv::new(b',', config, wanted, names)),
        SourceKind::Tsv => Box::new(csv::Csv::new(b'\t', config, wanted, names)),
        SourceKind::Tar => Box::new(tar::Tar::new(config, wanted, names)),
        SourceKind::Mds => Box::new(mds::Mds::new(config, wanted, names)),
        SourceKind::Synthetic => Box::new(Synthetic::from_source(config)),
        SourceKind::Custom => Box::new(custom::Custom::new(index, config)?),
        #[cfg(feature = "columnar")]
        SourceKind::Parquet => {
            Box::new(columns::ParquetFormat::new(Columns::new(index, config, wanted, names)?))
        }
        #[cfg(feature = "columnar")]
        SourceKind::Arrow => Box::new(columns::ArrowFormat::new(Columns::new(index, config, wanted, names)?)),
        #[cfg(not(feature = "columnar"))]
        kind @ (SourceKind::Parquet | SourceKind::Arrow) => {
            return Err(kind.unread(&format!("source.{index}")));
        }
        // Directories: their files, or what replaces them, are of another kind.
        kind @ (SourceKind::Huggingface | SourceKind::Shards) => {
            return Err(kind.unread(&format!("source.{index}")));
        }
    })
}
