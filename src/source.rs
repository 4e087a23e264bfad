//! Where documents come from: files in, a stream of documents with their cursors out.
//!
//! Opening a [`Source`] lists the files and their lengths. It reads the index of a file that has one, and all of a
//! small source, to cut it between documents. A file is one split or many; a compressed file is cut only between
//! frames. Each epoch deals the splits to lanes. A lane reads a few of its splits side by side, in slabs of 512 KiB. In
//! a loader the jobs of the tokenizer read the slabs; [`Documents`] reads them a few ahead of its consumer.
//!
//! A lane holds the slabs that wait, with the positions of their documents, and for each open split its file with what
//! the format needs, such as a decompressor. Its cursor is the place of the last document that was delivered. That
//! tells where reading goes on in each open split, and a resume seeks there. Compressed files are decompressed from a
//! frame or from their start, and splits of CSV and tar are read again from theirs.
//!
//! # Rooms
//!
//! Imports point down here too; a test reads this table.
//!
//! | floor | what |
//! |---|---|
//! | `facts`, `record`, `places`, `describe`, `estimate` | the facts about a source that the rest of the crate asks for; single records, read again; where documents stand in files and epochs; descriptions of paths; estimated sizes |
//! | `listed` | the sources with their files, before any file is opened |
//! | `reading` | a lane: from its splits to documents with their cursors |
//! | `lane` | the part of a corpus that a stream reads: how splits are dealt |
//! | `catalog` | paths, dataset directories, files and their splits, the hold-out |
//! | `formats` | how documents lie in files: a file for each format, and the registry of them |
//! | `layout` | how one file is cut into splits |
//! | `content` | a file's text: plain, compressed, standard input |
//! | `interleave`, `window`, `split_size` | reading side by side; the result of one read; how finely a source is cut |
//! | `carried` | the values that are read beside a text |
//! | `filter` | `where`: an expression over named values |
//! | `cuts`, `framing`, `json_path`, `problem`, `split` | types that all of them use |

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::budget::{Budget, IDS_PER_BYTE};
use crate::config::{Config, SourceConfig, StoreConfig, TokenizerConfig};
use crate::cursor::LaneCursor;
use crate::error::Result;
use crate::files::Files;
use crate::meter::Meter;
use crate::pin::Pinning;
use crate::shards::TokenCache;
use crate::store::{CancelToken, Stores};

mod carried;
mod catalog;
mod content;
mod cuts;
mod describe;
mod estimate;
mod facts;
mod filter;
mod formats;
mod framing;
mod interleave;
mod json_path;
mod lane;
mod layout;
mod listed;
mod places;
mod problem;
mod reading;
mod record;
mod split;
mod split_size;
mod window;

pub use crate::custom_format::{RecordFile, RecordFormat, RecordReader, RecordText};
pub(crate) use catalog::dataset::hub_names;
pub(crate) use catalog::holdout::digest;
pub use catalog::holdout::{Holdout, Side};
pub(crate) use catalog::origin::Origin;
#[doc(hidden)]
pub use catalog::patterns::covered;
pub use describe::{RecordsFound, extension, recognize};
#[doc(hidden)]
pub use estimate::Estimate;
pub(crate) use formats::mds::TokenShard;
pub use lane::Lane;
pub(crate) use listed::SourceList;
pub(crate) use places::{EpochPlace, Fate, Named, UpTo};
pub(crate) use reading::documents::AHEAD;
pub use reading::documents::Documents;
pub(crate) use reading::splits::{LeftOutDocument, SplitDocument, SplitItem, SplitReader};

use catalog::corpus::Corpus;
use catalog::resolved;
use catalog::resolved::Resolved;
use reading::documents::SLABS;
use reading::grouper::{Draw, Grouper};
use reading::reader::Reader;
use reading::reads::Reads;

/// How much is read at once, in bytes.
const SLAB_BYTES: usize = 512 << 10;

/// The smallest read that is worth making, in bytes.
const LEAST_SLAB_BYTES: usize = 1 << 10;

/// The files of a corpus, and how documents are stored in them. Cloning it is cheap.
#[derive(Clone, Debug)]
pub struct Source {
    corpus: Arc<Corpus>,
    /// The numbers of the files whose splits are dealt.
    dealt: Range<usize>,
    budget: Option<Arc<Budget>>,
    meter: Arc<Meter>,
    slab_bytes: usize,
    on_demand: bool,
    /// The cores that reading stays on.
    pin: Option<Pinning>,
    logs: bool,
    /// The cached tokens of the dealt files.
    cache: Option<Arc<TokenCache>>,
    /// Where a lane puts how many documents it has skipped in all, at its end.
    skipped: Arc<AtomicU64>,
}

/// A summary of a corpus. Equal summaries mean the same files in the same order: the same lengths, in stores the same
/// etags, and the same paths below the fixed part of the patterns that name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// How many files there are.
    pub files: usize,
    /// Their total length, in bytes.
    pub bytes: u64,
    /// The BLAKE3 digest over sources, places, lengths and etags, in hexadecimal.
    pub digest: String,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files, {} bytes, BLAKE3 {}", self.files, self.bytes, self.digest)
    }
}

impl Source {
    /// Lists the files of `sources`, source by source, each source's files in the byte order of their paths. Call it
    /// within a tokio runtime, whose blocking threads look at the directories.
    ///
    /// `${NAME:-default}` and then a leading `~` are replaced, then the pattern is matched: `*` within one name, `**`
    /// through directories, and neither matches hidden names. Links are followed. Pipes and devices are skipped with a
    /// warning, or refused if a path names one. A URL (`s3://`, `gs://`, `az://`, `http://`, `https://`, `hf://`) is matched
    /// against its store's listing. HTTP servers list nothing, so you name their files one by one.
    ///
    /// # Errors
    /// [`Error::Config`](crate::Error::Config) for a setting out of bounds, an invalid pattern, or a variable that is
    /// not set; [`Error::Corpus`](crate::Error::Corpus) if a pattern matches no file or all files of a source are
    /// empty; [`Error::Io`](crate::Error::Io) for a directory, file or store that cannot be looked at;
    /// [`Error::Threads`](crate::Error::Threads) if the system refuses threads to look with. A chat template that
    /// `chat.template` does not name is not found: it lies beside the tokenizer of a config
    /// ([`from_config`](Source::from_config)).
    pub async fn open(sources: &[SourceConfig]) -> Result<Self> {
        Self::open_with(sources, &StoreConfig::default()).await
    }

    /// Opens the sources of a config, as a [`Loader`](crate::Loader) does: with its settings for reading remote files, the
    /// chat template of its tokenizer, and its seed for sources that draw and have none of their own.
    /// [`open`](Source::open) uses 42, a config's default.
    ///
    /// # Errors
    /// As [`open`](Source::open).
    pub async fn from_config(config: &Config) -> Result<Self> {
        let source = SourceList::new(config).await?.open().await?;
        describe::check_column_of_mixture(config, &source).await?;
        Ok(source)
    }

    /// Like [`open`](Source::open), with settings for reading remote files.
    ///
    /// # Errors
    /// As [`open`](Source::open).
    pub async fn open_with(sources: &[SourceConfig], store: &StoreConfig) -> Result<Self> {
        SourceList::of(sources, &TokenizerConfig::default(), store).await?.open().await
    }

    /// Opens the files of these sources.
    async fn of_files(
        sources: Vec<Resolved>,
        files: Files,
        tokenizer: &TokenizerConfig,
        stores: Arc<Stores>,
    ) -> Result<Self> {
        let renderings = resolved::renderings(&sources, tokenizer).await?;
        // Dropping this future stops the reads on blocking threads.
        let (_cancel, cancellable) = CancelToken::new();
        let corpus = Corpus::new(Arc::new(files), sources, renderings, stores, &cancellable).await?;
        let corpus = Arc::new(corpus);
        let dealt = 0..corpus.files.len();
        Ok(Self { dealt, corpus, ..Self::custom() })
    }

    /// The same files, cut as if no source had a `split`.
    ///
    /// # Errors
    /// [`Error::Io`](crate::Error::Io) for a file that cannot be looked at.
    pub(crate) async fn without_split(self) -> Result<Self> {
        let Corpus { files, sources, stores, .. } = &*self.corpus;
        let has_split = |source: &Resolved| source.reads.split.is_some() && source.origin.shards().is_none();
        if !sources.iter().any(has_split) {
            return Ok(self);
        }
        let mut sources = sources.clone();
        for source in sources.iter_mut().filter(|source| has_split(source)) {
            (source.settings.split, source.reads.split) = (None, None);
        }
        let renderings = (0..sources.len()).map(|source| self.corpus.rendering(source).cloned()).collect();
        // Dropping this future stops the reads on blocking threads.
        let (_cancel, cancellable) = CancelToken::new();
        let corpus = Corpus::new(files.clone(), sources, renderings, stores.clone(), &cancellable).await?;
        Ok(Self { corpus: Arc::new(corpus), ..self })
    }

    /// A source without files, for documents that the program gives.
    pub(crate) fn custom() -> Self {
        let corpus = Arc::new(Corpus::custom());
        let (budget, meter, cache) = (None, Meter::new("source"), None);
        Self {
            corpus,
            dealt: 0..0,
            budget,
            meter,
            slab_bytes: SLAB_BYTES,
            on_demand: false,
            pin: None,
            logs: true,
            cache,
            skipped: Arc::default(),
        }
    }

    /// Returns the same corpus with only the files of `sources[source]` dealt and summarized: none if there are not
    /// that many sources. Files keep their numbers.
    #[must_use]
    pub fn only(&self, source: usize) -> Self {
        let files = self.files();
        let start = files.partition_point(|file| file.source < source);
        let end = files.partition_point(|file| file.source <= source);
        Self { dealt: start..end, ..self.clone() }
    }

    /// Returns how many splits a lane should read side by side if windows of `window` documents are shuffled
    /// afterwards.
    ///
    /// It is at most `window`, so a window of 1 keeps the order. It is lower where the config asks for long splits, or
    /// where all `lanes` together would open many files or take much memory (compressed files, long pages of tables).
    /// It depends on the files and the config alone.
    pub fn interleave(&self, window: usize, lanes: usize) -> usize {
        let open = match self.corpus.is_of_stores(self.dealt.clone()) {
            true => interleave::MOST_OPEN_REMOTE,
            false => interleave::MOST_OPEN,
        };
        let (window, lanes) = (window.max(1), lanes.max(1));
        let most = (open / lanes).clamp(1, interleave::MOST);
        self.corpus.interleave(self.dealt.clone(), most, lanes).min(window)
    }

    /// The number of splits dealt in each epoch. Lanes beyond it are empty.
    pub fn splits(&self) -> usize {
        self.corpus.splits(self.dealt.clone()).len()
    }

    /// All files of the corpus, in the order in which positions number them.
    pub fn files(&self) -> &Arc<Files> {
        &self.corpus.files
    }

    /// Summarizes the dealt files. The result does not depend on the source's position in the config, nor on where its
    /// files are, as long as their paths below their common directory stay. If a source has several paths, the fixed
    /// part of each (up to the first wildcard) has such a directory, which may move without the others while the order
    /// of the files stays.
    pub fn summary(&self) -> Summary {
        let files = &self.files()[self.dealt.clone()];
        let first = files.first().map_or(0, |file| file.source);
        let mut hasher = blake3::Hasher::new();
        let mut behind = self.dealt.start;
        for of_source in files.chunk_by(|file, next| file.source == next.source) {
            let begin = behind;
            behind += of_source.len();
            for (file, place) in of_source.iter().zip(self.files().places(begin..behind)) {
                for number in [(file.source - first) as u64, file.len, place.len() as u64] {
                    hasher.update(&number.to_le_bytes());
                }
                hasher.update(place);
                if let Some(etag) = &file.etag {
                    hasher.update(&(etag.len() as u64).to_le_bytes());
                    hasher.update(etag.as_bytes());
                }
            }
        }
        Summary { files: files.len(), bytes: self.bytes(), digest: hasher.finalize().to_hex().to_string() }
    }

    /// Takes memory from `budget` before each read: five bytes for each byte read, for the text and the most ids that
    /// it can become.
    #[must_use]
    pub fn with_budget(self, budget: Arc<Budget>) -> Self {
        Self { budget: Some(budget), ..self }
    }

    /// Counts documents, skipped documents, bytes of text and times in `meter`.
    #[must_use]
    pub fn with_meter(self, meter: Arc<Meter>) -> Self {
        Self { meter, ..self }
    }

    /// Reads `bytes` at a time: at least four, and at most 256 MiB. This never changes what is delivered.
    #[must_use]
    pub fn with_slab_bytes(self, bytes: usize) -> Self {
        Self { slab_bytes: bytes.clamp(4, 256 << 20), ..self }
    }

    /// Reads nothing ahead: a lane's files are read when you ask for its next documents, on your thread. Files in
    /// stores are still fetched ahead.
    #[must_use]
    pub fn with_on_demand(self, on_demand: bool) -> Self {
        Self { on_demand, ..self }
    }

    /// Keeps reading on some cores.
    #[must_use]
    pub(crate) fn with_pin(self, pin: Option<Pinning>) -> Self {
        Self { pin, ..self }
    }

    /// Reads the tokens that `cache` has of the dealt files, which must belong to one source.
    #[must_use]
    pub(crate) fn with_cache(self, cache: Option<Arc<TokenCache>>) -> Self {
        Self { cache, ..self }
    }

    /// Puts how many documents a lane has skipped in all into `skipped`, when the lane ends.
    #[must_use]
    pub(crate) fn telling_skipped(self, skipped: Arc<AtomicU64>) -> Self {
        Self { skipped, ..self }
    }

    /// Logs neither skipped documents nor problems with the files: another stream of the same corpus does.
    #[must_use]
    pub fn quiet(self) -> Self {
        Self { logs: false, ..self }
    }

    /// Returns all documents once, in file order, from `start` on. The default cursor is the beginning.
    pub fn documents(&self, start: &LaneCursor) -> Documents {
        self.lane(Lane::default(), start)
    }

    /// Returns the documents of one lane from `start` on. The default cursor is the beginning.
    ///
    /// # Panics
    /// If `lane.lane` is not less than `lane.lanes`, or `lane.interleave` is 0, or `lane.shuffle_global` is set and the
    /// tokens are not stored.
    pub fn lane(&self, lane: Lane, start: &LaneCursor) -> Documents {
        let documents = Documents::new(self.reads(lane, start), self.meter.clone());
        // The thread that waits for a store may be the one that drives its requests.
        documents.with_on_demand(self.on_demand && !self.has_remote()).with_pin(self.pin.clone())
    }

    /// The reads of one lane from `start` on, for threads that may block.
    ///
    /// # Panics
    /// As [`lane`](Source::lane).
    pub(crate) fn reads(&self, lane: Lane, start: &LaneCursor) -> Reads {
        assert!(lane.lane < lane.lanes, "there are {} lanes, and no lane {}", lane.lanes, lane.lane);
        assert!(lane.interleave > 0, "a lane that reads no split");
        let lane = match self.corpus.can_interleave(self.dealt.clone()) {
            true => lane,
            false => Lane { interleave: 1, ..lane },
        };
        let slab_bytes = self.slab_bytes_within_budget();
        let grouper = self.grouper(lane.holdout, Draw::Sample { seed: lane.seed });
        let (cancel, cancellable) = CancelToken::new();
        let has_tokens = self.dealt.is_empty() || self.corpus.has_shards(self.dealt.clone());
        assert!(!lane.shuffle_global || has_tokens, "documents that are not in token shards");
        let is_remote = self.has_remote();
        let is_stdin = !self.dealt.is_empty() && self.corpus.is_stdin(self.dealt.start as u32);
        let opener = match is_remote {
            true => self.corpus.planned(self.dealt.clone(), self.budget.as_ref(), cancellable),
            false => self.corpus.unplanned(cancellable),
        };
        let splits = self.corpus.splits(self.dealt.clone());
        let reader = Reader::new(grouper, lane, splits, opener, slab_bytes, start)
            .with_cache(self.cache.clone())
            .telling_skipped(self.skipped.clone());
        // On demand, the thread that asks is the one that waits for standard input.
        let waits = is_remote || is_stdin && !self.on_demand;
        Reads::new(reader, cancel, slab_bytes, self.budget.clone(), self.meter.clone(), waits, has_tokens)
    }

    fn grouper(&self, holdout: Holdout, draw: Draw) -> Grouper {
        let (corpus, meter) = (self.corpus.clone(), self.meter.clone());
        Grouper { corpus, holdout, draw, meter, logs: self.logs }
    }

    /// Reads the split with the number `number` among all.
    pub(crate) fn split(&self, number: u32) -> SplitReader {
        let (cancel, cancellable) = CancelToken::new();
        let opener = self.corpus.unplanned(cancellable);
        SplitReader::new(self.grouper(Holdout::default(), Draw::All), number, opener, self.slab_bytes, cancel)
    }

    /// Uses smaller slabs for a small budget: three of them with their ids take a quarter of it at most. The documents
    /// of a window keep the ids of whole slabs in memory; with smaller slabs, fewer.
    fn slab_bytes_within_budget(&self) -> usize {
        let Some(budget) = &self.budget else { return self.slab_bytes };
        let share = budget.limit() / (4 * SLABS * (1 + IDS_PER_BYTE));
        self.slab_bytes.min(share.max(LEAST_SLAB_BYTES))
    }
}
