//! Tokenizers: the engines and the gate between them, files of other tools, learning, and what a tokenizer may do wrong.

#[path = "../support/mod.rs"]
mod support;

mod engines;
mod families;
mod files;
mod gate;
mod learning;
mod policy;
mod spans;
#[cfg(target_os = "linux")]
mod threads;
