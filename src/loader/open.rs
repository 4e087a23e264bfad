//! Opening a loader, in three steps.

use super::builder::LoaderBuilder;
use super::{Loader, assemble, plan, resolve};
use crate::error::Result;

impl LoaderBuilder {
    /// Opens the stream.
    ///
    /// If the stream is finite and there are several ranks, a task counts the rows of all lanes meanwhile: it reads and
    /// tokenizes the whole corpus. Ranks that share a user's caches count once. The cursor keeps the count.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::cursor::Cursor;

    /// A program may open a loader in a task, on any thread: these compile.
    #[expect(dead_code, reason = "the compiler is the test")]
    fn opening_can_be_spawned(builder: LoaderBuilder, config: &'static Config, cursor: &'static Cursor) {
        fn assert_send(_: impl Send) {}
        assert_send(builder.open());
        assert_send(Loader::open(config));
        assert_send(Loader::resume(config, cursor));
    }
}
