//! Causal attention over whole rows, and its gradient.
//!
//! Each head is done by itself, a block of queries at a time: the block's scores become weights in place, and are used
//! while they are still in the core's cache. For the gradient they are computed again, from the logarithms of the sums.

use std::ops::Range;

use burn::tensor::{Int, Tensor};
use gemm::Parallelism;
use rayon::prelude::*;

use super::elementwise::add_run;
use super::matrix::{Accumulate, Matrix, multiply};
use super::numbers::{Numbers, tensor};
use super::simd;

/// About how many scores a block has: 256 KB stay in a core's cache.
const SCORES: usize = 1 << 16;
/// The most queries of a block: with fewer, fewer scores are computed that no query sees.
const MOST_QUERIES: usize = 64;
/// The fewest queries of a block: with fewer, products take longer than they save.
const LEAST_QUERIES: usize = 16;

/// The inputs of attention, which its gradient needs too.
#[derive(Clone, Debug)]
pub(crate) struct AttentionKernel {
    /// The heads of queries, keys and values, `[batch, heads + 2 * kv_heads, length, head]`.
    numbers: Numbers,
    shape: Shape,
    /// The first key that each query of each row sees, `[batch, length]`; without it, the first of all.
    starts: Option<Vec<usize>>,
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    batch: usize,
    heads: usize,
    kv_heads: usize,
    length: usize,
    head: usize,
}

impl AttentionKernel {
    pub(crate) fn new(heads: Tensor<4>, kv_heads: usize, starts: Option<Tensor<2, Int>>) -> Self {
        let [batch, all, length, head] = heads.dims();
        let starts = starts.map(|starts| starts.into_data().iter::<i64>().map(first_key).collect());
        let shape = Shape { batch, heads: all - 2 * kv_heads, kv_heads, length, head };
        Self { numbers: Numbers::new(heads), shape, starts }
    }

    /// Returns the output, `[batch, heads, length, head]`, and the logarithm of each softmax's sum, `[batch, heads, length]`.
    pub(crate) fn forward(&self) -> (Tensor<4>, Vec<f32>) {
        let Shape { batch, heads, length, head, .. } = self.shape;
        let mut output = vec![0.0; batch * heads * length * head];
        let mut log_sums = vec![0.0; batch * heads * length];
        (output.par_chunks_mut(length * head), log_sums.par_chunks_mut(length))
            .into_par_iter()
            .enumerate()
            .for_each_init(
                || self.scratch(),
                |scratch, (at, (output, log_sums))| {
                    let of = self.head(at / heads, at % heads);
                    for block in self.shape.blocks() {
                        let weights = of.scores(scratch, &block);
                        softmax_rows(weights, &mut log_sums[block.clone()], of.starts, block.start);
                        let output = &mut output[block.start * head..block.end * head];
                        let values = Matrix::of_rows(&of.values[..block.end * head], head);
                        product(
                            output,
                            Accumulate::Replace,
                            Matrix::of_rows(weights, block.end),
                            values,
                            1.0,
                        );
                    }
                },
            );
        (tensor(output, [batch, heads, length, head]), log_sums)
    }

    /// Returns the gradient of the heads, given that of the output.
    pub(crate) fn gradient(&self, slopes: Tensor<4>, output: Tensor<4>, log_sums: &[f32]) -> Tensor<4> {
        let Shape { batch, heads, kv_heads, length, head } = self.shape;
        let (slopes, output) = (Numbers::new(slopes), Numbers::new(output));
        let (one, group) = (length * head, heads / kv_heads);
        let mut gradient = vec![0.0; batch * (heads + 2 * kv_heads) * one];
        gradient.par_chunks_mut((heads + 2 * kv_heads) * one).enumerate().for_each(|(row, gradient)| {
            let (queries, rest) = gradient.split_at_mut(heads * one);
            let (keys, values) = rest.split_at_mut(kv_heads * one);
            let of_head = |scratch: &mut [Vec<f32>; 2], at: usize, queries: &mut [f32]| {
                let from = (row * heads + at) * length;
                let saved = Saved {
                    slopes: &slopes.get()[from * head..][..one],
                    output: &output.get()[from * head..][..one],
                    log_sums: &log_sums[from..][..length],
                };
                self.head(row, at).gradient(&saved, scratch, queries)
            };
            let shared: Vec<[Vec<f32>; 2]> = queries
                .par_chunks_mut(one)
                .enumerate()
                .map_init(
                    || [self.scratch(), self.scratch()],
                    |scratch, (at, queries)| of_head(scratch, at, queries),
                )
                .collect();
            // In the order of the heads, whichever thread was first.
            let shared = shared.par_chunks(group);
            (shared, keys.par_chunks_mut(one), values.par_chunks_mut(one)).into_par_iter().for_each(
                |(shared, keys, values)| {
                    for [of_keys, of_values] in shared {
                        add_run(keys, of_keys);
                        add_run(values, of_values);
                    }
                },
            );
        });
        tensor(gradient, [batch, heads + 2 * kv_heads, length, head])
    }

    /// Room for the scores of one block.
    fn scratch(&self) -> Vec<f32> {
        vec![0.0; self.shape.block_len() * self.shape.length]
    }

    fn head(&self, row: usize, head: usize) -> Head<'_> {
        let Shape { heads, kv_heads, length, head: width, .. } = self.shape;
        let numbers = |at: usize| {
            &self.numbers.get()[(row * (heads + 2 * kv_heads) + at) * length * width..][..length * width]
        };
        let kv_head = head * kv_heads / heads;
        Head {
            shape: self.shape,
            queries: numbers(head),
            keys: numbers(heads + kv_head),
            values: numbers(heads + kv_heads + kv_head),
            starts: self.starts.as_ref().map(|starts| &starts[row * length..][..length]),
        }
    }
}

/// A document may begin before its row does.
fn first_key(start: i64) -> usize {
    usize::try_from(start).unwrap_or(0)
}

impl Shape {
    fn block_len(&self) -> usize {
        (SCORES / self.length).clamp(LEAST_QUERIES, MOST_QUERIES)
    }

    fn blocks(self) -> impl Iterator<Item = Range<usize>> {
        (0..self.length)
            .step_by(self.block_len())
            .map(move |from| from..(from + self.block_len()).min(self.length))
    }
}

/// One head of one row, `[length, head]` each.
struct Head<'a> {
    shape: Shape,
    queries: &'a [f32],
    keys: &'a [f32],
    values: &'a [f32],
    starts: Option<&'a [usize]>,
}

/// The tensors of the forward pass that the gradient of a head needs, besides its inputs.
struct Saved<'a> {
    /// The gradient of the output, `[length, head]`.
    slopes: &'a [f32],
    output: &'a [f32],
    log_sums: &'a [f32],
}

impl Head<'_> {
    fn factor(&self) -> f32 {
        (self.shape.head as f32).powf(-0.5)
    }

    /// The scores of a block of queries, `[queries, keys]`, for the keys up to the block's last query.
    fn scores<'a>(&self, scratch: &'a mut [f32], block: &Range<usize>) -> &'a mut [f32] {
        let (width, scores) = (self.shape.head, &mut scratch[..block.len() * block.end]);
        let queries = Matrix::of_rows(&self.queries[block.start * width..block.end * width], width);
        let keys = Matrix::of_rows(&self.keys[..block.end * width], width);
        product(scores, Accumulate::Replace, queries, keys.transpose(), self.factor());
        scores
    }

    /// Writes the gradient of the queries, and returns those of keys and values.
    fn gradient(&self, saved: &Saved<'_>, scratch: &mut [Vec<f32>; 2], queries: &mut [f32]) -> [Vec<f32>; 2] {
        let (width, [first, second]) = (self.shape.head, scratch);
        let [mut keys, mut values] = [vec![0.0; queries.len()], vec![0.0; queries.len()]];
        for block in self.shape.blocks() {
            let (rows_of, seen) = (block.start * width..block.end * width, ..block.end * width);
            let slopes = &saved.slopes[rows_of.clone()];
            let weights = self.scores(first, &block);
            softmax_rows_again(weights, &saved.log_sums[block.clone()], self.starts, block.start);
            let by_key = Matrix::of_rows(weights, block.end).transpose();
            product(&mut values[seen], Accumulate::Add, by_key, Matrix::of_rows(slopes, width), 1.0);

            let of_scores = &mut second[..block.len() * block.end];
            let seen_values = Matrix::of_rows(&self.values[seen], width).transpose();
            product(of_scores, Accumulate::Replace, Matrix::of_rows(slopes, width), seen_values, 1.0);
            slopes_of_rows(of_scores, weights, slopes, &saved.output[rows_of.clone()], width, self.factor());

            let of_scores = Matrix::of_rows(of_scores, block.end);
            let seen_keys = Matrix::of_rows(&self.keys[seen], width);
            product(&mut queries[rows_of.clone()], Accumulate::Replace, of_scores, seen_keys, 1.0);
            let read = Matrix::of_rows(&self.queries[rows_of], width);
            product(&mut keys[seen], Accumulate::Add, of_scores.transpose(), read, 1.0);
        }
        [keys, values]
    }
}

/// A product on this thread alone: the heads keep all of them busy.
fn product(output: &mut [f32], accumulate: Accumulate, a: Matrix<'_>, b: Matrix<'_>, factor: f32) {
    multiply(output, accumulate, a, b, factor, Parallelism::None);
}

/// Puts 0 for the keys that a query does not see, and returns the others.
#[inline(always)]
fn rest_cleared<'a>(row: &'a mut [f32], starts: Option<&[usize]>, query: usize) -> &'a mut [f32] {
    let start = starts.map_or(0, |starts| starts[query]);
    row[..start].fill(0.0);
    row[query + 1..].fill(0.0);
    &mut row[start..query + 1]
}

vectorized! {
    /// Replaces the scores of the queries from `first` by weights.
    fn softmax_rows<'a>(scores: &'a mut [f32], log_sums: &'a mut [f32], starts: Option<&'a [usize]>, first: usize) {
        let keys = scores.len() / log_sums.len();
        for (at, (row, log_sum)) in scores.chunks_exact_mut(keys).zip(log_sums).enumerate() {
            let row = rest_cleared(row, starts, first + at);
            let max = simd::max(row);
            let sum = simd::replace(row, |score| simd::exp(score - max));
            let share = 1.0 / sum;
            row.iter_mut().for_each(|weight| *weight *= share);
            *log_sum = max + sum.ln();
        }
    }

    /// As [`softmax_rows`], given the logarithms of the sums.
    fn softmax_rows_again<'a>(scores: &'a mut [f32], log_sums: &'a [f32], starts: Option<&'a [usize]>, first: usize) {
        let keys = scores.len() / log_sums.len();
        for (at, (row, log_sum)) in scores.chunks_exact_mut(keys).zip(log_sums).enumerate() {
            simd::replace(rest_cleared(row, starts, first + at), |score| simd::exp(score - log_sum));
        }
    }

    /// Replaces the gradients of weights, `[queries, keys]`, by those of scores. `slopes` and `output`, `[queries,
    /// head]`, give the value that a softmax subtracts from each of its gradients: their mean under its weights.
    fn slopes_of_rows<'a>(
        of_weights: &'a mut [f32],
        weights: &'a [f32],
        slopes: &'a [f32],
        output: &'a [f32],
        width: usize,
        factor: f32,
    ) {
        let keys = of_weights.len() / (slopes.len() / width);
        let pairs = slopes.chunks_exact(width).zip(output.chunks_exact(width));
        let rows = of_weights.chunks_exact_mut(keys).zip(weights.chunks_exact(keys));
        for ((row, weights), (slopes, output)) in rows.zip(pairs) {
            let mean = simd::sum([slopes, output], |[slope, output]| slope * output);
            for (slope, weight) in row.iter_mut().zip(weights) {
                *slope = (*slope - mean) * weight * factor;
            }
        }
    }
}
