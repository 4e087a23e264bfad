//! Learning a tokenizer.
