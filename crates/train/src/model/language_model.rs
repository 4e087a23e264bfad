//! The trait of models that the trainer needs: rows of ids in, a loss for each target and gradients out.

use std::collections::BTreeMap;

use burn::module::Module;
use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use super::hidden::HiddenMatrix;
use super::tensors::Tensors;

/// A model that a [`Trainer`](crate::Trainer) can train. The crate's own is [`Gpt`](super::Gpt).
///
/// Write [`losses`](Self::losses), and burn's autodiff does the rest. `examples/lstm.rs` trains such a model and resumes
/// it.
///
/// On the CPU the rows of a batch are split, and each part goes through the model on a thread of its own. So a row's
/// losses must not depend on the other rows, and random numbers are exact at a resume only if they follow from
/// [`begin_step`](Self::begin_step) and the row.
pub trait LanguageModel: Module + Sync {
    /// Returns the loss of each target in nats, `[rows, seq_len]`, f32: the negative logarithm of the probability that
    /// the model gives it. Values where the mask is 0 do not count.
    fn losses(&self, tensors: &Tensors) -> Tensor<2>;

    /// Returns the losses, without autodiff, and the gradient of the sum of those that count, for each parameter.
    ///
    /// By default it goes back through [`losses`](Self::losses). A model that knows a faster way can have its own.
    fn gradients(&self, tensors: &Tensors) -> (Tensor<2>, GradientsParams) {
        let losses = self.losses(tensors);
        let counted = match &tensors.mask {
            Some(mask) => losses.clone() * mask.clone(),
            None => losses.clone(),
        };
        let params = GradientsParams::from_grads(counted.sum().backward(), self);
        (losses.inner(), params)
    }

    /// Tells the model which step the gradients that follow are for, from 0.
    ///
    /// A model that draws random numbers, such as for dropout, makes them from this number and from the rows that it is
    /// given: then they are the same after a resume, and on any number of ranks. By default nothing.
    fn begin_step(&mut self, _step: u64) {}

    /// The most inputs that a row may have; `None` if there is no bound. By default there is none.
    fn seq_len(&self) -> Option<usize> {
        None
    }

    /// The matrices of the hidden layers, which `train.optimizer = "muon"` steps by Muon. All other parameters are stepped
    /// by AdamW, among them embeddings, the head that reads the logits out, gains and biases.
    ///
    /// A parameter's type and shape do not tell the head from a hidden layer, so the model names them. By default there
    /// are none, and Muon is refused.
    fn hidden_matrices(&self) -> Vec<HiddenMatrix> {
        Vec::new()
    }

    /// The properties that a checkpoint must share with the model besides the names and shapes of the parameters, such
    /// as a number of heads. By default none.
    fn fingerprint(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
}
