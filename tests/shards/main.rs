//! Token shards: the batches, cursors and positions of the text, without the text.

#[path = "../support/mod.rs"]
mod support;

mod cache;
mod exchange;
#[cfg(all(feature = "columnar", feature = "compression"))]
mod formats;
mod mds;
mod memory;
#[cfg(all(feature = "columnar", feature = "compression"))]
mod open;
mod rows;
mod several;
mod text;
mod together;
mod tokenizers;
