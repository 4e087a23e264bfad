//! Remote corpora through the public face: over an HTTP server with faults, and over real stores.

#[path = "../support/packed.rs"]
mod packed;
#[path = "../support/samples.rs"]
mod samples;
#[path = "../support/mod.rs"]
mod support;

mod cache;
mod corpus;
mod failures;
mod formats;
mod laws;
mod repair;
mod shards;
mod stores;
mod verdict;
