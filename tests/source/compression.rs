//! Compressed text, over generated corpora and as other programs write it.

mod bombs;
mod faults;
mod laws;
mod others;
mod seekable;
