//! Tokenizers: the engines and the gate between them, files of other tools, learning, and what a tokenizer may do wrong.

#[path = "../support/mod.rs"]
mod support;

#[cfg(feature = "tokenizers")]
mod engines;
#[cfg(feature = "tokenizers")]
mod families;
#[cfg(feature = "tokenizers")]
mod files;
#[cfg(feature = "tokenizers")]
mod gate;
#[cfg(feature = "cli")]
mod hostile;
#[cfg(feature = "tokenizers")]
mod learning;
mod policy;
#[cfg(all(feature = "tokenizers", target_os = "linux"))]
mod threads;
#[cfg(feature = "cli")]
mod verdicts;
