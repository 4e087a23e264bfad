//! The files of a corpus, how documents lie in them, and their splits.
//!
//! Split k of a text file is the documents that begin in its bytes from k × split on and before (k + 1) × split:
//! arithmetic over the file's length, so that opening a corpus of text reads nothing but the first bytes of long
//! files. A lane looks for the first of them when it comes to the split, and stops at the first document that begins
//! beyond it. So neighbours agree without a word: the cut between them is the first place at or after (k + 1) × split
//! where a document may begin. A compressed file is cut between frames that can be found, and else it is one split.
//! Files of other formats are cut where their bytes say that they can be: a table between its row groups.

use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::{self, StreamExt, TryStreamExt};

use super::abreast;
#[cfg(feature = "columnar")]
use super::columns::{ArrowFormat, Columns, ParquetFormat};
use super::content::{Content, Pipe, packed};
use super::csv::Csv;
use super::cuts::between;
use super::framed;
use super::framing::Shape;
use super::json_path::{Json, parts};
use super::layout::{Laid, Layout};
use super::mds::Mds;
use super::nominal::{LONGEST, Nominal};
use super::patterns::blocking;
use super::records::{RecordFormat, Records};
use super::resolved::Resolved;
use super::split::Split;
use super::tar::Tar;
use super::text_cuts;
use crate::config::{
    ByteCount, DocumentKind, OnError, Oversize, STDIN, SampleConfig, SourceConfig, SourceKind, StoreConfig,
};
use crate::error::{Error, Result, Unit};
use crate::files::{File, Files};
use crate::location::is_url;
use crate::segment::StoredSplit;
use crate::shards::Shards;
use crate::store::{Leashed, Shelf, Stores};

/// How many files are looked at at once, so that the latency of a store is not paid for each.
const LOOKED_AT: usize = 32;

/// The files, the format of each source's, and their splits.
#[derive(Debug)]
pub(super) struct Corpus {
    pub(super) files: Arc<Files>,
    formats: Arc<[Format]>,
    /// How each file is cut.
    pub(super) layouts: Vec<Layout>,
    /// The number of each file's first split, and then the number of all splits.
    first_splits: Vec<u32>,
    /// Whether any file is remote.
    is_remote: bool,
    /// Where remote files are read from.
    pub(super) stores: Arc<Stores>,
    /// The token shards of each source that has some.
    pub(super) shards: Vec<Option<Arc<Shards>>>,
    /// About how many bytes an open split of each file takes in memory, as far as somebody looked.
    pub(super) held: Vec<u64>,
    /// What the order depends on of each source.
    pub(super) settings: Vec<SourceConfig>,
    /// Standard input, until somebody reads it.
    stdin: Mutex<Option<Pipe>>,
}

/// How documents lie in the files of one source.
#[derive(Debug)]
pub(super) struct Format {
    pub(super) documents: Documents,
    /// Where the text lies in a JSON line; none for plain text.
    pub(super) json: Option<Json>,
    pub(super) max: usize,
    pub(super) max_document_bytes: ByteCount,
    pub(super) oversize: Oversize,
    pub(super) on_error: OnError,
    nominal: Nominal,
}

/// What says where documents are.
#[derive(Debug)]
pub(super) enum Documents {
    /// The text itself.
    Framed(Shape),
    /// The file's format.
    Records(Box<dyn RecordFormat>),
}

/// An open file.
#[derive(Debug)]
pub(super) enum Opened {
    Text(Content, Shape),
    Records(Box<dyn Records>),
}

impl Corpus {
    /// It reads files only where their bytes alone say how they are cut.
    pub(super) async fn new(
        files: Files,
        sources: Vec<Resolved>,
        stores: Arc<Stores>,
        leashed: &Leashed,
    ) -> Result<Self> {
        let formats = sources.iter().enumerate().map(|(index, source)| {
            let first = files.partition_point(|file| file.source < index);
            let behind = files.partition_point(|file| file.source <= index);
            Format::new(index, &source.reads, Nominal::new(&files[first..behind], source.settings.split))
        });
        let formats = formats.collect::<Result<_>>()?;
        let longest = longest_of_each(&files);
        let mut corpus = Self {
            first_splits: Vec::with_capacity(files.len() + 1),
            layouts: Vec::new(),
            held: Vec::new(),
            is_remote: files.iter().any(|file| is_url(&file.path.to_string_lossy())),
            files: Arc::new(files),
            formats,
            shards: sources.iter().map(|source| source.shards.clone()).collect(),
            settings: sources.into_iter().map(|source| source.settings).collect(),
            stores,
            stdin: Mutex::new(Some(Pipe::new(std::io::stdin()))),
        };
        let numbers = 0..corpus.files.len() as u32;
        (corpus.layouts, corpus.held) = numbers.clone().map(|number| corpus.given(number)).unzip();
        let is_unknown = |number: &u32| corpus.says_cuts(*number, longest.contains(number));
        let unknown: Vec<u32> = numbers.filter(is_unknown).collect();
        let looks = stream::iter(&unknown).map(|&number| corpus.look(number, leashed));
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

    /// No files.
    pub(super) fn none() -> Self {
        Self {
            files: Files::none(),
            formats: Arc::default(),
            layouts: Vec::new(),
            held: Vec::new(),
            first_splits: vec![0],
            shards: Vec::new(),
            settings: Vec::new(),
            is_remote: false,
            stores: Arc::new(Stores::new(&StoreConfig::default())),
            stdin: Mutex::default(),
        }
    }

    /// How a file is cut, and what a split of it takes, where it need not be looked at.
    fn given(&self, number: u32) -> (Layout, u64) {
        let Some((shards, nth)) = self.shards_of(number) else { return (Layout::Whole, 0) };
        let file = &shards.manifest().files[nth];
        (file.cut.clone().into(), file.held)
    }

    /// Whether a file has to be looked at to know how it is cut, or what the files of its source take in memory. The
    /// first file of a source always is if it has records, so that a column that is not there is found at once.
    fn says_cuts(&self, number: u32, is_longest: bool) -> bool {
        let format = self.format(number);
        let is_long = self.files[number as usize].len > format.nominal.bytes;
        let is_text = self.shards_of(number).is_none();
        is_text
            && match &format.documents {
                Documents::Framed(Shape::File) => false,
                Documents::Framed(_) => is_long || is_longest,
                Documents::Records(records) => {
                    let is_first = self.number_in_source(number) == 0;
                    records.always_says_cuts() || is_long || is_first || is_longest
                }
            }
    }

    /// How a file is cut, on a blocking thread, as soon as somebody asks.
    fn look(&self, number: u32, leashed: &Leashed) -> impl Future<Output = Result<Laid>> + use<> {
        let formats = self.formats.clone();
        let &File { source, len, .. } = &self.files[number as usize];
        let shelf = Shelf::unplanned(self.files.clone(), self.stores.clone(), leashed.clone());
        blocking(move || {
            let (format, stored) = (&formats[source], shelf.open(number)?);
            match &format.documents {
                Documents::Framed(_) if len <= format.nominal.bytes => {
                    Ok(Laid { layout: Layout::Whole, held: packed(&*stored)?.unwrap_or(0) })
                }
                Documents::Framed(shape) => text_cuts::layout(stored, *shape, &format.nominal),
                Documents::Records(records) => records.layout(stored, &format.nominal),
            }
        })
    }

    /// The token shards that a file's tokens are in, and its number there.
    fn shards_of(&self, file: u32) -> Option<(&Arc<Shards>, usize)> {
        let shards = self.shards.get(self.files[file as usize].source)?.as_ref()?;
        Some((shards, self.number_in_source(file) as usize))
    }

    /// The tokens of a split, if they are stored.
    pub(super) fn tokens(&self, number: u32) -> Option<&StoredSplit> {
        let file = self.first_splits.partition_point(|&first| first <= number) - 1;
        let (shards, nth) = self.shards_of(file as u32)?;
        shards.tokens(number - self.first_splits[file - nth])
    }

    /// Whether a document begins at `byte` of a file whose tokens are stored; none if they are not.
    pub(super) fn begins_in_shards(&self, file: u32, byte: u64) -> Result<Option<bool>> {
        let mut splits = self.splits(file as usize..file as usize + 1);
        let is_of = |number: &u32| (self.split(*number).begin..self.split(*number).end).contains(&byte);
        let Some(tokens) = splits.find(is_of).and_then(|number| self.tokens(number)) else {
            return Ok(self.shards_of(file).map(|_| false));
        };
        let nth = tokens.find(byte)?;
        Ok(Some(nth < tokens.documents() && tokens.entry(nth)?.start.0 == byte))
    }

    /// Opens a file of a lane's shelf.
    pub(super) fn open(&self, number: u32, shelf: &Shelf) -> Result<Opened> {
        if let (true, Documents::Framed(shape)) = (self.is_stdin(number), &self.format(number).documents) {
            let pipe = self.stdin.lock().unwrap_or_else(PoisonError::into_inner).take();
            let problem = "standard input is read by another stream already, and comes only once";
            let pipe = pipe.ok_or_else(|| Error::Corpus { problem: problem.to_owned() })?;
            return Ok(Opened::Text(Content::piped(pipe), *shape));
        }
        let stored = shelf.open(number)?;
        Ok(match &self.format(number).documents {
            Documents::Framed(shape) => {
                let content = match &self.layouts[number as usize] {
                    Layout::Even(_) | Layout::Documents(_) => Content::plain(stored),
                    Layout::Frames(frames) => Content::in_frames(stored, frames.clone())?,
                    Layout::Whole | Layout::Cuts(_) => Content::open(stored)?,
                };
                Opened::Text(content, *shape)
            }
            Documents::Records(records) => Opened::Records(records.open(stored)?),
        })
    }

    /// Whether a file is standard input.
    pub(super) fn is_stdin(&self, number: u32) -> bool {
        self.files.path(number) == Path::new(STDIN)
    }

    /// Whether some of these files are read from stores.
    pub(super) fn has_remote(&self, files: Range<usize>) -> bool {
        self.is_remote
            && !self.has_shards(files.clone())
            && self.files[files].iter().any(|file| is_url(&file.path.to_string_lossy()))
    }

    pub(super) fn format(&self, file: u32) -> &Format {
        &self.formats[self.files[file as usize].source]
    }

    /// The number of a file among those of its source, whichever sources stand before it.
    pub(super) fn number_in_source(&self, file: u32) -> u32 {
        let source = self.files[file as usize].source;
        file - self.files.partition_point(|file| file.source < source) as u32
    }

    /// The splits of some files that follow each other.
    pub(super) fn splits(&self, files: Range<usize>) -> Range<u32> {
        self.first_splits[files.start]..self.first_splits[files.end]
    }

    pub(super) fn split(&self, number: u32) -> Split {
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
        // Token shards of other formats have no lines either.
        let is_lined = self.settings.get(self.files[file].source).is_none_or(|settings| {
            let kind = settings.kind;
            matches!(kind, SourceKind::Text | SourceKind::Jsonl) && self.files[file].unit == Unit::Byte
        });
        let is_framed = is_lined && matches!(self.format(file as u32).documents, Documents::Framed(_));
        let has_lines =
            is_framed && (begin == 0 || matches!(self.layouts[file], Layout::Even(_) | Layout::Documents(_)));
        let is_exact = matches!(self.layouts[file], Layout::Documents(_));
        let is_found = begin == 0 || is_exact;
        Split { file: file as u32, begin, end, has_lines, is_found, is_exact }
    }

    /// About how long a split is, in places of its file. It follows from where the file is cut and from its length, so
    /// that token shards know it too.
    pub(super) fn split_len(&self, number: u32) -> u64 {
        let Split { file, begin, end, .. } = self.split(number);
        let len = self.files[file as usize].len;
        let nth = number - self.first_splits[file as usize];
        let is_within = end < u64::MAX;
        match &self.layouts[file as usize] {
            Layout::Even(_) | Layout::Documents(_) => end.min(len).saturating_sub(begin),
            _ if is_within => end - begin,
            // The last one of records or frames is taken to be as long as the one before.
            _ if nth > 0 => begin - self.split(number - 1).begin,
            _ => len,
        }
    }

    /// About how many bytes a split takes as it is stored.
    pub(super) fn stored_len(&self, number: u32) -> u64 {
        let file = self.split(number).file as usize;
        let len = self.files[file].len;
        // Records and frames are places of another kind, whose number is about that of the last split's end.
        let last = self.first_splits[file + 1] - 1;
        let places = match &self.layouts[file] {
            Layout::Whole | Layout::Even(_) | Layout::Documents(_) => len,
            Layout::Cuts(_) | Layout::Frames(_) => self.split(last).begin + self.split_len(last),
        };
        (u128::from(self.split_len(number)) * u128::from(len) / u128::from(places.max(1))) as u64
    }

    /// Whether splits of these files can be read side by side: they are of one source, and each may have several
    /// documents.
    pub(super) fn can_be_abreast(&self, files: Range<usize>) -> bool {
        let Some(first) = self.files.get(files.start).filter(|_| !files.is_empty()) else { return false };
        let is_one_source = first.source == self.files[files.end - 1].source;
        let number = files.start as u32;
        is_one_source && !self.is_stdin(number) && !self.format(number).is_one_document()
    }

    /// Whether the tokens of these files are in token shards.
    pub(super) fn has_shards(&self, files: Range<usize>) -> bool {
        files.clone().next().is_some_and(|first| self.shards_of(first as u32).is_some())
    }

    /// About how many bytes an open split of these files takes in memory, on average over those that take some.
    pub(super) fn held(&self, files: Range<usize>) -> u64 {
        let held = self.held[files].iter().filter(|held| **held > 0);
        let (sum, files) = held.fold((0_u64, 0_u64), |(sum, n), held| (sum.saturating_add(*held), n + 1));
        sum / files.max(1)
    }

    /// How many splits of these files it is good that each of `lanes` reads side by side, at most `most`: no more than
    /// a bound on what they take in memory and, where the config says how long they are, on their text.
    pub(super) fn abreast(&self, files: Range<usize>, most: usize, lanes: NonZeroUsize) -> NonZeroUsize {
        if !self.can_be_abreast(files.clone()) {
            return NonZeroUsize::MIN;
        }
        let held = self.held(files.clone()).max(1).saturating_mul(lanes.get() as u64);
        let of_held = usize::try_from(abreast::MOST_HELD / held).unwrap_or(most);
        let nominal = &self.format(files.start as u32).nominal;
        let of_bytes = match nominal.is_auto {
            true => most,
            false => usize::try_from(abreast::MOST_BYTES / nominal.bytes).unwrap_or(most),
        };
        NonZeroUsize::new(most.min(of_bytes).min(of_held)).unwrap_or(NonZeroUsize::MIN)
    }

    /// Which bytes of its file, as they are stored, a split is read from; none if that is not known. Reading goes on at
    /// `from`, or begins where the split does, in a file that has to be opened or `is_open`.
    pub(super) fn stored_ranges(
        &self,
        number: u32,
        from: u64,
        is_open: bool,
        slab_bytes: usize,
    ) -> Vec<Range<u64>> {
        let split = self.split(number);
        let len = self.files[split.file as usize].len;
        // The byte before it tells whether a line begins with it.
        let begin = split.begin.max(from).saturating_sub(1);
        let one = |range| vec![range];
        let mut ranges = match &self.layouts[split.file as usize] {
            Layout::Whole => one(0..len),
            Layout::Even(_) | Layout::Documents(_) => one(begin..framed::reach(split, len, slab_bytes)),
            Layout::Frames(frames) => one(frames.stored(begin..framed::reach(split, u64::MAX, slab_bytes))),
            Layout::Cuts(cuts) => {
                cuts.ranges((number - self.first_splits[split.file as usize]) as usize, is_open)
            }
        };
        // What a damaged file says may lie beyond its end.
        ranges.iter_mut().for_each(|range| range.end = range.end.min(len));
        ranges.retain(|range| !range.is_empty());
        ranges
    }
}

impl Format {
    /// Whether each file is one document.
    pub(super) fn is_one_document(&self) -> bool {
        matches!(self.documents, Documents::Framed(Shape::File))
    }

    /// How the documents of `source.<index>` of the config lie in its files.
    fn new(index: usize, config: &SourceConfig, nominal: Nominal) -> Result<Self> {
        let documents = match (config.kind, config.document) {
            (SourceKind::Jsonl, _) | (SourceKind::Text, DocumentKind::Line) => Documents::Framed(Shape::Line),
            (SourceKind::Text, DocumentKind::Paragraph) => Documents::Framed(Shape::Paragraph),
            (SourceKind::Text, DocumentKind::File) => Documents::Framed(Shape::File),
            _ => Documents::Records(record_format(index, config)?),
        };
        let weight = config.sample.as_ref().map(|SampleConfig { field, max }| (parts(field), *max));
        let json = config.field.as_ref().filter(|_| config.kind == SourceKind::Jsonl);
        Ok(Self {
            documents,
            json: json.map(|field| Json { text: parts(field), weight }),
            max: config.max_document_bytes.as_usize(),
            max_document_bytes: config.max_document_bytes,
            oversize: config.oversize,
            on_error: config.on_error,
            nominal,
        })
    }
}

/// The longest file of each source that has long ones: it tells what such a file takes in memory where none is longer
/// than a split.
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

fn record_format(index: usize, config: &SourceConfig) -> Result<Box<dyn RecordFormat>> {
    Ok(match config.kind {
        SourceKind::Csv => Box::new(Csv::new(b',', config)),
        SourceKind::Tsv => Box::new(Csv::new(b'\t', config)),
        SourceKind::Tar => Box::new(Tar::new(config)),
        SourceKind::Mds => Box::new(Mds::new(config)),
        #[cfg(feature = "columnar")]
        SourceKind::Parquet => Box::new(ParquetFormat::new(Columns::new(index, config)?)),
        #[cfg(feature = "columnar")]
        SourceKind::Arrow => Box::new(ArrowFormat::new(Columns::new(index, config)?)),
        other => {
            let problem =
                format!("this build cannot read {}; build with the feature `columnar`", other.name());
            return Err(Error::config(format!("source.{index}.kind"), problem));
        }
    })
}
