//! The child's side, for a Millstream loader: it reads batches as ordered, and logs each of them.

use std::path::Path;

use futures::StreamExt;

use super::log::Writer;
use super::orders::{ORDERS, Orders, refusal};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::loader::LoaderBuilder;
use crate::process::end_with_parent;

/// Makes a program that [`Plan`](super::Plan) can start as its children: call it first in `main`.
///
/// In a child it opens the loader that `open` builds from the config, logs its batches, and returns true: the program
/// has done its work and should return. Anywhere else it does nothing and returns false. A program without custom
/// stages passes [`Loader::builder`](crate::Loader::builder).
///
/// A child ends by itself when its parent is gone, for whatever reason.
///
/// # Errors
/// The errors of [`LoaderBuilder::open`] and of the stream, [`Error::Io`] for a log that cannot be written, and
/// [`Error::Verify`] for a plan without a config: it is about [any loader](super#any-loader), and this is not its child.
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

/// Logs the batches that were ordered.
async fn deliver(open: impl FnOnce(&Config) -> LoaderBuilder, orders: Orders) -> Result<()> {
    let Orders { config, until, step, log, loader } = orders;
    let config = config.ok_or_else(|| {
        let problem =
            "this program has a Millstream loader, and was started without a config; give verify the config too";
        Error::Verify { problem: problem.to_owned() }
    })?;
    let mut log = Writer::create(&log)?;
    let mut builder = open(&config);
    if let Some(cursor) = loader.states.first() {
        let cursor = serde_json::from_str(cursor).map_err(|e| Error::Verify { problem: e.to_string() })?;
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
