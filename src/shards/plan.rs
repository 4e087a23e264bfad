//! Which splits go into which segment.
//!
//! The plan follows from the manifest alone, so that processes that share only the output make the same segments.

use std::ops::Range;

use super::Manifest;
use crate::segment::EXTENSION;
use crate::world::World;

/// A segment takes about one part in this many of the corpus, so that many processes can share the work.
const SEGMENTS: u64 = 1024;

/// The bounds on that part, in stored bytes: less would make too many files, and with more, a kill would lose too much.
const LEAST: u64 = 4 << 20;
const MOST: u64 = 512 << 20;

/// The segments of a shard directory: consecutive splits each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentPlan {
    /// The number behind each segment's last split.
    ends: Vec<u32>,
}

impl SegmentPlan {
    /// The segments of the source with this manifest.
    pub(crate) fn new(manifest: &Manifest) -> Self {
        let lens = || {
            manifest.files.iter().flat_map(|file| {
                let splits = file.splits();
                std::iter::repeat_n(file.len / splits.max(1), splits as usize)
            })
        };
        let full = (lens().sum::<u64>() / SEGMENTS).clamp(LEAST, MOST);
        let (mut ends, mut bytes, mut splits) = (Vec::new(), 0, 0);
        for len in lens() {
            (bytes, splits) = (bytes + len, splits + 1);
            if bytes >= full {
                ends.push(splits);
                bytes = 0;
            }
        }
        if ends.last().copied().unwrap_or(0) < splits {
            ends.push(splits);
        }
        Self { ends }
    }

    /// How many segments there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn splits(&self, number: usize) -> Range<u32> {
        let first = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        first..self.ends[number]
    }

    /// The name of the file of segment `number`: the number of its first split.
    pub(crate) fn name(&self, number: usize) -> String {
        format!("{:08}.{EXTENSION}", self.splits(number).start)
    }

    /// The segments that one of several processes makes: every `world.size`-th.
    pub(crate) fn of(&self, world: World) -> impl Iterator<Item = usize> {
        (world.rank..self.len()).step_by(world.size)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::SourceConfig;
    use crate::error::Unit;
    use crate::shards::{Cut, ShardedFile};

    fn manifest(files: &[(u64, u64)]) -> Manifest {
        let file = |(nth, &(len, split)): (usize, &(u64, u64))| ShardedFile {
            path: nth.to_string().into(),
            len,
            unit: Unit::Byte,
            etag: None,
            cut: Cut::Even(split),
            held: 0,
            root: 0,
        };
        let files = files.iter().enumerate().map(file).collect();
        Manifest::new("bytes".to_owned(), 256, SourceConfig::default(), files)
    }

    /// The first and last splits of the segments of such files.
    fn splits(files: &[(u64, u64)]) -> Vec<(u32, u32)> {
        let plan = SegmentPlan::new(&manifest(files));
        (0..plan.len()).map(|segment| plan.splits(segment)).map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn segments_are_neither_tiny_nor_huge() {
        const MIB: u64 = 1 << 20;
        assert_eq!(splits(&[]), [(0, 0); 0]);
        assert_eq!(splits(&[(0, MIB), (5, MIB)]), [(0, 2)]);
        assert_eq!(splits(&[(9 * MIB, MIB)]), [(0, 4), (4, 8), (8, 9)]);
        assert_eq!(
            splits(&[(MIB, MIB), (20 * MIB, 20 * MIB), (MIB, MIB)]),
            [(0, 2), (2, 3)],
            "a split is never cut"
        );
        // A tebibyte in splits of 64 MiB.
        let all = splits(&[(1 << 40, 64 * MIB)]);
        assert_eq!((all.len(), all[0]), (2048, (0, 8)));
    }

    proptest! {
        #[test]
        fn each_split_is_in_one_segment_and_each_segment_in_one_part(
            files in prop::collection::vec((0_u64..1 << 28, 1_u64 << 18..1 << 26), 0..20),
            size in 1_usize..40,
        ) {
            let plan = SegmentPlan::new(&manifest(&files));
            let splits = (0..plan.len()).flat_map(|segment| plan.splits(segment));
            prop_assert!(splits.eq(0..manifest(&files).splits() as u32));
            let mut of_parts: Vec<usize> =
                (0..size).flat_map(|rank| plan.of(World { rank, size }).collect::<Vec<_>>()).collect();
            of_parts.sort_unstable();
            prop_assert!(of_parts.into_iter().eq(0..plan.len()));
            let names: Vec<String> = (0..plan.len()).map(|segment| plan.name(segment)).collect();
            prop_assert!(names.is_sorted_by(|a, b| a < b));
        }
    }
}
