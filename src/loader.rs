//! Turns a config and a cursor into a stream of batches.
//!
//! [`LoaderBuilder::open`] takes three steps: `resolve` what the config names, `plan` where the stream begins and what
//! each lane may take, and `assemble` the streams.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::{Stream, StreamExt};

use crate::batch::Batch;
use crate::config::Config;
use crate::cursor::{Cursor, Ledger, SourceLedger};
use crate::error::{Error, Result};
use crate::files::Listing;
use crate::meter::Meters;
use crate::source::Source;
use crate::tokenizer::Tokenizer;

mod assemble;
mod budgets;
mod builder;
mod chains;
mod check;
mod custom;
mod documents;
mod exclude;
mod fingerprint;
mod gauge;
mod instrumented;
mod lanes;
mod length;
mod plan;
mod resolve;
mod resolved;
mod shards;
mod start;
mod tokenizer;

use assemble::BatchStream;
pub use builder::LoaderBuilder;
use chains::Chains;
pub(crate) use chains::interleave;
pub use check::{Checked, CheckedSource, CheckedTask, CheckedTokenizer, check};
pub use custom::{DocumentStream, SequenceStream, TokenStream};
pub use fingerprint::explain;
pub(crate) use fingerprint::{is_of_files, listing};
use gauge::Gauge;
pub use gauge::Watch;
pub use resolve::stay_at_commits;
pub(crate) use resolved::{ready, resolved_with};
pub use resolved::{resolved, with_stored_tokenizer};
#[cfg(feature = "tokenizers")]
pub use tokenizer::learn_tokenizer;
pub(crate) use tokenizer::open as open_tokenizer_for;
pub use tokenizer::open_tokenizer;

/// A stream of batches, made ahead of need.
///
/// ```no_run
/// use millstream::prelude::*;
///
/// # async fn example() -> Result<()> {
/// let config = Config::load("configs/quickstart.toml")?;
/// let mut loader = Loader::open(&config).await?;
/// while let Some(batch) = loader.next().await {
///     let batch = batch?;
///     println!("{} tokens; resume at {:?}", batch.tokens(), batch.cursor());
/// }
/// # Ok(()) }
/// ```
///
/// The order is a pure function of the files, the tokenizer, the seed and the settings that define the order. Workers,
/// depth and memory never change a byte of it. The first error ends the stream.
///
/// The loader runs on the tokio runtime that it is opened on. If the consumer blocks its thread, as a training step
/// does, use a multi-thread runtime.
///
/// # Cancel safety
/// Dropping a `next()` loses nothing. Dropping the loader ends its tasks and closes its files.
#[derive(Debug)]
pub struct Loader {
    batches: BatchStream,
    tokenizer: Arc<dyn Tokenizer>,
    gauge: Arc<Gauge>,
    start: Arc<Cursor>,
    /// The cursor of the last batch that was delivered.
    last: Arc<Cursor>,
    chains: Arc<Chains>,
    /// Whether it is a training stream from the start, without an error so far: its end tells what gave nothing.
    is_whole: bool,
}

impl Loader {
    /// Opens the training stream at its start.
    ///
    /// # Errors
    /// [`Error::Config`] for a wrong setting, [`Error::Corpus`] if there is nothing to read, [`Error::Tokenizer`] and
    /// [`Error::Io`] if the tokenizer or a file cannot be loaded, and [`Error::Threads`] if the system refuses threads.
    pub async fn open(config: &Config) -> Result<Self> {
        Self::builder(config).open().await
    }

    /// Opens the training stream where `cursor` left off: the next batch is the one after the cursor.
    ///
    /// # Errors
    /// As [`Loader::open`]; also [`Error::Fingerprint`] if the cursor was made under another order, and
    /// [`Error::Resume`], here or with the first batch, if it points to a place that does not exist.
    pub async fn resume(config: &Config, cursor: &Cursor) -> Result<Self> {
        Self::builder(config).with_cursor(cursor.clone()).open().await
    }

    /// Returns a builder for what a config cannot hold: a cursor, custom stages, the hold-out.
    pub fn builder(config: &Config) -> LoaderBuilder {
        LoaderBuilder::new(config)
    }

    /// Returns a builder of a loader over the [held-out](LoaderBuilder::with_held_out) documents, with the same tokenizer
    /// and the same custom stages. It reads the files that this loader has listed: files that have come since change
    /// nothing, so validations compare, and nothing is listed again.
    ///
    /// ```
    /// # use futures::TryStreamExt;
    /// # use millstream::{Batch, Config, Loader, config::{SourceConfig, TokenizerConfig}};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> millstream::Result<()> {
    /// # let source = SourceConfig::texts((0..100).map(|number| format!("text {number}")));
    /// # let mut config = Config::default().with_source(source).with_tokenizer(TokenizerConfig::bytes());
    /// # config.pipeline.seq_len = 16;
    /// config.pipeline.holdout = 0.1;
    /// let loader = Loader::open(&config).await?;
    /// let held_out: Vec<Batch> = loader.held_out().open().await?.try_collect().await?;
    /// # assert!(!held_out.is_empty());
    /// # Ok(()) }
    /// ```
    pub fn held_out(&self) -> LoaderBuilder {
        let Chains { config, source, documents, stages, .. } = &*self.chains;
        let mut builder = LoaderBuilder {
            tokenizer: Some(self.tokenizer.clone()),
            stages: stages.clone(),
            ..LoaderBuilder::new(config).with_held_out(true)
        };
        match documents {
            None => builder.opened = Some(source.clone()),
            Some(open) => {
                let name = builder.config.sources.pop().and_then(|source| source.name).unwrap_or_default();
                builder.documents = Some((name, open.clone()));
            }
        }
        builder
    }

    /// Returns the tokenizer that made the ids.
    pub fn tokenizer(&self) -> &Arc<dyn Tokenizer> {
        &self.tokenizer
    }

    /// Returns the cursor that the stream was opened at: the one before the first batch.
    pub fn start(&self) -> &Cursor {
        &self.start
    }

    /// Returns what became of every document and id of the run: up to the last batch that was delivered or, once the
    /// stream has ended, to its end. A rank's loader counts what its own lanes deliver. Batches that `exclude.batches` leaves
    /// out are counted with the next one that is delivered, or at the end.
    ///
    /// ```
    /// # use millstream::{Config, Loader, config::SourceConfig};
    /// # use futures::StreamExt;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> millstream::Result<()> {
    /// # let directory = tempfile::tempdir().expect("a directory");
    /// # let path = directory.path().join("a.txt");
    /// # std::fs::write(&path, "one\ntwo\nthree\n").expect("a file");
    /// let mut config = Config::default();
    /// config.sources = vec![SourceConfig { paths: vec![path.display().to_string()], ..SourceConfig::default() }];
    /// config.pipeline.epochs = Some(1);
    /// # config.pipeline.lanes = 1.into();
    /// # config.pipeline.seq_len = 4;
    /// # config.pipeline.batch_size = 2;
    /// let mut loader = Loader::open(&config).await?;
    /// while loader.next().await.transpose()?.is_some() {}
    /// let (_, ledger) = &loader.ledger().sources[0];
    /// assert_eq!((ledger.documents, ledger.learned, ledger.first), (3, 10, 1));
    /// # Ok(()) }
    /// ```
    pub fn ledger(&self) -> Ledger {
        match self.gauge.has_ended() {
            true => self.gauge.ledger_at_end(&self.last),
            false => self.last.ledger(),
        }
    }

    /// Returns the listing of the files that are read. Save it beside the cursors: it later tells which files have
    /// changed.
    pub fn listing(&self) -> Listing {
        self.source().listing(self.start.sources())
    }

    /// The config, with what was left to be chosen.
    pub(crate) fn config(&self) -> &Config {
        &self.chains.config
    }

    pub(crate) fn source(&self) -> &Source {
        &self.chains.source
    }

    /// Refuses a whole stream without a batch, and warns of sources that gave nothing to one with batches.
    fn check_end(&self) -> Result<()> {
        if Arc::ptr_eq(&self.last, &self.start) {
            let files = match self.source().files().len() {
                1 => "1 file".to_owned(),
                files => format!("{files} files"),
            };
            let why = self.source().unlearned().unwrap_or_else(|| {
                "all documents are blank, left out by where or a custom stage, held out, skipped, excluded or cut \
                 off; look at source.0.paths and where, pipeline.holdout, exclude, pipeline.uneven, pipeline.last \
                 and the log"
                    .to_owned()
            });
            let problem = format!("there is no batch in {files}: {why}");
            return Err(Error::Corpus { problem });
        }
        // A rank knows its own lanes alone.
        if !self.source().logs() || self.last.known_lanes().count() < self.last.lanes() {
            return Ok(());
        }
        for (index, (name, ledger)) in self.ledger().sources.iter().enumerate() {
            let is_wanted = self.source().settings(index).is_none_or(|settings| settings.weight != Some(0.0));
            if is_wanted && *ledger == SourceLedger::default() {
                tracing::warn!(
                    source = %name,
                    "the source gave no document: they are blank, held out, or left out by where, a sample or a custom \
                     stage; look at its paths and settings"
                );
            }
        }
        Ok(())
    }

    /// Returns the counts and waits of every stage, and which stage the consumer waits for.
    pub fn meters(&self) -> Meters {
        self.gauge.snapshot()
    }

    /// Returns a handle to the same meters, to read elsewhere while this loader is polled: for a metrics server or a
    /// tuner.
    pub fn watch(&self) -> Watch {
        Watch::new(&self.gauge)
    }
}

impl LoaderBuilder {
    /// Opens the stream.
    ///
    /// If the stream is finite and there are several ranks, a task counts the rows of all lanes meanwhile: it reads and
    /// tokenizes the whole corpus. Ranks that share a user's caches count once. The cursor keeps the count.
    ///
    /// # Errors
    /// As [`Loader::resume`].
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub async fn open(self) -> Result<Loader> {
        let resolved = resolve::resolve(self).await?;
        let plan = plan::plan(resolved).await?;
        Ok(assemble::assemble(plan))
    }
}

impl Stream for Loader {
    type Item = Result<Batch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let was_full = this.batches.is_full();
        if matches!(this.batches, BatchStream::OnDemand(_)) {
            // The consumer waits for all the work of this poll.
            this.gauge.asked();
        }
        let next = this.batches.poll_next_unpin(cx);
        this.gauge.polled(&next, was_full, this.batches.queued());
        match next {
            Poll::Ready(None) if this.is_whole => {
                this.is_whole = false;
                Poll::Ready(this.check_end().err().map(Err))
            }
            Poll::Ready(next) => {
                this.is_whole &= next.as_ref().is_some_and(Result::is_ok);
                if let Some(Ok(batch)) = &next {
                    this.last = batch.shared_cursor().clone();
                    this.gauge.prefetch.count(0, batch.tokens() as u64, batch.text_bytes());
                }
                Poll::Ready(next)
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program may open a loader in a task, on any thread: these compile.
    #[expect(dead_code, reason = "the compiler is the test")]
    fn opening_can_be_spawned(builder: LoaderBuilder, config: &'static Config, cursor: &'static Cursor) {
        fn assert_send(_: impl Send) {}
        assert_send(builder.open());
        assert_send(Loader::open(config));
        assert_send(Loader::resume(config, cursor));
    }
}
