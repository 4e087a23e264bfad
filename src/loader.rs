//! From a config and a cursor to a stream of batches.
//!
//! This is the whole journey in one place: [`LoaderBuilder::open`] reads top to bottom.

use std::fmt;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::BoxStream;
use futures::{Stream, StreamExt};

use crate::batch::Batch;
use crate::config::{Config, Last, OrAuto, PipelineConfig, SourceKind, Uneven};
use crate::cursor::{Cursor, LaneCursor, Tracked};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::meter::Meters;
use crate::source::{Holdout, Side, Source};
use crate::stage::{Ahead, Lanes, OnDemand, Prefetch, Range, StageExt, Waits, Workers};
use crate::tokenizer::Tokenizer;
use crate::world::World;

mod budgets;
mod caches;
mod census;
mod chains;
mod exclude;
mod export;
mod fingerprint;
mod gauge;
mod import;
mod lanes;
mod made;
mod metered;
mod own;
mod prepare;
mod setting;
mod shards;
mod start;
mod tokenizer;

use budgets::budgets;
use chains::Chains;
use exclude::Excluding;
pub use export::export;
use gauge::Gauge;
pub use gauge::Watch;
pub use import::{Exchanged, Import, TokenFormat, import, import_mds};
pub use lanes::resolved;
use made::Made;
pub use prepare::{Prepared, prepare, verify_shards};
#[cfg(feature = "tokenizers")]
pub use tokenizer::learn_tokenizer;
pub use tokenizer::{load_tokenizer, open_tokenizer};

/// A stream of batches, made ahead of need.
///
/// ```no_run
/// use futures::StreamExt;
/// use millstream::{Config, Loader};
///
/// # async fn example() -> millstream::Result<()> {
/// let config = Config::load("configs/quickstart.toml")?;
/// let mut loader = Loader::open(&config).await?;
/// while let Some(batch) = loader.next().await {
///     let batch = batch?;
///     println!("{} tokens; resume at {:?}", batch.tokens(), batch.cursor());
/// }
/// # Ok(()) }
/// ```
///
/// The order is a pure function of the files, the tokenizer, the seed and the order's settings;
/// workers, depth and memory never change a byte of it. The first error ends the stream.
///
/// It runs on the tokio runtime that it is opened on. If the consumer blocks its thread, as a training
/// step does, that must be a multi-thread runtime.
///
/// # Cancel safety
/// Dropping a `next()` loses nothing. Dropping the loader ends its tasks and closes its files.
#[derive(Debug)]
pub struct Loader {
    batches: Made,
    tokenizer: Arc<dyn Tokenizer>,
    gauge: Arc<Gauge>,
    start: Cursor,
    files: Arc<Files>,
    /// Whether nothing has come yet of a training stream that began at its start: an end would be a mistake.
    is_untouched: bool,
}

impl Loader {
    /// Opens the training stream at its start.
    ///
    /// # Errors
    /// [`Error::Config`] for a wrong setting, [`Error::Corpus`] if there is nothing to read,
    /// [`Error::Tokenizer`] and [`Error::Io`] for what cannot be loaded.
    pub async fn open(config: &Config) -> Result<Self> {
        Self::builder(config).open().await
    }

    /// Opens the training stream where `cursor` left it: the next batch is the one that came after.
    ///
    /// # Errors
    /// As [`Loader::open`], [`Error::Fingerprint`] if the cursor was made under another order, and
    /// [`Error::Resume`], here or with the first batch, if it leads nowhere.
    pub async fn resume(config: &Config, cursor: &Cursor) -> Result<Self> {
        Self::builder(config).cursor(cursor.clone()).open().await
    }

    /// Opens the stream with what a config cannot hold.
    pub fn builder(config: &Config) -> LoaderBuilder {
        LoaderBuilder {
            config: config.clone(),
            documents: None,
            tokenizer: None,
            cursor: None,
            side: Side::Train,
            on_demand: false,
            stages: Vec::new(),
        }
    }

    /// The tokenizer that the ids are of.
    pub fn tokenizer(&self) -> &Arc<dyn Tokenizer> {
        &self.tokenizer
    }

    /// The cursor that the stream was opened at: the one before the first batch.
    pub fn start(&self) -> &Cursor {
        &self.start
    }

    /// What every stage counted and waited, and which one the consumer waits for.
    pub fn meters(&self) -> Meters {
        self.gauge.snapshot()
    }

    /// Looks at the same from elsewhere, while this loader is polled: for a server of metrics, or a tuner.
    pub fn watch(&self) -> Watch {
        Watch::new(&self.gauge)
    }
}

impl Stream for Loader {
    type Item = Result<Batch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let was_full = this.batches.is_full();
        if matches!(this.batches, Made::OnDemand(_)) {
            // All that is done in this poll is what the consumer waits for.
            this.gauge.asked();
        }
        let next = this.batches.poll_next_unpin(cx);
        this.gauge.polled(&next, was_full, this.batches.queued());
        match next {
            Poll::Ready(None) if this.is_untouched => {
                this.is_untouched = false;
                let files = this.files.len();
                let problem = format!(
                    "there is no batch in {files} files: all documents are blank, held out, skipped, excluded or cut \
                     off; look at source.0.paths, pipeline.holdout, exclude, pipeline.uneven, pipeline.last and the log"
                );
                Poll::Ready(Some(Err(Error::Corpus { problem })))
            }
            Poll::Ready(next) => {
                this.is_untouched = false;
                if let Some(Ok(batch)) = &next {
                    this.gauge.prefetch.count(0, batch.tokens() as u64, batch.text_bytes());
                }
                Poll::Ready(next)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

const ONE: OrAuto = OrAuto::Fixed(NonZeroUsize::MIN);

/// A lane's documents, before they are tokenized.
pub type DocumentStream = BoxStream<'static, Result<Tracked<Document>>>;

/// A stage of one's own: a lane's documents and the cursor that the lane is opened at in, documents out.
type OwnStage = Arc<dyn Fn(DocumentStream, &LaneCursor) -> DocumentStream + Send + Sync>;

/// Documents of one's own: a lane's number and where it is opened in, its documents out.
type OwnDocuments = Arc<dyn Fn(usize, &LaneCursor) -> DocumentStream + Send + Sync>;

/// A loader to be: a config, and what serde cannot hold.
#[must_use = "a builder does nothing until it is opened"]
pub struct LoaderBuilder {
    config: Config,
    documents: Option<(String, OwnDocuments)>,
    tokenizer: Option<Arc<dyn Tokenizer>>,
    cursor: Option<Cursor>,
    side: Side,
    on_demand: bool,
    stages: Vec<(String, OwnStage)>,
}

impl fmt::Debug for LoaderBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stages: Vec<&String> = self.stages.iter().map(|(name, _)| name).collect();
        f.debug_struct("LoaderBuilder")
            .field("side", &self.side)
            .field("on_demand", &self.on_demand)
            .field("stages", &stages)
            .finish_non_exhaustive()
    }
}

impl LoaderBuilder {
    /// Uses this tokenizer, whatever the config names.
    pub fn tokenizer(self, tokenizer: Arc<dyn Tokenizer>) -> Self {
        Self { tokenizer: Some(tokenizer), ..self }
    }

    /// Opens the stream where `cursor` left it.
    pub fn cursor(self, cursor: Cursor) -> Self {
        Self { cursor: Some(cursor), ..self }
    }

    /// Reads the held-out documents, `pipeline.holdout` of all, instead of the others, once. They come in an order that
    /// is spread over all files and is always the same, whatever the seed, lanes, windows, `split`, batch size and world
    /// are: so the first of them are a fixed sample of the hold-out. Several sources are mixed by their first weights;
    /// one without any is not read.
    pub fn held_out(mut self) -> Self {
        self.side = Side::HeldOut;
        self.config.pipeline.epochs = Some(1);
        (self.config.pipeline.uneven, self.config.pipeline.last) = (Uneven::Pad, Last::Short);
        self.config.mixture.changes.clear();
        for source in &mut self.config.sources {
            source.epochs = None;
            if source.kind != SourceKind::Shards {
                source.split = None;
            }
        }
        self.config.seed = 0;
        self.config.pipeline.shuffle_splits = true;
        (self.config.pipeline.lanes, self.config.pipeline.window) = (ONE, ONE);
        self
    }

    /// Makes each batch when it is asked for, in the task that asks: nothing runs ahead and no thread works beside,
    /// whatever `pipeline.workers` and `pipeline.depth` say. The batches are the same.
    ///
    /// It is for looking into the stages with a debugger or a profiler, and for measuring what running ahead is
    /// worth; `next()` takes as long as all the work for a batch does, reading among it, and blocks its thread so
    /// long. Two things go on by themselves: what a store's files are read from is requested ahead, and a token
    /// cache writes what it keeps.
    pub fn on_demand(self) -> Self {
        Self { on_demand: true, ..self }
    }

    /// Reads documents of one's own instead of files: a channel's, a database's, a crawler's. The config has no
    /// `[[source]]` then.
    ///
    /// `documents` is called once for each lane, with its number and the cursor that it is opened at: what the loader
    /// still needs are the documents behind that cursor. Each document carries the cursor behind it, which must count
    /// documents ([`LaneCursor::after`]) and may hold other places; the stream is endless or ends, and an error ends
    /// it. `name` is part of the order: put what the documents depend on into it.
    ///
    /// What a cursor promises is what the documents' origin can keep. Where it can go back to a document's number,
    /// resuming is exact. A batch's cursor is that of the window that it came of, so that up to a window of documents
    /// before the batch's last one is asked for again. Where it cannot go back, a resumed stream goes on with
    /// whatever comes: documents that were read and not yet in a batch are lost.
    ///
    /// They are not charged to the memory budget: the bound is the origin's own, and some groups of documents for each
    /// worker. Hold-out and `on_error` are the origin's affair too.
    ///
    /// ```no_run
    /// # use futures::{StreamExt, stream};
    /// use millstream::{Config, Document, LaneCursor, Loader, Tracked};
    ///
    /// # async fn example(config: Config) -> millstream::Result<()> {
    /// let numbers = Loader::builder(&config).documents("numbers", |lane, start| {
    ///     let numbers = stream::iter(start.documents..);
    ///     let document = move |n| Tracked::new(Document::new(format!("{lane}: {n}")), LaneCursor::after(n + 1));
    ///     numbers.map(move |n| Ok(document(n))).boxed()
    /// });
    /// let loader = numbers.open().await?;
    /// # Ok(()) }
    /// ```
    pub fn documents<F>(mut self, name: impl Into<String>, documents: F) -> Self
    where
        F: Fn(usize, &LaneCursor) -> DocumentStream + Send + Sync + 'static,
    {
        self.documents = Some((name.into(), Arc::new(documents)));
        self
    }

    /// Puts a stage of one's own between the source and the tokenizer, behind those that were put there before.
    ///
    /// `stage` is called once for each lane, with the lane's documents and the cursor that the lane is opened
    /// at. `name` is part of the order: a cursor is refused if it was made with other stages, or under
    /// another name, so put what the stage depends on into it.
    ///
    /// ```no_run
    /// # use futures::future::ready;
    /// use futures::{StreamExt, TryStreamExt};
    /// use millstream::{Config, Loader};
    ///
    /// # async fn example(config: Config) -> millstream::Result<()> {
    /// let long = Loader::builder(&config).stage("at least 100 bytes", |documents, _start| {
    ///     documents.try_filter(|document| ready(document.value.text().len() >= 100)).boxed()
    /// });
    /// let loader = long.open().await?;
    /// # Ok(()) }
    /// ```
    pub fn stage<F>(mut self, name: impl Into<String>, stage: F) -> Self
    where
        F: Fn(DocumentStream, &LaneCursor) -> DocumentStream + Send + Sync + 'static,
    {
        self.stages.push((name.into(), Arc::new(stage)));
        self
    }

    /// Opens the stream.
    ///
    /// Where the stream is finite and there are several ranks, each of them first counts the rows of all lanes,
    /// once: it reads and tokenizes the whole corpus. The cursor keeps the count.
    ///
    /// # Errors
    /// As [`Loader::resume`].
    ///
    /// # Panics
    /// If it is called outside a tokio runtime.
    pub async fn open(self) -> Result<Loader> {
        let Self { mut config, documents: own, tokenizer, cursor, side, on_demand, stages } = self;
        config.validate()?;
        let mut source = match &own {
            None => Source::open_with(&config.sources, &config.store).await?,
            Some((name, _)) => own::source(&mut config, name)?,
        };
        lanes::settle(&mut config, &source, cursor.as_ref());
        let world = match side {
            Side::Train => World::detect(&config.pipeline)?,
            // Every rank validates on all of it.
            Side::HeldOut => World::ALONE,
        };
        if side == Side::HeldOut {
            // The training stream meets the same bad documents.
            source = source.quiet();
        }
        if on_demand {
            source = source.on_demand();
        }
        let tokenizer = match tokenizer {
            Some(tokenizer) => tokenizer,
            None => tokenizer::open(&config, &source).await?,
        };
        shards::check(&source, &*tokenizer, !stages.is_empty())?;
        let encoder = tokenizer::encoder(&config.tokenizer, &tokenizer)?;
        let names = stages.iter().map(|(name, _)| name);
        let fingerprint = fingerprint::of(&config, &source, &*tokenizer, side, names);
        let (start, mixture) = start::of(&config, &source, fingerprint, cursor)?;
        let Excluding { mut start, batches: excluded_batches, events, documents } =
            exclude::of(&config, &source, side, world, start).await?;

        if side == Side::Train {
            lanes::check(&config, &source)?;
        }
        let holdout = Holdout { fraction: config.pipeline.holdout, side };
        let caches = caches::open(&config, &source, &*tokenizer, holdout, !stages.is_empty()).await?;
        let pipeline = &config.pipeline;
        let setting = setting::of(&config, &source, stages.iter().map(|(name, _)| name), world);
        let workers = match on_demand {
            true => Workers::on_demand(),
            false => Workers::new(pipeline.most_workers().get())
                .shared_by(pipeline.lanes().get() / world.size.get()),
        };
        let stores = source.stores().cloned();
        let gauge =
            Arc::new(Gauge::new(budgets(&config, (&source, side), world)?, setting, workers.clone(), stores));
        let chains = Arc::new(Chains {
            source,
            documents: own.map(|(_, documents)| documents),
            caches,
            stages,
            encoder,
            workers,
            schedule: mixture.schedule,
            holdout,
            config: config.clone(),
        });
        let rounds = census::rounds(&chains, &mut start, world).await?;
        start.keep_lanes(|lane| world.owns(lane))?;
        lanes::check_turn(&start, world)?;

        let own = (0..start.lanes()).filter(|lane| world.owns(*lane));
        let lanes = own.map(|lane| (lane, chains.lane(lane, start.lanes(), start.own(lane), &gauge)));
        let mut lanes = Lanes::new(lanes, pipeline.least_width(), &start).with_uneven(pipeline.uneven);
        if let Some(rounds) = rounds {
            lanes = lanes.until(rounds);
        }
        let mut batches = lanes
            .batch(rank_size(pipeline, world), chains.encoder.pad(), &start)
            .with_last(pipeline.last)
            .with_ahead(pipeline.ahead)
            .of_rank(world)
            .without(excluded_batches, documents)
            .noting(mixture.changes.into_iter().chain(events))
            .with_meter(gauge.batch.clone());
        if pipeline.batch_tokens.is_some() {
            batches = batches.of_turns();
        }
        let batches = if on_demand {
            Made::OnDemand(OnDemand::new(batches, gauge.chain.clone()))
        } else {
            let waits = Waits { meter: gauge.prefetch.clone(), chain: Some(gauge.chain.clone()) };
            let ahead = Ahead {
                depth: range(pipeline.depth, pipeline.most_depth(world.size)),
                workers: Some((chains.workers.clone(), range(pipeline.workers, pipeline.most_workers()))),
            };
            Made::Ahead(Prefetch::spawn(batches, ahead, waits))
        };
        let is_untouched = start.batch() == 0 && side == Side::Train;
        Ok(Loader { batches, tokenizer, gauge, files: chains.source.files().clone(), start, is_untouched })
    }
}

/// Within what a number is chosen that may be left to the loader.
fn range(number: OrAuto, most: NonZeroUsize) -> Range {
    match number {
        OrAuto::Auto => Range::Auto(most.get()),
        OrAuto::Fixed(number) => Range::Fixed(number.get()),
    }
}

/// How many rows of a batch are one rank's. By a budget of tokens they are as many as fit, in any world.
fn rank_size(pipeline: &PipelineConfig, world: World) -> NonZeroUsize {
    let rows = pipeline.batch_size.get() / world.size;
    NonZeroUsize::new(rows).unwrap_or(NonZeroUsize::MIN)
}
