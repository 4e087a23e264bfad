//! The work of a step: takes a model's shape and its batches, returns floating-point operations.
//!
//! The count is that of PaLM's appendix B (Chowdhery et al., 2022, arXiv:2204.02311), which others use for their MFU
//! too. A parameter in a product costs one multiplication and one addition for each place of a row going forward, and
//! twice as much going backward: 6 operations. The head counts, even if it is tied; looking up the embedding does not.
//! Attention adds 12 operations for each layer, each dimension of its heads, and each pair of places of a row. All
//! pairs count, although half of them lie in the future and a good kernel leaves them out. Work that is repeated to
//! save memory counts once. With `[train.lora]` the model's own parameters are frozen, and cost 4: what is left out is
//! the product that gives their gradient. Norms, activations, softmax and the optimizer count nothing. Padding counts: it is computed
//! like any other place.

use crate::config::{ModelConfig, RunConfig};
use millstream::batch::Batch;

use super::Parameters;

/// Operations for each parameter in a product and each place: 2 forward, 4 backward.
const FOR_PARAMETER: f64 = 6.0;
/// Operations for each parameter in a product that is frozen: 2 forward, 2 backward.
const FOR_FROZEN: f64 = 4.0;
/// Operations for each dimension of the heads and each pair of places: two products of 2 forward, four backward.
const FOR_PAIR: f64 = 12.0;

/// What one place of a row costs in training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flops {
    /// In products with parameters.
    parameters: f64,
    /// In attention, with each place of the row.
    pair: f64,
}

impl Flops {
    /// The cost of a model of this shape, with `vocab` ids.
    pub fn new(model: &ModelConfig, vocab: usize) -> Self {
        let dimensions = model.layers as f64 * model.heads as f64 * model.head_dim() as f64;
        Self {
            parameters: FOR_PARAMETER * Parameters::new(model, vocab).multiplied(),
            pair: FOR_PAIR * dimensions,
        }
    }

    /// The cost of the run of a config, with `vocab` ids: of its model, or with `[train.lora]` of its adapters.
    pub fn for_run(config: &RunConfig, vocab: usize) -> Self {
        let (model, whole) = (&config.model, Self::new(&config.model, vocab));
        let Some(lora) = &config.train.lora else { return whole };
        let frozen = FOR_FROZEN * Parameters::new(model, vocab).multiplied();
        Self { parameters: frozen + FOR_PARAMETER * Parameters::of_adapters(model, lora), ..whole }
    }

    /// The operations for one place of a row of `length` places.
    pub fn per_place(&self, length: usize) -> f64 {
        self.parameters + self.pair * length as f64
    }

    /// The operations of a step over `rows` rows of `length` places.
    pub fn for_rows(&self, rows: usize, length: usize) -> f64 {
        rows as f64 * length as f64 * self.per_place(length)
    }

    /// The operations of a step over these batches.
    pub fn for_batches<'a>(&self, batches: impl IntoIterator<Item = &'a Batch>) -> f64 {
        let batches = batches.into_iter().filter(|batch| batch.rows() > 0);
        batches.map(|batch| self.for_rows(batch.rows(), batch.seq_len())).sum()
    }
}
