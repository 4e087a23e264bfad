//! Small files of the Hub by their paths on this machine: tokenizers, chat templates, models, cards. They are fetched
//! into the Hub's cache, where they stay.
//!
//! These functions block, and may be called on any thread: they wait on a thread of their own.

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::hub::{HubTree, PREFIX};
use super::stores::Stores;
use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::threads::lock;

/// How the Hub is asked.
static STORE: Mutex<Option<StoreConfig>> = Mutex::new(None);

/// Asks the Hub for listings and small files as these settings say, from now on in this process. Whatever opens the sources
/// of a config does so by itself. Call this if you open a tokenizer, a chat template or a model of the Hub before.
pub fn ask_hub_with(store: &StoreConfig) {
    // The files come whole and stay in the Hub's own cache.
    let store = StoreConfig { cache: None, hub_cache: None, ..store.clone() };
    *lock(&STORE) = Some(store);
}

/// The files of the repository that `name` begins with. Setting `key` names it.
pub(crate) fn hub_tree(key: &str, name: &str) -> Result<HubTree> {
    wait(async |stores: Arc<Stores>| stores.hub().listing(key, name).await)
}

/// A name on the Hub with the commit that its branch or tag stands for. Other names stay as they are.
pub(crate) fn pinned(key: &str, name: String) -> Result<String> {
    match name.starts_with(PREFIX) {
        true => wait(async |stores: Arc<Stores>| stores.hub().pinned(key, &name).await),
        false => Ok(name),
    }
}

/// Where a file or a directory is on this machine. What is on the Hub is fetched into its cache first. Other paths stay as
/// they are.
///
/// A file of a model comes with the JSON files and the Jinja templates beside it. A directory, such as a whole model, comes
/// with those in it and the weights (`model.safetensors`, or its parts). Of a dataset only files come, each alone.
///
/// # Errors
/// [`Error::Io`] if it cannot be fetched, of the kind [`NotFound`](io::ErrorKind::NotFound) if the repository has no such
/// file; [`Error::Config`] for a name that is not one of the Hub.
pub fn local(path: &Path) -> Result<Cow<'_, Path>> {
    let Some(name) = path.to_str().filter(|name| name.starts_with(PREFIX)) else { return Ok(path.into()) };
    wait(async |stores: Arc<Stores>| {
        let (found, files) = stores.hub().needed(name).await?;
        for file in files {
            let kept = stores.object(&file)?.keep().await;
            kept.map_err(|error| match error.refuses_writing() {
                true => Error::Corpus {
                    problem: format!(
                        "{}; set HF_HUB_CACHE to a directory that can be written",
                        error.chain()
                    ),
                },
                false => error,
            })?;
        }
        Ok(found.into())
    })
}

/// Waits for work with a client of its own, whose tasks end with it.
fn wait<T: Send>(work: impl AsyncFnOnce(Arc<Stores>) -> Result<T> + Send) -> Result<T> {
    let lost = |e: io::Error| Error::io(PREFIX, "start a thread for", e);
    std::thread::scope(|scope| {
        let waiting = std::thread::Builder::new().spawn_scoped(scope, || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(lost)?;
            let store = lock(&STORE).clone().unwrap_or_default();
            runtime.block_on(work(Arc::new(Stores::new(&store))))
        });
        let waited = waiting.map_err(lost)?.join();
        waited.unwrap_or_else(|_| Err(lost(io::Error::other("it has panicked"))))
    })
}
