//! Causal attention in memory that grows with the length, not with its square.
//!
//! Queries are taken in blocks. A block's scores, `[batch, heads, block, keys]`, end at the block's last key, as later
//! ones are not seen; they are dropped when the block is done. What stays for the backward pass is the output and the
//! logarithm of each softmax's sum, `[batch, heads, length]`; scores are computed again from them, as in
//! FlashAttention-2 (Dao, 2023, arXiv:2307.08691). That paper also cuts the keys into blocks, because its scores live in
//! a GPU's registers. Here a block is a few calls of burn, and a whole row of scores needs no running maximum.
//!
//! Training and validation share [`self_attend`], and generation, whose queries follow keys that were read before, takes
//! [`attend`]. Products take the type of the queries; scores, softmax and sums over blocks are f32. On the CPU,
//! [`self_attend`] in f32 has a kernel of its own, with the same steps.

use std::ops::Range;

use burn::tensor::{Bool, DType, Int, Tensor};

use super::chunks;
use super::cpu;
use super::derivative::{Derivative, differentiable};

/// Returns the attention of `query`, `[batch, heads, length, head]`, over `key` and `value`, `[batch, kv_heads, keys,
/// head]`, in blocks of `block` queries. `kv_heads` divides `heads`, and each head of keys serves as many heads of
/// queries, in order.
///
/// The last query is at the last key, and each query sees its own key and those before it. `starts`, `[batch,
/// length]`, is the first key that a query sees; without it, that is the first of all.
///
/// # Panics
/// If there are fewer keys than queries.
pub fn attend(
    query: Tensor<4>,
    key: Tensor<4>,
    value: Tensor<4>,
    starts: Option<Tensor<2, Int>>,
    block: usize,
) -> Tensor<4> {
    differentiable([query, key, value], |[query, key, value]| {
        let recomputed = Recomputed::new(Blockwise::new(query, key, value, without_autodiff(starts), block));
        (recomputed.output.clone(), recomputed)
    })
}

/// As [`attend`], for the heads of queries, keys and values in one tensor, `[batch, heads + 2 * kv_heads, length, head]`.
///
/// # Panics
/// If there are not more than `2 * kv_heads` heads.
pub fn self_attend(heads: Tensor<4>, kv_heads: usize, starts: Option<Tensor<2, Int>>) -> Tensor<4> {
    let starts = without_autodiff(starts);
    differentiable([heads], |[heads]| {
        if cpu::has(&heads) {
            let attention = cpu::AttentionKernel::new(heads, kv_heads, starts);
            let (output, log_sums) = attention.forward();
            return (output.clone(), SelfAttention::OnCpu { attention, output, log_sums });
        }
        let [query, key, value] = split_qkv(&heads, kv_heads);
        let block = block_len(&query, query.dims()[2]);
        let recomputed = Recomputed::new(Blockwise::new(query, key, value, starts, block));
        (recomputed.output.clone(), SelfAttention::Recomputed(recomputed))
    })
}

/// The heads of queries, of keys and of values, each `[batch, heads, length, head]`.
pub(crate) fn split_qkv(heads: &Tensor<4>, kv_heads: usize) -> [Tensor<4>; 3] {
    let all = heads.dims()[1];
    let [keys, values] = [all - 2 * kv_heads, all - kv_heads];
    [0..keys, keys..values, values..all].map(|part| heads.clone().slice_dim(1, part))
}

fn without_autodiff(starts: Option<Tensor<2, Int>>) -> Option<Tensor<2, Int>> {
    starts.map(|starts| if starts.is_autodiff() { starts.inner() } else { starts })
}

/// Returns a good number of queries for a block on the device of `query`.
///
/// It is as many as keep a block's scores within what the device does at once, but at least 32, so that adding up the
/// gradients of the keys costs little next to the products.
pub fn block_len(query: &Tensor<4>, keys: usize) -> usize {
    let [batch, heads, length, _] = query.dims();
    let most = (chunks::scores(chunks::is_cpu(&query.device())) / (batch * heads * keys).max(1)).max(32);
    // Even blocks, of whole vectors.
    let blocks = length.div_ceil(most).max(1);
    length.div_ceil(blocks).next_multiple_of(16).max(1)
}

/// The inputs, without autodiff.
#[derive(Clone, Debug)]
struct Blockwise {
    /// Times `factor`.
    query: Tensor<4>,
    /// One by the root of the head's width.
    factor: f64,
    key: Tensor<4>,
    value: Tensor<4>,
    starts: Option<Tensor<2, Int>>,
    block: usize,
}

impl Blockwise {
    fn new(
        query: Tensor<4>,
        key: Tensor<4>,
        value: Tensor<4>,
        starts: Option<Tensor<2, Int>>,
        block: usize,
    ) -> Self {
        assert!(query.dims()[2] <= key.dims()[2], "there are fewer keys than queries");
        let factor = (query.dims()[3] as f64).powf(-0.5);
        Self { query: query.mul_scalar(factor), factor, key, value, starts, block: block.max(1) }
    }

    /// The output, and the logarithm of each softmax's sum, `[batch, heads, length, 1]`, f32.
    fn forward(&self) -> (Tensor<4>, Tensor<4>) {
        let (mut outputs, mut log_sums) = (Vec::new(), Vec::new());
        for block in self.blocks() {
            let scores = self.scores(&block);
            let max = scores.clone().max_dim(3);
            let weights = (scores - max.clone()).exp();
            let sum = weights.clone().sum_dim(3);
            let value = self.value.clone().slice_dim(2, 0..block.keys);
            // Dividing the product, which is narrower than the weights.
            let output = self.folded(self.narrow(weights)).matmul(value).cast(DType::F32);
            outputs.push(self.narrow(self.unfolded(output) * sum.clone().recip()));
            log_sums.push(max + sum.log());
        }
        (Tensor::cat(outputs, 2), Tensor::cat(log_sums, 2))
    }

    /// The blocks of queries, from the first to the last.
    fn blocks(&self) -> impl DoubleEndedIterator<Item = QueryBlock> + use<> {
        let (block, [_, _, length, _], [_, _, keys, _]) = (self.block, self.query.dims(), self.key.dims());
        (0..length.div_ceil(block)).map(move |at| {
            let queries = at * block..((at + 1) * block).min(length);
            QueryBlock { keys: keys - (length - queries.end), queries }
        })
    }

    /// The scores of a block, `[batch, heads, queries, keys]`, f32, with those not seen at minus infinity.
    fn scores(&self, block: &QueryBlock) -> Tensor<4> {
        let query = self.folded(self.query.clone().slice_dim(2, block.queries.clone()));
        let key = self.key.clone().slice_dim(2, 0..block.keys);
        let scores = self.unfolded(query.matmul(key.swap_dims(2, 3)).cast(DType::F32));
        scores.mask_fill(self.unseen(block), f32::NEG_INFINITY)
    }

    /// True where a query of a block does not see a key, `[batch or 1, 1, queries, keys]`.
    fn unseen(&self, block: &QueryBlock) -> Tensor<4, Bool> {
        let (rows, device) = (block.queries.len(), self.query.device());
        let later =
            Tensor::<2, Bool>::tril_mask([rows, block.keys], block.keys as i64 - rows as i64, &device);
        let Some(starts) = &self.starts else { return later.unsqueeze() };
        let [batch, _] = starts.dims();
        let shape = [batch, 1, rows, block.keys];
        let starts = starts.clone().slice_dim(1, block.queries.clone()).reshape([batch, 1, rows, 1]);
        let keys = Tensor::<1, Int>::arange(0..block.keys as i64, &device);
        let before = keys.reshape([1, 1, 1, block.keys]).expand(shape).lower(starts.expand(shape));
        before.bool_or(later.unsqueeze::<4>().expand(shape))
    }

    /// Puts the heads of queries that share keys below each other: `[batch, kv_heads, heads / kv_heads * rows, width]`
    /// from `[batch, heads, rows, width]`. So keys and values are never repeated.
    fn folded(&self, x: Tensor<4>) -> Tensor<4> {
        let ([batch, heads, rows, width], [_, kv_heads, ..]) = (x.dims(), self.key.dims());
        match heads == kv_heads {
            true => x,
            false => x.reshape([batch, kv_heads, heads / kv_heads * rows, width]),
        }
    }

    /// The inverse of [`folded`](Self::folded).
    fn unfolded(&self, x: Tensor<4>) -> Tensor<4> {
        let ([batch, kv_heads, rows, width], [_, heads, ..]) = (x.dims(), self.query.dims());
        match heads == kv_heads {
            true => x,
            false => x.reshape([batch, heads, rows * kv_heads / heads, width]),
        }
    }

    /// Casts f32 to the type of the products.
    fn narrow(&self, x: Tensor<4>) -> Tensor<4> {
        x.cast(self.query.dtype())
    }
}

/// Some queries, and how many keys the last of them sees.
struct QueryBlock {
    queries: Range<usize>,
    keys: usize,
}

/// The gradient of [`Blockwise`], which computes its scores again.
#[derive(Clone, Debug)]
struct Recomputed {
    blockwise: Blockwise,
    output: Tensor<4>,
    log_sums: Tensor<4>,
}

impl Recomputed {
    fn new(blockwise: Blockwise) -> Self {
        let (output, log_sums) = blockwise.forward();
        Self { blockwise, output, log_sums }
    }
}

impl Derivative<3> for Recomputed {
    fn gradients(self, output: Tensor<4>) -> [Tensor<4>; 3] {
        let Self { blockwise: of, output: attended, log_sums } = self;
        // The value that a softmax subtracts from each of its gradients: their mean under its weights.
        let means = (output.clone().cast(DType::F32) * attended.cast(DType::F32)).sum_dim(3);
        let mut queries = Vec::new();
        let (mut keys, mut values) = (Sum::default(), Sum::default());
        // The last block sees all keys, so it goes first: the sums begin at their full length.
        for block in of.blocks().rev() {
            let rows = |x: &Tensor<4>| x.clone().slice_dim(2, block.queries.clone());
            let seen = |x: &Tensor<4>| x.clone().slice_dim(2, 0..block.keys);
            let weights = (of.scores(&block) - rows(&log_sums)).exp();
            let output = of.folded(rows(&output));
            values.add(of.folded(of.narrow(weights.clone())).transpose().matmul(output.clone()));
            let slopes = of.unfolded(output.matmul(seen(&of.value).transpose()).cast(DType::F32));
            let slopes = of.folded(of.narrow((slopes - rows(&means)) * weights));
            keys.add(slopes.clone().transpose().matmul(of.folded(rows(&of.query))));
            queries.push(of.unfolded(slopes.matmul(seen(&of.key))));
        }
        queries.reverse();
        let queries = Tensor::cat(queries, 2).mul_scalar(of.factor);
        [queries, of.narrow(keys.0.expect("a block")), of.narrow(values.0.expect("a block"))]
    }
}

/// The gradient for queries, keys and values in one tensor.
#[derive(Clone, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a layer has one; how large it is depends on the devices of the build"
)]
enum SelfAttention {
    OnCpu { attention: cpu::AttentionKernel, output: Tensor<4>, log_sums: Vec<f32> },
    Recomputed(Recomputed),
}

impl Derivative<1> for SelfAttention {
    fn gradients(self, slopes: Tensor<4>) -> [Tensor<4>; 1] {
        match self {
            Self::OnCpu { attention, output, log_sums } => [attention.gradient(slopes, output, &log_sums)],
            Self::Recomputed(recomputed) => [Tensor::cat(recomputed.gradients(slopes).into(), 1)],
        }
    }
}

/// A sum, in f32, of gradients that begin at the first key; the first added is the longest.
#[derive(Default)]
struct Sum(Option<Tensor<4>>);

impl Sum {
    fn add(&mut self, next: Tensor<4>) {
        let next = next.cast(DType::F32);
        self.0 = Some(match self.0.take() {
            None => next,
            Some(sum) => {
                let [batch, heads, keys, head] = next.dims();
                let part = [0..batch, 0..heads, 0..keys, 0..head];
                let next = next + sum.clone().slice(part.clone());
                sum.slice_assign(part, next)
            }
        });
    }
}
