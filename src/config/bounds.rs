//! The bounds of numbers, as the schema has them. `Config::validate` checks them.

/// What a number may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bound {
    AtLeast(f64),
    Above(f64),
    /// From the first to the second.
    Within(f64, f64),
    /// From the first to below the second.
    Below(f64, f64),
    /// Above the first, and at most the second.
    AboveUpTo(f64, f64),
}

use Bound::{Above, AboveUpTo, AtLeast, Below, Within};

const COUNT: Bound = AtLeast(1.0);
const POSITIVE: Bound = Above(0.0);
const NOT_NEGATIVE: Bound = AtLeast(0.0);
const SHARE: Bound = Below(0.0, 1.0);
/// At most a day.
const SECONDS: Bound = AboveUpTo(0.0, 86_400.0);
const WINDOW: Bound = Within(1.0, (1 << 24) as f64);

/// The bounds, by struct and key.
pub(super) const BOUNDS: [(&str, &str, Bound); 45] = [
    ("SourceConfig", "weight", Within(0.0, 1e15)),
    ("SourceConfig", "epochs", COUNT),
    ("SampleConfig", "max", POSITIVE),
    ("MixtureConfig", "temperature", POSITIVE),
    ("StoreConfig", "concurrency", Within(1.0, 4096.0)),
    ("StoreConfig", "timeout", SECONDS),
    ("StoreConfig", "deadline", SECONDS),
    ("StoreConfig", "backoff", SECONDS),
    ("StoreConfig", "backoff_max", SECONDS),
    ("LearnConfig", "vocab_size", AtLeast(258.0)),
    ("PipelineConfig", "seq_len", WINDOW),
    ("PipelineConfig", "ahead", COUNT),
    ("PipelineConfig", "max_segments", COUNT),
    ("PipelineConfig", "pack_window", WINDOW),
    ("PipelineConfig", "holdout", SHARE),
    ("PipelineConfig", "batch_tokens", COUNT),
    ("PipelineConfig", "bucket_window", WINDOW),
    ("PipelineConfig", "batch_size", COUNT),
    ("PipelineConfig", "epochs", COUNT),
    ("PipelineConfig", "world", COUNT),
    ("ModelConfig", "layers", COUNT),
    ("ModelConfig", "d_model", AtLeast(2.0)),
    ("ModelConfig", "heads", COUNT),
    ("ModelConfig", "kv_heads", COUNT),
    ("ModelConfig", "head_dim", AtLeast(2.0)),
    ("ModelConfig", "d_ff", COUNT),
    ("ModelConfig", "vocab_size", COUNT),
    ("ModelConfig", "rope_theta", Above(1.0)),
    ("ModelConfig", "norm_epsilon", POSITIVE),
    ("RopeScaling", "factor", AtLeast(1.0)),
    ("RopeScaling", "low_freq_factor", POSITIVE),
    ("RopeScaling", "high_freq_factor", POSITIVE),
    ("RopeScaling", "original_seq_len", COUNT),
    ("TrainConfig", "steps", COUNT),
    ("TrainConfig", "decay", COUNT),
    ("TrainConfig", "accumulate", COUNT),
    ("TrainConfig", "lr", POSITIVE),
    ("TrainConfig", "min_lr", NOT_NEGATIVE),
    ("TrainConfig", "weight_decay", NOT_NEGATIVE),
    ("TrainConfig", "beta1", SHARE),
    ("TrainConfig", "beta2", SHARE),
    ("TrainConfig", "epsilon", POSITIVE),
    ("TrainConfig", "clip", NOT_NEGATIVE),
    ("TrainConfig", "keep", COUNT),
    ("TrainConfig", "peak_tflops", Within(0.001, 1e6)),
];
