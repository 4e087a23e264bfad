//! A source without files: documents or texts from the program.

use std::sync::Arc;

use super::custom::DocumentStream;
use super::in_memory::InMemoryTexts;
use crate::config::{Config, OrAuto, SourceConfig, SourceKind, Uneven};
use crate::cursor::{Cursor, LaneCursor};
use crate::error::{Error, Result};
use crate::render::Renderer;
use crate::source::{Holdout, Lane};
use crate::tasks::blocking;
use crate::tokenizer::Encoder;

/// Opens a lane of custom documents: takes the lane's number and the cursor to open it at, returns its documents.
pub(super) type OpenDocuments = Arc<dyn Fn(usize, &LaneCursor) -> DocumentStream + Send + Sync>;

/// Documents or texts from the program, instead of files.
#[derive(Clone)]
pub(super) enum CustomSource {
    /// One stream for each lane.
    Documents {
        name: String,
        open: OpenDocuments,
    },
    InMemory(InMemoryTexts),
}

impl CustomSource {
    /// Returns the config with a source for them. `task` has the task of texts.
    pub(super) fn with_source(
        &self,
        mut config: Config,
        task: Option<SourceConfig>,
        cursor: Option<&Cursor>,
    ) -> Result<Config> {
        if !config.sources.is_empty() {
            let problem = "the loader was given documents or texts; leave [[source]] out, or give it none";
            return Err(Error::config("source", problem));
        }
        let name = match self {
            Self::Documents { .. } if config.pipeline.holdout > 0.0 => {
                let problem = "custom documents have no hold-out; set it to 0, and give the documents to hold out to a \
                               loader of their own";
                return Err(Error::config("pipeline.holdout", problem));
            }
            Self::Documents { .. } if config.pipeline.uneven == Uneven::Wrap => {
                let problem =
                    "custom documents have no beginning to wrap to; set uneven = \"pad\" or \"stop\"";
                return Err(Error::config("pipeline.uneven", problem));
            }
            Self::Documents { name, .. } => {
                // The streams end by themselves.
                config.pipeline.epochs = None;
                name.clone()
            }
            Self::InMemory(texts) => {
                if config.pipeline.lanes == OrAuto::Auto && cursor.is_none() {
                    config.pipeline.lanes = texts.lanes(&config).into();
                }
                "texts".to_owned()
            }
        };
        let source = match (self, task) {
            (Self::Documents { .. }, Some(_)) => {
                let problem = "custom documents are taken as they are; give the loader the records as texts";
                return Err(Error::config("source.0.task", problem));
            }
            (_, None) => SourceConfig::default(),
            (Self::InMemory(_), Some(SourceConfig { task, field, chat, fim, seed, on_error, .. })) => {
                let kind = if task.reads_records() { SourceKind::Jsonl } else { SourceKind::Text };
                SourceConfig { kind, task, field, chat, fim, seed, on_error, ..SourceConfig::default() }
            }
        };
        source.validate_task("source.0")?;
        config.sources = vec![SourceConfig { name: Some(name), weight: Some(1.0), ..source }];
        Ok(config)
    }

    /// The same; texts with a task are rendered by it. It reads the template, on a blocking thread.
    pub(super) async fn with_rendering(self, config: &Config, encoder: &Encoder) -> Result<Self> {
        let Self::InMemory(texts) = self else { return Ok(self) };
        let (source, tokenizer) = (config.sources[0].clone(), config.tokenizer.clone());
        let rendering =
            blocking("source", move || Renderer::new(0, &source, &tokenizer)).await?.map(Arc::new);
        if let Some(rendering) = &rendering {
            rendering.check_ends(&**encoder.tokenizer());
            config.pipeline.row_ids().into_iter().for_each(|row_ids| rendering.fit(encoder, row_ids));
        }
        Ok(Self::InMemory(texts.with_rendering(rendering)))
    }

    /// The same texts without those on the other side of the hold-out, if there is one. Those with a task are rendered.
    ///
    /// # Errors
    /// [`Error::Config`] if there are too few texts for all lanes to read endlessly, [`Error::Corpus`] if there are
    /// none, [`Error::Document`] for one that cannot be rendered.
    pub(super) fn on_side(self, holdout: Holdout, config: &Config) -> Result<Self> {
        match self {
            Self::Documents { .. } => Ok(self),
            Self::InMemory(texts) => texts.on_side(holdout, config).map(Self::InMemory),
        }
    }

    pub(super) fn documents(&self, deal: Lane, at: &LaneCursor) -> DocumentStream {
        match self {
            Self::Documents { open, .. } => open(deal.lane, at),
            Self::InMemory(texts) => texts.documents(deal, at),
        }
    }

    pub(super) fn texts(&self) -> Option<&InMemoryTexts> {
        match self {
            Self::Documents { .. } => None,
            Self::InMemory(texts) => Some(texts),
        }
    }
}
