//! The names of the files in a Hugging Face model directory.

/// The model's shape.
pub(super) const CONFIG: &str = "config.json";
/// The ids that end a text and the sampling settings, for programs that generate.
pub(super) const GENERATION: &str = "generation_config.json";
pub(super) const TOKENIZER: &str = "tokenizer.json";
/// The settings of the tokenizer.
pub(super) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
/// The special tokens by their use, which older versions of the libraries write to a file.
pub(super) const SPECIAL_TOKENS: &str = "special_tokens_map.json";
/// The template that turns a chat into a text.
pub(super) const CHAT_TEMPLATE: &str = "chat_template.jinja";
/// The directory of further templates.
pub(super) const CHAT_TEMPLATES: &str = "additional_chat_templates";
/// The extension of chat templates.
pub(super) const TEMPLATE_EXTENSION: &str = "jinja";
/// The config of an adapter, which has no `config.json`.
pub(super) const ADAPTER: &str = "adapter_config.json";
/// The factors of an adapter.
pub(super) const ADAPTER_WEIGHTS: &str = "adapter_model.safetensors";
/// All tensors.
pub(super) const WEIGHTS: &str = "model.safetensors";
/// Which of several files has which tensor.
pub(super) const INDEX: &str = "model.safetensors.index.json";
/// The model card.
pub(super) const CARD: &str = "README.md";
