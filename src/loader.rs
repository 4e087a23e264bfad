//! From a config and a cursor to a stream of batches.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;

use crate::batch::Batch;
use crate::config::Config;
use crate::cursor::Cursor;
use crate::error::Result;
use crate::tokenizer::Tokenizer;

/// A stream of batches.
#[derive(Debug)]
pub struct Loader {}

impl Loader {
    /// Opens the training stream.
    pub async fn open(_config: &Config) -> Result<Self> {
        todo!()
    }

    /// Goes on after `cursor`.
    pub async fn resume(_config: &Config, _cursor: &Cursor) -> Result<Self> {
        todo!()
    }

    /// A builder.
    pub fn builder(_config: &Config) -> LoaderBuilder {
        todo!()
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Arc<dyn Tokenizer> {
        todo!()
    }

    /// Consumer wait share since the loader was opened or the last call of this.
    pub fn wait_share(&self) -> f64 {
        todo!()
    }
}

/// What serde cannot hold.
#[derive(Debug)]
pub struct LoaderBuilder {}

impl LoaderBuilder {
    /// Uses this tokenizer, whatever the config says.
    #[must_use]
    pub fn tokenizer(self, _tokenizer: Arc<dyn Tokenizer>) -> Self {
        todo!()
    }

    /// Resumes after this cursor.
    #[must_use]
    pub fn cursor(self, _cursor: Cursor) -> Self {
        todo!()
    }

    /// Reads the held-out documents, one epoch of them in file order, and no others.
    #[must_use]
    pub fn held_out(self) -> Self {
        todo!()
    }

    /// Opens the stream.
    pub async fn open(self) -> Result<Loader> {
        todo!()
    }
}

impl Stream for Loader {
    type Item = Result<Batch>;

    fn poll_next(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        todo!()
    }
}
