//! Imports tokens that other programs prepared, as token shards.
//!
//! Positions count ids in a file of ids, and samples in a shard of samples, from 0. Held in memory: the
//! file's map, a document's ids, and for Megatron the range of each document.

use std::ops::Range;
use std::path::Path;

use super::{ShardCounts, TokenFormat};
use crate::config::{SourceConfig, SourceKind};
use crate::error::{Error, Result, Unit};
use crate::segment::{Width, map_bytes};
use crate::shards::{Cut, ShardedFile};
use crate::source::TokenShard;
use crate::tokenizer::Tokenizer;

pub(super) mod megatron;
mod target;

use target::ImportTarget;

/// A split ends with the document that reaches this many ids.
const SPLIT_IDS: u64 = 4 << 20;

/// How to read prepared tokens.
#[derive(Clone, Copy, Debug)]
pub struct Import {
    /// The id that ends documents. It is left out: `tokenizer.eos` puts it back. [`TokenFormat::NanoGpt`]
    /// needs it.
    pub eos: Option<u32>,
    /// The size of an id in bytes, if nothing in the file says it: 2, 4 or 8.
    pub width: usize,
}

impl Import {
    /// Reads ids as `export` writes those of `tokenizer`: two bytes each if its vocabulary fits, and four otherwise.
    pub fn new(eos: Option<u32>, tokenizer: &dyn Tokenizer) -> Self {
        Self { eos, width: Width::for_vocab(tokenizer.vocab_size()).bytes() }
    }

    fn validate(&self) -> Result<()> {
        if matches!(self.width, 2 | 4 | 8) {
            return Ok(());
        }
        Err(Error::config("width", format!("{} must be 2, 4 or 8, the bytes of an id", self.width)))
    }
}

/// Makes a shard directory from one file of tokens, the `.bin`. `tokenizer` is the one that made them. This
/// function blocks.
///
/// # Errors
/// [`Error::Corpus`], with the place, if the file is not of that format or has ids beyond the tokenizer's
/// vocabulary; [`Error::Config`] if `eos` is missing or the width is not valid; [`Error::Io`].
pub fn import(
    file: &Path,
    format: TokenFormat,
    how: Import,
    tokenizer: &dyn Tokenizer,
    directory: &Path,
) -> Result<ShardCounts> {
    how.validate()?;
    let bytes = map_bytes(file)?;
    let (width, documents) = match format {
        TokenFormat::NanoGpt => (how.width, None),
        TokenFormat::Megatron => {
            let (width, documents) = megatron::documents(file, bytes.len() as u64)?;
            (width, Some(documents))
        }
    };
    let refuse = |what: String| Error::Corpus { problem: format!("{}: {what}", file.display()) };
    if !bytes.len().is_multiple_of(width) {
        return Err(refuse(format!(
            "its {} bytes are not a whole number of ids of {width} bytes",
            bytes.len()
        )));
    }
    let id = |at: u64| {
        let bytes = &bytes[at as usize * width..][..width];
        bytes.iter().rev().fold(0_u64, |id, byte| id << 8 | u64::from(*byte))
    };
    let ids = (bytes.len() / width) as u64;
    let documents: Box<dyn Iterator<Item = Range<u64>>> = match (documents, how.eos) {
        (Some(documents), _) => Box::new(documents.into_iter()),
        (None, Some(eos)) => Box::new(ended(ids, move |at| id(at) == u64::from(eos))),
        (None, None) => {
            let problem = "in such files only an id marks where documents end; name the token";
            return Err(Error::config("eos", problem));
        }
    };
    let source = SourceConfig { paths: vec![file.display().to_string()], ..SourceConfig::default() };
    let files = vec![whole(file, bytes.len() as u64, Unit::Token)];
    let mut target = ImportTarget::new(directory, tokenizer, how.eos, source, files)?;
    let (mut cuts, mut split) = (Vec::new(), 0..0);
    for range in documents {
        if split.end > split.start && range.start - split.start >= SPLIT_IDS {
            target.split()?;
            cuts.push(range.start);
            split = range.start..range.start;
        }
        let place = range.start..range.end;
        let is_any = target
            .document(range.clone().map(id), place)?
            .map_err(|(nth, what)| refuse(format!("id {} {what}", range.start + nth)))?;
        if is_any {
            split.end = range.end;
        }
    }
    target.split()?;
    if !cuts.is_empty() {
        target.cut(0, Cut::At(cuts));
    }
    target.finish(file)
}

/// Makes a shard directory from a directory of MosaicML's shards. Each sample has its tokens in the column
/// `field`, as an array of integers or as bytes. Each file becomes a split. `tokenizer` is the one that made
/// the tokens. This function blocks.
///
/// # Errors
/// As [`import`].
pub fn import_mds(
    shards: &Path,
    field: &str,
    how: Import,
    tokenizer: &dyn Tokenizer,
    directory: &Path,
) -> Result<ShardCounts> {
    how.validate()?;
    let all = TokenShard::all(shards)?;
    let source = SourceConfig {
        kind: SourceKind::Mds,
        paths: vec![shards.display().to_string()],
        field: Some(field.to_owned()),
        ..SourceConfig::default()
    };
    let files = all.iter().map(|(path, len)| whole(path, *len, Unit::Row)).collect();
    let mut target = ImportTarget::new(directory, tokenizer, how.eos, source, files)?;
    for (path, len) in all {
        let mut shard = TokenShard::open(&path, len, field, how.width)?;
        for sample in 0..shard.samples() {
            let ids = shard.ids(sample)?;
            target
                .document(ids.into_iter(), sample..sample + 1)?
                .map_err(|(nth, what)| shard.refuse(sample, &format!("id {nth} {what}")))?;
        }
        target.split()?;
    }
    target.finish(shards)
}

fn whole(path: &Path, len: u64, unit: Unit) -> ShardedFile {
    ShardedFile { path: path.to_owned(), len, unit, etag: None, cut: Cut::Whole, held: 0, root: 0 }
}

/// The ranges of documents in a file of ids, each with the id that ends it.
fn ended(ids: u64, mut is_end: impl FnMut(u64) -> bool) -> impl Iterator<Item = Range<u64>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let first = start;
        if first == ids {
            return None;
        }
        let end = (first..ids).find(|at| is_end(*at)).map_or(ids, |at| at + 1);
        start = end;
        Some(first..end)
    })
}
