//! Streams training batches from text, wherever it is stored, to a loop that awaits them.
//!
//! ```no_run
//! use millstream::prelude::*;
//!
//! # async fn example() -> Result<()> {
//! let config = Config::default()
//!     .with_source(SourceConfig::text("src/**/*.rs"))
//!     .with_tokenizer(TokenizerConfig::bytes());
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
//! [`Loader`] runs the whole journey from a [`Config`]. You can also compose its parts by hand: a [`Source`]
//! gives documents, and the methods of [`StageExt`](stage::StageExt) turn them into batches. Any stream or
//! custom stage fits in between, because the cursor travels in each item ([`Tracked`]). [`conformance`]
//! checks that a custom stage is as exact as the built-in ones.
//!
//! # Floors
//!
//! Imports point down only, and never in a circle; a test reads this table and the imports.
//!
//! | floor | what |
//! |---|---|
//! | [`verify`], [`prove`], [`when`] | the laws, proved on a config by child processes; what is learned from, proved batch by batch; in which batches of a run a document was |
//! | [`replay`] | the batches of a run, made again |
//! | [`prelude`] | what a program needs, in one import |
//! | [`prepare`] | token shards made ahead, and exchanged with other programs |
//! | [`loader`] | config and cursor → a stream of batches |
//! | [`source`], [`stage`], [`conformance`] | where documents come from; the combinators; a check of them |
//! | `render` | records → texts, and what of them is learned from |
//! | [`tokenizer`], `shards`, `pin` | text → ids; ids on disk and the token cache; work on chosen cores |
//! | `store` | bytes of local and remote files |
//! | [`config`], [`world`] | plain structs, their defaults and bounds; which process this is |
//! | [`batch`], [`document`] | the items that flow through the stages |
//! | `custom_format`, [`files`] | how a program reads files with its own code; the corpus's files, and places in them |
//! | [`cursor`], [`trail`] | where a run is, and where it was |
//! | `segment`, [`meter`], [`budget`], `order`, `tasks` | stored ids; counters and waits; memory in flight; keyed permutations; tasks and blocking jobs |
//! | [`atomic`], `bounded`, `excerpt`, `location`, `lock`, [`process`], `room`, [`threads`], `user_cache`, `writable` | files written whole or not at all; small files read within bounds; what is long, cut for a message; paths and URLs; directories with one writer; this process as the system sees it; free disk space; starting threads; results cached for other processes; directories that can be written to |
//! | [`error`] | the error type |
//! | `disk` | free space on a disk, and dangling links |
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `compression` (default) | compressed text: gzip, zstd, bzip2, xz |
//! | `columnar` (default) | Parquet and Arrow IPC |
//! | `stores` (default) | sources in object stores, on HTTP servers and on the Hugging Face Hub ([`config::StoreConfig`]) |
//! | `tokenizers` (default) | Hugging Face tokenizers ([`tokenizer::hf`]), and learning them |
//! | `schema` | the JSON Schema of configs: `Config::schema` |
//! | `fastokens` | a faster engine for byte-level BPE, which runs only if it passes the same checks |

#[cfg(test)]
extern crate self as millstream;

pub mod atomic;
pub mod batch;
#[doc(hidden)]
pub mod bounded;
pub mod budget;
pub mod config;
pub mod conformance;
pub mod cursor;
mod custom_format;
#[doc(hidden)]
pub mod disk;
pub mod document;
pub mod error;
mod excerpt;
pub mod files;
pub mod loader;
#[doc(hidden)]
pub mod location;
#[doc(hidden)]
pub mod lock;
pub mod meter;
mod order;
mod pin;
pub mod prelude;
pub mod prepare;
pub mod process;
pub mod prove;
#[doc(hidden)]
pub mod render;
pub mod replay;
mod room;
mod segment;
mod shards;
pub mod source;
pub mod stage;
mod store;
mod tasks;
pub mod threads;
pub mod tokenizer;
pub mod trail;
mod user_cache;
pub mod verify;
pub mod when;
pub mod world;
#[doc(hidden)]
pub mod writable;

pub use batch::Batch;
pub use budget::Budget;
pub use config::Config;
pub use cursor::{Cursor, LaneCursor, Tracked};
pub use document::{Document, Sequence, Tokens};
pub use error::{Error, Result};
pub use loader::Loader;
pub use meter::{Meter, Meters};
pub use source::Source;
#[doc(hidden)]
pub use store::{ask_hub_with, local};

/// The pages of the guide whose Rust blocks rustdoc tests.
#[cfg(doctest)]
#[expect(rustdoc::invalid_codeblock_attributes, reason = "shell blocks that are not run say `no-run`")]
mod pages {
    macro_rules! pages {
        ($($name:ident: $file:literal,)*) => { $(#[doc = include_str!($file)] mod $name {})* };
    }

    pages! {
        readme: "../README.md",
        architecture: "../docs/guide/architecture.md",
        columns: "../docs/guide/columns.md",
        config: "../docs/guide/config.md",
        custom_stages: "../docs/guide/custom-stages.md",
        getting_started: "../docs/guide/getting-started.md",
        ledger: "../docs/guide/ledger.md",
        mixtures: "../docs/guide/mixtures.md",
        packing: "../docs/guide/packing.md",
        processes: "../docs/guide/processes.md",
        resuming: "../docs/guide/resuming.md",
        tokenizers: "../docs/guide/tokenizers.md",
        watching: "../docs/guide/watching.md",
    }
}
