//! Tokenizers as the program meets them.

mod hostile;
mod verdicts;
