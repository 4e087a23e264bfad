//! The source through its public face, over real files: text, tables, archives, compressed files and standard input.

#[path = "../support/chats.rs"]
mod chats_in_files;
#[path = "../support/packed.rs"]
mod packed;
#[path = "../support/mod.rs"]
mod support;

mod chats;
mod columns;
mod compression;
mod corpus;
mod describe;
mod formats;
mod huggingface;
mod laws;
mod paths;
mod pointers;
mod text;
