//! `[model]`: the GPT that is trained.

use serde::{Deserialize, Serialize};

use millstream::config::reading::{Bound, Bounded, COUNT, Limit, Number, POSITIVE, require};
use millstream::error::Result;

/// The shape of a decoder-only transformer.
///
/// The vocabulary comes from the tokenizer, and the context length from `pipeline.seq_len`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transform = millstream::config::reading::describe::<ModelConfig>))]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// How many transformer blocks the model has.
    pub layers: usize,
    /// The width of the residual stream.
    pub d_model: usize,
    /// How many attention heads share that width.
    pub heads: usize,
    /// How many heads of keys and values there are; each serves `heads / kv_heads` heads of queries (grouped-query
    /// attention). Default: as many as `heads`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_heads: Option<usize>,
    /// How many dimensions a head has. Default: `d_model / heads`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_dim: Option<usize>,
    /// Whether the projections to queries, keys and values have biases, as in Qwen2.
    pub qkv_bias: bool,
    /// Whether queries and keys are normed head by head before they are rotated, as in Qwen3.
    pub qk_norm: bool,
    /// The width inside the feed-forward network.
    pub d_ff: usize,
    /// The feed-forward network's activation.
    pub activation: Activation,
    /// Whether the head shares its weights with the embedding.
    pub tied: bool,
    /// How many ids the model has weights for, at least as many as the tokenizer has. Default: as many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vocab_size: Option<usize>,
    /// The base of the rotary position embedding's frequencies.
    pub rope_theta: f32,
    /// How these frequencies are changed for texts that are longer than those that the model first learned from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rope_scaling: Option<RopeScaling>,
    /// The epsilon of RMSNorm.
    pub norm_epsilon: f64,
}

/// The feed-forward network's activation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// `down(silu(gate(x)) * up(x))`: three matrices.
    #[default]
    Swiglu,
    /// `down(gelu(up(x)))`: two matrices.
    Gelu,
}

/// How the frequencies of a rotary position embedding are changed for longer texts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(transform = millstream::config::reading::describe::<RopeScaling>))]
#[serde(default, deny_unknown_fields)]
pub struct RopeScaling {
    /// Which frequencies are changed.
    pub kind: RopeKind,
    /// What they are divided by.
    pub factor: f32,
    /// With `llama3`: waves longer than `original_seq_len` divided by this are stretched by the whole factor.
    pub low_freq_factor: f32,
    /// With `llama3`: waves shorter than `original_seq_len` divided by this stay as they are.
    pub high_freq_factor: f32,
    /// With `llama3`: the length of the texts that the model first learned from, in ids.
    pub original_seq_len: usize,
}

/// Which frequencies are changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RopeKind {
    /// All of them.
    #[default]
    Linear,
    /// The low ones, and those in between in part, as in Llama 3.1.
    Llama3,
}

impl Default for RopeScaling {
    fn default() -> Self {
        Self {
            kind: RopeKind::default(),
            factor: 1.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_seq_len: 8192,
        }
    }
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            layers: 4,
            d_model: 128,
            heads: 4,
            kv_heads: None,
            head_dim: None,
            qkv_bias: false,
            qk_norm: false,
            d_ff: 384,
            activation: Activation::default(),
            tied: true,
            vocab_size: None,
            rope_theta: 10_000.0,
            rope_scaling: None,
            norm_epsilon: 1e-5,
        }
    }
}

impl ModelConfig {
    /// How many heads of keys and values there are.
    pub fn kv_heads(&self) -> usize {
        self.kv_heads.unwrap_or(self.heads)
    }

    /// How many dimensions a head has.
    pub fn head_dim(&self) -> usize {
        self.head_dim.unwrap_or(self.d_model / self.heads.max(1))
    }

    /// Checks each key, and what they are together.
    ///
    /// # Errors
    /// [`Error::Config`](millstream::Error::Config) with the first that cannot be.
    pub fn validate(&self) -> Result<()> {
        self.check_bounds("model")?;
        match self.head_dim {
            Some(head) => {
                let wanted = "an even number, as rotary embedding turns pairs";
                require(head.is_multiple_of(2), "model.head_dim", head, wanted)?;
            }
            None => {
                let wanted =
                    format!("a multiple of twice model.heads ({}), unless model.head_dim is set", self.heads);
                require(self.d_model.is_multiple_of(2 * self.heads), "model.d_model", self.d_model, &wanted)?;
            }
        }
        let kv_heads = self.kv_heads();
        let wanted = format!("a divisor of model.heads ({})", self.heads);
        require(self.heads.is_multiple_of(kv_heads), "model.kv_heads", kv_heads, &wanted)?;
        self.rope_scaling.map_or(Ok(()), |scaling| scaling.validate())
    }
}

impl Bounded for ModelConfig {
    const BOUNDS: &'static [Limit<Self>] = &[
        ("layers", COUNT, |model| model.layers.number()),
        ("d_model", Bound::AtLeast(2.0), |model| model.d_model.number()),
        ("heads", COUNT, |model| model.heads.number()),
        ("kv_heads", COUNT, |model| model.kv_heads.number()),
        ("head_dim", Bound::AtLeast(2.0), |model| model.head_dim.number()),
        ("d_ff", COUNT, |model| model.d_ff.number()),
        ("vocab_size", COUNT, |model| model.vocab_size.number()),
        ("rope_theta", Bound::Above(1.0), |model| model.rope_theta.number()),
        ("norm_epsilon", POSITIVE, |model| model.norm_epsilon.number()),
    ];
}

impl RopeScaling {
    fn validate(&self) -> Result<()> {
        self.check_bounds("model.rope_scaling")?;
        let (low, high) = (self.low_freq_factor, self.high_freq_factor);
        require(high > low, "model.rope_scaling.high_freq_factor", high, "more than low_freq_factor")
    }
}

impl Bounded for RopeScaling {
    const BOUNDS: &'static [Limit<Self>] = &[
        ("factor", Bound::AtLeast(1.0), |scaling| scaling.factor.number()),
        ("low_freq_factor", POSITIVE, |scaling| scaling.low_freq_factor.number()),
        ("high_freq_factor", POSITIVE, |scaling| scaling.high_freq_factor.number()),
        ("original_seq_len", COUNT, |scaling| scaling.original_seq_len.number()),
    ];
}
