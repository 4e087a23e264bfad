//! Adapters: what `[train.lora]` trains instead of a model's matrices. Holds their factors, which are small.
//!
//! burn's own LoRA puts one adapter on each parameter, and composes the whole matrix before each product, whose gradient is
//! then as large as the matrix. Here a parameter holds several projections side by side, each with an adapter of its own,
//! as in PEFT. Their inputs go through the factors beside the matrix: a frozen matrix has no gradient at all.

use std::ops::Range;

use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};

use super::dropout::Draws;
use super::hidden::HiddenMatrix;
use super::random::Uniform;
use super::shape::{Kind, Part, block_parts};
use crate::config::{LoraConfig, ModelConfig};
use crate::kernels::product::{frozen_product, product};

/// The adapters of the projections that lie side by side in one matrix.
#[derive(Module, Debug)]
pub struct Lora {
    /// Their first factors side by side, `[in, adapters * rank]`. They read the same input.
    pub a: Param<Tensor<2>>,
    /// The second factor of each, `[rank, out]`.
    pub b: Vec<Param<Tensor<2>>>,
    /// The columns of the matrix that each adapter adds to, from left to right.
    #[module(skip)]
    columns: Vec<Range<usize>>,
    /// How many columns the matrix has.
    width: usize,
    scale: f64,
    /// The number of the matrix in the model, for random draws.
    number: usize,
}

impl Lora {
    /// The adapters of the matrix `part`, the matrix `number` of the model; none if it has no target.
    ///
    /// The first factors are drawn as PEFT draws them: evenly between `±1 / sqrt(in)`. The second ones are 0, so the
    /// model begins as it was.
    fn new(
        part: &Part,
        number: usize,
        lora: &LoraConfig,
        uniform: &mut Uniform,
        device: &Device,
    ) -> Option<Self> {
        let (mut width, mut columns) = (0, Vec::new());
        for (name, shape) in &part.tensors {
            if is_target(lora, name) {
                columns.push(width..width + shape[0]);
            }
            width += shape[0];
        }
        let inputs = part.tensors.first()?.1[1];
        if columns.is_empty() {
            return None;
        }
        let shape = [inputs, columns.len() * lora.rank];
        let bound = 1.0 / (inputs as f64).sqrt();
        let draw = |_| (bound * (2.0 * uniform.sample() - 1.0)) as f32;
        let values: Vec<f32> = (0..shape[0] * shape[1]).map(draw).collect();
        let zeros =
            |columns: &Range<usize>| Param::from_tensor(Tensor::zeros([lora.rank, columns.len()], device));
        Some(Self {
            a: Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), device)),
            b: columns.iter().map(zeros).collect(),
            columns,
            width,
            scale: lora.scale(),
            number,
        })
    }

    /// What they add to the product of `x`, `[rows, in]`, and the matrix.
    fn forward(&self, x: Tensor<2>, draws: Option<&Draws>) -> Tensor<2> {
        let x = match draws {
            Some(draws) => draws.drop_from(x, self.number),
            None => x,
        };
        let a = self.a.val().cast(x.dtype());
        self.side_by_side(product(x, a).mul_scalar(self.scale))
    }

    /// What they add to the matrix, `[in, out]`.
    fn delta(&self) -> Tensor<2> {
        self.side_by_side(self.a.val().mul_scalar(self.scale))
    }

    /// The product of each adapter's columns of `low`, `[rows, adapters * rank]`, and its second factor, and zeros for the
    /// projections without one.
    fn side_by_side(&self, low: Tensor<2>) -> Tensor<2> {
        let ([rows, all], device, dtype) = (low.dims(), low.device(), low.dtype());
        let rank = all / self.b.len();
        let (mut parts, mut from) = (Vec::new(), 0);
        let zeros = |width: usize| Tensor::zeros([rows, width], (&device, dtype));
        for (number, (columns, b)) in self.columns.iter().zip(&self.b).enumerate() {
            if columns.start > from {
                parts.push(zeros(columns.start - from));
            }
            let low = low.clone().slice_dim(1, number * rank..(number + 1) * rank);
            parts.push(product(low, b.val().cast(dtype)));
            from = columns.end;
        }
        if self.width > from {
            parts.push(zeros(self.width - from));
        }
        if parts.len() == 1 { parts.remove(0) } else { Tensor::cat(parts, 1) }
    }

    /// Its matrices, for Muon: each factor of each adapter is one.
    pub(super) fn matrices(&self) -> Vec<HiddenMatrix> {
        let rank = self.a.lazy_shape()[1] / self.b.len();
        let a = HiddenMatrix::side_by_side(&self.a, &vec![rank; self.b.len()]);
        std::iter::once(a).chain(self.b.iter().map(HiddenMatrix::new)).collect()
    }
}

/// The product of `x`, `[rows, in]`, and a matrix with its adapters. A frozen matrix costs no gradient, and does not keep
/// `x` for the backward pass.
pub(super) fn project(
    x: Tensor<2>,
    matrix: &Param<Tensor<2>>,
    lora: Option<&Lora>,
    draws: Option<&Draws>,
) -> Tensor<2> {
    let weights = matrix.val().cast(x.dtype());
    let of_matrix = |x| match matrix.is_require_grad() {
        true => product(x, weights),
        false => frozen_product(x, weights),
    };
    match lora {
        None => of_matrix(x),
        Some(lora) => of_matrix(x.clone()) + lora.forward(x, draws),
    }
}

/// Puts adapters on the matrices of blocks, one block after the other.
pub(super) struct Attach<'a> {
    model: &'a ModelConfig,
    lora: &'a LoraConfig,
    uniform: Uniform,
    device: &'a Device,
    /// How many matrices there were so far.
    matrices: usize,
}

impl<'a> Attach<'a> {
    /// Draws all factors from `seed`, on the host: they are the same on every device.
    pub(super) fn new(model: &'a ModelConfig, lora: &'a LoraConfig, seed: u64, device: &'a Device) -> Self {
        Self { model, lora, uniform: Uniform::new(seed), device, matrices: 0 }
    }

    /// The adapters of the matrices of a block: queries, keys and values; out of the heads; up; down.
    pub(super) fn block(&mut self) -> [Option<Lora>; 4] {
        let mut adapters = [const { None }; 4];
        let matrices = block_parts(self.model, 0).into_iter().filter(|part| part.kind == Kind::Matrix);
        for (adapter, part) in adapters.iter_mut().zip(matrices) {
            *adapter = Lora::new(&part, self.matrices, self.lora, &mut self.uniform, self.device);
            self.matrices += 1;
        }
        adapters
    }
}

/// A matrix with what its adapters add to it, without them.
pub(super) fn merge(matrix: &mut Param<Tensor<2>>, lora: &mut Option<Lora>) {
    if let Some(lora) = lora.take() {
        *matrix = matrix.clone().map(|weights| weights + lora.delta());
    }
}

/// The factors of all adapters, with the names that PEFT gives them.
pub(crate) fn adapter_parts(model: &ModelConfig, lora: &LoraConfig) -> Vec<Part> {
    (0..model.layers).flat_map(|block| block_adapters(model, lora, block)).collect()
}

/// Those of a block.
pub(crate) fn block_adapters(model: &ModelConfig, lora: &LoraConfig, block: usize) -> Vec<Part> {
    let matrices = block_parts(model, block).into_iter().filter(|part| part.kind == Kind::Matrix);
    matrices.flat_map(|part| factors(&part, lora)).collect()
}

/// The factors of the adapters of a matrix: all first ones together, and each second one.
fn factors(part: &Part, lora: &LoraConfig) -> Vec<Part> {
    let targets = part.tensors.iter().filter(|(name, _)| is_target(lora, name));
    let name = |tensor: &str, factor: &str| {
        format!("base_model.model.{}.lora_{factor}.weight", tensor.trim_end_matches(".weight"))
    };
    let factor = |path: String, tensors| Part { path, kind: Kind::Matrix, tensors, kept: 0 };
    let first: Vec<_> =
        targets.clone().map(|(tensor, shape)| (name(tensor, "A"), vec![lora.rank, shape[1]])).collect();
    if first.is_empty() {
        return Vec::new();
    }
    let second = targets.enumerate().map(|(number, (tensor, shape))| {
        let tensors = vec![(name(tensor, "B"), vec![shape[0], lora.rank])];
        factor(format!("{}_lora.b.{number}", part.path), tensors)
    });
    std::iter::once(factor(format!("{}_lora.a", part.path), first)).chain(second).collect()
}

/// Whether the projection that a tensor belongs to has an adapter.
pub(crate) fn is_target(lora: &LoraConfig, tensor: &str) -> bool {
    lora.targets
        .projections()
        .iter()
        .any(|projection| tensor.split('.').any(|part| part == projection.name()))
}
