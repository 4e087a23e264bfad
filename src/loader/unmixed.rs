//! The rows of each lane and source before they are mixed and dealt: finished rows are made of these.

use std::sync::Arc;

use super::chains::Chains;
use super::custom::SequenceStream;
use super::gauge::Gauge;
use super::{Loader, plan, resolve};
use crate::config::{Config, Uneven};
use crate::cursor::LaneCursor;
use crate::error::Result;
use crate::source::Source;
use crate::tokenizer::Tokenizer;

/// The lanes of one epoch of a config, all in this process.
pub(crate) struct UnmixedLanes {
    chains: Arc<Chains>,
    gauge: Arc<Gauge>,
    tokenizer: Arc<dyn Tokenizer>,
}

impl UnmixedLanes {
    /// Opens the lanes of the training documents, or the single lane of the held-out ones. Opens or learns a tokenizer
    /// unless one is given.
    ///
    /// # Errors
    /// Those of opening a [`Loader`].
    pub(crate) async fn open(
        config: &Config,
        is_held_out: bool,
        tokenizer: Option<Arc<dyn Tokenizer>>,
    ) -> Result<Self> {
        let mut config = config.clone();
        // The launcher's rank says which part this process makes, and not which lanes it reads.
        (config.pipeline.rank, config.pipeline.world, config.pipeline.epochs) = (Some(0), Some(1), Some(1));
        // Each lane ends at its own end, without rows of padding.
        config.pipeline.uneven = Uneven::Stop;
        config.sources.iter_mut().for_each(|source| source.epochs = None);
        let builder = Loader::builder(&config).with_held_out(is_held_out);
        let builder = match tokenizer {
            Some(tokenizer) => builder.with_tokenizer(tokenizer),
            None => builder,
        };
        let plan::Plan { chains, gauge, tokenizer, .. } =
            plan::plan(resolve::resolve(builder).await?).await?;
        Ok(Self { chains, gauge, tokenizer })
    }

    /// The config, with `auto` lanes and windows set.
    pub(crate) fn config(&self) -> &Config {
        &self.chains.config
    }

    pub(crate) fn source(&self) -> &Source {
        &self.chains.source
    }

    pub(crate) fn tokenizer(&self) -> &Arc<dyn Tokenizer> {
        &self.tokenizer
    }

    /// How many lanes there are.
    pub(crate) fn len(&self) -> usize {
        self.config().pipeline.lanes()
    }

    /// The rows that a lane makes of a source in one epoch, from `at` on.
    pub(crate) fn rows(&self, lane: usize, source: usize, at: &LaneCursor) -> SequenceStream {
        self.chains.sequences(lane, source, at, Some(1), &self.gauge.of_lane(lane))
    }
}
