//! Looks at the first batch of a new run: a mask that is wrong there is mostly wrong everywhere.

use futures::StreamExt;
use futures::stream::BoxStream;

use millstream::batch::Batch;
use millstream::config::{Config, SourceConfig, SourceKind};
use millstream::error::{Error, Result};
use millstream::loader::Loader;
use millstream::prove::Prover;

/// The batches of a loader. If the first one has a mask with a fault, a warning says so: where the records are files of
/// this machine, and the stream begins with their documents.
pub(super) async fn with_first_proved(config: &Config, loader: Loader) -> BoxStream<'static, Result<Batch>> {
    let is_at_hand = |source: &SourceConfig| {
        let is_near = |path: &String| path != "-" && !path.contains("://");
        source.kind != SourceKind::Shards && source.repo.is_none() && source.paths.iter().all(is_near)
    };
    if !config.exclude.batches.is_empty() || !config.sources.iter().all(is_at_hand) {
        return loader.boxed();
    }
    let mut prover = match Prover::open(&loader).await {
        Ok(prover) => Some(prover.at_a_glance()).filter(Prover::has_task),
        Err(error) => {
            tracing::debug!(%error, "the records cannot be read again");
            None
        }
    };
    let proved = loader.then(move |batch| {
        let prover = prover.take();
        async move {
            if let (Some(prover), Ok(batch)) = (prover, &batch) {
                warn_of_faults(prover, batch).await;
            }
            batch
        }
    });
    proved.boxed()
}

async fn warn_of_faults(mut prover: Prover, batch: &Batch) {
    let problem = match prover.check(batch).await {
        Ok(Some(fault)) => Some(Error::from(fault).to_string()),
        Ok(None) => prover.proof().problem(),
        Err(error) => {
            tracing::debug!(%error, "the records cannot be read again");
            None
        }
    };
    if let Some(problem) = problem {
        tracing::warn!("what is learned from has a fault, in the first batch: {problem}");
    }
}
