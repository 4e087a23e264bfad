//! The child's side: it reads batches as ordered, and logs each of them.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::StreamExt;
use serde::{Deserialize, Serialize};

use super::log::Writer;
use crate::config::Config;
use crate::cursor::Cursor;
use crate::error::{Error, Result};
use crate::loader::LoaderBuilder;

/// The environment variable that makes a program a child: the path of its orders.
pub(super) const ORDERS: &str = "MILLSTREAM_VERIFY_ORDERS";

/// The orders for a child.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    /// The config, with the child's rank and world, so that the environment does not matter.
    pub(super) config: Config,
    /// Where to go on; at the start if absent.
    pub(super) cursor: Option<Cursor>,
    /// The number of the first batch that need not be logged.
    pub(super) until: u64,
    /// How long to pause after each batch, like a trainer's step.
    pub(super) step: Duration,
    /// The path of the log.
    pub(super) log: PathBuf,
}

/// Makes a program that [`Plan`](super::Plan) can start as its children: call it first in `main`.
///
/// In a child it opens the loader that `open` builds from the config, logs its batches, and returns true: the program
/// has done its work and should return. Anywhere else it does nothing and returns false. A program without custom
/// stages passes [`Loader::builder`](crate::Loader::builder).
///
/// A child ends by itself when its parent is gone, for whatever reason.
///
/// # Errors
/// The errors of [`LoaderBuilder::open`] and of the stream, and [`Error::Io`] for a log that cannot be written.
///
/// ```no_run
/// use futures::StreamExt;
/// use futures::TryStreamExt;
/// use millstream::loader::LoaderBuilder;
/// use millstream::{Config, Loader, verify};
///
/// fn loader(config: &Config) -> LoaderBuilder {
///     Loader::builder(config).stage("lowercase", |documents, _start| {
///         let lowercase = |text: &str| text.to_lowercase();
///         documents.map_ok(move |document| document.map(|it| it.with_text(lowercase(it.text())))).boxed()
///     })
/// }
///
/// #[tokio::main]
/// async fn main() -> millstream::Result<()> {
///     if verify::serve(loader).await? {
///         return Ok(());
///     }
///     let mut loader = loader(&Config::load("my.toml")?).open().await?;
///     while let Some(batch) = loader.next().await {
///         println!("{} tokens", batch?.tokens());
///     }
///     Ok(())
/// }
/// ```
pub async fn serve(open: impl FnOnce(&Config) -> LoaderBuilder) -> Result<bool> {
    let Some(path) = std::env::var_os(ORDERS) else { return Ok(false) };
    let orders = orders(Path::new(&path))?;
    end_with_parent();
    let refused = refusal(&orders.log);
    match deliver(open, orders).await {
        // The child saved this cursor itself, so refusing it is a difference, not bad input.
        Err(Error::Resume { problem }) => {
            std::fs::write(&refused, problem).map_err(|e| Error::io(&refused, "write", e))?;
        }
        done => done?,
    }
    Ok(true)
}

/// The file where a child writes why it did not go on from its cursor.
pub(super) fn refusal(log: &Path) -> PathBuf {
    log.with_extension("refused")
}

/// Logs the batches that were ordered.
async fn deliver(open: impl FnOnce(&Config) -> LoaderBuilder, orders: Orders) -> Result<()> {
    let Orders { config, cursor, until, step, log } = orders;
    let mut log = Writer::create(&log)?;
    let mut builder = open(&config);
    if let Some(cursor) = cursor {
        builder = builder.with_cursor(cursor);
    }
    let mut loader = builder.open().await?;
    while let Some(batch) = loader.next().await {
        let batch = batch?;
        if batch.number() >= until {
            break;
        }
        log.push(&batch)?;
        if batch.cursor().batch() >= until {
            break;
        }
        if !step.is_zero() {
            // On a thread that may block, whichever runtime the program uses.
            let step = tokio::task::spawn_blocking(move || std::thread::sleep(step));
            step.await.map_err(|lost| Error::lost("verify", lost))?;
        }
    }
    Ok(())
}

fn orders(path: &Path) -> Result<Orders> {
    let json = std::fs::read(path).map_err(|e| Error::io(path, "read the orders", e))?;
    serde_json::from_slice(&json).map_err(|e| Error::io(path, "read the orders", e.into()))
}

/// Ends the process with its parent: the parent never writes to a child's standard input, which closes when it ends.
fn end_with_parent() {
    std::thread::spawn(|| {
        let mut input = std::io::stdin().lock();
        while input.read(&mut [0; 64]).is_ok_and(|len| len > 0) {}
        std::process::exit(1);
    });
}
