//! Computes the losses of a batch and the gradients of all parameters. Holds nothing between calls.
//!
//! burn's CPU kernels do most element-wise work on one core. So on the CPU the rows of a batch are split over all
//! cores, each part with its own graph, and the gradients are added in row order. The result depends on the number of
//! parts (in the last bits), never on timing.

use std::ops::Range;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{DType, Device, Tensor};

use super::loss_sums::LossSums;
use crate::device::reading::read;
use crate::kernels::cpu;
use crate::model::{LanguageModel, Scope, Tensors};
use millstream::batch::Batch;
use millstream::error::{Error, Result};
use millstream::meter::stage_span;

/// The loss of a batch and its gradients.
#[derive(Debug)]
pub struct Gradients {
    /// The sum of all targets' losses, in nats.
    pub nats: f64,
    /// How many targets there are.
    pub tokens: usize,
    /// The gradient of `nats` for each parameter; empty if there are no targets.
    pub params: GradientsParams,
}

/// Returns the loss and the gradients of the targets of `batch` in `scope`. Its rows are split into at most `parts`
/// parts.
///
/// # Errors
/// [`Error::Train`] if the device fails.
pub fn gradients<M: LanguageModel>(
    model: &M,
    batch: &Batch,
    scope: Scope,
    device: &Device,
    parts: usize,
) -> Result<Gradients> {
    let tokens = scope.tokens(batch);
    if tokens == 0 {
        return Ok(Gradients { nats: 0.0, tokens, params: GradientsParams::new() });
    }
    let PendingGradients { losses, params } = forward_backward(model, batch, scope, device, parts)?;
    Ok(Gradients { nats: sum(batch, scope, losses)?, tokens, params })
}

/// Returns the sum of the losses of all targets of `batch` in `scope`, in nats, under a model without autodiff.
///
/// # Errors
/// [`Error::Train`] if the device fails.
pub fn nats<M: LanguageModel>(
    model: &M,
    batch: &Batch,
    scope: Scope,
    device: &Device,
    parts: usize,
) -> Result<f64> {
    match scope.tokens(batch) {
        0 => Ok(0.0),
        _ => sum(batch, scope, losses(model, batch, scope, device, parts)?),
    }
}

/// The losses of all places of a batch, `[rows * seq_len]`, and the gradients of the sum of those of targets. The
/// device may still be at work on both.
#[derive(Debug)]
pub(crate) struct PendingGradients {
    pub(crate) losses: Tensor<1>,
    pub(crate) params: GradientsParams,
}

/// Runs forward and backward over a batch that has targets.
pub(crate) fn forward_backward<M: LanguageModel>(
    model: &M,
    batch: &Batch,
    scope: Scope,
    device: &Device,
    parts: usize,
) -> Result<PendingGradients> {
    let results = on_rows(batch.rows(), parts, |rows, alone| {
        let tensors = uploaded(batch, rows, scope, device);
        let (losses, params) = match alone {
            true => model.gradients(&tensors),
            // A fork has the same parameters, as its own leaves: graphs that share a leaf share a lock.
            false => model.clone().fork(device).gradients(&tensors),
        };
        Ok((checked_shape(losses, &tensors)?, params))
    });
    let results = results.into_iter().collect::<Result<Vec<_>>>()?;
    let (losses, mut params): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    let mut sum = params.remove(0);
    for params in params {
        add(model, &mut sum, params);
    }
    Ok(PendingGradients { losses: joined(losses), params: sum })
}

/// The losses of all places of a batch that has targets, `[rows * seq_len]`, under a model without autodiff.
pub(crate) fn losses<M: LanguageModel>(
    model: &M,
    batch: &Batch,
    scope: Scope,
    device: &Device,
    parts: usize,
) -> Result<Tensor<1>> {
    let results = on_rows(batch.rows(), parts, |rows, _| {
        let tensors = uploaded(batch, rows, scope, device);
        checked_shape(model.losses(&tensors), &tensors)
    });
    results.into_iter().collect::<Result<_>>().map(joined)
}

/// Sends rows of a batch to the device. The span ends here, and so its length is the time that the caller spends on it.
fn uploaded(batch: &Batch, rows: Range<usize>, scope: Scope, device: &Device) -> Tensors {
    let span = stage_span!("trainer", "upload");
    span.in_scope(|| Tensors::from_rows(batch, rows, scope, device))
}

/// The losses, if there is one for each target.
fn checked_shape(losses: Tensor<2>, tensors: &Tensors) -> Result<Tensor<2>> {
    let (found, wanted) = (losses.dims(), tensors.targets.dims());
    match found == wanted {
        true => Ok(losses),
        false => Err(Error::Train(format!(
            "the model's losses have the shape {found:?}, and the targets {wanted:?}: return one for each target"
        ))),
    }
}

/// The losses of parts of a batch, `[rows, seq_len]` each, as those of the batch.
fn joined(parts: Vec<Tensor<2>>) -> Tensor<1> {
    Tensor::cat(parts, 0).flatten(0, 1).cast(DType::F32)
}

fn sum(batch: &Batch, scope: Scope, losses: Tensor<1>) -> Result<f64> {
    let mut sums = LossSums::default();
    sums.add(batch, scope, &read(losses)?);
    Ok(sums.all.nats)
}

/// Adds `more` to the gradients of `sum`.
pub(crate) fn add(model: &impl Module, sum: &mut GradientsParams, more: GradientsParams) {
    struct Add<'a>(&'a mut GradientsParams, GradientsParams);
    impl ModuleVisitor for Add<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let Some(more) = self.1.remove::<D>(param.id) else { return };
            let sum = match self.0.remove::<D>(param.id) {
                None => more,
                Some(sum) if cpu::has(&sum) && cpu::has(&more) => cpu::add(sum, &more),
                Some(sum) => sum + more,
            };
            self.0.register(param.id, sum);
        }
    }
    model.visit(&mut Add(sum, more));
}

/// A factor of all gradients, on the host or on their device.
#[derive(Clone, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "a step has one; how large it is depends on the devices of the build"
)]
pub enum Factor {
    /// A number that is known.
    Known(f64),
    /// A number that the device may still be at work on, `[1]`.
    OnDevice(Tensor<1>),
}

/// Multiplies all gradients by `factor`.
pub fn scale(model: &impl Module, params: &mut GradientsParams, factor: &Factor) {
    struct Scale<'a>(&'a mut GradientsParams, &'a Factor);
    impl ModuleVisitor for Scale<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let Some(gradient) = self.0.remove::<D>(param.id) else { return };
            let scaled = match self.1 {
                Factor::Known(factor) if cpu::has(&gradient) => cpu::scale(gradient, *factor as f32),
                Factor::Known(factor) => gradient.mul_scalar(*factor),
                Factor::OnDevice(factor) => {
                    let factor = factor.clone().cast(gradient.dtype());
                    gradient * factor.unsqueeze()
                }
            };
            self.0.register(param.id, scaled);
        }
    }
    model.visit(&mut Scale(params, factor));
}

/// Returns the L2 norm of all gradients together, `[1]`, f32; `None` if there are none.
pub fn global_norm(model: &impl Module, params: &GradientsParams) -> Option<Tensor<1>> {
    struct Squares<'a>(&'a GradientsParams, Vec<Tensor<1>>);
    impl ModuleVisitor for Squares<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.0.get::<D>(param.id) {
                if cpu::has(&gradient) {
                    let square = Tensor::from_data([cpu::squares(&gradient)], &gradient.device());
                    return self.1.push(square);
                }
                self.1.push(gradient.cast(DType::F32).square().sum());
            }
        }
    }
    let mut squares = Squares(params, Vec::new());
    model.visit(&mut squares);
    (!squares.1.is_empty()).then(|| Tensor::cat(squares.1, 0).sum().sqrt())
}

/// Splits `rows` rows into at most `parts` even runs, and returns the result of `work` for each, in order. The second
/// argument of `work` says whether there is only one run.
///
/// The runs go to the threads that the kernels run on, so that a product inside one run is not split further while all
/// threads have runs of their own.
fn on_rows<T: Send>(rows: usize, parts: usize, work: impl Fn(Range<usize>, bool) -> T + Sync) -> Vec<T> {
    let parts = parts.min(rows).max(1);
    let run = |part: usize| work(rows * part / parts..rows * (part + 1) / parts, parts == 1);
    if parts > 1 {
        use rayon::prelude::*;
        // A thread that has a part of its own is not to wait for others within a product.
        let threads = rayon::current_num_threads().div_ceil(parts);
        let run = |part: usize| cpu::with_threads(threads, || run(part));
        return (0..parts).into_par_iter().with_max_len(1).map(run).collect();
    }
    (0..parts).map(run).collect()
}
