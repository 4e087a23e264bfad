//! Remote corpora through the public face: over an HTTP server with faults, and over real stores.

mod cache;
mod corpus;
mod failures;
mod laws;
mod server;
mod stores;
