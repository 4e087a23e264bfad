//! How many parameters a model has, by their use: takes a shape, returns counts.

use serde::Serialize;

use crate::config::{Activation, ModelConfig};

/// The parameters of a [`Gpt`](crate::model::Gpt), counted from its config. They are `f64`, which is exact up to
/// 2^53 and never overflows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Parameters {
    /// The matrices in the blocks.
    pub blocks: f64,
    /// The head, which is in a product too. A tied head shares its parameters with the embedding.
    pub head: f64,
    /// An embedding that is not the head: it is looked up, and in no product.
    pub embedding: f64,
    /// Gains and biases, with one dimension.
    pub vectors: f64,
}

impl Parameters {
    /// Counts the parameters of a model of this shape, with `vocab` ids.
    pub fn new(model: &ModelConfig, vocab: usize) -> Self {
        let [layers, width, heads, kv_heads, head, d_ff, vocab] =
            [model.layers, model.d_model, model.heads, model.kv_heads(), model.head_dim(), model.d_ff, vocab]
                .map(|count| count as f64);
        let ups = if model.activation == Activation::Swiglu { 2.0 } else { 1.0 };
        let projected = (heads + 2.0 * kv_heads) * head;
        let (qkv, up) = (width * projected, ups * width * d_ff);
        let back = heads * head * width + d_ff * width;
        let biases = if model.qkv_bias { projected } else { 0.0 };
        let head_norms = if model.qk_norm { 2.0 * head } else { 0.0 };
        Self {
            blocks: layers * (qkv + up + back),
            head: vocab * width,
            embedding: if model.tied { 0.0 } else { vocab * width },
            vectors: layers * (2.0 * width + biases + head_norms) + width,
        }
    }

    /// All of them.
    pub fn total(&self) -> f64 {
        self.blocks + self.head + self.embedding + self.vectors
    }

    /// The matrices that each place of a row is multiplied with.
    pub fn multiplied(&self) -> f64 {
        self.blocks + self.head
    }
}
