//! A split of a segment in a store, read block by block.

use std::ops::Range;
use std::sync::Arc;

use twox_hash::XxHash3_64;

use crate::error::{Error, Result};
use crate::segment::{BLOCK, SUM, SplitRow, Width, damaged, damaged_block};
use crate::store::Stored;

/// The loaded bytes of a split.
#[derive(Debug)]
pub(super) struct RemoteSplit {
    stored: Arc<dyn Stored>,
    row: SplitRow,
    width: Width,
    /// The checksums of its blocks, once they were needed.
    sums: Vec<u8>,
    /// The blocks that were read last, of the index, of the notes and of the ids.
    index: Blocks,
    notes: Blocks,
    ids: Blocks,
    /// The ids of the last request, after one placeholder id: an arena expects a place before a document.
    held: Vec<u32>,
}

/// Consecutive blocks of a split, whose checksums have been compared.
#[derive(Debug, Default)]
struct Blocks {
    /// Where they begin, in bytes from the split's beginning.
    at: usize,
    bytes: Vec<u8>,
}

impl RemoteSplit {
    pub(super) fn new(stored: Arc<dyn Stored>, row: SplitRow, width: Width) -> Self {
        let [index, notes, ids] = [(); 3].map(|()| Blocks::default());
        Self { stored, row, width, sums: Vec::new(), index, notes, ids, held: vec![0] }
    }

    /// Returns some bytes of the index.
    pub(super) fn index(&mut self, range: Range<usize>) -> Result<&[u8]> {
        self.bytes(|split| &mut split.index, range)
    }

    /// Returns some bytes of the notes.
    pub(super) fn notes(&mut self, range: Range<usize>) -> Result<&[u8]> {
        self.bytes(|split| &mut split.notes, range)
    }

    /// Holds the ids in some bytes, and returns their places among those that are held.
    pub(super) fn hold(&mut self, bytes: Range<usize>) -> Result<Range<usize>> {
        self.bytes(|split| &mut split.ids, bytes.clone())?;
        let at = self.held.len();
        self.width.append(self.ids.get(bytes), &mut self.held);
        Ok(at..self.held.len())
    }

    /// Returns some bytes, after reading the blocks `of` the part that they are in.
    fn bytes(&mut self, of: fn(&mut Self) -> &mut Blocks, range: Range<usize>) -> Result<&[u8]> {
        let mut blocks = std::mem::take(of(self));
        let read = self.read(&mut blocks, range.clone());
        *of(self) = blocks;
        read?;
        Ok(of(self).get(range))
    }

    /// Hands out the ids that are held.
    pub(super) fn take_held(&mut self) -> Vec<u32> {
        std::mem::replace(&mut self.held, vec![0])
    }

    /// Checks all blocks.
    pub(super) fn verify(&mut self) -> Result<()> {
        let mut blocks = Blocks::default();
        for at in (0..self.row.checked(self.width)).step_by(BLOCK) {
            self.read(&mut blocks, at..at + 1)?;
        }
        Ok(())
    }

    /// Makes sure that `blocks` have the bytes `range`. Drops the blocks before them.
    fn read(&mut self, blocks: &mut Blocks, range: Range<usize>) -> Result<()> {
        if range.is_empty() || blocks.has(&range) {
            return Ok(());
        }
        self.read_sums()?;
        let wanted = self.row.blocks_of(&range, self.width);
        let goes_on = (blocks.at..=blocks.end()).contains(&wanted.start);
        let from = match goes_on {
            true => blocks.end(),
            false => wanted.start,
        };
        match goes_on {
            true => drop(blocks.bytes.drain(..wanted.start - blocks.at)),
            false => blocks.bytes.clear(),
        }
        blocks.at = wanted.start;
        let held = blocks.bytes.len();
        blocks.bytes.resize(wanted.len(), 0);
        let into = &mut blocks.bytes[held..];
        let at = self.row.at + from as u64;
        // Reads ahead, unless this was a look at some place in the middle.
        let read = match goes_on || from == 0 {
            true => self.stored.read_at(at, into),
            false => self.stored.look_at(at, into),
        };
        let checked = read.and_then(|()| match damaged_block(into, from, &self.sums) {
            None => Ok(()),
            Some(at) => Err(self.damaged(at)),
        });
        if checked.is_err() {
            *blocks = Blocks::default();
        }
        checked
    }

    fn read_sums(&mut self) -> Result<()> {
        if !self.sums.is_empty() {
            return Ok(());
        }
        let mut sums = vec![0; self.row.blocks(self.width) * SUM];
        self.stored.look_at(self.row.sums_at(self.width), &mut sums)?;
        if XxHash3_64::oneshot(&sums) != self.row.sum {
            return Err(self.damaged(self.row.checked(self.width)));
        }
        self.sums = sums;
        Ok(())
    }

    fn damaged(&self, at: usize) -> Error {
        damaged(self.stored.path(), self.row.at + at as u64)
    }
}

impl Blocks {
    fn end(&self) -> usize {
        self.at + self.bytes.len()
    }

    fn has(&self, range: &Range<usize>) -> bool {
        self.at <= range.start && range.end <= self.end()
    }

    fn get(&self, range: Range<usize>) -> &[u8] {
        match range.is_empty() {
            true => &[],
            false => &self.bytes[range.start - self.at..range.end - self.at],
        }
    }
}
