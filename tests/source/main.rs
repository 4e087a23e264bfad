//! The source through its public face, over real files: text, tables, archives, compressed files and standard input.

#[path = "../support/packed.rs"]
mod packed;
#[path = "../support/mod.rs"]
mod support;

mod compression;
mod corpus;
mod describe;
mod formats;
mod huggingface;
mod laws;
mod paths;
mod pointers;
mod text;
