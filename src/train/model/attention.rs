//! Causal self-attention: `[batch, length, d_model]` in and out. Holds the projections.

use burn::module::{Module, Param};
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Bool, Tensor};

use super::Init;
use super::rope::Rotation;
use crate::config::ModelConfig;

/// Multi-head attention with rotary positions.
#[derive(Module, Debug)]
pub struct Attention {
    /// The projections to queries, keys and values side by side, `[d_model, 3 * d_model]`.
    pub qkv: Param<Tensor<2>>,
    /// The projection back to the residual stream, `[d_model, d_model]`.
    pub out: Param<Tensor<2>>,
    heads: usize,
}

/// The keys and values of what a model has read, one pair per block, each `[batch, heads, length, head]`.
#[derive(Clone, Debug, Default)]
pub struct KeyValues(Vec<(Tensor<4>, Tensor<4>)>);

impl KeyValues {
    /// The number of ids read.
    pub fn len(&self) -> usize {
        self.0.first().map_or(0, |(keys, _)| keys.dims()[2])
    }

    /// Whether nothing has been read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds one block's keys and values, and returns all of them.
    fn append(&mut self, block: usize, keys: Tensor<4>, values: Tensor<4>) -> (Tensor<4>, Tensor<4>) {
        let joined = match self.0.get(block) {
            Some((old_keys, old_values)) => (
                Tensor::cat(vec![old_keys.clone(), keys], 2),
                Tensor::cat(vec![old_values.clone(), values], 2),
            ),
            None => (keys, values),
        };
        match self.0.get_mut(block) {
            Some(pair) => *pair = joined.clone(),
            None => self.0.push(joined.clone()),
        }
        joined
    }
}

impl Attention {
    pub(super) fn new(config: &ModelConfig, init: &mut Init<'_>) -> Self {
        let width = config.d_model;
        Self {
            qkv: init.matrix([width, 3 * width], init.std),
            out: init.matrix([width, width], init.residual),
            heads: config.heads,
        }
    }

    /// Attends from each position to itself and to earlier ones. `unseen`, `[batch, 1, length, length]`, is true where
    /// one position may not look at another; without it, only later positions are unseen.
    pub fn forward(&self, x: Tensor<3>, rope: &Rotation, unseen: Option<&Tensor<4, Bool>>) -> Tensor<3> {
        let [batch, length, width] = x.dims();
        let (query, key, value) = self.project(x, rope);
        let attended = if query.is_autodiff() {
            attend(query, key, value, unseen)
        } else {
            let unseen = unseen.map(|unseen| unseen.clone().expand([batch, self.heads, length, length]));
            let options = AttentionModuleOptions { is_causal: true, ..Default::default() };
            attention(query, key, value, unseen, None, options)
        };
        self.merge(attended, [batch, length, width])
    }

    /// As [`forward`](Self::forward), following the keys and values that `cache` holds for `block`.
    pub(crate) fn forward_cached(
        &self,
        x: Tensor<3>,
        rope: &Rotation,
        cache: &mut KeyValues,
        block: usize,
    ) -> Tensor<3> {
        let dims = x.dims();
        let (query, key, value) = self.project(x, rope);
        let (key, value) = cache.append(block, key, value);
        let options = AttentionModuleOptions { is_causal: true, ..Default::default() };
        self.merge(attention(query, key, value, None, None, options), dims)
    }

    /// Returns queries, keys and values, `[batch, heads, length, head]`, the first two rotated.
    fn project(&self, x: Tensor<3>, rope: &Rotation) -> (Tensor<4>, Tensor<4>, Tensor<4>) {
        let [batch, length, width] = x.dims();
        let x = x.reshape([batch * length, width]);
        let qkv = self.qkv.val();
        // One product per third of the weights: slicing a single product would cost a zeroed copy of it for each slice
        // in the backward pass.
        let part = |index: usize| {
            x.clone()
                .matmul(qkv.clone().slice([0..width, index * width..(index + 1) * width]))
                .reshape([batch, length, self.heads, width / self.heads])
                .swap_dims(1, 2)
        };
        (rope.apply(part(0)), rope.apply(part(1)), part(2))
    }

    fn merge(&self, attended: Tensor<4>, [batch, length, width]: [usize; 3]) -> Tensor<3> {
        attended
            .swap_dims(1, 2)
            .reshape([batch * length, width])
            .matmul(self.out.val())
            .reshape([batch, length, width])
    }
}

/// Causal attention, `[batch, heads, length, head]`, for gradients.
///
/// burn differentiates its attention with about fifteen passes over the scores. This is the same function in four: the
/// queries are scaled, the row's maximum carries no gradient (softmax does not depend on it), and the division by the
/// row's sum is done on the product, which is narrower.
fn attend(query: Tensor<4>, key: Tensor<4>, value: Tensor<4>, unseen: Option<&Tensor<4, Bool>>) -> Tensor<4> {
    let [_, _, length, head] = query.dims();
    let scores = query.mul_scalar((head as f64).powf(-0.5)).matmul(key.swap_dims(2, 3));
    let unseen = match unseen {
        Some(unseen) => unseen.clone(),
        None => Tensor::<2, Bool>::tril_mask([length, length], 0, &scores.device()).unsqueeze(),
    };
    let scores = scores.mask_fill(unseen, f32::NEG_INFINITY);
    let max = Tensor::from_inner(scores.clone().inner().max_dim(3));
    let weights = (scores - max).exp();
    let sum = weights.clone().sum_dim(3);
    weights.matmul(value) * sum.recip()
}
