//! Tables in columns, archives and shards through the source's public face, over files that other programs wrote.

#![cfg(all(feature = "columnar", feature = "compression"))]

mod archives;
#[path = "../source/corpus.rs"]
#[allow(dead_code, reason = "it is shared with tests that need more of it")]
mod corpus;
mod faults;
mod filters;
mod golden;
mod laws;
mod others;
mod tables;
