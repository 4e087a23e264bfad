//! The names of the files in a model's directory.

/// The model's shape.
pub(super) const CONFIG: &str = "config.json";
/// What ends a text, for programs that generate.
pub(super) const GENERATION: &str = "generation_config.json";
/// The tokenizer.
pub(super) const TOKENIZER: &str = "tokenizer.json";
/// How that tokenizer is used.
pub(super) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
/// What an adapter has in place of a model's `config.json`.
pub(super) const ADAPTER: &str = "adapter_config.json";
/// All tensors.
pub(super) const WEIGHTS: &str = "model.safetensors";
/// Which of several files has which tensor.
pub(super) const INDEX: &str = "model.safetensors.index.json";
/// The model card.
pub(super) const CARD: &str = "README.md";
