//! Head and cross-entropy in one: takes hidden states and targets, returns the loss and the gradients of hidden states
//! and head.
//!
//! Logits are the largest tensor in a small model's step: 33 MB for 2,048 tokens and 4,096 ids. Autodiff would keep
//! them and pass over them about ten times. Here a few rows at a time become logits, probabilities and, in place,
//! gradients, as in Liger's fused linear cross-entropy (arXiv:2410.10989); then they are dropped. Held in memory: one
//! chunk of logits and the head's gradient.

use burn::tensor::activation::softmax;
use burn::tensor::{DType, IndexingUpdateOp, Int, Tensor};

use super::chunks;
use super::cpu;
use super::product::{add_product, multiply};

/// The loss of one batch and its gradients.
#[derive(Clone, Debug)]
pub struct HeadLoss {
    /// Each target's loss in nats, `[n]`, f32; 0 where it does not count.
    pub nats: Tensor<1>,
    /// The gradient of their sum for the hidden states, `[n, d_model]`, in the type of these.
    pub hidden: Tensor<2>,
    /// The gradient of their sum for the head, `[vocab, d_model]`, f32; `None` for a frozen one.
    pub head: Option<Tensor<2>>,
}

/// Returns the losses of `targets`, `[n]`, and the gradients of their sum, given `hidden`, `[n, d_model]`, and the head,
/// `[vocab, d_model]`, which needs no gradient if it `is_frozen`. There is at least one target.
///
/// `mask`, `[n, 1]`, is 1 where a target counts and 0 for padding. Products are computed in the type of `hidden`, the
/// rest in f32. Autodiff tracks no tensor here.
pub fn head_loss(
    hidden: Tensor<2>,
    head: Tensor<2>,
    targets: Tensor<1, Int>,
    mask: Option<Tensor<2>>,
    is_frozen: bool,
) -> HeadLoss {
    let dtype = hidden.dtype();
    let head = head.cast(dtype);
    let (mut nats, mut hidden_gradients, mut head_gradient) = (Vec::new(), Vec::new(), None);
    for chunk in split(&hidden, &head, &targets, &mask) {
        let (losses, slopes) = chunk.losses_and_slopes(&head);
        nats.push(losses);
        let slopes = slopes.cast(dtype);
        // The mask is applied to the narrow sides of both products instead of to the logits.
        let (hidden, gradient) = (chunk.hidden, multiply(slopes.clone(), head.clone()));
        let (hidden, gradient) = match chunk.mask.map(|mask| mask.cast(dtype)) {
            Some(mask) => (hidden * mask.clone(), gradient * mask),
            None => (hidden, gradient),
        };
        hidden_gradients.push(gradient);
        if is_frozen {
            continue;
        }
        head_gradient = Some(match head_gradient {
            Some(sum) => add_product(sum, slopes.transpose(), hidden),
            None => multiply(slopes.transpose(), hidden).cast(DType::F32),
        });
    }
    HeadLoss { nats: Tensor::cat(nats, 0), hidden: Tensor::cat(hidden_gradients, 0), head: head_gradient }
}

/// Returns only the losses, `[n]`, as in [`head_loss`].
pub fn head_nats(
    hidden: Tensor<2>,
    head: Tensor<2>,
    targets: Tensor<1, Int>,
    mask: Option<Tensor<2>>,
) -> Tensor<1> {
    let head = head.cast(hidden.dtype());
    let losses = split(&hidden, &head, &targets, &mask).map(|chunk| chunk.losses(&head));
    Tensor::cat(losses.collect(), 0)
}

/// Some rows of a batch.
struct Chunk {
    hidden: Tensor<2>,
    targets: Tensor<2, Int>,
    mask: Option<Tensor<2>>,
}

impl Chunk {
    /// These rows' losses, `[rows]`, and the gradients of their sum for the logits, `[rows, vocab]`, both f32. The latter
    /// are not masked.
    fn losses_and_slopes(&self, head: &Tensor<2>) -> (Tensor<1>, Tensor<2>) {
        let logits = self.logits(head);
        if cpu::has(&logits) {
            let (nats, slopes) = cpu::loss_and_slopes(logits, &self.targets);
            return (self.masked(nats), slopes);
        }
        let probabilities = softmax(logits, 1);
        let minus_one = Tensor::full(self.targets.dims(), -1.0, (&self.hidden.device(), DType::F32));
        let nats = self.nats(&probabilities);
        (nats, probabilities.scatter(1, self.targets.clone(), minus_one, IndexingUpdateOp::Add))
    }

    /// These rows' losses, `[rows]`.
    fn losses(&self, head: &Tensor<2>) -> Tensor<1> {
        let logits = self.logits(head);
        if cpu::has(&logits) {
            return self.masked(cpu::loss_and_slopes(logits, &self.targets).0);
        }
        self.nats(&softmax(logits, 1))
    }

    fn logits(&self, head: &Tensor<2>) -> Tensor<2> {
        multiply(self.hidden.clone(), head.clone().transpose()).cast(DType::F32)
    }

    /// The losses of the targets, given the probabilities of all ids.
    fn nats(&self, probabilities: &Tensor<2>) -> Tensor<1> {
        // A probability that underflows f32 counts as the smallest normal one: 87 nats.
        let chosen = probabilities.clone().gather(1, self.targets.clone()).clamp_min(f32::MIN_POSITIVE);
        self.masked(chosen.log().neg())
    }

    /// Losses, `[rows, 1]`, as `[rows]`, 0 where the mask says so.
    fn masked(&self, nats: Tensor<2>) -> Tensor<1> {
        let masked = match &self.mask {
            Some(mask) => nats * mask.clone(),
            None => nats,
        };
        masked.squeeze_dim(1)
    }
}

/// Splits rows into even runs of about as many logits as the device does at once. Runs are not made so short
/// that adding up the head's gradient, which is as large for one row as for all, would cost as much as the
/// products.
fn split(
    hidden: &Tensor<2>,
    head: &Tensor<2>,
    targets: &Tensor<1, Int>,
    mask: &Option<Tensor<2>>,
) -> impl Iterator<Item = Chunk> {
    let ([rows, width], [vocab, _]) = (hidden.dims(), head.dims());
    let most = (chunks::logits(chunks::is_cpu(&hidden.device())) / vocab).max(2 * width);
    let size = rows.div_ceil(rows.div_ceil(most).max(1));
    (0..rows).step_by(size.max(1)).map(move |from| {
        let range = from..(from + size).min(rows);
        Chunk {
            hidden: hidden.clone().slice_dim(0, range.clone()),
            targets: targets.clone().slice_dim(0, range.clone()).unsqueeze_dim(1),
            mask: mask.clone().map(|mask| mask.slice_dim(0, range.clone())),
        }
    })
}
