//! Text, wherever it lies, into training batches.

pub mod batch;
pub mod budget;
pub mod config;
pub mod conformance;
pub mod cursor;
pub mod document;
pub mod error;
pub mod files;
pub mod loader;
pub mod meter;
mod order;
pub mod source;
pub mod stage;
pub mod tokenizer;
#[cfg(feature = "burn")]
pub mod train;

pub use batch::{Batch, BatchBuilder, Piece};
pub use budget::Budget;
pub use config::Config;
pub use cursor::{Cursor, LaneCursor, Tracked};
pub use document::{Document, Part, Position, Sequence, Tokens};
pub use error::{Error, Result};
pub use loader::Loader;
pub use meter::{Meter, Meters, StageMeter};
pub use source::Source;
