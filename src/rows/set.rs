//! Directories of rows that are read as one source.

use std::path::Path;

use super::{ROW_MANIFEST, RowFile, RowRules, RowSegment, Rows};
use crate::error::{Error, Result};
use crate::shards::{PlacedFile, ScatteredSums, ShardPlace, hex, places_with, sorted};

/// The directories of rows of one source, in the order of their names. Their files are numbered on from one directory
/// to the next.
#[derive(Debug)]
pub(crate) struct RowSet {
    all: Vec<Rows>,
    train: RowRun,
    held_out: RowRun,
    sums: ScatteredSums,
}

/// Rows that are read together, in the order in which they are stored.
#[derive(Debug, Default)]
pub(crate) struct RowRun {
    segments: Vec<RowSegment>,
    /// For each segment, how many rows there are up to its end.
    ends: Vec<u64>,
}

impl RowSet {
    /// Opens all rows at these places: in the place itself, or in each place within it. It blocks.
    ///
    /// # Errors
    /// [`Error::Corpus`] if there are none, if some are missing, or if their rules differ; [`Error::Io`].
    pub(crate) fn open(places: &[ShardPlace]) -> Result<Self> {
        let found =
            places.iter().map(|place| places_with(place, ROW_MANIFEST)).collect::<Result<Vec<_>>>()?;
        let mut remote = 0;
        let open = |place: &ShardPlace| {
            let rows = Rows::open(place, remote)?;
            remote += rows.remote().len() as u32;
            Ok(rows)
        };
        let all = sorted(found.concat()).iter().map(open).collect::<Result<Vec<_>>>()?;
        let first = &all[0];
        for other in &all[1..] {
            if let Some((key, was, is)) = first.manifest().rules.difference(&other.manifest().rules) {
                let problem = format!(
                    "the rows of {} were made with {key} {was}, and those of {} with {is}; prepare them by the same rules, \
                     or name each in a [[source]] of a run of its own",
                    first.place().path().display(),
                    other.place().path().display()
                );
                return Err(Error::Corpus { problem });
            }
        }
        let (mut train, mut held_out, mut first_file) = (RowRun::default(), RowRun::default(), 0);
        for rows in &all {
            let (manifest, files) = (rows.manifest(), rows.manifest().files.len());
            for (lane, tokens) in &rows.segments {
                let run = if manifest.is_held_out(*lane) { &mut held_out } else { &mut train };
                let stride = manifest.rules.stride();
                run.push(RowSegment::new(tokens.clone(), stride, manifest.width(), first_file, files));
            }
            first_file += files as u32;
        }
        Ok(Self { all, train, held_out, sums: ScatteredSums::default() })
    }

    /// The directories. There is at least one.
    pub(crate) fn all(&self) -> &[Rows] {
        &self.all
    }

    /// The settings that the rows fix.
    pub(crate) fn rules(&self) -> &RowRules {
        &self.all[0].manifest().rules
    }

    /// The rows of the training documents, or of those that are held out.
    pub(crate) fn run(&self, is_held_out: bool) -> &RowRun {
        if is_held_out { &self.held_out } else { &self.train }
    }

    /// All files that the rows were made of.
    pub(crate) fn files(&self) -> impl Iterator<Item = &RowFile> {
        self.all.iter().flat_map(|rows| &rows.manifest().files)
    }

    /// Where they are, as errors name it: the first directory.
    pub(crate) fn path(&self) -> &Path {
        self.all[0].place().path()
    }

    /// The reader of rows in stores.
    pub(crate) fn sums(&self) -> &ScatteredSums {
        &self.sums
    }

    /// The segments of all directories that are in stores, in the order of their numbers.
    pub(crate) fn remote(&self) -> impl Iterator<Item = &PlacedFile> {
        self.all.iter().flat_map(Rows::remote)
    }

    /// A short summary of everything that the rows and their numbers follow from.
    pub(crate) fn summary(&self) -> String {
        let identities = self.all.iter().map(|rows| hex(&rows.manifest().identity()));
        format!("{} rows of {}", self.train.len(), identities.collect::<Vec<_>>().join(", "))
    }
}

impl RowRun {
    fn push(&mut self, segment: RowSegment) {
        self.ends.push(self.len() + segment.len() as u64);
        self.segments.push(segment);
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or_default()
    }

    /// The segments.
    pub(crate) fn segments(&self) -> &[RowSegment] {
        &self.segments
    }

    /// The segment that a row is in, and its number there. The row must be less than the length.
    pub(crate) fn at(&self, row: u64) -> (usize, usize) {
        let segment = self.ends.partition_point(|&end| end <= row);
        let before = segment.checked_sub(1).map_or(0, |before| self.ends[before]);
        (segment, (row - before) as usize)
    }

    /// Says that the rows are read in random order.
    pub(crate) fn scatter(&self) {
        self.segments
            .iter()
            .filter_map(|segment| segment.tokens().segment())
            .for_each(|segment| segment.scatter());
    }
}
