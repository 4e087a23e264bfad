//! Reads some bytes of many splits at once, in any order: from mapped segments in place, and from segments in stores by
//! joint requests.
//!
//! Every block is compared with its checksum. The checksums of a split in a store are requested with its first block,
//! and kept for all lanes.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use twox_hash::XxHash3_64;

use super::split::{RemotePiece, StoredSplit};
use crate::error::{Error, Result};
use crate::segment::{BLOCK, damaged, damaged_block};
use crate::threads::lock;

/// How many bytes of checksums are kept: enough for 128 GiB of tokens.
const MOST_SUMS: usize = 64 << 20;

/// Some bytes of a split, counted from its beginning.
#[derive(Debug)]
pub(crate) struct Piece<'a> {
    pub(crate) tokens: &'a StoredSplit,
    pub(crate) bytes: Range<usize>,
}

/// Bytes of a segment in a store: its number among those of the source, and where they are in it.
pub(crate) type SegmentRange = (u32, Range<u64>);

/// The checksums of splits in stores: as many of those that were read as there is room for.
#[derive(Debug, Default)]
pub(crate) struct ScatteredSums(Mutex<HeldSums>);

#[derive(Debug, Default)]
struct HeldSums {
    /// By the number of the segment, and where the split begins in it.
    of_splits: HashMap<(u32, u64), Arc<[u8]>>,
    bytes: usize,
}

impl ScatteredSums {
    /// Passes the bytes of each piece to `each`, in order, with its number. `fetch` requests bytes of segments in stores.
    pub(crate) fn read<B: AsRef<[u8]>>(
        &self,
        pieces: &[Piece<'_>],
        fetch: impl Fn(Vec<SegmentRange>) -> Result<Vec<B>>,
        mut each: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        pieces.iter().for_each(|piece| piece.tokens.will_need(piece.bytes.clone()));
        let remote: Vec<_> =
            pieces.iter().filter_map(|piece| Some((piece.tokens.remote_piece()?, piece))).collect();
        let mut fetched = match remote.is_empty() {
            true => Vec::new(),
            false => self.fetched(&remote, fetch)?,
        }
        .into_iter();
        for (number, piece) in pieces.iter().enumerate() {
            match piece.tokens.remote_piece() {
                None => each(number, piece.tokens.mapped_bytes(piece.bytes.clone())?)?,
                Some(_) => {
                    let blocks = fetched.next();
                    let within = piece.bytes.start % BLOCK;
                    let bytes = blocks.as_ref().map_or(&[][..], B::as_ref);
                    each(number, &bytes[within..within + piece.bytes.len()])?;
                }
            }
        }
        Ok(())
    }

    /// The whole blocks that the pieces are in.
    fn fetched<B: AsRef<[u8]>>(
        &self,
        remote: &[(RemotePiece<'_>, &Piece<'_>)],
        fetch: impl Fn(Vec<SegmentRange>) -> Result<Vec<B>>,
    ) -> Result<Vec<B>> {
        let mut sums = self.held(remote.iter().map(|(split, _)| split));
        let unknown: Vec<RemotePiece<'_>> = {
            let mut unknown = HashMap::new();
            let missing = remote.iter().filter(|(split, _)| !sums.contains_key(&split.key()));
            missing.for_each(|(split, _)| _ = unknown.insert(split.key(), *split));
            unknown.into_values().collect()
        };
        let blocks =
            remote.iter().map(|(split, piece)| split.range(&split.row.blocks_of(&piece.bytes, split.width)));
        let all = unknown.iter().map(RemotePiece::sums).chain(blocks).collect();
        let mut found = fetch(all)?;
        let blocks = found.split_off(unknown.len());
        for (split, bytes) in unknown.iter().zip(found) {
            let bytes: Arc<[u8]> = bytes.as_ref().into();
            if XxHash3_64::oneshot(&bytes) != split.row.sum {
                return Err(split.damaged(split.row.checked(split.width)));
            }
            self.hold(split.key(), &bytes);
            sums.insert(split.key(), bytes);
        }
        for ((split, piece), bytes) in remote.iter().zip(&blocks) {
            if let Some(at) = damaged_block(bytes.as_ref(), piece.bytes.start, &sums[&split.key()]) {
                return Err(split.damaged(at));
            }
        }
        Ok(blocks)
    }

    /// The checksums of some splits, as far as they are held.
    fn held<'a>(&self, splits: impl Iterator<Item = &'a RemotePiece<'a>>) -> HashMap<(u32, u64), Arc<[u8]>> {
        let held = lock(&self.0);
        splits.filter_map(|split| Some((split.key(), held.of_splits.get(&split.key())?.clone()))).collect()
    }

    /// Keeps the checksums of a split. If there is no room, drops all others.
    fn hold(&self, key: (u32, u64), sums: &Arc<[u8]>) {
        let mut held = lock(&self.0);
        if held.bytes + sums.len() > MOST_SUMS {
            *held = HeldSums::default();
        }
        let HeldSums { of_splits, bytes } = &mut *held;
        if let Slot::Vacant(slot) = of_splits.entry(key) {
            *bytes += sums.len();
            slot.insert(sums.clone());
        }
    }
}

impl RemotePiece<'_> {
    fn key(&self) -> (u32, u64) {
        (self.segment.number, self.row.at)
    }

    /// Where bytes of the split are in its segment.
    fn range(&self, bytes: &Range<usize>) -> SegmentRange {
        (self.segment.number, self.row.at + bytes.start as u64..self.row.at + bytes.end as u64)
    }

    /// Where the checksums of the split are.
    fn sums(&self) -> SegmentRange {
        (self.segment.number, self.row.sums_at(self.width)..self.row.end(self.width))
    }

    fn damaged(&self, at: usize) -> Error {
        damaged(&self.segment.path, self.row.at + at as u64)
    }
}
