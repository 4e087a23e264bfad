//! Adapts a [`Loader`](millstream::Loader) to burn's data loader: awaits batches, and gives tensors to burn's `Learner`.
//!
//! burn asks for one epoch at a time, from a thread that it blocks. The loader has a small runtime of its own, so other
//! work of that thread does not matter. Dropping the data loader ends that runtime and its tasks. Tensors are made
//! where burn asks for them, not on the pipeline's threads. Held in memory, besides the loader's own: one batch.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;

use crate::model::{Scope, Tensors};
use millstream::batch::Batch;
use millstream::cursor::Cursor;
use millstream::error::{Error, Result};
use millstream::loader::LoaderBuilder;

mod bridge;

use bridge::Bridge;

/// Makes [`Tensors`] from batches: inputs, targets and a mask, `[rows, seq_len]` each.
#[derive(Clone, Copy, Debug, Default)]
pub struct TensorBatcher {
    scope: Scope,
}

impl TensorBatcher {
    /// Creates a batcher with the targets of `scope`.
    pub fn new(scope: Scope) -> Self {
        Self { scope }
    }
}

impl Batcher<Batch, Tensors> for TensorBatcher {
    /// # Panics
    /// If there is not exactly one batch: the loader's batches are already complete.
    fn batch(&self, items: Vec<Batch>, device: &Device) -> Tensors {
        let [batch] = items.as_slice() else { panic!("{} batches, and one is made tensors of", items.len()) };
        Tensors::new(batch, self.scope, device)
    }
}

/// Opens the stream to read.
type Open = Arc<dyn Fn() -> LoaderBuilder + Send + Sync>;

/// A loader as burn's [`DataLoader`]. An item is a whole batch, with as many rows as the loader gives it: `num_items`
/// and the progress bar count batches.
///
/// ```no_run
/// use std::sync::Arc;
///
/// use burn::tensor::Device;
/// use millstream_train::{BurnLoader, TensorBatcher};
/// use millstream::{Config, Loader};
///
/// # fn example() -> millstream::Result<()> {
/// let config = Config::load("configs/tiny.toml")?;
/// let device = Device::default();
/// let (train, valid) = (config.clone(), config);
/// // 500 batches are an epoch of burn's; the next one goes on behind them.
/// let train = BurnLoader::training(move || Loader::builder(&train), 500, TensorBatcher::default(), &device)?;
/// // The first 20 batches of the hold-out, the same each time.
/// let valid =
///     BurnLoader::validation(move || Loader::builder(&valid).with_held_out(true), 20, TensorBatcher::default(), &device)?;
/// let (train, valid) = (Arc::new(train), Arc::new(valid));
/// // let training = SupervisedTraining::new("run", train, valid);
/// # Ok(()) }
/// ```
///
/// # Errors
/// If the loader fails, the error is the epoch's last item. A stream that ends before the epoch is an error too: an
/// epoch is never silently short. burn's `Learner` stops at the error and reports it.
///
/// # Resuming
/// burn's checkpoints hold the model and the optimizer. [`cursor`](Self::cursor) says where the stream is. Save it next
/// to them, and give the builder that cursor to continue.
pub struct BurnLoader<O> {
    state: Arc<SharedStream>,
    batcher: Arc<dyn Batcher<Batch, O>>,
    device: Device,
    /// Which of an epoch's batches this loader gives.
    range: Range<usize>,
}

/// The state that data loaders share if they differ only in their device.
struct SharedStream {
    open: Open,
    /// How many batches an epoch has.
    steps: usize,
    /// Whether an epoch continues where the one before it ended.
    goes_on: bool,
    /// Locked while an epoch reads it.
    stream: Mutex<Stream>,
    cursor: Mutex<Option<Cursor>>,
}

/// The stream of batches.
#[derive(Default)]
struct Stream {
    /// `None` before an epoch opens it, and after an error.
    batches: Option<Bridge>,
    has_failed: bool,
    /// How many batches of the last epoch were read.
    read: usize,
}

impl SharedStream {
    fn new(open: Open, steps: usize, goes_on: bool) -> Arc<Self> {
        Arc::new(Self { open, steps, goes_on, stream: Mutex::default(), cursor: Mutex::default() })
    }

    /// The stream, for an epoch to read: where the last epoch stopped, if that was before its end.
    fn begin(&self) -> Result<MutexGuard<'_, Stream>> {
        let mut stream = match self.stream.try_lock() {
            Ok(stream) => stream,
            Err(TryLockError::Poisoned(stream)) => stream.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(Error::Train("an epoch of this data loader is being read".to_owned()));
            }
        };
        if stream.read == self.steps {
            stream.read = 0;
            stream.batches = stream.batches.take().filter(|_| self.goes_on);
        }
        if stream.has_failed {
            return Err(Error::Train("this data loader ended with an error before".to_owned()));
        }
        if stream.batches.is_none() {
            let opened = Bridge::open((self.open)());
            stream.has_failed = opened.is_err();
            stream.batches = Some(opened?);
        }
        Ok(stream)
    }
}

impl<O> fmt::Debug for BurnLoader<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BurnLoader")
            .field("steps", &self.state.steps)
            .field("range", &self.range)
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}

impl<O: Send + 'static> BurnLoader<O> {
    /// Creates a loader over one stream, of which each epoch takes the next `steps` batches. The stream must be long
    /// enough for all epochs: without `pipeline.epochs` it is endless.
    ///
    /// # Errors
    /// [`Error::Config`] if `steps` is 0. The loader is opened when the first epoch begins, so its errors come as
    /// items.
    pub fn training(
        open: impl Fn() -> LoaderBuilder + Send + Sync + 'static,
        steps: usize,
        batcher: impl Batcher<Batch, O> + 'static,
        device: &Device,
    ) -> Result<Self> {
        if steps == 0 {
            return Err(Error::config("steps", "an epoch of 0 batches; it must be at least 1"));
        }
        Ok(Self::new(Arc::new(open), steps, true, batcher, device))
    }

    /// Creates a loader over a stream that each epoch reads from the start, up to its first `most` batches: a
    /// validation set.
    ///
    /// The stream is read once here, to count its batches.
    ///
    /// # Errors
    /// The loader's errors, and [`Error::Corpus`] if it gives no batch.
    pub fn validation(
        open: impl Fn() -> LoaderBuilder + Send + Sync + 'static,
        most: usize,
        batcher: impl Batcher<Batch, O> + 'static,
        device: &Device,
    ) -> Result<Self> {
        let mut steps = 0;
        let stream = Bridge::open(open())?;
        while steps < most && stream.next().transpose()?.is_some() {
            steps += 1;
        }
        if steps == 0 {
            let problem =
                "there is no batch to validate on; look at pipeline.holdout and pipeline.last".to_owned();
            return Err(Error::Corpus { problem });
        }
        Ok(Self::new(Arc::new(open), steps, false, batcher, device))
    }

    fn new(
        open: Open,
        steps: usize,
        goes_on: bool,
        batcher: impl Batcher<Batch, O> + 'static,
        device: &Device,
    ) -> Self {
        let state = SharedStream::new(open, steps, goes_on);
        Self { state, batcher: Arc::new(batcher), device: device.clone(), range: 0..steps }
    }

    /// The cursor of the last batch given; `None` before the first. Data loaders made by `to_device` share it, so you
    /// can keep one, give another to burn, and ask the one that you kept.
    pub fn cursor(&self) -> Option<Cursor> {
        self.state.cursor.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn with(&self, state: Arc<SharedStream>, device: &Device, range: Range<usize>) -> Arc<dyn DataLoader<O>> {
        Arc::new(Self { state, batcher: self.batcher.clone(), device: device.clone(), range })
    }
}

impl<O: Send + 'static> DataLoader<O> for BurnLoader<O> {
    /// Starts the next epoch. If you drop an epoch before its end, the next call continues it. Starting a second one
    /// while one is being read is an error.
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<O> + 'a> {
        let (stream, error) = match self.state.begin() {
            Ok(stream) => (Some(stream), None),
            Err(error) => (None, Some(error)),
        };
        let read = stream.as_ref().map_or(0, |stream| stream.read);
        Box::new(Epoch { loader: self, stream, error, read })
    }

    /// The number of batches in an epoch.
    fn num_items(&self) -> usize {
        self.range.len()
    }

    /// Returns the same stream with its tensors on another device.
    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<O>> {
        self.with(self.state.clone(), device, self.range.clone())
    }

    /// Returns the batches `start..end` of each epoch. It opens a separate stream and reads the other batches too,
    /// without making tensors from them, because a stream cannot skip to a batch. For several processes use ranks
    /// instead.
    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<O>> {
        let SharedStream { open, steps, goes_on, .. } = &*self.state;
        let state = SharedStream::new(open.clone(), *steps, *goes_on);
        let end = (self.range.start + end).min(self.range.end);
        let start = (self.range.start + start).min(end);
        self.with(state, &self.device, start..end)
    }
}

struct Epoch<'a, O> {
    loader: &'a BurnLoader<O>,
    /// `None` when the epoch is over.
    stream: Option<MutexGuard<'a, Stream>>,
    error: Option<Error>,
    /// How many batches of the epoch have been read.
    read: usize,
}

impl<O> Iterator for Epoch<'_, O> {
    type Item = Result<O, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.error.take() {
            return Some(Err(DatasetError::new(error)));
        }
        let BurnLoader { state, batcher, device, range } = self.loader;
        let stream = self.stream.as_mut()?;
        while stream.read < state.steps {
            let ended = || {
                let (read, steps) = (stream.read, state.steps);
                Err(Error::Train(format!(
                    "the stream ended after {read} of the {steps} batches of an epoch; raise pipeline.epochs or leave \
                     it out, or ask for fewer batches"
                )))
            };
            let next = stream.batches.as_ref().and_then(Bridge::next);
            let batch = match next.unwrap_or_else(ended) {
                Ok(batch) => batch,
                Err(error) => {
                    (stream.batches, stream.has_failed) = (None, true);
                    self.stream = None;
                    return Some(Err(DatasetError::new(error)));
                }
            };
            let number = stream.read;
            stream.read += 1;
            self.read = stream.read;
            *state.cursor.lock().unwrap_or_else(PoisonError::into_inner) = Some(batch.cursor().clone());
            if range.contains(&number) {
                return Some(Ok(batcher.batch(vec![batch], device)));
            }
        }
        self.stream = None;
        None
    }
}

impl<O> DataLoaderIterator<O> for Epoch<'_, O> {
    fn progress(&self) -> Progress {
        let range = &self.loader.range;
        let given = self.read.clamp(range.start, range.end) - range.start;
        Progress::new(given, range.len(), Some("batches".to_owned()))
    }
}
