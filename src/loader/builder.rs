//! A loader that is not open yet: a config, and the parts that a config cannot hold.

use std::fmt;
use std::sync::Arc;

use super::custom::{CustomStage, CustomStages, DocumentStream, SequenceStream, TokenStream};
use super::documents::OpenDocuments;
use crate::config::{Config, CustomFormat};
use crate::cursor::{Cursor, LaneCursor};
#[cfg(doc)]
use crate::error::Error;
use crate::source::{RecordFormat, Side, Source};
use crate::tokenizer::Tokenizer;

/// A loader that is not open yet: a config, and the parts that a config cannot hold.
#[derive(Clone)]
#[must_use = "a builder does nothing until it is opened"]
pub struct LoaderBuilder {
    pub(super) config: Config,
    /// The sources of the config, if they are open.
    pub(super) opened: Option<Source>,
    /// The documents that are read in place of a source, and their name.
    pub(super) documents: Option<(String, OpenDocuments)>,
    pub(super) tokenizer: Option<Arc<dyn Tokenizer>>,
    pub(super) cursor: Option<Cursor>,
    pub(super) side: Side,
    pub(super) on_demand: bool,
    pub(super) stages: CustomStages,
}

impl fmt::Debug for LoaderBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoaderBuilder")
            .field("side", &self.side)
            .field("on_demand", &self.on_demand)
            .field("documents", &self.documents.as_ref().map(|(name, _)| name))
            .field("stages", &self.stages)
            .finish_non_exhaustive()
    }
}

impl LoaderBuilder {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            config: config.clone(),
            opened: None,
            documents: None,
            tokenizer: None,
            cursor: None,
            side: Side::Train,
            on_demand: false,
            stages: CustomStages::default(),
        }
    }

    /// Uses this tokenizer instead of the one that the config names.
    pub fn with_tokenizer(self, tokenizer: Arc<dyn Tokenizer>) -> Self {
        Self { tokenizer: Some(tokenizer), ..self }
    }

    /// Opens the stream where `cursor` left off.
    pub fn with_cursor(self, cursor: Cursor) -> Self {
        Self { cursor: Some(cursor), ..self }
    }

    /// Reads the sources of the config as they are open, instead of listing their files once more.
    pub(crate) fn with_opened(self, opened: Option<Source>) -> Self {
        Self { opened, ..self }
    }

    /// If `held_out` is true, reads the held-out documents (`pipeline.holdout` of all) once, instead of the training
    /// documents. Their order is spread over all files and is always the same, whatever the seed, lanes, windows,
    /// `split`, batch size and world are. So the first of them are a fixed sample of the hold-out. Several sources are
    /// mixed by their first weights; a source without a first weight is not read.
    pub fn with_held_out(self, held_out: bool) -> Self {
        Self { side: if held_out { Side::HeldOut } else { Side::Train }, ..self }
    }

    /// If `on_demand` is true, makes each batch when it is asked for, in the task that asks. Nothing runs ahead and no
    /// other thread works, whatever `pipeline.workers` and `pipeline.depth` say. The batches are the same.
    ///
    /// Use it to look into the stages with a debugger or a profiler, or to measure what running ahead gains. `next()`
    /// then takes as long as all the work for a batch, including reads, and blocks its thread for that time. Two things
    /// still run in the background: files in a store are requested ahead, and a token cache writes what it keeps.
    pub fn with_on_demand(self, on_demand: bool) -> Self {
        Self { on_demand, ..self }
    }

    /// Reads custom documents instead of files, for example from a channel, a database or a crawler. The config then
    /// has no `[[source]]`.
    ///
    /// `documents` is called once for each lane, with the lane's number and the cursor that the lane is opened at. It
    /// returns the documents after that cursor. Each document carries the cursor after it, which must count documents
    /// ([`LaneCursor::after`]) and may hold other places. The stream may be endless or end; an error ends it. `name` is
    /// part of the order: include everything that the documents depend on.
    ///
    /// How exactly you can resume depends on where the documents come from. If the origin can go back to a document's
    /// number, resuming is exact. A batch's cursor is the cursor of the window that the batch came from, so up to one
    /// window of documents before the batch's last one is asked for again. If the origin cannot go back, a resumed
    /// stream continues with whatever comes next: documents that were read but not yet in a batch are lost.
    ///
    /// These documents are not charged to the memory budget: the origin bounds what it holds, and the loader adds a few
    /// groups of documents per worker. The origin also handles bad documents (`on_error`) and the hold-out: opening
    /// fails if `pipeline.holdout` is not 0.
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

    /// Reads the sources whose `format` has this name with this code. A source of kind `custom` needs it. If the records
    /// change, change the name too: it is part of the order.
    ///
    /// ```no_run
    /// # use millstream::source::RecordFormat;
    /// use millstream::{Config, Loader};
    ///
    /// # async fn example(records: impl RecordFormat + 'static) -> millstream::Result<()> {
    /// let config = "[[source]]\nkind = 'custom'\nformat = 'records'\npaths = ['*.records']";
    /// let loader = Loader::builder(&Config::from_toml(config)?).format("records", records).open().await?;
    /// # Ok(()) }
    /// ```
    pub fn format(mut self, name: impl Into<String>, format: impl RecordFormat + 'static) -> Self {
        let format = CustomFormat::new(name, format);
        let formats = self.config.sources.iter_mut().filter_map(|source| source.format.as_mut());
        formats.filter(|named| **named == format).for_each(|named| *named = format.clone());
        self
    }

    /// Adds a custom stage between the source and the tokenizer, after those that were added before. A panic in it
    /// becomes an [`Error::Stage`].
    ///
    /// `stage` is called once for each lane, with the lane's documents and the cursor that the lane is opened at.
    /// `name` is part of the order: a cursor is refused if it was made with other stages or under another name, so
    /// include everything that the stage depends on.
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
        self.stages.documents.push(CustomStage::new(name.into(), stage));
        self
    }

    /// Adds a custom stage between the tokenizer and the shuffle, after those that were added before. The stage sees
    /// each document's ids, with `bos` and `eos` if they are configured.
    ///
    /// `stage` is called once for each lane and source, with the lane's documents as ids and the cursor that the lane
    /// is opened at. It may drop documents, give them other ids ([`Tokens::with_ids`](crate::Tokens::with_ids)), or
    /// return several for one. `name` is part of the order: a cursor is refused if it was made with other stages or
    /// under another name, so include everything that the stage depends on. A stage that holds documents back must
    /// follow the rule of [`Anchor`](crate::cursor::Anchor): cursor = anchor + skip.
    ///
    /// Documents without ids come too: those that could not be tokenized, or of which nothing would be learned. Packing counts
    /// them and passes over them.
    ///
    /// It also works on token shards and with a token cache, which keeps the ids that the tokenizer made. Ids that the
    /// tokenizer does not have, and panics, become an [`Error::Stage`].
    ///
    /// ```
    /// # use std::future::ready;
    /// use futures::{StreamExt, TryStreamExt};
    /// use millstream::config::SourceConfig;
    /// use millstream::tokenizer::ByteTokenizer;
    /// use millstream::{Config, Loader};
    ///
    /// # #[tokio::main] async fn main() -> millstream::Result<()> {
    /// # let texts = SourceConfig::texts(["short", "long enough to be kept"]);
    /// # let mut config = Config::default().with_source(texts);
    /// # config.pipeline.epochs = Some(1);
    /// # let builder = Loader::builder(&config).with_tokenizer(std::sync::Arc::new(ByteTokenizer));
    /// let long = builder.token_stage("at least 10 tokens", |documents, _start| {
    ///     documents.try_filter(|document| ready(document.value.len() >= 10)).boxed()
    /// });
    /// let batches: Vec<_> = long.open().await?.try_collect().await?;
    /// # let kept: usize = batches.iter().map(|batch| batch.pieces().len()).sum();
    /// # assert_eq!(kept, 1);
    /// # Ok(()) }
    /// ```
    pub fn token_stage<F>(mut self, name: impl Into<String>, stage: F) -> Self
    where
        F: Fn(TokenStream, &LaneCursor) -> TokenStream + Send + Sync + 'static,
    {
        self.stages.tokens.push(CustomStage::new(name.into(), stage));
        self
    }

    /// Adds a custom stage between packing and batches, after those that were added before. The stage sees a lane's
    /// rows, `seq_len + ahead` ids wide.
    ///
    /// `stage` is called once for each lane and source, with the lane's rows and the cursor that the lane is opened at.
    /// It may drop rows, give them other ids ([`Sequence::map_ids`](crate::Sequence::map_ids)), or make new ones of the
    /// same width. `name` and cursors work as for [`token_stage`](Self::token_stage). Rows of another width, ids that
    /// the tokenizer does not have, and panics become an [`Error::Stage`].
    ///
    /// ```
    /// use futures::{StreamExt, TryStreamExt};
    /// use millstream::config::SourceConfig;
    /// use millstream::tokenizer::ByteTokenizer;
    /// use millstream::{Config, Loader};
    ///
    /// # #[tokio::main] async fn main() -> millstream::Result<()> {
    /// # let mut config = Config::default().with_source(SourceConfig::texts(["ABC"]));
    /// # config.pipeline.epochs = Some(1);
    /// # let builder = Loader::builder(&config).with_tokenizer(std::sync::Arc::new(ByteTokenizer));
    /// let masked = builder.row_stage("no A", |rows, _start| {
    ///     let mask = |_place, id| if id == u32::from(b'A') { u32::from(b'_') } else { id };
    ///     rows.map_ok(move |row| row.map(|row| row.map_ids(mask))).boxed()
    /// });
    /// let batches: Vec<_> = masked.open().await?.try_collect().await?;
    /// # assert_eq!(batches[0].row(0)[..3], b"_BC".map(u32::from));
    /// # Ok(()) }
    /// ```
    pub fn row_stage<F>(mut self, name: impl Into<String>, stage: F) -> Self
    where
        F: Fn(SequenceStream, &LaneCursor) -> SequenceStream + Send + Sync + 'static,
    {
        self.stages.rows.push(CustomStage::new(name.into(), stage));
        self
    }
}
