//! The files of a corpus, how documents are stored in them, and their splits.
//!
//! Split k of a text file holds the documents that begin in its bytes from k × split on and before (k + 1) × split.
//! This is arithmetic over the file's length, so opening a corpus of text reads only the first bytes of long files.
//! When a lane comes to a split, it looks for the split's first document, and it stops at the first document that
//! begins beyond the split. So neighbours agree without talking to each other: the cut between them is the first place
//! at or after (k + 1) × split where a document may begin. A compressed file is cut between frames that can be found;
//! otherwise it is one split. Files of other formats are cut where their bytes allow it: a table between its row
//! groups.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::{self, StreamExt, TryStreamExt};

use super::origin::Origin;
use super::resolved::Resolved;
use crate::budget::Budget;
use crate::config::{DocumentKind, SourceConfig, SourceKind, StoreConfig};
use crate::error::{Error, Result, Unit};
use crate::files::{File, Files, Location};
use crate::shards::{ShardSet, Shards, StoredSplit};
use crate::source::abreast;
use crate::source::content::{Content, Pipe};
use crate::source::cuts::between;
use crate::source::formats::{Candidate, Opened, SourceFormat, Unopened};
use crate::source::layout::{Laid, Layout};
use crate::source::nominal::{LONGEST, Nominal};
use crate::source::split::{Lines, Split};
use crate::store::{Leashed, Shelf, Stores};
use crate::tasks::blocking;

/// How many files are looked at concurrently, so that a store's latency is not paid once for each.
const LOOKED_AT: usize = 32;

/// The files, the format of each source, and their splits.
#[derive(Debug)]
pub(crate) struct Corpus {
    pub(crate) files: Arc<Files>,
    /// The files and, after them, the segments of token shards in stores.
    stored: Arc<Files>,
    /// For each source, the number of its first segment among these.
    first_segments: Vec<u32>,
    formats: Arc<[SourceFormat]>,
    /// How each file is cut.
    pub(crate) layouts: Vec<Layout>,
    /// The number of each file's first split, and at the end the number of all splits.
    first_splits: Vec<u32>,
    /// Whether each file is one document.
    one_document: Vec<bool>,
    /// Whether any file is remote.
    is_remote: bool,
    /// Where remote files are read from.
    pub(crate) stores: Arc<Stores>,
    /// Where the documents of each source come from.
    pub(crate) origins: Vec<Origin>,
    /// About how much memory an open split of each file takes, in bytes; 0 for files that were not looked at.
    pub(crate) held: Vec<u64>,
    /// The settings of each source that the order depends on.
    pub(crate) settings: Vec<SourceConfig>,
    /// Standard input, until it is read.
    stdin: Mutex<Option<Pipe>>,
}

impl Corpus {
    /// Lists the splits of `files`. Reads a file only if its bytes alone say how it is cut.
    pub(crate) async fn new(
        files: Files,
        sources: Vec<Resolved>,
        stores: Arc<Stores>,
        leashed: &Leashed,
    ) -> Result<Self> {
        let formats = sources.iter().enumerate().map(|(index, source)| {
            let first = files.partition_point(|file| file.source < index);
            let behind = files.partition_point(|file| file.source <= index);
            SourceFormat::new(
                index,
                &source.reads,
                Nominal::new(&files[first..behind], source.settings.split),
            )
        });
        let formats = formats.collect::<Result<_>>()?;
        let longest = longest_of_each(&files);
        let mut corpus = Self {
            first_splits: Vec::with_capacity(files.len() + 1),
            layouts: Vec::new(),
            held: Vec::new(),
            one_document: Vec::new(),
            is_remote: files.iter().any(|file| file.location.is_remote()),
            files: Arc::new(files),
            stored: Files::none(),
            first_segments: Vec::new(),
            formats,
            origins: sources.iter().map(|source| source.origin.clone()).collect(),
            settings: sources.into_iter().map(|source| source.settings).collect(),
            stores,
            stdin: Mutex::new(Some(Pipe::new(std::io::stdin()))),
        };
        (corpus.stored, corpus.first_segments) = corpus.with_segments();
        let numbers = 0..corpus.files.len() as u32;
        (corpus.layouts, corpus.held) = numbers.clone().map(|number| corpus.given(number)).unzip();
        let is_one = |number| match corpus.shards_of(number) {
            Some((shards, _)) => shards.manifest().source.document == DocumentKind::File,
            None => corpus.format(number).is_one_document(),
        };
        corpus.one_document = numbers.clone().map(is_one).collect();
        let is_unknown = |number: &u32| corpus.is_looked_at(*number, longest.contains(number));
        let unknown: Vec<u32> = numbers.filter(is_unknown).collect();
        // By value: with references the compiler could not tell that a thread may take this future over.
        let looks = stream::iter(unknown.clone()).map(|number| corpus.look(number, leashed));
        let found: Vec<Laid> = looks.buffered(LOOKED_AT).try_collect().await?;
        for (number, Laid { layout, held }) in unknown.into_iter().zip(found) {
            (corpus.layouts[number as usize], corpus.held[number as usize]) = (layout, held);
        }
        let mut splits = 0_u64;
        for (file, layout) in corpus.files.iter().zip(&corpus.layouts) {
            corpus.first_splits.push(splits as u32);
            splits += layout.splits(file.len);
            if splits > u64::from(u32::MAX) {
                let key = format!("source.{}.split", file.source);
                return Err(Error::config(key, "the files have more than 2^32 - 1 splits; raise it"));
            }
        }
        corpus.first_splits.push(splits as u32);
        Ok(corpus)
    }

    /// What stands for documents that the program gives: no files.
    pub(crate) fn of_program() -> Self {
        Self {
            files: Files::none(),
            stored: Files::none(),
            first_segments: Vec::new(),
            formats: Arc::default(),
            layouts: Vec::new(),
            held: Vec::new(),
            one_document: Vec::new(),
            first_splits: vec![0],
            origins: vec![Origin::Program],
            settings: Vec::new(),
            is_remote: false,
            stores: Arc::new(Stores::new(&StoreConfig::default())),
            stdin: Mutex::default(),
        }
    }

    /// The files and the segments in stores, and where those of each source begin among them.
    fn with_segments(&self) -> (Arc<Files>, Vec<u32>) {
        let (mut all, mut first) = (Vec::new(), Vec::new());
        for (source, origin) in self.origins.iter().enumerate() {
            first.push((self.files.len() + all.len()) as u32);
            all.extend(origin.remote().into_iter().map(|segment| segment.in_source(source)));
        }
        match all.is_empty() {
            true => (self.files.clone(), first),
            false => (Arc::new(Files::new(self.files.iter().cloned().chain(all).collect())), first),
        }
    }

    /// A shelf that is told what will be read of these files.
    pub(crate) fn planned(
        &self,
        files: Range<usize>,
        budget: Option<&Arc<Budget>>,
        leashed: Leashed,
    ) -> Shelf {
        let places = if self.has_shards(files) { StoredSplit::PLACES } else { 1 };
        Shelf::new(self.stored.clone(), self.stores.clone(), budget, leashed, places)
    }

    /// A shelf of files that are read here and there, or that are all local.
    pub(crate) fn unplanned(&self, leashed: Leashed) -> Shelf {
        Shelf::unplanned(self.stored.clone(), self.stores.clone(), leashed)
    }

    /// How a file is cut, and what a split of it takes, if that is known without looking at the file.
    fn given(&self, number: u32) -> (Layout, u64) {
        let Some((shards, nth)) = self.shards_of(number) else { return (Layout::Whole, 0) };
        let file = &shards.manifest().files[nth];
        (file.cut.clone().into(), file.held)
    }

    /// Whether a file has to be looked at to know how it is cut, or how much memory the files of its source take.
    fn is_looked_at(&self, number: u32, is_longest: bool) -> bool {
        let SourceFormat { format, nominal, .. } = self.format(number);
        let is_long = self.files[number as usize].len > nominal.bytes;
        let is_first = self.number_in_source(number) == 0;
        !self.is_stored(number) && format.looks_at(Candidate { is_first, is_long, is_longest })
    }

    /// Looks at how a file is cut, on a blocking thread, once the future is polled.
    fn look(&self, number: u32, leashed: &Leashed) -> impl Future<Output = Result<Laid>> + use<> {
        let formats = self.formats.clone();
        let source = self.files[number as usize].source;
        let shelf = self.unplanned(leashed.clone());
        blocking("source", move || {
            let SourceFormat { format, nominal, .. } = &formats[source];
            format.layout(Unopened::new(&shelf, number), nominal)
        })
    }

    /// The token shards that hold a file's tokens, and its number there.
    fn shards_of(&self, file: u32) -> Option<(&Shards, usize)> {
        let shards = self.origins.get(self.files[file as usize].source)?.shards()?;
        Some(shards.of_file(self.number_in_source(file) as usize))
    }

    /// Whether a file is not read, but its tokens or rows are.
    fn is_stored(&self, file: u32) -> bool {
        let origin = self.origins.get(self.files[file as usize].source);
        matches!(origin, Some(Origin::Shards(_) | Origin::Rows(_)))
    }

    /// The number of the first segment of a source among what is stored.
    pub(crate) fn first_segment_of(&self, source: usize) -> u32 {
        self.first_segments.get(source).copied().unwrap_or_default()
    }

    /// The tokens of a split, if they are stored.
    pub(crate) fn tokens(&self, number: u32) -> Option<&StoredSplit> {
        let file = self.first_splits.partition_point(|&first| first <= number) - 1;
        let (shards, nth) = self.shards_of(file as u32)?;
        shards.tokens(number - self.first_splits[file - nth])
    }

    /// The same, ready to be read. A segment in a store is opened on a lane's shelf.
    pub(crate) fn open_tokens(&self, number: u32, shelf: &Shelf) -> Result<Option<StoredSplit>> {
        let first = self.first_segment(number);
        let open = |tokens: &StoredSplit| tokens.opened(|segment| shelf.open(first + segment));
        self.tokens(number).map(open).transpose()
    }

    /// The token shards of a split's source.
    pub(crate) fn shard_set(&self, number: u32) -> Option<&Arc<ShardSet>> {
        let file = self.first_splits.partition_point(|&first| first <= number) - 1;
        self.origins.get(self.files.get(file)?.source)?.shards()
    }

    /// The number of the first segment of a split's source among what is stored.
    pub(crate) fn first_segment(&self, number: u32) -> u32 {
        let file = self.split(number).file as usize;
        self.first_segments.get(self.files[file].source).copied().unwrap_or_default()
    }

    /// Whether a document begins at `byte` of a file whose tokens are stored; `None` if they are not.
    pub(crate) fn begins_in_shards(&self, file: u32, byte: u64) -> Result<Option<bool>> {
        if self.is_stored(file) && self.shards_of(file).is_none() {
            // Rows are found by their numbers, and do not say where a document is.
            return Ok(Some(true));
        }
        if self.shards_of(file).is_none() {
            return Ok(None);
        }
        let mut splits = self.splits(file as usize..file as usize + 1);
        let is_of = |number: &u32| (self.split(*number).begin..self.split(*number).end).contains(&byte);
        let Some(split) = splits.find(is_of) else { return Ok(Some(false)) };
        let Some(tokens) = self.open_tokens(split, &self.unplanned(Leashed::free()))? else {
            return Ok(Some(false));
        };
        let nth = tokens.find(byte)?;
        Ok(Some(nth < tokens.documents() && tokens.entry(nth)?.start.0 == byte))
    }

    /// Opens a file on a lane's shelf.
    pub(crate) fn open(&self, number: u32, shelf: &Shelf) -> Result<Opened> {
        let format = &self.format(number).format;
        if let (true, Some(shape)) = (self.is_stdin(number), format.shape()) {
            let pipe = self.stdin.lock().unwrap_or_else(PoisonError::into_inner).take();
            let problem = "standard input is read by another stream already, and comes only once";
            let pipe = pipe.ok_or_else(|| Error::Corpus { problem: problem.to_owned() })?;
            return Ok(Opened::Text(Content::piped(pipe), shape));
        }
        format.open(Unopened::new(shelf, number), &self.layouts[number as usize])
    }

    /// Whether a file is standard input.
    pub(crate) fn is_stdin(&self, number: u32) -> bool {
        self.files[number as usize].location == Location::Stdin
    }

    /// Whether some of these files are read from stores, or their tokens are.
    pub(crate) fn has_remote(&self, files: Range<usize>) -> bool {
        let Some(first) = self.files.get(files.start).filter(|_| !files.is_empty()) else { return false };
        let sources = first.source..=self.files[files.end - 1].source;
        let is_stored = self.is_stored(files.start as u32);
        self.origins[sources].iter().any(|origin| !origin.remote().is_empty())
            || !is_stored && self.is_of_stores(files)
    }

    /// Whether some of these files are in stores, or were when token shards were made of them.
    pub(crate) fn is_of_stores(&self, files: Range<usize>) -> bool {
        self.is_remote && self.files[files].iter().any(|file| file.location.is_remote())
    }

    pub(crate) fn format(&self, file: u32) -> &SourceFormat {
        &self.formats[self.files[file as usize].source]
    }

    /// The settings of the source that a file is of. Token shards of one source may have been made from several.
    fn settings_of(&self, file: u32) -> Option<&SourceConfig> {
        match self.shards_of(file) {
            Some((shards, _)) => Some(&shards.manifest().source),
            None => self.settings.get(self.files[file as usize].source),
        }
    }

    /// Whether a file is one document.
    pub(crate) fn is_one_document(&self, file: u32) -> bool {
        self.one_document[file as usize]
    }

    /// The number of a file within its source.
    pub(crate) fn number_in_source(&self, file: u32) -> u32 {
        let source = self.files[file as usize].source;
        file - self.files.partition_point(|file| file.source < source) as u32
    }

    /// The splits of consecutive files.
    pub(crate) fn splits(&self, files: Range<usize>) -> Range<u32> {
        self.first_splits[files.start]..self.first_splits[files.end]
    }

    /// The name of the source that a split is of.
    pub(crate) fn source_name(&self, split: u32) -> String {
        let file = self.first_splits.partition_point(|&first| first <= split) - 1;
        let index = self.files.get(file).map_or(0, |file| file.source);
        let name = self.settings.get(index).and_then(|settings| settings.name.clone());
        name.unwrap_or_else(|| index.to_string())
    }

    pub(crate) fn split(&self, number: u32) -> Split {
        let file = self.first_splits.partition_point(|&first| first <= number) - 1;
        let nth = number - self.first_splits[file];
        let (begin, end) = match &self.layouts[file] {
            Layout::Whole => (0, u64::MAX),
            Layout::Even(nominal) => {
                let begin = u64::from(nth) * nominal;
                (begin, self.files[file].len.min(begin.saturating_add(*nominal)))
            }
            Layout::Cuts(cuts) => between(cuts.places(), nth as usize),
            Layout::Frames(frames) => between(frames.cuts(), nth as usize),
            Layout::Documents(places) => between(places, nth as usize),
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
        match kind {
            SourceKind::Csv | SourceKind::Tsv => Lines::FromFile,
            SourceKind::Text | SourceKind::Jsonl if self.format(file as u32).format.shape().is_some() => {
                match &self.layouts[file] {
                    Layout::Even(_) | Layout::Documents(_) => Lines::FromSplit,
                    _ if begin == 0 => Lines::FromSplit,
                    _ => Lines::Unknown,
                }
            }
            _ => Lines::Unknown,
        }
    }

    /// About how long a split is, in places of its file. This follows from the cuts and the length of the file, so
    /// token shards know it too.
    pub(crate) fn split_len(&self, number: u32) -> u64 {
        let Split { file, begin, end, .. } = self.split(number);
        let len = self.files[file as usize].len;
        let nth = number - self.first_splits[file as usize];
        let is_within = end < u64::MAX;
        match &self.layouts[file as usize] {
            Layout::Even(_) | Layout::Documents(_) => end.min(len).saturating_sub(begin),
            _ if is_within => end - begin,
            // The last split of records or frames is taken to be as long as the one before.
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

    /// Whether splits of these files can be read side by side: they belong to one source, and each may have several
    /// documents.
    pub(crate) fn can_be_abreast(&self, files: Range<usize>) -> bool {
        let Some(first) = self.files.get(files.start).filter(|_| !files.is_empty()) else { return false };
        let is_one_source = first.source == self.files[files.end - 1].source;
        let number = files.start as u32;
        is_one_source && !self.is_stdin(number) && !self.format(number).is_one_document()
    }

    /// Whether the tokens of these files are in token shards.
    pub(crate) fn has_shards(&self, files: Range<usize>) -> bool {
        files.clone().next().is_some_and(|first| self.shards_of(first as u32).is_some())
    }

    /// About how much memory an open split of these files takes, in bytes: the average over those that take some.
    pub(crate) fn held(&self, files: Range<usize>) -> u64 {
        let held = self.held[files].iter().filter(|held| **held > 0);
        let (sum, files) = held.fold((0_u64, 0_u64), |(sum, n), held| (sum.saturating_add(*held), n + 1));
        sum / files.max(1)
    }

    /// How many splits of these files each of `lanes` should read side by side, at most `most`. The memory that they
    /// take is bounded, and so is their text if the config sets the length of splits.
    pub(crate) fn abreast(&self, files: Range<usize>, most: usize, lanes: usize) -> usize {
        if !self.can_be_abreast(files.clone()) {
            return 1;
        }
        let held = self.held(files.clone()).max(1).saturating_mul(lanes as u64);
        let of_held = usize::try_from(abreast::MOST_HELD / held).unwrap_or(most);
        let nominal = &self.format(files.start as u32).nominal;
        let of_bytes = match nominal.is_auto {
            true => most,
            false => usize::try_from(abreast::MOST_BYTES / nominal.bytes).unwrap_or(most),
        };
        most.min(of_bytes).min(of_held).max(1)
    }

    /// The number of the file that a split is read from, among what is stored, and the bytes there. Reading goes on at
    /// `from`, as in [`stored_ranges`](Self::stored_ranges).
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

    /// The stored bytes of its file that a split is read from; none if they are not known. Reading goes on at `from`,
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

/// The longest file of each source that has long ones: it tells how much memory such a file takes, where no file is
/// longer than a split.
fn longest_of_each(files: &[File]) -> Vec<u32> {
    let mut longest: Vec<u32> = Vec::new();
    for (number, file) in (0..).zip(files).filter(|(_, file)| file.len > LONGEST) {
        match longest.last_mut() {
            Some(last) if files[*last as usize].source == file.source => {
                if files[*last as usize].len < file.len {
                    *last = number;
                }
            }
            _ => longest.push(number),
        }
    }
    longest
}
