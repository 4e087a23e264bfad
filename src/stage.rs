//! The combinators: from documents to batches.
//!
//! [`StageExt`] is the catalogue. Each stage takes a stream and is a stream; an error passes through and ends it. Items
//! are [`Tracked`]: the cursor travels inside them. So any custom stage fits in between and loses nothing: `map_ok`,
//! `try_filter`, or a struct with `poll_next`. A stage that holds items back must keep one more rule,
//! `cursor = anchor + skip`: [`Anchor`](crate::cursor::Anchor) does the bookkeeping, and
//! [`conformance`](crate::conformance) checks it.
//!
//! Stages keep order, know nothing of each other, and do nothing unless polled; only `prefetch` runs ahead by itself.
//! They take `Unpin` streams; `.boxed()` makes any stream `Unpin`. In a [`Loader`](crate::Loader) each lane runs ahead
//! by itself, and so do the batches.

use std::sync::Arc;

use futures::Stream;

use crate::budget::Budget;
use crate::config::Packing;
use crate::cursor::{Cursor, LaneCursor, Tracked};
use crate::document::{Document, Tokens};
use crate::error::Result;
use crate::meter::{Meter, TaskMeter};
use crate::tokenizer::Encoder;

mod batch;
mod bounded;
mod bucket;
mod copy;
mod input;
mod lanes;
mod left_behind;
mod mix;
mod on_demand;
mod pack;
mod prefetch;
mod shuffle;
mod tokenize;
mod tune;
mod turn;
mod window;
mod window_order;
mod workers;

pub use batch::Batches;
pub use bounded::Bounded;
pub(crate) use bucket::{BucketRule, Buckets};
pub(crate) use copy::CopyRows;
pub use lanes::Lanes;
pub(crate) use lanes::Rounds;
pub(crate) use left_behind::LeftBehind;
pub(crate) use mix::{Mix, Schedule, shares};
pub(crate) use on_demand::OnDemand;
pub(crate) use pack::MOST_SILENT_EPOCHS;
pub use pack::Pack;
pub(crate) use prefetch::Ahead;
pub use prefetch::Prefetch;
pub use shuffle::Shuffle;
pub(crate) use tokenize::SPARE_JOBS;
pub use tokenize::Tokenize;
pub(crate) use tune::Range;
pub(crate) use turn::Turn;
pub use turn::{DealtTurn, Row};
pub(crate) use window_order::Delivered;
pub use workers::Workers;

/// The stages, as methods of every stream.
pub trait StageExt: Stream + Sized {
    /// Turns documents into ids on blocking threads, and keeps their order.
    ///
    /// Documents are gathered and encoded in groups of up to 512 KiB. (In a [`Loader`](crate::Loader) without custom
    /// document stages, the threads that encode read the documents too.) [`Workers`] bounds how many groups are encoded
    /// at once, over all the streams that share it. If a document cannot be encoded, its encoding panics, or it gets an
    /// id beyond the vocabulary, the stream ends with an [`Error::Document`](crate::Error::Document) after all
    /// documents before it. To leave such documents out instead, use [`with_on_error`](Tokenize::with_on_error).
    ///
    /// # Cancel safety
    /// Dropping the stream drops its items. A group that is being encoded finishes, and its ids are lost.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use futures::{StreamExt, TryStreamExt, stream};
    /// # use millstream::{Document, LaneCursor, Tracked};
    /// use millstream::stage::{StageExt, Workers};
    /// use millstream::tokenizer::{ByteTokenizer, Encoder};
    ///
    /// # #[tokio::main] async fn main() -> millstream::Result<()> {
    /// let encoder = Encoder::new(Arc::new(ByteTokenizer)).with_eos("<|endoftext|>")?;
    /// let documents = stream::iter([Ok(Tracked::new(Document::new("hi"), LaneCursor::default()))]);
    /// let tokens: Vec<_> = documents.tokenize(&encoder, &Workers::new(2)).try_collect().await?;
    /// assert_eq!(*tokens[0].value.ids(), [104, 105, 256]);
    /// # Ok(()) }
    /// ```
    fn tokenize(self, encoder: &Encoder, workers: &Workers) -> Tokenize<Self>
    where
        Self: Stream<Item = Result<Tracked<Document>>> + Unpin,
    {
        Tokenize::new(self, encoder.clone(), workers.clone())
    }

    /// Shuffles each run of `window` items by a permutation keyed with (seed, epoch, place); 1 keeps their
    /// order.
    ///
    /// A window ends where its epoch ends. The first windows are short, so that the first items come at once:
    /// each is as long as all windows before it together, at least 2, until `window` is reached. The next
    /// window fills while the one before drains, so about one window of items is held. A `start` within a window that
    /// is not as long now, or that skips more items than its window has, is an
    /// [`Error::Resume`](crate::Error::Resume).
    ///
    /// # Panics
    /// If `window` is 0.
    ///
    /// # Cancel safety
    /// Dropping the stream drops its items; resuming from the last delivered cursor brings them back.
    ///
    /// ```
    /// # use futures::{TryStreamExt, stream};
    /// # use millstream::{LaneCursor, Tracked};
    /// use millstream::stage::StageExt;
    ///
    /// # #[tokio::main] async fn main() -> millstream::Result<()> {
    /// let start = LaneCursor::default();
    /// let numbers = stream::iter((1..=9).map(|n| Ok(Tracked::new(n, LaneCursor::after(n)))));
    /// let shuffled: Vec<_> = numbers.shuffle(4, 42, &start).map_ok(|n| n.value).try_collect().await?;
    /// assert_eq!(shuffled.iter().sum::<u64>(), 45);
    /// assert!(shuffled[..4].iter().all(|n| *n <= 4));
    /// # Ok(()) }
    /// ```
    fn shuffle<T>(self, window: usize, seed: u64, start: &LaneCursor) -> Shuffle<Self, T>
    where
        Self: Stream<Item = Result<Tracked<T>>> + Unpin,
    {
        Shuffle::new(self, window, seed, start)
    }

    /// Packs ids into sequences of `seq_len + ahead`: `seq_len` inputs, each with the `ahead` ids that follow
    /// it.
    ///
    /// A document without ids gives nothing. One that is learned from only in part, such as a conversation, is cut by
    /// `Concat` alone; with the other rules it gives nothing if it is longer than `seq_len + 1` ids, which is counted.
    ///
    /// - [`Concat`](crate::config::PackRule::Concat): documents follow each other and are cut where a
    ///   sequence is full. The next sequence begins `seq_len` ids further, `ahead` ids before this one ends.
    ///   So every id except the stream's first is the next id of exactly one input. The last sequences of a
    ///   finite stream may be shorter. A sequence that holds `max_segments` documents, or parts of documents,
    ///   ends with the last of them. Then nothing is repeated, and the next sequence begins with the next
    ///   document, whose first id is not a target. (If the sequence ends between `seq_len + 2` ids and the
    ///   full width, the next one begins `seq_len` ids further as usual.)
    /// - [`Pad`](crate::config::PackRule::Pad): the same with one segment per sequence, so each document
    ///   begins a new sequence.
    /// - [`BestFit`](crate::config::PackRule::BestFit): `window` documents are placed together, the longest
    ///   first, each into the sequence where it leaves the least room. A document of at most `seq_len + 1`
    ///   ids is never cut. In a longer document, each `seq_len` ids, with the ids ahead of them, fill a
    ///   sequence. The rest is placed like a document: the first ids or, if `ahead` is more than one, the
    ///   last ids, which begin their sequence. Sequences that stay less than three quarters full are taken
    ///   apart and placed with the next window, once. A window's sequences leave in an order drawn from the
    ///   window's place. The first windows are short and grow as the shuffle's do.
    ///
    /// No ids are copied here, except the ends of long documents that have to wait. At most one sequence is
    /// held; with best fit, about two windows of documents, and what the window before left over.
    ///
    /// # Panics
    /// If `seq_len`, `ahead`, `max_segments` or `window` is 0.
    ///
    /// # Cancel safety
    /// As [`shuffle`](StageExt::shuffle).
    ///
    /// ```
    /// # use futures::{TryStreamExt, stream};
    /// # use millstream::{LaneCursor, Tokens, Tracked};
    /// use millstream::config::{PackRule, Packing};
    /// use millstream::stage::StageExt;
    ///
    /// # #[tokio::main] async fn main() -> millstream::Result<()> {
    /// let start = LaneCursor::default();
    /// let pack = async |packing: Packing| {
    ///     let tokens = stream::iter([vec![1, 2, 3, 4], vec![5, 6, 7], vec![8]].map(|ids| {
    ///         Ok(Tracked::new(Tokens::new(ids, 3), start))
    ///     }));
    ///     let rows = tokens.pack(packing, &start).map_ok(|row| row.value.ids().collect());
    ///     rows.try_collect::<Vec<Vec<u32>>>().await
    /// };
    /// let rows = pack(Packing::new(PackRule::Concat, 4)).await?;
    /// assert_eq!(rows, [vec![1, 2, 3, 4, 5], vec![5, 6, 7, 8]]);
    /// let rows = pack(Packing::new(PackRule::Pad, 4)).await?;
    /// assert_eq!(rows, [vec![1, 2, 3, 4], vec![5, 6, 7], vec![8]]);
    /// let mut rows = pack(Packing::new(PackRule::BestFit, 4)).await?;
    /// rows.sort();
    /// assert_eq!(rows, [vec![1, 2, 3, 4, 8], vec![5, 6, 7]]);
    /// # Ok(()) }
    /// ```
    fn pack(self, packing: Packing, start: &LaneCursor) -> Pack<Self>
    where
        Self: Stream<Item = Result<Tracked<Tokens>>> + Unpin,
    {
        Pack::new(self, &packing, start)
    }

    /// Ends a lane that would wait forever with an [`Error::Budget`](crate::Error::Budget).
    ///
    /// That happens when the source waits for `budget`, and stages that wait for the source hold all of it. If a stage
    /// may be waiting for something else, such as an answer over the network, the source gets one slab beyond the budget
    /// instead, and a warning says so.
    ///
    /// Put it after the last stage of a lane whose source was given the budget. Poll such a lane only while
    /// you hold none of its items, or wait for its next item, as [`Lanes`] does: a lane may have to wait for the memory
    /// of rows that wait for other lanes.
    ///
    /// ```
    /// # use futures::StreamExt;
    /// use millstream::stage::StageExt;
    /// use millstream::{Budget, LaneCursor, Source};
    /// # use millstream::config::SourceConfig;
    ///
    /// # #[tokio::main] async fn main() -> millstream::Result<()> {
    /// let source = Source::open(&[SourceConfig::text("src/**/*.rs")]).await?;
    /// let (budget, start) = (Budget::new(64 << 10), LaneCursor::default());
    /// let mut lane = source
    ///     .with_budget(budget.clone())
    ///     .documents(&start)
    ///     .shuffle(1_000_000, 42, &start)
    ///     .bounded(budget);
    /// let outcome = loop {
    ///     match lane.next().await {
    ///         Some(Ok(_)) => {}
    ///         end => break end,
    ///     }
    /// };
    /// assert!(matches!(outcome, Some(Err(millstream::Error::Budget { .. }))));
    /// # Ok(()) }
    /// ```
    fn bounded<T>(self, budget: Arc<Budget>) -> Bounded<Self>
    where
        Self: Stream<Item = Result<T>> + Unpin,
    {
        Bounded::new(self, budget)
    }

    /// Gathers sequences, or rows of several [`Lanes`], into batches of `batch_size` rows.
    ///
    /// `pad` fills the unused ends of rows. The last batch of a finite stream has the rows that are left.
    ///
    /// This is where the ids are copied out of their documents. `start` is the cursor that the stream was opened at; the
    /// batches' cursors follow from it.
    ///
    /// # Panics
    /// If `batch_size` is 0.
    ///
    /// # Cancel safety
    /// As [`shuffle`](StageExt::shuffle).
    ///
    /// ```
    /// # use futures::{TryStreamExt, stream};
    /// # use millstream::{Cursor, Tokens, Tracked};
    /// use millstream::config::{PackRule, Packing};
    /// use millstream::stage::StageExt;
    ///
    /// # #[tokio::main] async fn main() -> millstream::Result<()> {
    /// let start = Cursor::default();
    /// let tokens = stream::iter([Ok(Tracked::new(Tokens::new((0..9).collect(), 9), *start.at(0, 0)))]);
    /// let batches: Vec<_> = tokens
    ///     .pack(Packing::new(PackRule::Concat, 2), start.at(0, 0))
    ///     .batch(2, 0, &start)
    ///     .try_collect()
    ///     .await?;
    /// assert_eq!(batches[0].ids(), [0, 1, 2, 2, 3, 4]);
    /// assert_eq!(batches[1].ids(), [4, 5, 6, 6, 7, 8]);
    /// # Ok(()) }
    /// ```
    fn batch<T>(self, batch_size: usize, pad: u32, start: &Cursor) -> Batches<Self>
    where
        Self: Stream<Item = Result<T>> + Unpin,
        T: Into<Row>,
    {
        Batches::new(self, batch_size, pad, start)
    }

    /// Runs the stream ahead on its own task, until `depth` finished items wait.
    ///
    /// The stages before it then work while the consumer does. Dropping the stream ends the task. A panic in
    /// any stage before it becomes an [`Error::Panic`](crate::Error::Panic).
    ///
    /// # Panics
    /// If it is called outside a tokio runtime, or `depth` is 0.
    ///
    /// # Cancel safety
    /// Dropping a `next()` loses nothing.
    ///
    /// ```
    /// # use futures::{TryStreamExt, stream};
    /// use millstream::stage::StageExt;
    ///
    /// # #[tokio::main] async fn main() -> millstream::Result<()> {
    /// let ahead = stream::iter((0..9).map(Ok)).prefetch(4);
    /// assert_eq!(ahead.try_collect::<Vec<u32>>().await?, (0..9).collect::<Vec<_>>());
    /// # Ok(()) }
    /// ```
    fn prefetch<T>(self, depth: usize) -> Prefetch<T>
    where
        Self: Stream<Item = Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        assert!(depth > 0, "items that never wait");
        Prefetch::spawn(self, Ahead::fixed(depth), TaskMeter::Alone(Meter::new("prefetch")))
    }
}

impl<S: Stream> StageExt for S {}
