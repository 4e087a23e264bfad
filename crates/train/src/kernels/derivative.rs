//! Functions whose gradient is written by hand, inside burn's autodiff graph.
//!
//! Autodiff keeps the tensors that each of its operations needs for the backward pass. A function that knows its own
//! gradient can keep less, or compute it again. It works on tensors without autodiff; [`differentiable`] puts its
//! result into the graph of its inputs. Held in memory: the contents of the [`Derivative`], until the backward pass.

use std::fmt::Debug;

use burn::backend::Flex;
use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::{
    BalancedCheckpointing, CheckpointStrategy, NoCheckpointing,
};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::{Autodiff, Backend, DispatchKindConversion, DispatchTensor};
use burn::tensor::Tensor;

/// The gradient of a function of `N` tensors of four dimensions.
pub(super) trait Derivative<const N: usize>: Clone + Debug + Send + 'static {
    /// Returns the gradient of each input, given that of the output. No tensor here has autodiff.
    fn gradients(self, output: Tensor<4>) -> [Tensor<4>; N];
}

/// Returns the result of `function` for `inputs`: as a part of their graph, if they have autodiff. The function gets
/// them without autodiff, and returns its result and its derivative.
///
/// # Panics
/// If the inputs are not on one device.
pub(super) fn differentiable<const N: usize, D: Derivative<N>>(
    inputs: [Tensor<4>; N],
    function: impl FnOnce([Tensor<4>; N]) -> (Tensor<4>, D),
) -> Tensor<4> {
    if !inputs.iter().any(Tensor::is_autodiff) {
        return function(inputs).0;
    }
    let (output, derivative) = function(inputs.clone().map(Tensor::inner));
    record(inputs, output, derivative)
}

/// Returns `output`, which was computed from `inputs` without autodiff, as a part of their graph.
///
/// # Panics
/// If the inputs are not on one device with autodiff.
fn record<const N: usize, D: Derivative<N>>(
    inputs: [Tensor<4>; N],
    output: Tensor<4>,
    derivative: D,
) -> Tensor<4> {
    let recorded = on_backend::<Flex, N, D>(&inputs, &output, &derivative);
    #[cfg(feature = "gpu")]
    let recorded =
        recorded.or_else(|| on_backend::<burn::backend::Cube, N, D>(&inputs, &output, &derivative));
    recorded.expect("the inputs are on one device with autodiff")
}

/// [`record`], if the tensors are of the backend `B`: burn's tensors name theirs only when they run.
fn on_backend<B: Backend, const N: usize, D: Derivative<N>>(
    inputs: &[Tensor<4>; N],
    output: &Tensor<4>,
    derivative: &D,
) -> Option<Tensor<4>>
where
    DispatchTensor: DispatchKindConversion<B>
        + DispatchKindConversion<Autodiff<B, NoCheckpointing>>
        + DispatchKindConversion<Autodiff<B, BalancedCheckpointing>>,
{
    on_graph::<B, NoCheckpointing, N, D>(inputs, output, derivative)
        .or_else(|| on_graph::<B, BalancedCheckpointing, N, D>(inputs, output, derivative))
}

/// [`record`], if the tensors are of the backend `B` with autodiff of the strategy `C`.
fn on_graph<B: Backend, C: CheckpointStrategy, const N: usize, D: Derivative<N>>(
    inputs: &[Tensor<4>; N],
    output: &Tensor<4>,
    derivative: &D,
) -> Option<Tensor<4>>
where
    DispatchTensor: DispatchKindConversion<B> + DispatchKindConversion<Autodiff<B, C>>,
{
    let node = |input: &Tensor<4>| {
        input.clone().try_into_primitive::<Autodiff<B, C>>().map(|primitive| primitive.node())
    };
    let nodes = inputs.iter().map(node).collect::<Result<Vec<_>, _>>().ok()?.try_into().ok()?;
    let output = output.clone().try_into_primitive::<B>().ok()?;
    let output = match ByHand(derivative.clone()).prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish((), output),
        OpsKind::UnTracked(prepared) => prepared.finish(output),
    };
    Some(Tensor::from_primitive::<Autodiff<B, C>>(output))
}

/// A step of burn's graph.
#[derive(Debug)]
struct ByHand<D>(D);

impl<B: Backend, const N: usize, D: Derivative<N>> Backward<B, N> for ByHand<D>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    type State = ();

    fn backward(self, step: Ops<(), N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let output = Tensor::from_primitive::<B>(gradients.consume::<B>(&step.node));
        for (parent, gradient) in step.parents.into_iter().zip(self.0.gradients(output)) {
            // A parent that needs no gradient is not named.
            if let Some(parent) = parent {
                let gradient = gradient.try_into_primitive::<B>().expect("of the output's device");
                gradients.register::<B>(parent.id, gradient);
            }
        }
    }
}
