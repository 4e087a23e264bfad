//! Causal self-attention: `[batch, length, d_model]` in and out. Holds the projections.

use burn::module::{Module, Param};
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Bool, Tensor};

use super::Init;
use super::norm::Norm;
use super::rope::Rotation;
use crate::config::ModelConfig;

/// Multi-head attention with rotary positions. Several heads of queries may share one of keys and values (Ainslie et
/// al., 2023, arXiv:2305.13245).
#[derive(Module, Debug)]
pub struct Attention {
    /// The projections to queries, keys and values side by side, `[d_model, (heads + 2 * kv_heads) * head]`.
    pub qkv: Param<Tensor<2>>,
    /// Their biases, `[(heads + 2 * kv_heads) * head]`.
    pub bias: Option<Param<Tensor<1>>>,
    /// The norm of each head of queries.
    pub query_norm: Option<Norm>,
    /// The norm of each head of keys.
    pub key_norm: Option<Norm>,
    /// The projection back to the residual stream, `[heads * head, d_model]`.
    pub out: Param<Tensor<2>>,
    heads: usize,
    kv_heads: usize,
}

/// The keys and values of what a model has read, one pair per block, each `[batch, kv_heads, length, head]`.
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
        let (width, head, heads, kv_heads) =
            (config.d_model, config.head_dim(), config.heads, config.kv_heads());
        let projected = (heads + 2 * kv_heads) * head;
        let mut norm = || config.qk_norm.then(|| Norm::new(config, head, init));
        let (query_norm, key_norm) = (norm(), norm());
        Self {
            qkv: init.matrix([width, projected], init.std),
            bias: config.qkv_bias.then(|| init.vector(projected, 0.0)),
            query_norm,
            key_norm,
            out: init.matrix([heads * head, width], init.residual),
            heads,
            kv_heads,
        }
    }

    /// Attends from each position to itself and to earlier ones. `unseen`, `[batch, 1, length, length]`, is true where
    /// one position may not look at another; without it, only later positions are unseen.
    pub fn forward(&self, x: Tensor<3>, rope: &Rotation, unseen: Option<&Tensor<4, Bool>>) -> Tensor<3> {
        let [batch, length, _] = x.dims();
        let (query, key, value) = self.project(x, rope);
        let (key, value) = (self.shared(key), self.shared(value));
        let attended = if query.is_autodiff() {
            attend(query, key, value, unseen)
        } else {
            let unseen = unseen.map(|unseen| unseen.clone().expand([batch, self.heads, length, length]));
            let options = AttentionModuleOptions { is_causal: true, ..Default::default() };
            attention(query, key, value, unseen, None, options)
        };
        self.merge(attended)
    }

    /// As [`forward`](Self::forward), following the keys and values that `cache` holds for `block`.
    pub(crate) fn forward_cached(
        &self,
        x: Tensor<3>,
        rope: &Rotation,
        cache: &mut KeyValues,
        block: usize,
    ) -> Tensor<3> {
        let (query, key, value) = self.project(x, rope);
        let (key, value) = cache.append(block, key, value);
        let options = AttentionModuleOptions { is_causal: true, ..Default::default() };
        self.merge(attention(query, self.shared(key), self.shared(value), None, None, options))
    }

    /// Returns queries, `[batch, heads, length, head]`, and keys and values, `[batch, kv_heads, length, head]`. The
    /// first two are rotated.
    fn project(&self, x: Tensor<3>, rope: &Rotation) -> (Tensor<4>, Tensor<4>, Tensor<4>) {
        let [batch, length, width] = x.dims();
        let x = x.reshape([batch * length, width]);
        let (qkv, bias) = (self.qkv.val(), self.bias.as_ref().map(Param::val));
        let head = qkv.dims()[1] / (self.heads + 2 * self.kv_heads);
        // One product per part of the weights: slicing a single product would cost a zeroed copy of it for each slice
        // in the backward pass.
        let part = |from: usize, heads: usize| {
            let columns = from * head..(from + heads) * head;
            let mut part = x.clone().matmul(qkv.clone().slice([0..width, columns.clone()]));
            if let Some(bias) = &bias {
                part = part + bias.clone().slice([columns]).unsqueeze();
            }
            part.reshape([batch, length, heads, head]).swap_dims(1, 2)
        };
        let normed = |norm: &Option<Norm>, part: Tensor<4>| match norm {
            Some(norm) => norm.forward(part),
            None => part,
        };
        let query = normed(&self.query_norm, part(0, self.heads));
        let key = normed(&self.key_norm, part(self.heads, self.kv_heads));
        (rope.apply(query), rope.apply(key), part(self.heads + self.kv_heads, self.kv_heads))
    }

    /// Repeats each head of keys or values, `[batch, kv_heads, length, head]`, for the heads of queries that share it.
    fn shared(&self, x: Tensor<4>) -> Tensor<4> {
        let [batch, kv_heads, length, head] = x.dims();
        if kv_heads == self.heads {
            return x;
        }
        let groups = self.heads / kv_heads;
        x.unsqueeze_dim::<5>(2)
            .expand([batch, kv_heads, groups, length, head])
            .reshape([batch, self.heads, length, head])
    }

    fn merge(&self, attended: Tensor<4>) -> Tensor<3> {
        let [batch, heads, length, head] = attended.dims();
        let [_, width] = self.out.dims();
        attended
            .swap_dims(1, 2)
            .reshape([batch * length, heads * head])
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
