//! The list of all segments, `segments.json`, which a reader needs before it reads any of them.
//!
//! It is written when all splits are there. In a store it saves a reader the footers of all segments.

use std::collections::HashMap;

use blake3::Hash;
use serde::{Deserialize, Serialize};

use super::{ShardPlace, Shards};
use crate::error::{Error, Result};
use crate::segment::{ROW, Segment, SplitRow, Width};

pub(crate) const LIST: &str = "segments.json";

/// The bound on its length, in bytes.
const MOST_BYTES: u64 = 4 << 30;

/// All segments, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SegmentList {
    /// The manifest's identity, which each segment has too.
    identity: String,
    pub(super) segments: Vec<ListedSegment>,
}

/// One segment: its file, and its table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListedSegment {
    pub(super) name: String,
    pub(super) len: u64,
    splits: Vec<[u64; ROW]>,
}

impl SegmentList {
    pub(super) fn new(identity: &[u8; 32], segments: Vec<ListedSegment>) -> Self {
        Self { identity: Hash::from_bytes(*identity).to_string(), segments }
    }

    /// The list of open shards on this machine.
    pub(super) fn of(shards: &Shards) -> Self {
        Self::new(
            &shards.manifest().identity(),
            shards.segments.iter().map(|segment| ListedSegment::of(segment)).collect(),
        )
    }

    /// Reads the list, if there is one, and checks that each split lies in its segment. A list of segments of another
    /// identity counts as none.
    pub(super) fn load(place: &ShardPlace, identity: &[u8; 32], width: Width) -> Result<Option<Self>> {
        let Some(text) = place.read(LIST, MOST_BYTES)? else { return Ok(None) };
        Self::parse(&text, identity, width).map_err(|what| {
            let problem = format!("this is not a list of segments: {what}");
            Error::prepare_again(place.of(LIST).display(), problem)
        })
    }

    /// As [`load`](Self::load), for whoever can write the list anew: a damaged one counts as none.
    pub(crate) fn find(place: &ShardPlace, identity: &[u8; 32], width: Width) -> Result<Option<Self>> {
        let text = place.read(LIST, MOST_BYTES)?;
        Ok(text.and_then(|text| Self::parse(&text, identity, width).ok().flatten()))
    }

    /// Parses the list; `None` if it lists other segments. The error describes the problem.
    fn parse(text: &[u8], identity: &[u8; 32], width: Width) -> Result<Option<Self>, String> {
        let list: Self = serde_json::from_slice(text).map_err(|e| e.to_string())?;
        if list.identity != Hash::from_bytes(*identity).to_string() {
            return Ok(None);
        }
        let fits = |segment: &&ListedSegment| segment.rows().all(|row| row.fits(width, segment.len));
        match list.segments.iter().find(|segment| !fits(segment)) {
            None => Ok(Some(list)),
            Some(segment) => Err(format!("a split is beyond the end of {}", segment.name)),
        }
    }

    pub(super) fn lengths(self) -> HashMap<String, u64> {
        self.segments.into_iter().map(|segment| (segment.name, segment.len)).collect()
    }

    pub(super) fn write(&self, place: &ShardPlace) -> Result<()> {
        let text = serde_json::to_vec(self).map_err(|e| Error::io(place.path(), "write in", e.into()))?;
        place.write(LIST, text)
    }
}

impl ListedSegment {
    fn of(segment: &Segment) -> Self {
        let name = segment.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self::new(name, segment.len(), segment.rows())
    }

    pub(super) fn new(name: String, len: u64, rows: &[SplitRow]) -> Self {
        Self { name, len, splits: rows.iter().map(|row| row.to_numbers()).collect() }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = SplitRow> {
        self.splits.iter().map(|row| SplitRow::from_numbers(*row))
    }
}
