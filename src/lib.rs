//! Text, wherever it lies, into training batches, for a loop that awaits them.
//!
//! ```no_run
//! use futures::StreamExt;
//! use millstream::{Config, Loader};
//!
//! # async fn example() -> millstream::Result<()> {
//! let config = Config::load("configs/quickstart.toml")?;
//! let mut loader = Loader::open(&config).await?;
//! while let Some(batch) = loader.next().await {
//!     let batch = batch?; // `[batch_size, seq_len + 1]` ids, and all that an exact resume needs:
//!     batch.cursor().save("cursor.json")?;
//! }
//! # Ok(()) }
//! ```
//!
//! ```text
//! files ──► splits ──► documents ──► tokens ──► shuffled ──► sequences ──► batches
//! ```
//!
//! [`Loader`] is the whole journey, from a [`Config`]. Its parts compose by hand as well: a
//! [`Source`] gives documents, the methods of [`StageExt`](stage::StageExt) make batches of them, and
//! any stream or stage of your own fits in between, because the cursor rides in each item
//! ([`Tracked`]). [`conformance`] checks that a stage is as exact as ours.
//!
//! # Floors
//!
//! Imports point down only, and never in a circle; a test reads this table and the imports.
//!
//! | floor | what |
//! |---|---|
//! | `cli` | the program and its commands |
//! | [`verify`] | the laws, proved on a config by child processes |
//! | `train` | model, optimizer, schedule, checkpoints, generation |
//! | [`loader`] | config and cursor → a stream of batches |
//! | [`source`], [`stage`], [`conformance`] | where documents come from; the combinators; a check of them |
//! | [`tokenizer`], `shards`, `store` | text → ids; ids on disk, and the token cache; bytes, wherever they lie |
//! | [`config`], [`world`] | plain structs, their defaults and bounds; which process this is |
//! | [`batch`], [`document`] | what flows |
//! | [`files`] | the corpus's files, and places in them |
//! | [`cursor`], [`trail`] | where we are, and were |
//! | `segment`, [`meter`], [`budget`], `order`, `tasks` | stored ids; counters and waits; memory in flight; keyed permutations; named tasks |
//! | `atomic`, `location` | files written whole or not at all; paths and URLs |
//! | [`error`] | what went wrong |
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `compression` | compressed text: gzip, zstd, bzip2, xz |
//! | `stores` | sources in object stores and on HTTP servers ([`config::StoreConfig`]) |
//! | `tokenizers` | Hugging Face tokenizers ([`tokenizer::hf`]), and learning them |
//! | `burn` | the trainer ([`train`]), without a device |
//! | `flex` | burn's CPU device, pure Rust |
//! | `cuda`, `wgpu`, `vulkan`, `metal` | burn's GPU devices |
//! | `fastokens` | a faster engine for byte-level BPE, behind the same gate |
//! | `console` | names for tasks, which tokio-console shows |
//! | `cli` (default) | the program, with `compression`, `tokenizers` and `flex` |

mod atomic;
pub mod batch;
pub mod budget;
pub mod config;
pub mod conformance;
pub mod cursor;
pub mod document;
pub mod error;
pub mod files;
pub mod loader;
mod location;
pub mod meter;
mod order;
#[doc = include_str!("../docs/own-stages.md")]
pub mod own_stages {}
mod segment;
mod shards;
#[doc = include_str!("../docs/token-shards.md")]
pub mod token_shards {}
pub mod source;
pub mod stage;
mod store;
mod tasks;
pub mod tokenizer;
pub mod trail;
#[cfg(feature = "burn")]
pub mod train;
pub mod verify;
pub mod world;

pub use batch::{Batch, BatchBuilder, Piece, Targets};
pub use budget::Budget;
pub use config::Config;
pub use cursor::{Cursor, LaneCursor, Tracked};
pub use document::{Document, Part, Sequence, Tokens};
pub use error::{Error, Result};
pub use files::Position;
pub use loader::Loader;
pub use meter::{Meter, Meters, StageMeter};
pub use source::Source;
pub use world::World;
