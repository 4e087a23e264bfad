//! The stages one by one: what each does, that it resumes exactly, and what a loader says of each.

#[path = "../support/mod.rs"]
mod support;

mod batch;
/// A lane that waits for memory.
mod bounded;
/// Shuffle, tokenize, prefetch and lanes: each keeps order and resumes exactly.
mod conformance;
mod pack;
/// What the loader tunes while it runs.
mod tune;
/// The verdict on a loader: which stage is slow.
mod verdict;
