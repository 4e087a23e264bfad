//! Stands in for the stores in a build without them: all files are local.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::{Cancellable, Found, Local, Plan, ReadTurn, Stored, checked};
use crate::budget::Budget;
use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::files::{File, Files};
use crate::meter::StoreMeter;

#[derive(Debug)]
pub(crate) struct Stores;

#[expect(clippy::unused_async, reason = "stores are asked and answer later")]
impl Stores {
    pub(crate) fn new(_: &StoreConfig) -> Self {
        Self
    }

    pub(crate) fn meter(&self) -> StoreMeter {
        StoreMeter::default()
    }

    pub(crate) async fn list(&self, key: &str, pattern: &str) -> Result<Vec<File>> {
        Err(absent(key, pattern))
    }

    pub(crate) async fn below(&self, url: &str) -> Result<Found> {
        Err(absent(OUTPUT, url))
    }

    pub(crate) async fn read(&self, url: &str, _: u64) -> Result<Option<Vec<u8>>> {
        Err(absent(OUTPUT, url))
    }

    pub(crate) async fn ranges(&self, _: Vec<(File, Range<u64>)>) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    pub(crate) async fn write(&self, url: &str, _: Vec<u8>) -> Result<()> {
        Err(absent(OUTPUT, url))
    }

    pub(crate) async fn create(&self, url: &str, _: Vec<u8>) -> Result<bool> {
        Err(absent(OUTPUT, url))
    }

    pub(crate) async fn upload(&self, url: &str, _: &mut std::fs::File) -> Result<()> {
        Err(absent(OUTPUT, url))
    }

    pub(crate) async fn remove(&self, url: &str) -> Result<()> {
        Err(absent(OUTPUT, url))
    }
}

/// The setting that errors of a URL name, unless it is in a source.
const OUTPUT: &str = "output";

fn absent(key: &str, url: &str) -> Error {
    let problem = "is in a store, but this build cannot use stores; build it with the feature `stores`";
    Error::config(key, format!("{url:?} {problem}"))
}

/// What the names of files on the Hub begin with.
pub(crate) const HUB: &str = "hf://";

/// The files of a repository of the Hub.
#[derive(Debug)]
pub(crate) struct HubTree {
    pub(crate) root: String,
    pub(crate) path: String,
    pub(crate) files: Vec<String>,
}

pub(crate) fn hub_tree(key: &str, name: &str) -> Result<HubTree> {
    Err(absent(key, name))
}

pub(crate) fn hub_revision(revision: &str) -> &str {
    revision
}

pub(crate) fn hub_commit(_: &str) -> Option<(String, String)> {
    None
}

pub(crate) fn pin_hub(_: impl IntoIterator<Item = (String, String)>) {}

pub(crate) fn pinned(key: &str, name: String) -> Result<String> {
    match name.starts_with(HUB) {
        true => Err(absent(key, &name)),
        false => Ok(name),
    }
}

/// Does nothing: this build cannot ask the Hub.
pub fn ask_hub_with(_: &StoreConfig) {}

/// The same path, unless it is on the Hub.
///
/// # Errors
/// [`Error::Config`] for a path that is.
pub fn local(path: &Path) -> Result<Cow<'_, Path>> {
    match path.to_str().filter(|name| name.starts_with(HUB)) {
        Some(name) => Err(absent(name, name)),
        None => Ok(path.into()),
    }
}

/// Opens the files that a lane reads.
#[derive(Debug)]
pub(crate) struct FileOpener(Arc<Files>);

impl FileOpener {
    pub(crate) fn new(
        files: Arc<Files>,
        _: Arc<Stores>,
        _: Option<&Arc<Budget>>,
        _: Cancellable,
        _: u64,
    ) -> Self {
        Self(files)
    }

    pub(crate) fn unplanned(files: Arc<Files>, _: Arc<Stores>, _: Cancellable) -> Self {
        Self(files)
    }

    pub(crate) fn open(&self, number: u32) -> Result<Arc<dyn Stored>> {
        let file = &self.0[number as usize];
        checked(Local::open(file.path(), file.len)?)
    }

    pub(crate) fn is_planned(&self) -> bool {
        false
    }

    pub(crate) fn room(&self) -> u64 {
        u64::MAX
    }

    pub(crate) fn fetch(&self, _: impl Iterator<Item = (u32, Range<u64>)>) -> Result<Vec<Vec<u8>>> {
        Ok(Vec::new())
    }

    pub(crate) fn plan(&mut self, plan: impl Plan) -> Result<()> {
        drop(plan);
        Ok(())
    }

    pub(crate) fn reach(&mut self, _: ReadTurn) {}
}
