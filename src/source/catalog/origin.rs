//! Where the documents of a source come from. It is decided once, when the source is opened.

use std::sync::Arc;

use crate::config::{SourceConfig, SourceKind};
use crate::rows::RowSet;
use crate::shards::{PlacedFile, ShardSet};

/// Where the documents of a source come from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// Files on this machine or in stores.
    Files,
    /// Standard input, which comes only once.
    Stdin,
    /// A seed. No file is read.
    Synthetic,
    /// Token shards. The files are those that the shards were made of.
    Shards(Arc<ShardSet>),
    /// Finished rows. The files are those that the rows were made of.
    Rows(Arc<RowSet>),
    /// The program, which gives documents or texts to the loader.
    Program,
}

impl Origin {
    /// The origin of the source that a config names, unless it is token shards or rows.
    pub(super) fn named(config: &SourceConfig) -> Self {
        match config.kind {
            _ if config.is_stdin() => Self::Stdin,
            SourceKind::Synthetic => Self::Synthetic,
            _ => Self::Files,
        }
    }

    /// The token shards.
    pub(crate) fn shards(&self) -> Option<&Arc<ShardSet>> {
        match self {
            Self::Shards(shards) => Some(shards),
            Self::Files | Self::Stdin | Self::Synthetic | Self::Rows(_) | Self::Program => None,
        }
    }

    /// The finished rows.
    pub(crate) fn rows(&self) -> Option<&Arc<RowSet>> {
        match self {
            Self::Rows(rows) => Some(rows),
            Self::Files | Self::Stdin | Self::Synthetic | Self::Shards(_) | Self::Program => None,
        }
    }

    /// The files of the segments of token shards or rows that are in stores.
    pub(crate) fn remote(&self) -> Vec<&PlacedFile> {
        match self {
            Self::Shards(shards) => shards.remote().collect(),
            Self::Rows(rows) => rows.remote().collect(),
            Self::Files | Self::Stdin | Self::Synthetic | Self::Program => Vec::new(),
        }
    }
}
