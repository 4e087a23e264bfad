//! `[model]`: the GPT that is trained.

use serde::{Deserialize, Serialize};

use super::require;
use crate::error::Result;

/// The shape of a decoder-only transformer.
///
/// The vocabulary comes from the tokenizer, and the context length from `pipeline.seq_len`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// How many transformer blocks the model has.
    pub layers: usize,
    /// The width of the residual stream.
    pub d_model: usize,
    /// How many attention heads share that width.
    pub heads: usize,
    /// The width inside the feed-forward network.
    pub d_ff: usize,
    /// The feed-forward network's activation.
    pub activation: Activation,
    /// Whether the head shares its weights with the embedding.
    pub tied: bool,
    /// The base of the rotary position embedding's frequencies.
    pub rope_theta: f32,
    /// The epsilon of RMSNorm.
    pub norm_epsilon: f64,
}

/// The feed-forward network's activation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Activation {
    /// `down(silu(gate(x)) * up(x))`: three matrices.
    #[default]
    Swiglu,
    /// `down(gelu(up(x)))`: two matrices.
    Gelu,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            layers: 4,
            d_model: 128,
            heads: 4,
            d_ff: 384,
            activation: Activation::default(),
            tied: true,
            rope_theta: 10_000.0,
            norm_epsilon: 1e-5,
        }
    }
}

impl ModelConfig {
    pub(super) fn validate(&self) -> Result<()> {
        require(self.layers > 0, "model.layers", self.layers, "at least 1")?;
        require(self.heads > 0, "model.heads", self.heads, "at least 1")?;
        require(self.d_ff > 0, "model.d_ff", self.d_ff, "at least 1")?;
        require(
            self.d_model > 0 && self.d_model.is_multiple_of(2 * self.heads),
            "model.d_model",
            self.d_model,
            &format!("a multiple of twice model.heads ({}), as rotary embedding turns pairs", self.heads),
        )?;
        require(self.rope_theta > 1.0, "model.rope_theta", self.rope_theta, "more than 1")?;
        require(self.norm_epsilon > 0.0, "model.norm_epsilon", self.norm_epsilon, "more than 0")
    }
}
