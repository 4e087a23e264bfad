//! Stands in for the stores in a build without them: all files are local.

use std::sync::Arc;

use super::{Local, Plan, ReadTurn, Stored};
use crate::budget::Budget;
use crate::config::StoreConfig;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::meter::StoreMeter;

/// No stores.
#[derive(Debug)]
pub(crate) struct Stores;

/// A file of a store.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) url: String,
    pub(crate) len: u64,
    pub(crate) etag: Option<String>,
}

impl Stores {
    pub(crate) fn new(_: &StoreConfig) -> Self {
        Self
    }

    pub(crate) fn meter(&self) -> StoreMeter {
        StoreMeter::default()
    }

    #[expect(clippy::unused_async, reason = "stores are asked and answer later")]
    pub(crate) async fn list(&self, key: &str, pattern: &str) -> Result<Vec<Listed>> {
        let problem = "is in a store, but this build cannot read stores; build it with the feature `stores`";
        Err(Error::config(key, format!("{pattern:?} {problem}")))
    }
}

/// Held by the consumer of what is read.
#[derive(Debug)]
pub(crate) struct Leash;

/// The other end of a [`Leash`]: nothing waits for a store.
#[derive(Clone, Debug)]
pub(crate) struct Leashed;

impl Leash {
    pub(crate) fn new() -> (Self, Leashed) {
        (Self, Leashed)
    }
}

impl Leashed {
    pub(crate) fn free() -> Self {
        Self
    }
}

/// A lane's files.
#[derive(Debug)]
pub(crate) struct Shelf(Arc<Files>);

impl Shelf {
    pub(crate) fn new(files: Arc<Files>, _: Arc<Stores>, _: Option<&Arc<Budget>>, _: Leashed) -> Self {
        Self(files)
    }

    pub(crate) fn unplanned(files: Arc<Files>, _: Arc<Stores>, _: Leashed) -> Self {
        Self(files)
    }

    pub(crate) fn open(&self, number: u32) -> Result<Arc<dyn Stored>> {
        let file = &self.0[number as usize];
        Ok(Arc::new(Local::open(file.path(), file.len)?))
    }

    pub(crate) fn is_planned(&self) -> bool {
        false
    }

    pub(crate) fn plan(&mut self, plan: impl Plan) -> Result<()> {
        drop(plan);
        Ok(())
    }

    pub(crate) fn reach(&mut self, _: ReadTurn) {}
}
