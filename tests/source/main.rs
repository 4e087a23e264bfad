//! The source through its public face, over real files: text, tables, archives, compressed files and standard input.

#[path = "../support/mod.rs"]
mod support;

#[cfg(feature = "compression")]
mod compression;
mod corpus;
#[cfg(all(feature = "columnar", feature = "compression"))]
mod describe;
#[cfg(all(feature = "columnar", feature = "compression"))]
mod formats;
#[cfg(all(feature = "columnar", feature = "compression"))]
mod huggingface;
mod laws;
mod paths;
mod pointers;
#[cfg(feature = "cli")]
mod stdin;
mod text;
