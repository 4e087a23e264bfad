//! Adapts a [`Loader`](millstream::Loader) to burn's data loader: awaits batches, and gives tensors to burn's `Learner`.
//!
//! burn asks for one epoch at a time, from a thread that it blocks. The loader has a small runtime of its own, so other
//! work of that thread does not matter. Dropping the data loader ends that runtime and its tasks. Tensors are made
//! where burn asks for them, not on the pipeline's threads. Held in memory, besides the loader's own: one batch.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    stream: Mutex<Slot>,
    cursor: Mutex<Option<Cursor>>,
}

/// The stream between two epochs.
enum Slot {
    /// The stream is not open yet.
    Closed,
    /// The stream is at the end of the last epoch, or in its middle: after this many of its batches.
    Open(Bridge, usize),
    /// An epoch is reading the stream.
    Taken,
    /// The stream ended with an error.
    Failed,
}

impl SharedStream {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut stream = Bridge::open(open())?;
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
        let (stream, cursor) = (Mutex::new(Slot::Closed), Mutex::new(None));
        let state = SharedStream { open, steps, goes_on, stream, cursor };
        Self { state: Arc::new(state), batcher: Arc::new(batcher), device: device.clone(), range: 0..steps }
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
        let taken = std::mem::replace(&mut *self.state.slot(), Slot::Taken);
        let mut epoch = Epoch { loader: self, stream: None, error: None, read: 0 };
        match taken {
            Slot::Open(stream, read) => (epoch.stream, epoch.read) = (Some(stream), read),
            Slot::Closed => match Bridge::open((self.state.open)()) {
                Ok(stream) => epoch.stream = Some(stream),
                Err(error) => {
                    epoch.error = Some(error);
                    *self.state.slot() = Slot::Failed;
                }
            },
            Slot::Taken => {
                epoch.error = Some(Error::Train("an epoch of this data loader is being read".to_owned()));
            }
            Slot::Failed => {
                epoch.error = Some(Error::Train("this data loader ended with an error before".to_owned()));
                *self.state.slot() = Slot::Failed;
            }
        }
        Box::new(epoch)
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
        let (stream, cursor) = (Mutex::new(Slot::Closed), Mutex::new(None));
        let state = SharedStream { open: open.clone(), steps: *steps, goes_on: *goes_on, stream, cursor };
        let end = (self.range.start + end).min(self.range.end);
        let start = (self.range.start + start).min(end);
        self.with(Arc::new(state), &self.device, start..end)
    }
}

struct Epoch<'a, O> {
    loader: &'a BurnLoader<O>,
    /// `None` when the epoch is over.
    stream: Option<Bridge>,
    error: Option<Error>,
    /// How many batches of the epoch have been read.
    read: usize,
}

impl<O> Epoch<'_, O> {
    /// Gives the stream back, for the next epoch.
    fn end(&mut self) {
        let Some(stream) = self.stream.take() else { return };
        let state = &self.loader.state;
        *state.slot() = match (state.goes_on, self.read == state.steps) {
            (true, true) => Slot::Open(stream, 0),
            (_, false) => Slot::Open(stream, self.read),
            (false, true) => Slot::Closed,
        };
    }

    fn fail(&mut self, error: Error) -> DatasetError {
        self.stream = None;
        *self.loader.state.slot() = Slot::Failed;
        DatasetError::new(error)
    }
}

impl<O> Iterator for Epoch<'_, O> {
    type Item = Result<O, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(error) = self.error.take() {
            return Some(Err(DatasetError::new(error)));
        }
        let BurnLoader { state, batcher, device, range } = self.loader;
        while self.read < state.steps {
            let batch = match self.stream.as_mut()?.next() {
                Some(Ok(batch)) => batch,
                Some(Err(error)) => return Some(Err(self.fail(error))),
                None => {
                    let (read, steps) = (self.read, state.steps);
                    return Some(Err(self.fail(Error::Train(format!(
                        "the stream ended after {read} of the {steps} batches of an epoch; raise pipeline.epochs or \
                         leave it out, or ask for fewer batches"
                    )))));
                }
            };
            let number = self.read;
            self.read += 1;
            *state.cursor.lock().unwrap_or_else(PoisonError::into_inner) = Some(batch.cursor().clone());
            if range.contains(&number) {
                return Some(Ok(batcher.batch(vec![batch], device)));
            }
        }
        self.end();
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

impl<O> Drop for Epoch<'_, O> {
    fn drop(&mut self) {
        self.end();
    }
}
