//! Computes the loss of a batch and the gradients of all parameters. Holds nothing between calls.
//!
//! The body of the model goes through autodiff; the head and the loss do not. [`head_loss`] gives the gradient of the
//! hidden states, and autodiff goes back from the product of the hidden states and that gradient.
//!
//! burn's CPU kernels do most element-wise work on one core. So on the CPU the rows of a batch are split over all
//! cores, each part with its own graph, and the gradients are added in row order. The result depends on the number of
//! parts (in the last bits), never on timing.

use std::ops::Range;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::{GradientsAccumulator, GradientsParams};
use burn::tensor::{DType, Device, Tensor};

use super::loss::{HeadLoss, head_loss, head_nats};
use super::model::Gpt;
use super::scope::Scope;
use super::tensors::Tensors;
use crate::batch::Batch;
use crate::error::{Error, Result};

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
pub fn gradients(
    model: &Gpt,
    batch: &Batch,
    scope: Scope,
    device: &Device,
    parts: usize,
) -> Result<Gradients> {
    let tokens = scope.tokens(batch);
    if tokens == 0 {
        return Ok(Gradients { nats: 0.0, tokens, params: GradientsParams::new() });
    }
    let mut results = on_rows(batch.rows(), parts, |rows, alone| match alone {
        true => backward(model, batch, rows, scope, device),
        // A fork has the same parameters, as its own leaves: graphs that share a leaf share a lock.
        false => backward(&model.clone().fork(device), batch, rows, scope, device),
    });
    let mut nats = 0.0;
    for (loss, _) in &results {
        nats += scalar(loss.clone())?;
    }
    let params = match results.len() {
        1 => results.remove(0).1,
        _ => {
            let mut sum = GradientsAccumulator::new();
            for (_, params) in results {
                sum.accumulate(model, params);
            }
            sum.grads()
        }
    };
    Ok(Gradients { nats, tokens, params })
}

/// Returns the sum of the losses of all targets of `batch` in `scope`, in nats, under a model without autodiff.
///
/// # Errors
/// [`Error::Train`] if the device fails.
pub fn nats(model: &Gpt, batch: &Batch, scope: Scope, device: &Device, parts: usize) -> Result<f64> {
    if scope.tokens(batch) == 0 {
        return Ok(0.0);
    }
    let one = |rows: Range<usize>| {
        let tensors = Tensors::of_rows(batch, rows, scope, device);
        let [rows, length] = tensors.targets.dims();
        let hidden = model.hidden(tensors.inputs, tensors.documents.as_ref());
        let width = hidden.dims()[2];
        scalar(head_nats(
            hidden.reshape([rows * length, width]),
            model.head_weight(),
            tensors.targets.reshape([rows * length]),
            tensors.mask.map(|mask| mask.reshape([rows * length, 1])),
        ))
    };
    on_rows(batch.rows(), parts, |rows, _| one(rows)).into_iter().sum()
}

/// Multiplies all gradients by `factor`.
pub fn scale(model: &Gpt, params: &mut GradientsParams, factor: f64) {
    struct Scale<'a>(&'a mut GradientsParams, f64);
    impl ModuleVisitor for Scale<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.0.remove::<D>(param.id) {
                self.0.register(param.id, gradient.mul_scalar(self.1));
            }
        }
    }
    model.visit(&mut Scale(params, factor));
}

/// Returns the L2 norm of all gradients together.
///
/// # Errors
/// [`Error::Train`] if the device fails.
pub fn global_norm(model: &Gpt, params: &GradientsParams) -> Result<f64> {
    struct Squares<'a>(&'a GradientsParams, Vec<Tensor<1>>);
    impl ModuleVisitor for Squares<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = self.0.get::<D>(param.id) {
                self.1.push(gradient.cast(DType::F32).square().sum());
            }
        }
    }
    let mut squares = Squares(params, Vec::new());
    model.visit(&mut squares);
    // One read for all parameters, because each read waits for the device.
    match squares.1.is_empty() {
        true => Ok(0.0),
        false => Ok(scalar(Tensor::cat(squares.1, 0).sum())?.sqrt()),
    }
}

/// Runs forward and backward over some rows.
fn backward(
    model: &Gpt,
    batch: &Batch,
    rows: Range<usize>,
    scope: Scope,
    device: &Device,
) -> (Tensor<1>, GradientsParams) {
    let tensors = Tensors::of_rows(batch, rows, scope, device);
    let [rows, length] = tensors.targets.dims();
    let hidden = model.hidden(tensors.inputs, tensors.documents.as_ref());
    let width = hidden.dims()[2];
    let hidden = hidden.reshape([rows * length, width]);
    let HeadLoss { nats, hidden: hidden_gradient, head } = head_loss(
        hidden.clone().inner(),
        model.head_weight().inner(),
        tensors.targets.reshape([rows * length]).inner(),
        tensors.mask.map(|mask| mask.reshape([rows * length, 1]).inner()),
    );
    // By the chain rule, the gradient of this sum for every parameter below is that of the loss.
    let bridge = (hidden * Tensor::from_inner(hidden_gradient)).sum();
    let mut params = GradientsParams::from_grads(bridge.backward(), model);
    let id = model.head_id();
    let head = match params.remove::<2>(id) {
        Some(embedding) => embedding + head,
        None => head,
    };
    params.register(id, head);
    (nats, params)
}

/// Splits `rows` rows into at most `parts` even runs, and returns what `work` makes of each, in order. The second
/// argument of `work` says whether there is only one run.
///
/// The runs go to the threads that the kernels run on, so that a product inside one run is not split further while all
/// threads have runs of their own.
fn on_rows<T: Send>(rows: usize, parts: usize, work: impl Fn(Range<usize>, bool) -> T + Sync) -> Vec<T> {
    let parts = parts.min(rows).max(1);
    let run = |part: usize| work(rows * part / parts..rows * (part + 1) / parts, parts == 1);
    #[cfg(feature = "flex")]
    if parts > 1 {
        use rayon::prelude::*;
        return (0..parts).into_par_iter().with_max_len(1).map(run).collect();
    }
    (0..parts).map(run).collect()
}

/// Reads the one number of a tensor.
pub(super) fn scalar(tensor: Tensor<1>) -> Result<f64> {
    tensor
        .try_into_scalar::<f32>()
        .map(f64::from)
        .map_err(|e| Error::Train(format!("the device failed: {e}")))
}
