//! The names that a program needs to open a loader and await its batches: `use millstream::prelude::*`.
//!
//! ```no_run
//! use millstream::prelude::*;
//!
//! # async fn example() -> Result<()> {
//! let config = Config::default().with_source(SourceConfig::text("corpus/**/*.txt"));
//! let mut loader = Loader::open(&config).await?;
//! while let Some(batch) = loader.next().await {
//!     println!("{} tokens", batch?.tokens());
//! }
//! # Ok(()) }
//! ```

pub use futures::{StreamExt, TryStreamExt};

pub use crate::batch::Batch;
pub use crate::config::{ByteCount, Config, PipelineConfig, SourceConfig, TokenizerConfig};
pub use crate::cursor::Cursor;
pub use crate::document::Document;
pub use crate::error::{Error, Result};
pub use crate::loader::Loader;
pub use crate::stage::StageExt;
