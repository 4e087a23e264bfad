//! Compressed text through the source's public face, over generated corpora and as other programs write it.

#![cfg(feature = "compression")]

mod bombs;
#[path = "../source/corpus.rs"]
mod corpus;
mod faults;
mod laws;
mod others;
mod packed;
mod seekable;
