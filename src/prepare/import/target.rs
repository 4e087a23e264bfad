//! A shard directory that tokens are imported into.

use std::ops::Range;
use std::path::Path;

use crate::atomic::write_atomically;
use crate::config::SourceConfig;
use crate::error::{Error, Result};
use crate::location::Location;
use crate::lock::DirLock;
use crate::prepare::ShardCounts;
use crate::prepare::directory::WRITES_SHARDS;
use crate::segment::{Boundary, SegmentWriter, StoredDocument, StoredText, Width};
use crate::shards::{Cut, Manifest, ShardPlace, ShardedFile, Shards, TOKENIZER, seal};
use crate::source::digest;
use crate::tokenizer::Tokenizer;

/// Shards under way. The manifest is written last, so that an unfinished directory is not a shard directory.
pub(super) struct ImportTarget<'a> {
    directory: &'a Path,
    tokenizer: &'a dyn Tokenizer,
    eos: Option<u32>,
    manifest: Manifest,
    writer: SegmentWriter,
    splits: u32,
    done: ShardCounts,
    _lock: DirLock,
}

impl<'a> ImportTarget<'a> {
    /// Starts the shards of a source's files, in a directory that has none.
    pub(super) fn new(
        directory: &'a Path,
        tokenizer: &'a dyn Tokenizer,
        eos: Option<u32>,
        source: SourceConfig,
        files: Vec<ShardedFile>,
    ) -> Result<Self> {
        if Location::named(directory).is_remote() {
            let problem = "tokens are imported on this machine; name a directory, and copy it to the store";
            return Err(Error::config(directory.display().to_string(), problem));
        }
        let lock = DirLock::take(directory, WRITES_SHARDS)?;
        if Manifest::is_in(directory) || Shards::has_segments(directory)? {
            return Err(occupied(directory));
        }
        let manifest = Manifest::new(tokenizer.fingerprint(), tokenizer.vocab_size(), source, files);
        let writer =
            SegmentWriter::new(directory, Width::for_vocab(tokenizer.vocab_size()), &manifest.identity())?;
        Ok(Self {
            directory,
            tokenizer,
            eos,
            manifest,
            writer,
            splits: 0,
            done: ShardCounts::default(),
            _lock: lock,
        })
    }

    /// Appends a document, without the id that ends it. Returns false if it has no other ids. The error has the number
    /// of the first invalid id, and its problem.
    pub(super) fn document(
        &mut self,
        ids: impl Iterator<Item = u64>,
        place: Range<u64>,
    ) -> Result<Result<bool, (u64, String)>> {
        let vocab_size = self.tokenizer.vocab_size();
        let mut ids: Vec<u64> = ids.collect();
        ids.pop_if(|last| Some(*last) == self.eos.map(u64::from));
        let known = |(nth, id): (usize, &u64)| {
            let id = u32::try_from(*id).ok().filter(|id| (*id as usize) < vocab_size);
            id.ok_or(nth)
        };
        let held: Vec<u32> = match ids.iter().enumerate().map(known).collect::<Result<_, usize>>() {
            Ok(held) => held,
            Err(nth) => {
                let what = format!(
                    "is {}, beyond the tokenizer's vocabulary of {vocab_size}; name the tokenizer that made it, or the \
                     ids' width",
                    ids[nth]
                );
                return Ok(Err((nth as u64, what)));
            }
        };
        if held.is_empty() {
            return Ok(Ok(false));
        }
        let id_bytes: Vec<u8> = held.iter().flat_map(|id| id.to_le_bytes()).collect();
        let text = StoredText::Bytes(self.tokenizer.decode(&held).len() as u32);
        self.writer.document(StoredDocument {
            ids: &held,
            digest: digest(&id_bytes),
            ..StoredDocument::without_ids(Boundary::record(place.start), text)
        })?;
        self.done.documents += 1;
        self.done.tokens += held.len() as u64;
        Ok(Ok(true))
    }

    pub(super) fn split(&mut self) -> Result<()> {
        self.writer.split(self.splits)?;
        self.splits += 1;
        Ok(())
    }

    /// Notes where file `number` is cut.
    pub(super) fn cut(&mut self, number: usize, cut: Cut) {
        self.manifest.files[number].cut = cut;
    }

    /// Finishes the directory. `from` is the origin of the tokens.
    pub(super) fn finish(self, from: &Path) -> Result<ShardCounts> {
        if self.done.documents == 0 {
            return Err(Error::Corpus { problem: format!("{}: it has no documents", from.display()) });
        }
        self.writer.finish()?;
        if let Some(json) = self.tokenizer.tokenizer_json() {
            write_atomically(&self.directory.join(TOKENIZER), json.as_bytes())?;
        }
        let place = ShardPlace::Directory(self.directory.to_owned());
        if !self.manifest.create(&place)? {
            return Err(occupied(self.directory));
        }
        seal(&place, &self.manifest)?;
        Ok(self.done)
    }
}

fn occupied(directory: &Path) -> Error {
    let problem =
        format!("{}: there are token shards already; import into an empty directory", directory.display());
    Error::Corpus { problem }
}
