//! Hugging Face tokenizers.
