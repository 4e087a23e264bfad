//! Shards that several processes make, each one part.
//!
//! A process leaves a file whose name says which part it makes. So when segments are missing, an error can say which
//! part they belong to. When all segments are there, these files are removed.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;

use serde::Serialize;

use super::{Manifest, SegmentPlan, ShardPlace};
use crate::error::Result;
use crate::world::World;

/// What the names begin with.
const PART: &str = ".part-";

/// Stands between a part's number and the number of parts.
const OF: &str = "-of-";

/// How many missing parts a message names.
const NAMED: usize = 12;

/// The file of a part. Parts are counted from 1.
pub(crate) fn marker(World { rank, size }: World) -> String {
    format!("{PART}{}{OF}{size}", rank + 1)
}

/// The part that a file name stands for.
pub(super) fn marked(name: &OsStr) -> Option<World> {
    let (part, size) = name.to_str()?.strip_prefix(PART)?.split_once(OF)?;
    let (part, size): (usize, usize) = (part.parse().ok()?, size.parse().ok()?);
    (1..=size).contains(&part).then(|| World { rank: part - 1, size })
}

/// How many parts a directory is made in, by the largest number in its file names; 1 if there is none.
pub(crate) fn parts(place: &ShardPlace) -> Result<usize> {
    let (files, _) = place.look()?;
    let sizes = files.keys().filter_map(|name| marked(OsStr::new(name))).map(|world| world.size);
    Ok(sizes.max().unwrap_or(1))
}

/// The progress of one part of the shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PartStatus {
    /// Its number, from 1.
    pub part: usize,
    /// The segments that are there.
    pub segments: usize,
    /// All of its segments.
    pub of: usize,
}

impl PartStatus {
    pub(crate) fn is_done(&self) -> bool {
        self.segments == self.of
    }

    /// How far each of `size` parts is, without these splits.
    pub(crate) fn each(plan: &SegmentPlan, size: usize, unfinished: &HashSet<u32>) -> Vec<Self> {
        let status = |rank| {
            let mut status = Self { part: rank + 1, segments: 0, of: 0 };
            for segment in plan.of(World { rank, size }) {
                status.of += 1;
                let is_there = plan.splits(segment).all(|split| !unfinished.contains(&split));
                status.segments += usize::from(is_there);
            }
            status
        };
        (0..size).map(status).collect()
    }
}

/// A message about the missing splits of incomplete shards, with the remedy.
pub(crate) fn missing(manifest: &Manifest, size: usize, unfinished: &HashSet<u32>) -> String {
    let splits = manifest.splits();
    let there = splits - unfinished.len() as u64;
    let so_far = format!("{there} of {splits} splits are there");
    if size == 1 {
        return format!("{so_far}; prepare again: it goes on where it was stopped");
    }
    let parts = PartStatus::each(&SegmentPlan::new(manifest), size, unfinished);
    let missing: Vec<usize> = parts.iter().filter(|part| !part.is_done()).map(|part| part.part).collect();
    let first = missing.first().copied().unwrap_or(1);
    format!(
        "{so_far}, and of {size} parts these are missing: {}; prepare each of them, such as part {first} of {size}",
        PartNumbers(&missing)
    )
}

/// Numbers of parts in ascending order, as people write them: `3, 7-9`.
pub(crate) struct PartNumbers<'a>(pub(crate) &'a [usize]);

impl fmt::Display for PartNumbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs = self.0.chunk_by(|a, b| a + 1 == *b);
        for (nth, run) in runs.clone().take(NAMED).enumerate() {
            let comma = if nth > 0 { ", " } else { "" };
            match run {
                [only] => write!(f, "{comma}{only}")?,
                [first, .., last] => write!(f, "{comma}{first}-{last}")?,
                [] => {}
            }
        }
        let rest: usize = runs.skip(NAMED).map(<[usize]>::len).sum();
        if rest > 0 { write!(f, " and {rest} more") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_says_its_part() {
        for (rank, size) in [(0, 1), (2, 100), (99, 100)] {
            let world = World { rank, size };
            assert_eq!(marked(OsStr::new(&marker(world))), Some(world));
        }
        for name in [".part-0-of-3", ".part-4-of-3", ".part-1-of-", ".part-x-of-3", "part-1-of-3", ".lock"] {
            assert_eq!(marked(OsStr::new(name)), None, "{name}");
        }
    }

    #[test]
    fn numbers_are_told_in_runs() {
        let said = |numbers: &[usize]| PartNumbers(numbers).to_string();
        assert_eq!(said(&[3]), "3");
        assert_eq!(said(&[1, 2, 3, 7, 9, 10]), "1-3, 7, 9-10");
        let odd: Vec<usize> = (0..20).map(|n| 2 * n + 1).collect();
        assert_eq!(said(&odd), "1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23 and 8 more");
    }
}
