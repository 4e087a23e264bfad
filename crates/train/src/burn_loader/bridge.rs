//! Connects a loader that is awaited to a thread that blocks.
//!
//! The loader has its own thread and runtime, which nothing else can block. So the caller may wait for it anywhere,
//! even on another runtime.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::thread;

use async_channel::{Receiver, Sender};
use futures::channel::oneshot;
use futures::future::select;
use futures::{FutureExt, StreamExt};
use tokio::runtime::Builder;

use millstream::batch::Batch;
use millstream::error::{Error, Result, panic_message};
use millstream::loader::LoaderBuilder;

/// A batch, an error, or `None` at the stream's end.
type Item = Option<Result<Batch>>;

/// A running loader. Dropping it ends the loader's tasks without waiting for them.
#[derive(Debug)]
pub(super) struct Bridge {
    batches: Receiver<Item>,
    /// Dropping it tells the loader to stop.
    _stop: oneshot::Sender<()>,
}

impl Bridge {
    /// Opens the loader on its own thread. If that fails there, the error comes as the first item.
    ///
    /// # Errors
    /// [`Error::Train`] if no thread can be started.
    pub(super) fn open(builder: LoaderBuilder) -> Result<Self> {
        let (sender, batches) = async_channel::bounded(1);
        let (stop, stopped) = oneshot::channel();
        let named = thread::Builder::new().name("millstream".to_owned());
        named.spawn(move || run(builder, &sender, stopped)).map_err(no_thread)?;
        Ok(Self { batches, _stop: stop })
    }

    /// Returns the next batch; blocks until it is ready.
    pub(super) fn next(&mut self) -> Item {
        // A task that ends normally reports how it ended.
        let gone = |_| Some(Err(Error::Train("the loader's thread is gone".to_owned())));
        self.batches.recv_blocking().unwrap_or_else(gone)
    }
}

fn no_thread(error: std::io::Error) -> Error {
    Error::Train(format!("the loader's threads cannot be started: {error}"))
}

/// Sends the loader's batches until the loader ends or nobody wants more.
fn run(builder: LoaderBuilder, sender: &Sender<Item>, stopped: oneshot::Receiver<()>) {
    // One worker for the tasks besides this one, which awaits the batches; tokenizing has more.
    let runtime = match Builder::new_multi_thread().worker_threads(1).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            // The channel has room, and if the receiver is gone nobody needs the error.
            let _ = sender.try_send(Some(Err(no_thread(error))));
            return;
        }
    };
    let read = async {
        let read = AssertUnwindSafe(read(builder, sender)).catch_unwind().await;
        let last = read.unwrap_or_else(|payload| {
            Some(Err(Error::Panic { stage: "loader", message: panic_message(&*payload) }))
        });
        // If the receiver is gone, nobody needs the end either.
        let _ = sender.send(last).await;
    };
    runtime.block_on(async {
        select(pin!(read), stopped).await;
    });
    // Work on blocking threads ends by itself.
    runtime.shutdown_background();
}

/// Sends the loader's batches, and returns how the loader ended.
async fn read(builder: LoaderBuilder, sender: &Sender<Item>) -> Item {
    let mut loader = match builder.open().await {
        Ok(loader) => loader,
        Err(error) => return Some(Err(error)),
    };
    while let Some(batch) = loader.next().await {
        if batch.is_err() {
            return Some(batch);
        }
        if sender.send(Some(batch)).await.is_err() {
            break;
        }
    }
    None
}
