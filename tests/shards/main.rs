//! Token shards: the batches, cursors and positions of the text, without the text.

#[path = "../support/mod.rs"]
mod support;

mod again;
mod cache;
mod exchange;
mod formats;
mod masks;
mod mds;
mod memory;
mod open;
mod several;
mod text;
mod together;
mod tokenizers;
