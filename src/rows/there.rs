//! Finds the finished rows of a directory in the making, and completes it when all are there.
//!
//! Each lane makes its segments one after the other. Beside each lies a mark: where the lane continues after it. So a
//! stopped run continues after the last whole segment of each lane.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use serde::{Deserialize, Serialize};

use super::RowManifest;
use crate::cursor::LaneCursor;
use crate::error::{Error, Result};
use crate::segment::Segment;
use crate::shards::{
    LIST, ListedSegment, PartNumbers, PlacedFile, SegmentList, ShardPlace, marked, parts, tables,
};

/// The endings of segments and of their marks.
const SEGMENT: &str = "rows";
const MARK: &str = "mark";

/// The bound on the length of a mark, in bytes.
const MARK_BYTES: u64 = 64 << 10;

/// Where a lane continues after a segment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mark {
    /// How many rows the segment has. One without rows has no file.
    pub(crate) rows: u64,
    /// Whether the lane ends with it.
    pub(crate) is_end: bool,
    pub(crate) cursor: LaneCursor,
}

/// How far a lane is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneThere {
    /// How many of its segments are there, one after the other.
    pub(crate) segments: usize,
    /// Whether these are all.
    pub(crate) is_whole: bool,
    /// Where it goes on.
    pub(crate) cursor: LaneCursor,
}

impl Mark {
    /// Writes the mark of segment `nth` of a lane.
    pub(crate) fn write(&self, place: &ShardPlace, lane: usize, nth: usize) -> Result<()> {
        let text = serde_json::to_vec(self).map_err(|e| Error::io(place.path(), "write in", e.into()))?;
        place.write(&mark_name(lane, nth), text)
    }

    /// Reads it. A damaged one counts as none.
    fn read(place: &ShardPlace, lane: usize, nth: usize) -> Result<Option<Self>> {
        let text = place.read(&mark_name(lane, nth), MARK_BYTES)?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }
}

/// The name of segment `nth` of a lane.
pub(crate) fn segment_name(lane: usize, nth: usize) -> String {
    format!("{lane:05}-{nth:05}.{SEGMENT}")
}

fn mark_name(lane: usize, nth: usize) -> String {
    format!("{lane:05}-{nth:05}.{MARK}")
}

/// The lane of a segment of this name.
pub(super) fn lane_of(name: &str) -> Option<usize> {
    name.strip_suffix(SEGMENT)?.strip_suffix('.')?.split_once('-')?.0.parse().ok()
}

/// The error for a listed segment that is gone.
pub(super) fn gone(place: &ShardPlace, manifest: &RowManifest, name: &str) -> Result<Error> {
    let (lane, size) = (lane_of(name).unwrap_or_default(), parts(place)?);
    let part = match size {
        1 => "the rows".to_owned(),
        _ => format!("part {} of {size}", lane % size + 1),
    };
    let problem = format!(
        "{}: it is gone, and without it lane {lane} of the {} lanes of rows (they count from 0) is not whole; \
         prepare {part} again: that makes the lane anew",
        place.of(name).display(),
        manifest.lanes()
    );
    Ok(Error::Corpus { problem })
}

/// How far each lane is. A segment whose length differs from the list, if there is one, counts as missing. It blocks.
pub(crate) fn lanes_there(place: &ShardPlace, manifest: &RowManifest) -> Result<Vec<LaneThere>> {
    let (mut files, _) = place.look()?;
    if files.contains_key(LIST) {
        let list = SegmentList::find(place, &manifest.identity(), manifest.width())?;
        let listed = list.map(SegmentList::lengths).unwrap_or_default();
        files.retain(|name, file| listed.get(name).is_none_or(|len| *len == file.len));
    }
    (0..manifest.lanes()).map(|lane| lane_there(place, lane, &files)).collect()
}

fn lane_there(place: &ShardPlace, lane: usize, files: &BTreeMap<String, PlacedFile>) -> Result<LaneThere> {
    let has = |name: String| files.contains_key(&name);
    let is_there = |nth: &usize| has(segment_name(lane, *nth)) && has(mark_name(lane, *nth));
    let segments = (0..).take_while(is_there).count();
    // A lane may end with a mark alone.
    let marks = segments + usize::from(has(mark_name(lane, segments)));
    for nth in (0..marks).rev() {
        match Mark::read(place, lane, nth)? {
            Some(Mark { rows: 0, is_end: true, cursor }) => {
                return Ok(LaneThere { segments: nth, is_whole: true, cursor });
            }
            Some(Mark { rows, is_end, cursor }) if rows > 0 && nth < segments => {
                return Ok(LaneThere { segments: nth + 1, is_whole: is_end, cursor });
            }
            _ => {}
        }
    }
    Ok(LaneThere::default())
}

/// Completes rows that are all there: writes the list of their segments, unless `there` is left out, and removes the
/// files that say which parts were begun. It blocks.
pub(crate) fn seal(place: &ShardPlace, manifest: &RowManifest, there: Option<&Vec<LaneThere>>) -> Result<()> {
    let (files, _) = place.look()?;
    if let Some(there) = there {
        listed(place, manifest, there, &files)?.write(place)?;
    }
    // Another process may have removed them first.
    let mut begun = files.keys().filter(|name| marked(OsStr::new(name)).is_some());
    begun.try_for_each(|name| place.remove(name))
}

/// The list of all segments.
fn listed(
    place: &ShardPlace,
    manifest: &RowManifest,
    there: &[LaneThere],
    files: &BTreeMap<String, PlacedFile>,
) -> Result<SegmentList> {
    let numbers = there.iter().enumerate();
    let names = numbers.flat_map(|(lane, there)| (0..there.segments).map(move |nth| segment_name(lane, nth)));
    let names: Vec<String> = names.collect();
    let (identity, width) = (manifest.identity(), manifest.width());
    let listed = match place.directory() {
        Some(directory) => {
            let open = |name: &String| {
                let tokenizer = manifest.rules.tokenizer.as_str().into();
                let segment = Segment::open(&directory.join(name), &identity, tokenizer)?;
                Ok(ListedSegment::of(&segment))
            };
            names.iter().map(open).collect::<Result<Vec<_>>>()?
        }
        None => {
            let found: Vec<&PlacedFile> = names.iter().filter_map(|name| files.get(name)).collect();
            let tables = tables(place, &found, &identity, width)?;
            let of = |((name, file), rows): ((String, &PlacedFile), Vec<_>)| {
                ListedSegment::new(name, file.len, &rows)
            };
            names.into_iter().zip(found).zip(tables).map(of).collect()
        }
    };
    Ok(SegmentList::new(&identity, listed))
}

/// Returns a message about the missing rows, with the remedy.
pub(crate) fn missing(place: &ShardPlace, manifest: &RowManifest) -> Result<Error> {
    let at = place.path().display();
    if place.is_plain() {
        let problem = format!(
            "{}: there is no list of these rows; copy their whole directory, once all of it is there",
            place.of(LIST).display()
        );
        return Ok(Error::Corpus { problem });
    }
    let (there, size) = (lanes_there(place, manifest)?, parts(place)?);
    let whole = there.iter().filter(|lane| lane.is_whole).count();
    let missing: Vec<usize> = (1..=size)
        .filter(|part| there.iter().skip(part - 1).step_by(size).any(|lane| !lane.is_whole))
        .collect();
    let so_far = format!("{at}: {whole} of {} lanes of rows are there", there.len());
    let problem = match missing.first() {
        None => {
            format!("{at}: all rows are there, and not their list; prepare any part once more")
        }
        Some(_) if size == 1 => {
            format!("{so_far}; prepare again: it goes on where it was stopped")
        }
        Some(first) => format!(
            "{so_far}, and of {size} parts these are missing: {}; prepare each of them, such as part {first} of {size}",
            PartNumbers(&missing)
        ),
    };
    Ok(Error::Corpus { problem })
}
