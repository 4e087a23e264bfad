//! How many parameters a model has, by their use: takes a shape, returns counts.

use serde::Serialize;

use crate::config::{LoraConfig, ModelConfig};
use crate::model::block_adapters;
use crate::model::shape::{Kind, Part, block_parts, outer_parts};

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
        let (block, outer) = (block_parts(model, 0), outer_parts(model, vocab));
        let count = |parts: &[Part], kind: Kind| {
            parts.iter().filter(|part| part.kind == kind).map(|part| part.len() as f64).sum::<f64>()
        };
        let (layers, head) = (model.layers as f64, vocab.saturating_mul(model.d_model) as f64);
        Self {
            blocks: layers * count(&block, Kind::Matrix),
            head,
            embedding: count(&outer, Kind::Table) - head,
            vectors: layers * count(&block, Kind::Vector) + count(&outer, Kind::Vector),
        }
    }

    /// Counts what `[train.lora]` trains in a model of this shape: the factors of its adapters.
    pub fn of_adapters(model: &ModelConfig, lora: &LoraConfig) -> f64 {
        let factors = block_adapters(model, lora, 0);
        model.layers as f64 * factors.iter().map(|part| part.len() as f64).sum::<f64>()
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
