//! Causal self-attention: `[batch, length, d_model]` in and out. Holds the projections.

use std::ops::Range;

use burn::module::{Module, Param};
use burn::tensor::{Int, Tensor};

use super::dropout::Draws;
use super::hidden::HiddenMatrix;
use super::init::Init;
use super::lora::{Lora, project};
use super::norm::Norm;
use crate::config::ModelConfig;
use crate::kernels::attention::{attend, block_len, self_attend, split_qkv};
use crate::kernels::rotation::Rotation;

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
    /// The adapters of both projections, if they have any.
    pub qkv_lora: Option<Lora>,
    /// See `qkv_lora`.
    pub out_lora: Option<Lora>,
    heads: usize,
    kv_heads: usize,
}

/// The keys and values of the ids that a model has read, one pair per block, each `[batch, kv_heads, length, head]`.
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
        let joined = match self.0.get(block).cloned() {
            Some((old_keys, old_values)) => {
                (Tensor::cat(vec![old_keys, keys], 2), Tensor::cat(vec![old_values, values], 2))
            }
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
            qkv_lora: None,
            out_lora: None,
            heads,
            kv_heads,
        }
    }

    pub(super) fn adapters(&self) -> impl Iterator<Item = &Lora> {
        self.qkv_lora.iter().chain(&self.out_lora)
    }

    /// Its matrices, with those of queries, keys and values apart.
    pub(super) fn matrices(&self) -> [HiddenMatrix; 2] {
        let head = self.out.dims()[0] / self.heads;
        let widths = [self.heads, self.kv_heads, self.kv_heads].map(|heads| heads * head);
        [HiddenMatrix::side_by_side(&self.qkv, &widths), HiddenMatrix::new(&self.out)]
    }

    /// Attends from each place to itself and to earlier ones of its document. `starts`, `[batch, length]`, is where
    /// each place's document begins; without it, a row is one document.
    pub fn forward(&self, x: Tensor<3>, rope: &Rotation, starts: Option<&Tensor<2, Int>>) -> Tensor<3> {
        self.forward_with(x, rope, starts, None)
    }

    /// As [`forward`](Self::forward), with dropout of what enters the adapters.
    pub(super) fn forward_with(
        &self,
        x: Tensor<3>,
        rope: &Rotation,
        starts: Option<&Tensor<2, Int>>,
        draws: Option<&Draws>,
    ) -> Tensor<3> {
        let heads = self_attend(self.project(x, rope, draws), self.kv_heads, starts.cloned());
        self.read_out(heads, draws)
    }

    /// As [`forward`](Self::forward), following the keys and values that `cache` holds for `block`.
    pub(crate) fn forward_cached(
        &self,
        x: Tensor<3>,
        rope: &Rotation,
        cache: &mut KeyValues,
        block: usize,
    ) -> Tensor<3> {
        let [query, key, value] = split_qkv(&self.project(x, rope, None), self.kv_heads);
        let (key, value) = cache.append(block, key, value);
        let block = block_len(&query, key.dims()[2]);
        self.read_out(attend(query, key, value, None, block), None)
    }

    /// Returns the heads of queries, of keys and of values, in this order: `[batch, heads + 2 * kv_heads, length, head]`.
    /// The first two are rotated.
    fn project(&self, x: Tensor<3>, rope: &Rotation, draws: Option<&Draws>) -> Tensor<4> {
        let [batch, length, width] = x.dims();
        let x = x.reshape([batch * length, width]);
        let mut projected = project(x, &self.qkv, self.qkv_lora.as_ref(), draws);
        if let Some(bias) = &self.bias {
            let dtype = projected.dtype();
            projected = projected + bias.val().cast(dtype).unsqueeze();
        }
        let (rotated, all) = (self.heads + self.kv_heads, self.heads + 2 * self.kv_heads);
        let head = projected.dims()[1] / all;
        let mut heads = projected.reshape([batch, length, all, head]);
        if let (Some(query_norm), Some(key_norm)) = (&self.query_norm, &self.key_norm) {
            let part = |range: Range<usize>| heads.clone().slice_dim(2, range);
            let query = query_norm.forward(part(0..self.heads));
            let key = key_norm.forward(part(self.heads..rotated));
            heads = Tensor::cat(vec![query, key, part(rotated..all)], 2);
        }
        rope.split_heads(heads, rotated)
    }

    /// Projects the output of the heads, `[batch, heads, length, head]`.
    fn read_out(&self, attended: Tensor<4>, draws: Option<&Draws>) -> Tensor<3> {
        let [batch, heads, length, head] = attended.dims();
        let [_, width] = self.out.dims();
        let attended = attended.swap_dims(1, 2).reshape([batch * length, heads * head]);
        project(attended, &self.out, self.out_lora.as_ref(), draws).reshape([batch, length, width])
    }
}
