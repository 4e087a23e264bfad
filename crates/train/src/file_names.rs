//! The names of a run directory's files.

/// The config that the run has now. Users may edit it.
pub(super) const CONFIG: &str = "config.toml";
/// The config that the run began with.
pub(super) const FIRST_CONFIG: &str = ".config.toml";
/// The settings that it was resumed with.
pub(super) const SETTINGS: &str = "settings.jsonl";
/// The tokenizer, if the run keeps one.
pub(super) const TOKENIZER: &str = "tokenizer.json";
/// The chat template of the first source that names one.
pub(super) const CHAT: &str = "chat.jinja";
/// The files that it keeps of the model that it began from.
pub(super) const INIT: &str = "init";
/// The reports of its steps.
pub(super) const METRICS: &str = "metrics.jsonl";
/// The texts that its models made from the prompt.
pub(super) const SAMPLES: &str = "samples.jsonl";
/// The directory of TensorBoard's event files.
pub(super) const TENSORBOARD: &str = "tensorboard";
/// The directory of its checkpoints.
pub(super) const CHECKPOINTS: &str = "checkpoints";
/// The documents that it skipped.
pub(super) const SKIPPED: &str = "skipped.jsonl";
/// The batches that no step used.
pub(super) const UNUSED: &str = "unused.jsonl";
/// The listing of the files that it reads.
pub(super) const FILES: &str = "files.jsonl";
