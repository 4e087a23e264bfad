//! Connects a loader that is awaited to a thread that blocks.
//!
//! The loader has its own runtime, which nothing else can block. So the caller may wait for it anywhere, even on another
//! runtime.

use std::panic::AssertUnwindSafe;

use async_channel::{Receiver, Sender};
use futures::{FutureExt, StreamExt};
use tokio::runtime::{Builder, Runtime};

use millstream::batch::Batch;
use millstream::error::{Error, Result, panic_message};
use millstream::loader::LoaderBuilder;

/// A running loader. Dropping it ends the loader's tasks without waiting for them.
#[derive(Debug)]
pub(super) struct Bridge {
    batches: Receiver<Result<Batch>>,
    /// `None` while it is dropped.
    runtime: Option<Runtime>,
}

impl Bridge {
    /// Opens the loader on its own runtime. If that fails there, the error comes as the first item.
    pub(super) fn open(builder: LoaderBuilder) -> Result<Self> {
        // One worker awaits the batches, and one has the other tasks; tokenizing has more.
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime
            .map_err(|error| Error::Train(format!("the loader's threads cannot be started: {error}")))?;
        let (sender, batches) = async_channel::bounded(1);
        runtime.spawn(async move {
            let read = AssertUnwindSafe(read(builder, &sender)).catch_unwind().await;
            let panicked =
                |payload: Box<_>| Err(Error::Panic { stage: "loader", message: panic_message(&*payload) });
            if let Err(error) = read.unwrap_or_else(panicked) {
                // If the receiver is gone, nobody needs it.
                let _ = sender.send(Err(error)).await;
            }
        });
        Ok(Self { batches, runtime: Some(runtime) })
    }

    /// Returns the next batch, or `None` at the stream's end; blocks until it is ready.
    pub(super) fn next(&self) -> Option<Result<Batch>> {
        self.batches.recv_blocking().ok()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Work on blocking threads ends by itself.
            runtime.shutdown_background();
        }
    }
}

/// Sends the loader's batches until the loader ends or nobody wants more.
async fn read(builder: LoaderBuilder, sender: &Sender<Result<Batch>>) -> Result<()> {
    let mut loader = builder.open().await?;
    while let Some(batch) = loader.next().await {
        if sender.send(Ok(batch?)).await.is_err() {
            break;
        }
    }
    Ok(())
}
