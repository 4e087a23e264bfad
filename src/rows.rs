//! Finished rows: a corpus whose documents are already packed into rows.
//!
//! A directory of rows describes the origin of its rows and their rules in a [`RowManifest`]. Its segments are those of
//! token shards with one split each; the ids are rows of one width, and the index lists the documents of the rows. So a
//! row is found by its number alone, and its ids are copied unchanged. `docs/guide/shards.md` has the format.
//!
//! - `manifest`: the origin of the rows, and the settings that they fix
//! - `piece`: a part of a document in a stored row
//! - `write`: a segment under way
//! - `there`: which rows are finished, and how a directory is completed
//! - `segment`: where each row of a segment is
//! - `set`: directories that are read as one source

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::segment::{Segment, Width};
use crate::shards::{
    LIST, PlacedFile, SegmentList, ShardCounts, ShardPlace, StoredSplit, found, remote_splits, tokenizer_file,
};
use crate::store::Stored;

mod manifest;
mod piece;
mod segment;
mod set;
mod there;
mod write;

pub(crate) use manifest::{ROW_MANIFEST, RowFile, RowManifest, RowOrder, RowRules};
pub(crate) use piece::StoredPiece;
pub(crate) use segment::RowSegment;
pub(crate) use set::{RowRun, RowSet};
pub(crate) use there::{LaneThere, Mark, lanes_there, missing, seal, segment_name};
pub(crate) use write::RowWriter;

/// An open directory of rows.
#[derive(Debug)]
pub(crate) struct Rows {
    place: ShardPlace,
    manifest: RowManifest,
    /// All segments, in the order of the list, each with the number of its lane.
    segments: Vec<(usize, StoredSplit)>,
    /// The files of the segments in a store.
    remote: Vec<PlacedFile>,
    /// The file of the tokenizer, if it has one. For a store, a local copy.
    tokenizer: Option<PathBuf>,
}

impl Rows {
    /// Opens a directory whose rows are whole. Segments in stores are numbered from `first` on. It blocks.
    ///
    /// # Errors
    /// [`Error::Corpus`] if rows are missing or a segment is not one of theirs; [`Error::Io`].
    pub(crate) fn open(place: &ShardPlace, first: u32) -> Result<Self> {
        let manifest = RowManifest::load(place)?;
        let (identity, width) = (manifest.identity(), manifest.width());
        let Some(list) = SegmentList::load(place, &identity, width)? else {
            return Err(missing(place, &manifest)?);
        };
        let tokenizer = Arc::<str>::from(&*manifest.rules.tokenizer);
        let (mut segments, mut remote) = (Vec::new(), Vec::new());
        match place.directory() {
            Some(directory) => {
                for listed in &list.segments {
                    let path = directory.join(&listed.name);
                    let segment = match Segment::open(&path, &identity, tokenizer.clone()) {
                        Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                            return Err(there::gone(place, &manifest, &listed.name)?);
                        }
                        segment => Arc::new(segment?),
                    };
                    let number =
                        (0..segment.rows().len()).map(|number| StoredSplit::mapped(segment.clone(), number));
                    segments.extend(number.map(|tokens| (listed.name.clone(), tokens)));
                }
            }
            None => {
                remote = found(place, &list.segments)?;
                for ((number, listed), file) in (first..).zip(&list.segments).zip(&remote) {
                    let splits = remote_splits(file, number, listed, width, &tokenizer);
                    segments.extend(splits.map(|tokens| (listed.name.clone(), tokens)));
                }
            }
        }
        let of_lane = |(name, tokens): (String, StoredSplit)| match there::lane_of(&name) {
            Some(lane) if manifest.fits(&tokens) => Ok((lane, tokens)),
            _ => {
                let problem = format!(
                    "{}: this is not a segment of the rows that {ROW_MANIFEST} beside it describes; remove it and \
                     {LIST}, and prepare again",
                    place.of(&name).display()
                );
                Err(Error::Corpus { problem })
            }
        };
        let segments = segments.into_iter().map(of_lane).collect::<Result<_>>()?;
        let tokenizer = tokenizer_file(place)?;
        Ok(Self { place: place.clone(), manifest, segments, remote, tokenizer })
    }

    pub(crate) fn place(&self) -> &ShardPlace {
        &self.place
    }

    pub(crate) fn manifest(&self) -> &RowManifest {
        &self.manifest
    }

    /// The files of the segments that are in a store.
    pub(crate) fn remote(&self) -> &[PlacedFile] {
        &self.remote
    }

    /// The file of the tokenizer that made the ids, if it has one.
    pub(crate) fn tokenizer(&self) -> Option<PathBuf> {
        self.tokenizer.clone()
    }

    /// Reads every block and compares its checksum. `open` opens a segment in a store by its number.
    pub(crate) fn verify(&self, open: impl Fn(u32) -> Result<Arc<dyn Stored>>) -> Result<()> {
        self.segments.iter().try_for_each(|(_, tokens)| tokens.opened(&open)?.verify())
    }

    /// How many ids the rows have, padding included.
    pub(crate) fn counts(&self) -> ShardCounts {
        let tokens = self.segments.iter().map(|(_, tokens)| tokens.ids() as u64).sum();
        ShardCounts { documents: 0, tokens }
    }
}

/// How many bytes an id of a vocabulary takes.
fn width_of(vocab_size: usize) -> Width {
    Width::for_vocab(vocab_size)
}
