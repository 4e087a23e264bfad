//! Where documents come from: files in, a stream of documents with their cursors out.
//!
//! Opening a [`Source`] lists the files and their lengths, and reads little of them: where it says how a file is cut, and
//! all of a small source, which is cut where documents begin. A file is one split or many, and a compressed one only
//! between frames; an epoch deals the splits to lanes. [`Documents`] reads a lane's splits one after the other, or
//! several side by side, in slabs of 512 KiB, some slabs ahead of the consumer. A lane holds at most three slabs and
//! their documents' places, and for each compressed file what its decompressor needs. Its cursor is the split and the
//! byte where reading goes on, so that resuming is one seek; of splits that are read side by side, and of a compressed
//! file, what lies before is read again.

use std::fmt;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

use crate::budget::{Budget, IDS_PER_BYTE};
use crate::config::{SourceConfig, StoreConfig};
use crate::cursor::LaneCursor;
use crate::error::Result;
use crate::files::{File, Files};
use crate::location::is_url;
use crate::meter::Meter;
use crate::shards::{Manifest, Recorder, ShardedFile, Shards, TokenCache};
use crate::store::{Leash, Leashed, Shelf, Stores};

mod abreast;
mod begin;
mod cached;
#[cfg(feature = "columnar")]
mod columns;
mod content;
mod corpus;
mod csv;
mod cuts;
mod dataset;
mod deal;
mod decode;
mod framed;
mod framing;
mod gather;
mod group;
mod holdout;
mod json_path;
mod lane;
mod layout;
mod mds;
mod nominal;
mod paths;
mod patterns;
mod problem;
mod read;
mod records;
mod resolved;
mod resume;
mod split;
mod splits;
mod stored;
mod strand;
mod tar;
mod text_cuts;
mod texts;
mod upcoming;
mod window;

pub(crate) use holdout::digest;
pub use holdout::{Holdout, Side};
pub(crate) use lane::AHEAD;
pub use lane::Documents;
pub(crate) use mds::TokenShard;
pub(crate) use splits::{SplitDocument, SplitReader};

use cached::Cached;
use corpus::{Corpus, Opened};
use framing::Shape;
use group::Grouping;
use read::Reader;

/// How much is read at once, in bytes.
const SLAB_BYTES: usize = 512 << 10;

/// The least that is worth a read, in bytes.
const LEAST_SLAB_BYTES: usize = 1 << 10;

/// The files of a corpus, and how documents lie in them. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct Source {
    corpus: Arc<Corpus>,
    /// The numbers of the files whose splits are dealt.
    dealt: Range<usize>,
    budget: Option<Arc<Budget>>,
    meter: Option<Arc<Meter>>,
    slab_bytes: usize,
    on_demand: bool,
    logs: bool,
    /// The tokens that are kept of the files that are dealt.
    cache: Option<Arc<TokenCache>>,
}

/// Which part of the corpus a stream reads, and in which order.
///
/// The default is all of it once, in file order: lane 0 of 1, no shuffle, one epoch, nothing held out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lane {
    /// Which lane, from 0.
    pub lane: usize,
    /// How many lanes the splits are dealt to.
    pub lanes: NonZeroUsize,
    /// What each epoch's order of splits, and its sample of weighted documents, is drawn from.
    pub seed: u64,
    /// Whether each epoch has another order of splits; file order if not.
    pub shuffle_splits: bool,
    /// How many splits are read side by side, so that documents that follow each other come from as many places; 1
    /// reads one after the other. [`Source::abreast`] says how many are good.
    pub abreast: NonZeroUsize,
    /// How many times the corpus is read; endless if `None`.
    pub epochs: Option<u64>,
    /// Which documents are left out.
    pub holdout: Holdout,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            lane: 0,
            lanes: NonZeroUsize::MIN,
            seed: 0,
            shuffle_splits: false,
            abreast: NonZeroUsize::MIN,
            epochs: Some(1),
            holdout: Holdout::default(),
        }
    }
}

/// What a corpus is, in short: equal summaries have the same paths with the same lengths, and in stores the same etags,
/// in the same order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many files there are.
    pub files: usize,
    /// Their length, in bytes.
    pub bytes: u64,
    /// The BLAKE3 digest over sources, paths, lengths and etags, in hexadecimal.
    pub digest: String,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files, {} bytes, BLAKE3 {}", self.files, self.bytes, self.digest)
    }
}

impl Source {
    /// Lists the files of `sources`, one source after the other, each source's in the byte order of their
    /// paths. Must be called within a tokio runtime, whose blocking threads look at the directories.
    ///
    /// `${NAME:-default}` and then a leading `~` are replaced, then the pattern is matched: `*` within one name, `**`
    /// through directories; hidden files match, links are followed, and what is no regular file is passed over. A URL
    /// (`s3://`, `gs://`, `az://`, `http://`, `https://`) is matched against what its store lists; HTTP servers list
    /// nothing, so that their files are named one by one.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) for a setting out of bounds, a pattern that is none, or a variable
    /// that is not set; [`Error::Corpus`](crate::Error::Corpus) if a pattern matches no file or all files of a source
    /// are empty; [`Error::Io`](crate::Error::Io) for a directory, file or store that cannot be looked at.
    pub async fn open(sources: &[SourceConfig]) -> Result<Self> {
        Self::open_with(sources, &StoreConfig::default()).await
    }

    /// As [`open`](Source::open), with settings of how remote files are read.
    ///
    /// # Errors
    /// As [`open`](Source::open).
    pub async fn open_with(sources: &[SourceConfig], store: &StoreConfig) -> Result<Self> {
        for (index, source) in sources.iter().enumerate() {
            source.validate(&format!("source.{index}"))?;
        }
        store.validate()?;
        let sources = resolved::of(sources).await?;
        let stores = Arc::new(Stores::new(store));
        // Giving up ends what is read on blocking threads.
        let (_leash, leashed) = Leash::new();
        let files = paths::files(&sources, &stores).await?;
        let corpus = Arc::new(Corpus::new(files, sources, stores, &leashed).await?);
        let dealt = 0..corpus.files.len();
        Ok(Self { dealt, corpus, ..Self::none() })
    }

    /// A source without files.
    pub(crate) fn none() -> Self {
        let corpus = Arc::new(Corpus::none());
        let (budget, meter, cache) = (None, None, None);
        Self {
            corpus,
            dealt: 0..0,
            budget,
            meter,
            slab_bytes: SLAB_BYTES,
            on_demand: false,
            logs: true,
            cache,
        }
    }

    /// The same corpus, of which only the files of `sources[source]` are dealt and summed up: none, if there are not so
    /// many sources. Files keep their numbers.
    #[must_use]
    pub fn only(&self, source: usize) -> Self {
        let files = self.files();
        let start = files.partition_point(|file| file.source < source);
        let end = files.partition_point(|file| file.source <= source);
        Self { dealt: start..end, ..self.clone() }
    }

    /// How many splits it is good that a lane reads side by side, if windows of `window` documents are shuffled behind
    /// that: at most as many as a window has documents, so that one of 1 keeps their order, and fewer where the config
    /// asks for long splits, or all of `lanes` together would have many files open, or much memory taken by them:
    /// compressed files, long pages of tables. It depends on the files and the config alone.
    pub fn abreast(&self, window: NonZeroUsize, lanes: NonZeroUsize) -> NonZeroUsize {
        let open = match self.corpus.has_remote(self.dealt.clone()) {
            true => abreast::MOST_OPEN_REMOTE,
            false => abreast::MOST_OPEN,
        };
        let most = (open / lanes).clamp(1, abreast::MOST);
        self.corpus.abreast(self.dealt.clone(), most, lanes).min(window)
    }

    /// The same where a single lane takes a sample of all files.
    pub(crate) fn abreast_of_sample(&self) -> NonZeroUsize {
        self.corpus.abreast(self.dealt.clone(), abreast::MOST_OF_SAMPLE, NonZeroUsize::MIN)
    }

    /// How many lanes can each have a split open within bounds of memory: a power of two.
    pub(crate) fn most_lanes(&self) -> usize {
        let most = abreast::MOST_HELD_BY_LANES / self.corpus.held(self.dealt.clone()).max(1);
        1 << most.clamp(1, 1 << 16).ilog2()
    }

    /// About how many bytes take in memory, beside the text that is read, so many splits that a lane reads side by side.
    pub(crate) fn open_bytes(&self, abreast: NonZeroUsize) -> usize {
        // Tokens that are stored are mapped.
        if self.corpus.has_shards(self.dealt.clone()) {
            return 0;
        }
        let held = usize::try_from(self.corpus.held(self.dealt.clone())).unwrap_or(usize::MAX);
        held.saturating_mul(abreast.get())
    }

    /// How many splits are dealt in each epoch; lanes beyond them are empty.
    pub fn splits(&self) -> usize {
        self.corpus.splits(self.dealt.clone()).len()
    }

    /// About how many bytes are dealt to each lane in the first epoch, as they are stored.
    pub(crate) fn dealt_bytes(&self, deal: Lane) -> Vec<u64> {
        let lanes = deal.lanes.get();
        let splits = self.corpus.splits(self.dealt.clone());
        let dealt = |lane| deal::deal(splits.clone(), deal.shuffle_splits, deal.seed, 0, lane, lanes);
        let bytes = |lane| dealt(lane).into_iter().map(|number| self.corpus.stored_len(number)).sum();
        (0..lanes).map(bytes).collect()
    }

    /// All files of the corpus, in the order in which positions number them.
    pub fn files(&self) -> &Arc<Files> {
        &self.corpus.files
    }

    /// The stores that files lie in; none if all lie on this machine.
    pub(crate) fn stores(&self) -> Option<&Arc<Stores>> {
        let is_remote = self.files().iter().any(|file| is_url(&file.path.to_string_lossy()));
        is_remote.then_some(&self.corpus.stores)
    }

    /// The length of the files that are dealt, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.files()[self.dealt.clone()].iter().map(|file| file.len).sum()
    }

    /// What the order depends on of source `source`: of token shards, the config of what they were made of.
    pub(crate) fn settings(&self, source: usize) -> Option<&SourceConfig> {
        self.corpus.settings.get(source)
    }

    /// What can be read to try or to learn a tokenizer on: all of it, or the first source that has text and, unless
    /// this is all that reads it, can be read more than once; none if there is none.
    #[cfg(feature = "tokenizers")]
    pub(crate) fn texts(&self, is_all: bool) -> Option<Self> {
        let has_text = |source: &usize| {
            let is_there = is_all || !self.corpus.settings[*source].is_stdin();
            is_there && self.corpus.shards[*source].is_none()
        };
        let sources = 0..self.corpus.settings.len();
        match sources.clone().all(|source| has_text(&source)) {
            true => Some(self.clone()),
            false => sources.into_iter().find(has_text).map(|source| self.only(source)),
        }
    }

    /// The number of the first split that is dealt, among those of all sources.
    pub(crate) fn first_split(&self) -> u32 {
        self.corpus.splits(self.dealt.clone()).start
    }

    /// What a shard directory of source `source` is of, tokenized by a tokenizer of this fingerprint.
    pub(crate) fn manifest(&self, source: usize, tokenizer: String, vocab_size: usize) -> Manifest {
        let file = |number: usize| {
            let File { path, len, unit, etag, .. } = self.files()[number].clone();
            let (cut, held) = (self.corpus.layouts[number].cut(), self.corpus.held[number]);
            ShardedFile { path, len, unit, etag, cut, held }
        };
        let files = self.only(source).dealt.map(file).collect();
        Manifest::new(tokenizer, vocab_size, self.corpus.settings[source].clone(), files)
    }

    /// The shard directories among the sources.
    pub(crate) fn shards(&self) -> impl Iterator<Item = (usize, &Arc<Shards>)> {
        let shards = self.corpus.shards.iter().enumerate();
        shards.filter_map(|(index, shards)| Some((index, shards.as_ref()?)))
    }

    /// What a fingerprint needs to know of the files that are dealt. Where one source stands among others is
    /// nothing to it.
    pub fn summary(&self) -> Summary {
        let files = &self.files()[self.dealt.clone()];
        let first = files.first().map_or(0, |file| file.source);
        let mut hasher = blake3::Hasher::new();
        for file in files {
            let path = patterns::bytes(&file.path);
            for number in [(file.source - first) as u64, file.len, path.len() as u64] {
                hasher.update(&number.to_le_bytes());
            }
            hasher.update(path);
            if let Some(etag) = &file.etag {
                hasher.update(&(etag.len() as u64).to_le_bytes());
                hasher.update(etag.as_bytes());
            }
        }
        Summary { files: files.len(), bytes: self.bytes(), digest: hasher.finalize().to_hex().to_string() }
    }

    /// Whether a document of file `file` may begin at `byte`: at the file's start, or else behind a line's end or
    /// where a record does. It reads the file, on the thread that calls it.
    ///
    /// # Errors
    /// [`Error::Io`] for a file that cannot be read.
    pub(crate) fn may_begin(&self, file: u32, byte: u64) -> Result<bool> {
        if byte == 0 {
            return Ok(true);
        }
        if let Some(begins) = self.corpus.begins_in_shards(file, byte)? {
            return Ok(begins);
        }
        let shelf = Shelf::unplanned(self.files().clone(), self.corpus.stores.clone(), Leashed::free());
        let (mut content, shape) = match self.corpus.open(file, &shelf)? {
            Opened::Text(content, shape) => (content, shape),
            Opened::Records(mut records) => return Ok(records.problem(byte)?.is_none()),
        };
        let mut bytes = Vec::new();
        content.read(byte.saturating_sub(3), byte.min(3) as usize + 1, &mut bytes)?;
        // The last of them is the document's first.
        let is_within = bytes.len() as u64 == byte.min(3) + 1;
        let is_start = byte == 3 && framing::bom_len(&bytes) == 3;
        let is_line = shape != Shape::File && bytes.iter().rev().nth(1) == Some(&b'\n');
        Ok(is_within && (is_start || is_line))
    }

    /// Takes memory from `budget` before each read, five bytes for each byte read: the text, and the most
    /// ids that it can become.
    #[must_use]
    pub fn with_budget(self, budget: Arc<Budget>) -> Self {
        Self { budget: Some(budget), ..self }
    }

    /// Counts documents, skipped ones, bytes of text and times in `meter`.
    #[must_use]
    pub fn with_meter(self, meter: Arc<Meter>) -> Self {
        Self { meter: Some(meter), ..self }
    }

    /// Reads `bytes` at once, at least four. It never changes what is delivered.
    #[must_use]
    pub fn with_slab_bytes(self, bytes: usize) -> Self {
        Self { slab_bytes: bytes.max(4), ..self }
    }

    /// Reads nothing ahead: a lane's files are read when its next documents are asked for, by the thread that asks. Of
    /// stores, what was planned is fetched ahead as ever.
    #[must_use]
    pub fn on_demand(self) -> Self {
        Self { on_demand: true, ..self }
    }

    /// Reads the tokens that `cache` keeps of the files that are dealt, which are one source's.
    #[must_use]
    pub(crate) fn with_cache(self, cache: Option<Arc<TokenCache>>) -> Self {
        Self { cache, ..self }
    }

    /// Leaves skipped documents to another stream of the same corpus to log.
    #[must_use]
    pub(crate) fn quiet(self) -> Self {
        Self { logs: false, ..self }
    }

    /// All documents once, in file order, from `start` on; the default cursor is the beginning.
    pub fn documents(&self, start: &LaneCursor) -> Documents {
        self.lane(Lane::default(), start)
    }

    /// The documents of one lane from `start` on; the default cursor is the beginning.
    ///
    /// # Panics
    /// If `lane.lane` is not less than `lane.lanes`.
    pub fn lane(&self, lane: Lane, start: &LaneCursor) -> Documents {
        self.recorded_lane(lane, start).0
    }

    /// The same, and what their ids are to be given to, if there is a cache.
    pub(crate) fn recorded_lane(&self, lane: Lane, start: &LaneCursor) -> (Documents, Option<Recorder>) {
        assert!(lane.lane < lane.lanes.get(), "there are {} lanes, and no lane {}", lane.lanes, lane.lane);
        let lane = match self.corpus.can_be_abreast(self.dealt.clone()) {
            true => lane,
            false => Lane { abreast: NonZeroUsize::MIN, ..lane },
        };
        let slab_bytes = self.slab_bytes_within_budget();
        let grouping = Grouping {
            corpus: self.corpus.clone(),
            holdout: lane.holdout,
            seed: lane.seed,
            draws_all: false,
            meter: self.meter.clone(),
            logs: self.logs,
        };
        let (leash, leashed) = Leash::new();
        let (files, stores) = (self.files().clone(), self.corpus.stores.clone());
        let is_remote = self.corpus.has_remote(self.dealt.clone());
        let shelf = match is_remote {
            true => Shelf::new(files, stores, self.budget.as_ref(), leashed),
            false => Shelf::unplanned(files, stores, leashed),
        };
        let splits = self.corpus.splits(self.dealt.clone());
        let cached = self.cache.clone().map(|cache| Cached::new(cache, splits.start));
        let recorder = cached.as_ref().map(|cached| cached.recorder(start));
        let reader = Reader::new(grouping, lane, splits, shelf, slab_bytes, start).with_cached(cached);
        let documents = Documents::new(reader, leash, slab_bytes, self.budget.clone(), self.meter.clone());
        // Who waits for a store may be the thread that drives its requests.
        (documents.on_demand(self.on_demand && !is_remote), recorder)
    }

    /// Smaller slabs for a small budget, so that read-ahead takes a quarter of it at most: what a window
    /// holds pins whole slabs' ids, and the smaller they are the less it pins.
    fn slab_bytes_within_budget(&self) -> usize {
        let Some(budget) = &self.budget else { return self.slab_bytes };
        let share = budget.limit() / (4 * lane::SLABS * (1 + IDS_PER_BYTE));
        self.slab_bytes.min(share.max(LEAST_SLAB_BYTES))
    }
}
