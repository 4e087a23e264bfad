//! From the rows of a product to heads with rotated positions, and back.

use burn::tensor::Tensor;
use rayon::prelude::*;

use super::grain;
use super::numbers::{Numbers, tensor};

/// Returns `[batch, heads, length, head]` from `[batch, length, heads, head]`, with the first `rotated` heads rotated by
/// the tables, `[1 or batch, 1, length, head]`.
pub(crate) fn split_heads(x: &Tensor<4>, tables: [&Tensor<4>; 2], rotated: usize) -> Tensor<4> {
    let [batch, length, heads, head] = x.dims();
    let from = Heads::new(x, tables, [heads, length, head], rotated);
    let mut output = vec![0.0; batch * heads * length * head];
    let of_heads = output.par_chunks_mut(length * head).enumerate();
    of_heads.for_each(|(at, output)| split_head(output, &from, at / heads, at % heads));
    tensor(output, [batch, heads, length, head])
}

/// The inverse of [`split_heads`], which is also its gradient.
pub(crate) fn join_heads(x: &Tensor<4>, tables: [&Tensor<4>; 2], rotated: usize) -> Tensor<4> {
    let [batch, heads, length, head] = x.dims();
    let from = Heads::new(x, tables, [heads, length, head], rotated);
    let mut output = vec![0.0; batch * heads * length * head];
    let (width, run) = (heads * head, grain(heads * head));
    let runs = output.par_chunks_mut(run * width).enumerate();
    runs.for_each(|(at, output)| join_places(output, &from, at * run));
    tensor(output, [batch, length, heads, head])
}

/// The inputs of both directions.
struct Heads {
    x: Numbers,
    /// The cosines and the sines of all places.
    tables: [Numbers; 2],
    /// 1 if each row has its own tables, and 0 if all share one.
    tables_per_row: usize,
    heads: usize,
    length: usize,
    head: usize,
    rotated: usize,
}

impl Heads {
    fn new(
        x: &Tensor<4>,
        tables: [&Tensor<4>; 2],
        [heads, length, head]: [usize; 3],
        rotated: usize,
    ) -> Self {
        let tables_per_row = usize::from(tables[0].dims()[0] > 1);
        let [x, cos, sin] = [x, tables[0], tables[1]].map(|tensor| Numbers::new(tensor.clone()));
        Self { x, tables: [cos, sin], tables_per_row, heads, length, head, rotated }
    }

    /// The cosines and the sines of a place.
    #[inline(always)]
    fn tables_at(&self, row: usize, place: usize) -> [&[f32]; 2] {
        let from = (row * self.tables_per_row * self.length + place) * self.head;
        [&self.tables[0].get()[from..][..self.head], &self.tables[1].get()[from..][..self.head]]
    }
}

vectorized! {
    /// Writes all places of one head of a row.
    fn split_head<'a>(output: &'a mut [f32], from: &'a Heads, row: usize, number: usize) {
        let Heads { heads, length, head, rotated, .. } = *from;
        for (place, output) in output.chunks_exact_mut(head).enumerate() {
            let x = &from.x.get()[((row * length + place) * heads + number) * head..][..head];
            match number < rotated {
                true => rotate(output, x, from.tables_at(row, place), 1.0),
                false => output.copy_from_slice(x),
            }
        }
    }

    /// Writes all heads of the places from `first`, which is counted over all rows.
    fn join_places<'a>(output: &'a mut [f32], from: &'a Heads, first: usize) {
        let Heads { heads, length, head, rotated, .. } = *from;
        for (at, output) in output.chunks_exact_mut(heads * head).enumerate() {
            let (row, place) = ((first + at) / length, (first + at) % length);
            for (number, output) in output.chunks_exact_mut(head).enumerate() {
                let x = &from.x.get()[((row * heads + number) * length + place) * head..][..head];
                match number < rotated {
                    true => rotate(output, x, from.tables_at(row, place), -1.0),
                    false => output.copy_from_slice(x),
                }
            }
        }
    }
}

/// Rotates each plane of one head: forwards if `way` is 1, and backwards if it is -1.
#[inline(always)]
fn rotate(output: &mut [f32], x: &[f32], [cos, sin]: [&[f32]; 2], way: f32) {
    let half = x.len() / 2;
    let ((first, second), (x, y)) = (output.split_at_mut(half), x.split_at(half));
    let tables = cos[..half].iter().zip(&sin[..half]);
    for (((first, second), (x, y)), (cos, sin)) in
        first.iter_mut().zip(second).zip(x.iter().zip(y)).zip(tables)
    {
        let sin = way * sin;
        *first = x * cos - y * sin;
        *second = y * cos + x * sin;
    }
}
