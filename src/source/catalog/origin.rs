//! Where the documents of a source come from. It is decided once, when the source is opened.

use std::sync::Arc;

use crate::config::SourceConfig;
use crate::files::File;
use crate::shards::ShardSet;

/// Where the documents of a source come from.
#[derive(Clone, Debug)]
pub(crate) enum Origin {
    /// Files on this machine or in stores, or what replaces them: a seed, or texts in memory.
    Files,
    /// Standard input, which comes only once.
    Stdin,
    /// Token shards. The files are those that the shards were made of.
    Shards(Arc<ShardSet>),
    /// The program, which gives documents to the loader.
    Program,
}

impl Origin {
    /// The origin of the source that a config names, unless it is token shards.
    pub(super) fn named(config: &SourceConfig) -> Self {
        if config.is_stdin() { Self::Stdin } else { Self::Files }
    }

    /// The token shards.
    pub(crate) fn shards(&self) -> Option<&Arc<ShardSet>> {
        match self {
            Self::Shards(shards) => Some(shards),
            Self::Files | Self::Stdin | Self::Program => None,
        }
    }

    /// The files of the segments of token shards that are in stores.
    pub(crate) fn remote(&self) -> impl Iterator<Item = &File> {
        self.shards().into_iter().flat_map(|shards| shards.remote())
    }
}
