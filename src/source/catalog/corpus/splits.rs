//! Which bytes a split has, and how long it is. This is arithmetic over the layouts.

use std::ops::Range;

use super::Corpus;
use crate::config::{Contents, SourceKind};
use crate::error::Unit;
use crate::shards::StoredSplit;
use crate::source::cuts::between;
use crate::source::interleave::Scale;
use crate::source::layout::Layout;
use crate::source::split::{Lines, Split};

impl Corpus {
    /// The splits of consecutive files.
    pub(crate) fn splits(&self, files: Range<usize>) -> Range<u32> {
        self.first_splits[files.start]..self.first_splits[files.end]
    }

    pub(crate) fn source_name(&self, split: u32) -> String {
        let file = self.first_splits.partition_point(|&first| first <= split) - 1;
        let index = self.files.get(file).map_or(0, |file| file.source);
        let name = self.sources.get(index).and_then(|source| source.settings.name.clone());
        name.unwrap_or_else(|| index.to_string())
    }

    /// What tells where a document is among those of the splits that are read side by side.
    pub(crate) fn scale(&self, number: u32) -> Scale {
        Scale::new(self.split(number), self.split_len(number))
    }

    pub(crate) fn split(&self, number: u32) -> Split {
        let file = self.first_splits.partition_point(|&first| first <= number) - 1;
        let nth = number - self.first_splits[file];
        let (begin, end) = match &self.layouts[file] {
            Layout::Even(split_size) => {
                let begin = u64::from(nth) * split_size;
                (begin, self.files[file].len.min(begin.saturating_add(*split_size)))
            }
            other => between(other.places(), nth as usize),
        };
        let lines = self.lines(file, begin);
        let is_exact = matches!(self.layouts[file], Layout::Documents(_));
        let is_found = begin == 0 || is_exact;
        Split { file: file as u32, begin, end, lines, is_found, is_exact }
    }

    /// How the lines of the split that begins at `begin` of a file are known.
    fn lines(&self, file: usize, begin: u64) -> Lines {
        // Token shards have the lines that their source had.
        let kind = self.settings_of(file as u32).map_or(SourceKind::Text, |settings| settings.kind);
        if self.files[file].unit != Unit::Byte {
            return Lines::Unknown;
        }
        match kind.contents() {
            Contents::TextRecords => Lines::FromFile,
            Contents::FramedText if self.format(file as u32).format.shape().is_some() => {
                match &self.layouts[file] {
                    Layout::Even(_) | Layout::Documents(_) => Lines::From(begin),
                    // A JSON array.
                    Layout::Cuts(_) => Lines::FromFile,
                    _ if begin == 0 => Lines::From(0),
                    _ => Lines::Unknown,
                }
            }
            _ => Lines::Unknown,
        }
    }

    /// About how long a split is, in the unit of its file's places. This follows from the cuts and the length of the
    /// file, so token shards know it too.
    pub(crate) fn split_len(&self, number: u32) -> u64 {
        let Split { file, begin, end, .. } = self.split(number);
        let len = self.files[file as usize].len;
        let nth = number - self.first_splits[file as usize];
        let is_within = end < u64::MAX;
        match &self.layouts[file as usize] {
            Layout::Even(_) | Layout::Documents(_) => end.min(len).saturating_sub(begin),
            _ if is_within => end - begin,
            // The last split of records or frames counts as long as the one before.
            _ if nth > 0 => begin - self.split(number - 1).begin,
            _ => len,
        }
    }

    /// About how many stored bytes a split takes.
    pub(crate) fn stored_len(&self, number: u32) -> u64 {
        let file = self.split(number).file as usize;
        let len = self.files[file].len;
        // Records and frames count in other places, whose number is about the end of the last split.
        let last = self.first_splits[file + 1] - 1;
        let places = match &self.layouts[file] {
            Layout::Whole | Layout::Even(_) | Layout::Documents(_) => len,
            Layout::Cuts(_) | Layout::Frames(_) => self.split(last).begin + self.split_len(last),
        };
        (u128::from(self.split_len(number)) * u128::from(len) / u128::from(places.max(1))) as u64
    }

    /// The number of the file that a split is read from, among the stored files, and the bytes there. Reading continues
    /// at `from`, as in [`stored_ranges`](Self::stored_ranges).
    pub(crate) fn planned_ranges(
        &self,
        number: u32,
        from: u64,
        is_open: bool,
        slab_bytes: usize,
    ) -> (u32, Vec<Range<u64>>) {
        match self.tokens(number).map(StoredSplit::remote_ranges) {
            Some(Some((segment, ranges))) => (self.first_segment(number) + segment, ranges),
            Some(None) => (self.split(number).file, Vec::new()),
            None => (self.split(number).file, self.stored_ranges(number, from, is_open, slab_bytes)),
        }
    }

    /// The stored bytes of its file that a split is read from; none if they are unknown. Reading continues at `from`,
    /// or begins at the split's start. The file has to be opened, unless it `is_open`.
    pub(crate) fn stored_ranges(
        &self,
        number: u32,
        from: u64,
        is_open: bool,
        slab_bytes: usize,
    ) -> Vec<Range<u64>> {
        let split = self.split(number);
        let len = self.files[split.file as usize].len;
        // The previous byte tells whether a line begins here.
        let begin = split.begin.max(from).saturating_sub(1);
        let one = |range| vec![range];
        let mut ranges = match &self.layouts[split.file as usize] {
            Layout::Whole => one(0..len),
            Layout::Even(_) | Layout::Documents(_) => one(begin..split.reach(len, slab_bytes)),
            Layout::Frames(frames) => one(frames.stored(begin..split.reach(u64::MAX, slab_bytes))),
            Layout::Cuts(cuts) => {
                cuts.ranges((number - self.first_splits[split.file as usize]) as usize, is_open)
            }
        };
        // A damaged file may name bytes beyond its end.
        ranges.iter_mut().for_each(|range| range.end = range.end.min(len));
        ranges.retain(|range| !range.is_empty());
        ranges
    }
}
