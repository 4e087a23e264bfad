//! The files of a corpus, how documents are stored in them, and their splits.
//!
//! Split k of a text file holds the documents that begin in its bytes from k × split on and before (k + 1) × split.
//! This is arithmetic over the file's length, so opening a corpus of text reads only the first bytes of long files.
//! When a lane opens a split, it looks for the first document of the split (after a resume, for the first one that was
//! not delivered), and it stops at the first document that begins beyond the split. So neighbours agree without talking
//! to each other: the cut between them is the first place at or after (k + 1) × split where a document may begin. A
//! compressed file is cut between frames that can be found; otherwise it is one split. Files of other formats are cut
//! where their bytes allow it: a table between its row groups.
//!
//! - `splits`: which bytes a split has
//! - `stored`: tokens that are read instead of files

mod splits;
mod stored;

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use futures::stream::{self, StreamExt, TryStreamExt};

use super::resolved::Resolved;
use super::samples::Samples;
use crate::budget::Budget;
use crate::config::{DocumentKind, SourceConfig, SourceKind, StoreConfig};
use crate::error::{Error, Result};
use crate::files::{File, Files, Location};
use crate::render::Renderer;
use crate::shards::StoredSplit;
use crate::source::content::{Content, Pipe};
use crate::source::formats::{Candidate, Opened, SourceFormat, Unopened};
use crate::source::interleave;
use crate::source::layout::{Laid, Layout};
use crate::source::split_size::{LONGEST, SplitSize};
use crate::store::{Cancellable, FileOpener, Stores};
use crate::tasks::blocking;
use crate::threads::lock;

/// How many files are looked at concurrently, so that a store's latency is not paid once for each.
const LOOKED_AT: usize = 32;

/// The files, the format of each source, and their splits.
#[derive(Debug)]
pub(crate) struct Corpus {
    pub(crate) files: Arc<Files>,
    /// The files, followed by the segments of token shards in stores.
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
    /// The sources, as they are configured and read.
    pub(crate) sources: Vec<Resolved>,
    /// About how much memory an open split of each file takes, in bytes; 0 for files that were not looked at.
    pub(crate) held: Vec<u64>,
    /// The samples of each source's local files, once they are taken.
    pub(crate) samples: Vec<OnceLock<Samples>>,
    /// Standard input, until it is read.
    stdin: Mutex<Option<Pipe>>,
}

impl Corpus {
    /// Lists the splits of `files`. Reads a file only if its bytes alone say how it is cut.
    pub(crate) async fn new(
        files: Arc<Files>,
        sources: Vec<Resolved>,
        renderings: Vec<Option<Arc<Renderer>>>,
        stores: Arc<Stores>,
        cancellable: &Cancellable,
    ) -> Result<Self> {
        let formats = sources.iter().zip(renderings).enumerate().map(|(index, (source, rendering))| {
            let first = files.partition_point(|file| file.source < index);
            let behind = files.partition_point(|file| file.source <= index);
            let (files, reads) = (&files[first..behind], &source.reads);
            let split_size = SplitSize::new(files, source.settings.split);
            let format = SourceFormat::new(index, reads, split_size, rendering)?;
            let has_fields = !matches!(reads.kind, SourceKind::Text | SourceKind::Custom);
            if !has_fields && source.origin.shards().is_none() {
                format.carried.check_partitions(index, reads.kind, files.iter().map(File::path))?;
            }
            Ok(format)
        });
        let formats = formats.collect::<Result<_>>()?;
        let longest = longest_of_each(&files);
        let mut corpus = Self {
            first_splits: Vec::with_capacity(files.len() + 1),
            layouts: Vec::new(),
            held: Vec::new(),
            one_document: Vec::new(),
            is_remote: files.iter().any(|file| file.location.is_remote()),
            files,
            stored: Files::none(),
            first_segments: Vec::new(),
            formats,
            samples: sources.iter().map(|_| OnceLock::new()).collect(),
            sources,
            stores,
            stdin: Mutex::new(Some(Pipe::new(std::io::stdin()))),
        };
        (corpus.stored, corpus.first_segments) = corpus.with_segments();
        let numbers = 0..corpus.files.len() as u32;
        (corpus.layouts, corpus.held) = numbers.clone().map(|number| corpus.known_layout(number)).unzip();
        let is_one = |number| match corpus.shards_of(number) {
            Some((shards, _)) => shards.manifest().source.document == DocumentKind::File,
            None => corpus.format(number).is_one_document(),
        };
        corpus.one_document = numbers.clone().map(is_one).collect();
        let is_unknown = |number: &u32| corpus.is_looked_at(*number, longest.contains(number));
        let unknown: Vec<u32> = numbers.filter(is_unknown).collect();
        // By value: with references the compiler could not tell that a thread may take this future over.
        let looks = stream::iter(unknown.clone()).map(|number| corpus.look(number, cancellable));
        let found: Vec<Laid> = looks.buffered(LOOKED_AT).try_collect().await?;
        for (number, Laid { layout, held }) in unknown.into_iter().zip(found) {
            (corpus.layouts[number as usize], corpus.held[number as usize]) = (layout, held);
        }
        corpus.formats.iter().try_for_each(|SourceFormat { format, .. }| format.looked())?;
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

    /// A corpus without files, for documents that the program gives.
    pub(crate) fn custom() -> Self {
        Self {
            files: Files::none(),
            stored: Files::none(),
            first_segments: Vec::new(),
            formats: Arc::default(),
            layouts: Vec::new(),
            held: Vec::new(),
            one_document: Vec::new(),
            first_splits: vec![0],
            samples: Vec::new(),
            sources: Vec::new(),
            is_remote: false,
            stores: Arc::new(Stores::new(&StoreConfig::default())),
            stdin: Mutex::default(),
        }
    }

    /// An opener with a plan of the reads of these files.
    pub(crate) fn planned(
        &self,
        files: Range<usize>,
        budget: Option<&Arc<Budget>>,
        cancellable: Cancellable,
    ) -> FileOpener {
        let places = if self.has_shards(files) { StoredSplit::PLACES } else { 1 };
        FileOpener::new(self.stored.clone(), self.stores.clone(), budget, cancellable, places)
    }

    /// An opener without a plan, for files that are read in random order, or that are all local.
    pub(crate) fn unplanned(&self, cancellable: Cancellable) -> FileOpener {
        FileOpener::unplanned(self.stored.clone(), self.stores.clone(), cancellable)
    }

    /// How a file is cut, and the memory of an open split, if they are known without looking at the file.
    fn known_layout(&self, number: u32) -> (Layout, u64) {
        let Some((shards, nth)) = self.shards_of(number) else { return (Layout::Whole, 0) };
        let file = &shards.manifest().files[nth];
        (file.cut.clone().into(), file.held)
    }

    /// Whether a file has to be looked at, to find how it is cut or how much memory its source's files take.
    fn is_looked_at(&self, number: u32, is_longest: bool) -> bool {
        let SourceFormat { format, split_size, .. } = self.format(number);
        let is_long = self.files[number as usize].len > split_size.bytes;
        let is_first = self.number_in_source(number) == 0;
        self.shards_of(number).is_none() && format.looks_at(Candidate { is_first, is_long, is_longest })
    }

    /// Looks at how a file is cut, on a blocking thread, once the future is polled.
    fn look(&self, number: u32, cancellable: &Cancellable) -> impl Future<Output = Result<Laid>> + use<> {
        let formats = self.formats.clone();
        let source = self.files[number as usize].source;
        let opener = self.unplanned(cancellable.clone());
        blocking("source", move || {
            let SourceFormat { format, split_size, .. } = &formats[source];
            format.layout(Unopened::new(&opener, number), split_size)
        })
    }

    /// Opens a file through a lane's opener.
    pub(crate) fn open(&self, number: u32, opener: &FileOpener) -> Result<Opened> {
        let format = &self.format(number).format;
        if let (true, Some(shape)) = (self.is_stdin(number), format.shape()) {
            let pipe = lock(&self.stdin).take();
            let problem = "standard input is read by another stream already, and comes only once";
            let pipe = pipe.ok_or_else(|| Error::Corpus { problem: problem.to_owned() })?;
            return Ok(Opened::Text(Content::piped(pipe), shape));
        }
        format.open(Unopened::new(opener, number), &self.layouts[number as usize])
    }

    /// Whether a file is standard input.
    pub(crate) fn is_stdin(&self, number: u32) -> bool {
        self.files[number as usize].location == Location::Stdin
    }

    /// Whether some of these files, or their tokens, are read from stores.
    pub(crate) fn has_remote(&self, files: Range<usize>) -> bool {
        let Some(first) = self.files.get(files.start).filter(|_| !files.is_empty()) else { return false };
        let sources = first.source..=self.files[files.end - 1].source;
        let is_stored = self.has_shards(files.clone());
        self.sources[sources].iter().any(|source| source.origin.remote().next().is_some())
            || !is_stored && self.is_of_stores(files)
    }

    /// Whether some of these files are in stores, or were when token shards were made of them.
    pub(crate) fn is_of_stores(&self, files: Range<usize>) -> bool {
        self.is_remote && self.files[files].iter().any(|file| file.location.is_remote())
    }

    /// How the records of a source become texts, if they have to be rendered when they are read.
    pub(crate) fn rendering(&self, source: usize) -> Option<&Arc<Renderer>> {
        self.formats.get(source)?.rendering.as_ref()
    }

    pub(crate) fn format(&self, file: u32) -> &SourceFormat {
        &self.formats[self.files[file as usize].source]
    }

    /// The settings of a file's source. Token shards of one source may have been made from several.
    fn settings_of(&self, file: u32) -> Option<&SourceConfig> {
        match self.shards_of(file) {
            Some((shards, _)) => Some(&shards.manifest().source),
            None => Some(&self.sources.get(self.files[file as usize].source)?.settings),
        }
    }

    pub(crate) fn is_one_document(&self, file: u32) -> bool {
        self.one_document[file as usize]
    }

    /// The number of a file within its source.
    pub(crate) fn number_in_source(&self, file: u32) -> u32 {
        let source = self.files[file as usize].source;
        file - self.files.partition_point(|file| file.source < source) as u32
    }

    /// Whether splits of these files can be read side by side: they belong to one source, and each may have several
    /// documents.
    pub(crate) fn can_interleave(&self, files: Range<usize>) -> bool {
        let Some(first) = self.files.get(files.start).filter(|_| !files.is_empty()) else { return false };
        let is_one_source = first.source == self.files[files.end - 1].source;
        let number = files.start as u32;
        is_one_source && !self.is_stdin(number) && !self.format(number).is_one_document()
    }

    /// About how much memory an open split of these files takes, in bytes: the average over those that take some.
    pub(crate) fn held(&self, files: Range<usize>) -> u64 {
        let held = self.held[files].iter().filter(|held| **held > 0);
        let (sum, files) = held.fold((0_u64, 0_u64), |(sum, n), held| (sum.saturating_add(*held), n + 1));
        sum / files.max(1)
    }

    /// About how much memory the format of source `source` takes whether its files are open or not, in bytes.
    pub(crate) fn index_bytes(&self, source: usize) -> u64 {
        self.formats.get(source).map_or(0, |source| source.format.index_bytes())
    }

    /// How many splits of these files each of `lanes` should read side by side, at most `most`. The memory that they
    /// take is bounded, and so is their text if the config sets the length of splits.
    pub(crate) fn interleave(&self, files: Range<usize>, most: usize, lanes: usize) -> usize {
        if !self.can_interleave(files.clone()) {
            return 1;
        }
        let held = self.held(files.clone()).max(1).saturating_mul(lanes as u64);
        let of_held = usize::try_from(interleave::MOST_HELD / held).unwrap_or(most);
        let split_size = &self.format(files.start as u32).split_size;
        let of_bytes = match split_size.is_auto {
            true => most,
            false => usize::try_from(interleave::MOST_BYTES / split_size.bytes).unwrap_or(most),
        };
        most.min(of_bytes).min(of_held).max(1)
    }
}

/// The longest file of each source that has long ones. Where no file is longer than a split, it shows how much memory
/// such a file takes.
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
