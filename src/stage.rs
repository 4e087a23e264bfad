//! The combinators: from documents to batches.
//!
//! [`StageExt`] is the catalogue. Each stage takes a stream and is one; errors pass through and end
//! it. Items are [`Tracked`]: the cursor rides inside them, so that any stage of your own fits in
//! between and loses nothing, be it `map_ok`, `try_filter` or a struct with `poll_next`. A stage that
//! holds things back keeps one rule more, `cursor = anchor + skip`; [`Anchor`](crate::cursor::Anchor)
//! does the bookkeeping and [`conformance`](crate::conformance) checks it.
//!
//! Stages keep order, know nothing of each other, and do nothing unless polled; only `prefetch` runs
//! ahead by itself. They take streams that are `Unpin`: `.boxed()` makes one of any.

use std::num::NonZeroUsize;
use std::sync::Arc;

use futures::Stream;

use crate::budget::Budget;
use crate::config::Packing;
use crate::cursor::{Cursor, LaneCursor, Tracked};
use crate::document::{Document, Tokens};
use crate::error::Result;
use crate::meter::Meter;
use crate::tokenizer::Encoder;

mod batch;
mod bounded;
mod bucket;
mod lanes;
mod mix;
mod on_demand;
mod pack;
mod prefetch;
mod shuffle;
mod tokenize;
mod tune;
mod turn;
mod workers;

pub use batch::Batches;
pub use bounded::Bounded;
pub(crate) use bucket::{Buckets, Grouping};
pub use lanes::Lanes;
pub(crate) use mix::shares;
pub use mix::{Mix, Schedule};
pub(crate) use on_demand::OnDemand;
pub use pack::Pack;
pub use prefetch::Prefetch;
pub(crate) use prefetch::{Ahead, Waits};
pub use shuffle::Shuffle;
pub(crate) use tokenize::SPARE_JOBS;
pub use tokenize::Tokenize;
pub(crate) use tune::Range;
pub use turn::{Row, Turn};
pub use workers::Workers;

/// The stages, as methods of every stream.
pub trait StageExt: Stream + Sized {
    /// Turns documents into ids on blocking threads, in the order in which they came.
    ///
    /// Documents are taken in groups of up to 512 KiB; [`Workers`] bounds how many groups are encoded at
    /// once, over all the streams that share it. A document that cannot be encoded, whose encoding panics, or that gets
    /// an id beyond the vocabulary, is an [`Error::Document`](crate::Error::Document) after all that came before it,
    /// or is left out ([`with_on_error`](Tokenize::with_on_error)).
    ///
    /// # Cancel safety
    /// Dropping the stream drops what it holds; a group that is being encoded ends by itself and is lost.
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

    /// Shuffles items among the `window` that lie together, by a permutation keyed with (seed, epoch,
    /// place); 1 keeps their order.
    ///
    /// A window ends where its epoch does. The first windows are short: each is as long as all before it
    /// together, at least 2, until `window` is reached; so the first items come at once. The next
    /// window fills while the one before drains; about one window of items is held. A `start` that skips more than
    /// its window has is an [`Error::Resume`](crate::Error::Resume).
    ///
    /// # Cancel safety
    /// Dropping the stream drops what it holds; resuming from the last delivered cursor brings it back.
    ///
    /// ```
    /// # use std::num::NonZeroUsize;
    /// # use futures::{TryStreamExt, stream};
    /// # use millstream::{LaneCursor, Tracked};
    /// use millstream::stage::StageExt;
    ///
    /// # #[tokio::main] async fn main() -> millstream::Result<()> {
    /// let start = LaneCursor::default();
    /// let numbers = stream::iter((1..=9).map(|n| Ok(Tracked::new(n, LaneCursor::after(n)))));
    /// let window = NonZeroUsize::new(4).unwrap();
    /// let shuffled: Vec<_> = numbers.shuffle(window, 42, &start).map_ok(|n| n.value).try_collect().await?;
    /// assert_eq!(shuffled.iter().sum::<u64>(), 45);
    /// assert!(shuffled[..4].iter().all(|n| *n <= 4));
    /// # Ok(()) }
    /// ```
    fn shuffle<T>(self, window: NonZeroUsize, seed: u64, start: &LaneCursor) -> Shuffle<Self, T>
    where
        Self: Stream<Item = Result<Tracked<T>>> + Unpin,
    {
        Shuffle::new(self, window, seed, start)
    }

    /// Packs ids into sequences of `seq_len + ahead`, so that each has `seq_len` inputs and the `ahead` ids
    /// that follow each of them. A document without ids gives nothing.
    ///
    /// - [`Concat`](crate::config::Pack::Concat): documents follow each other and are cut where a sequence is
    ///   full; the next one begins `seq_len` ids further, `ahead` ids before where this one ends. So every id
    ///   but the stream's first is the next id of exactly one input. The last sequences of a finite stream may
    ///   be shorter. A sequence that holds `max_segments` documents, or parts of them, ends with the last of
    ///   these: then nothing is repeated, and the next begins with the next document, whose first id
    ///   is no target. (Where it ends between `seq_len + 2` ids and the full width, the next one begins
    ///   `seq_len` ids further, as ever.)
    /// - [`Pad`](crate::config::Pack::Pad): so with one segment a sequence: each document begins a sequence of
    ///   its own.
    /// - [`BestFit`](crate::config::Pack::BestFit): `window` documents are laid into sequences together, the
    ///   longest first, each where the least room stays. One of at most `seq_len + 1` ids is never cut; of a longer
    ///   one each `seq_len` ids, with those ahead, fill a sequence, and what is left of it is laid like a document:
    ///   its first ids; or, if `ahead` is more than one, its last, which begin their sequence. Sequences that stay emptier than three
    ///   quarters are taken apart and laid with the next window, once. A window's sequences leave in an order drawn
    ///   by its place. The first windows are short and grow as the shuffle's do.
    ///
    /// No ids are copied here, but for the ends of long documents that have to wait. At most one sequence is
    /// held; or, with best fit, some two windows of documents, and what the one before left over.
    ///
    /// # Panics
    /// If `seq_len` is zero: nothing could be a target.
    ///
    /// # Cancel safety
    /// As [`shuffle`](StageExt::shuffle).
    ///
    /// ```
    /// # use futures::{TryStreamExt, stream};
    /// # use millstream::{LaneCursor, Tokens, Tracked};
    /// use millstream::config::{Pack, Packing};
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
    /// let rows = pack(Packing::new(Pack::Concat, 4)).await?;
    /// assert_eq!(rows, [vec![1, 2, 3, 4, 5], vec![5, 6, 7, 8]]);
    /// let rows = pack(Packing::new(Pack::Pad, 4)).await?;
    /// assert_eq!(rows, [vec![1, 2, 3, 4], vec![5, 6, 7], vec![8]]);
    /// let mut rows = pack(Packing::new(Pack::BestFit, 4)).await?;
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

    /// Turns a lane that waits for ever into an [`Error::Budget`](crate::Error::Budget): its source waits for
    /// `budget`, all of which lies in stages that wait for the source.
    ///
    /// It belongs behind the last stage of a lane whose source was given the budget. Poll such a lane only
    /// when it is waited for, as [`Lanes`] does: while its rows lie in a batch that others have to fill, it
    /// may have to wait.
    ///
    /// ```
    /// # use std::num::NonZeroUsize;
    /// # use futures::StreamExt;
    /// use millstream::stage::StageExt;
    /// use millstream::{Budget, LaneCursor, Source};
    /// # use millstream::config::SourceConfig;
    ///
    /// # #[tokio::main] async fn main() -> millstream::Result<()> {
    /// # let paths = vec!["src/**/*.rs".to_owned()];
    /// let source = Source::open(&[SourceConfig { paths, ..SourceConfig::default() }]).await?;
    /// let (budget, start) = (Budget::new(64 << 10), LaneCursor::default());
    /// let window = NonZeroUsize::new(1_000_000).unwrap();
    /// let mut lane = source
    ///     .with_budget(budget.clone())
    ///     .documents(&start)
    ///     .shuffle(window, 42, &start)
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

    /// Gathers sequences, or rows of several [`Lanes`], into batches of `batch_size`; `pad` fills what
    /// sequences leave. The last batch of a finite stream has what is left.
    ///
    /// This is where ids are copied, once. `start` is the cursor that the stream was opened at; the
    /// batches' own follow from it.
    ///
    /// # Cancel safety
    /// As [`shuffle`](StageExt::shuffle).
    ///
    /// ```
    /// # use std::num::NonZeroUsize;
    /// # use futures::{TryStreamExt, stream};
    /// # use millstream::{Cursor, Tokens, Tracked};
    /// use millstream::config::{Pack, Packing};
    /// use millstream::stage::StageExt;
    ///
    /// # #[tokio::main] async fn main() -> millstream::Result<()> {
    /// let start = Cursor::default();
    /// let tokens = stream::iter([Ok(Tracked::new(Tokens::new((0..9).collect(), 9), *start.at(0, 0)))]);
    /// let batches: Vec<_> = tokens
    ///     .pack(Packing::new(Pack::Concat, 2), start.at(0, 0))
    ///     .batch(NonZeroUsize::new(2).unwrap(), 0, &start)
    ///     .try_collect()
    ///     .await?;
    /// assert_eq!(batches[0].ids(), [0, 1, 2, 2, 3, 4]);
    /// assert_eq!(batches[1].ids(), [4, 5, 6, 6, 7, 8]);
    /// # Ok(()) }
    /// ```
    fn batch<T>(self, batch_size: NonZeroUsize, pad: u32, start: &Cursor) -> Batches<Self>
    where
        Self: Stream<Item = Result<T>> + Unpin,
        T: Into<Row>,
    {
        Batches::new(self, batch_size, pad, start)
    }

    /// Runs the stream ahead on a task of its own, until `depth` finished items wait.
    ///
    /// This is what makes the stages before it work while the consumer does. Dropping it ends the task.
    /// A panic in any stage before it is an [`Error::Panic`](crate::Error::Panic) here.
    ///
    /// # Panics
    /// If it is called outside a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping a `next()` loses nothing.
    ///
    /// ```
    /// # use std::num::NonZeroUsize;
    /// # use futures::{TryStreamExt, stream};
    /// use millstream::stage::StageExt;
    ///
    /// # #[tokio::main] async fn main() -> millstream::Result<()> {
    /// let ahead = stream::iter((0..9).map(Ok)).prefetch(NonZeroUsize::new(4).unwrap());
    /// assert_eq!(ahead.try_collect::<Vec<u32>>().await?, (0..9).collect::<Vec<_>>());
    /// # Ok(()) }
    /// ```
    fn prefetch<T>(self, depth: NonZeroUsize) -> Prefetch<T>
    where
        Self: Stream<Item = Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        Prefetch::spawn(self, Ahead::fixed(depth), Waits { meter: Meter::new("prefetch"), chain: None })
    }
}

impl<S: Stream> StageExt for S {}
