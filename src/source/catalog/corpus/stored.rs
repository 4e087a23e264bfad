//! The stored tokens of a corpus, which replace its files, and their segments.

use std::ops::Range;
use std::sync::Arc;

use super::Corpus;
use crate::error::Result;
use crate::files::Files;
use crate::shards::{ShardSet, Shards, StoredSplit};
use crate::store::{Cancellable, FileOpener};

impl Corpus {
    /// The files and the segments in stores, and where those of each source begin among them.
    pub(super) fn with_segments(&self) -> (Arc<Files>, Vec<u32>) {
        let (mut all, mut first) = (Vec::new(), Vec::new());
        for (number, source) in self.sources.iter().enumerate() {
            first.push((self.files.len() + all.len()) as u32);
            all.extend(source.origin.remote().map(|segment| segment.in_source(number)));
        }
        match all.is_empty() {
            true => (self.files.clone(), first),
            false => (Arc::new(Files::new(self.files.iter().cloned().chain(all).collect())), first),
        }
    }

    /// The token shards that hold a file's tokens, and its number there.
    pub(crate) fn shards_of(&self, file: u32) -> Option<(&Shards, usize)> {
        let shards = self.sources.get(self.files[file as usize].source)?.origin.shards()?;
        Some(shards.of_file(self.number_in_source(file) as usize))
    }

    /// The tokens of a split, if they are stored.
    pub(crate) fn tokens(&self, number: u32) -> Option<&StoredSplit> {
        let file = self.first_splits.partition_point(|&first| first <= number) - 1;
        let (shards, nth) = self.shards_of(file as u32)?;
        shards.tokens(number - self.first_splits[file - nth])
    }

    /// The same, ready to be read. A segment in a store is opened through a lane's opener.
    pub(crate) fn open_tokens(&self, number: u32, opener: &FileOpener) -> Result<Option<StoredSplit>> {
        let first = self.first_segment(number);
        let open = |tokens: &StoredSplit| tokens.opened(|segment| opener.open(first + segment));
        self.tokens(number).map(open).transpose()
    }

    /// The token shards of a split's source.
    pub(crate) fn shard_set(&self, number: u32) -> Option<&Arc<ShardSet>> {
        let file = self.first_splits.partition_point(|&first| first <= number) - 1;
        self.sources.get(self.files.get(file)?.source)?.origin.shards()
    }

    /// The number of the first segment of a split's source among the stored files.
    pub(crate) fn first_segment(&self, number: u32) -> u32 {
        let file = self.split(number).file as usize;
        self.first_segments.get(self.files[file].source).copied().unwrap_or_default()
    }

    /// Whether a document begins at `byte` of a file whose tokens are stored; `None` if they are not.
    pub(crate) fn begins_in_shards(&self, file: u32, byte: u64) -> Result<Option<bool>> {
        if self.shards_of(file).is_none() {
            return Ok(None);
        }
        let mut splits = self.splits(file as usize..file as usize + 1);
        let is_of = |number: &u32| (self.split(*number).begin..self.split(*number).end).contains(&byte);
        let Some(split) = splits.find(is_of) else { return Ok(Some(false)) };
        let Some(tokens) = self.open_tokens(split, &self.unplanned(Cancellable::never()))? else {
            return Ok(Some(false));
        };
        let nth = tokens.find(byte)?;
        Ok(Some(nth < tokens.documents() && tokens.entry(nth)?.start.byte == byte))
    }

    /// Whether the tokens of these files are in token shards.
    pub(crate) fn has_shards(&self, files: Range<usize>) -> bool {
        files.clone().next().is_some_and(|first| self.shards_of(first as u32).is_some())
    }
}
