//! Opening a loader, in three steps.

use super::builder::LoaderBuilder;
use super::{Loader, assemble, plan, resolve};
use crate::error::Result;

impl LoaderBuilder {
    /// Opens the stream.
    ///
    /// If the stream is finite and there are several ranks, each rank first counts the rows of all lanes, once: it
    /// reads and tokenizes the whole corpus. The cursor keeps the count.
    ///
    /// # Errors
    /// As [`Loader::resume`].
    ///
    /// # Panics
    /// If called outside a tokio runtime.
    pub async fn open(self) -> Result<Loader> {
        let resolved = resolve::resolve(self).await?;
        let plan = plan::plan(resolved).await?;
        Ok(assemble::assemble(plan))
    }
}
