//! Remote corpora through the public face: over an HTTP server with faults, and over real stores.

#[path = "../support/mod.rs"]
mod support;

mod cache;
mod corpus;
mod failures;
#[cfg(all(feature = "columnar", feature = "compression"))]
mod formats;
mod laws;
mod repair;
mod rows;
mod shards;
mod sight;
mod stores;
