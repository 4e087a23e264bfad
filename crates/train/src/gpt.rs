//! How the trainer trains the GPT.
//!
//! The body of the model goes through autodiff; the head and the loss do not. [`head_loss`] gives the gradient of the
//! hidden states, and autodiff goes back from the product of the hidden states and that gradient.

use burn::optim::GradientsParams;
use burn::tensor::Tensor;

use super::language_model::LanguageModel;
use super::loss::{HeadLoss, head_loss, head_nats};
use super::model::Gpt;
use super::tensors::Tensors;

impl LanguageModel for Gpt {
    fn losses(&self, tensors: &Tensors) -> Tensor<2> {
        let Tensors { inputs, targets, mask, documents } = tensors.clone();
        let [rows, length] = targets.dims();
        let hidden = self.hidden(inputs, documents.as_ref());
        let width = hidden.dims()[2];
        head_nats(
            hidden.reshape([rows * length, width]),
            self.head_weight(),
            targets.reshape([rows * length]),
            mask.map(|mask| mask.reshape([rows * length, 1])),
        )
        .reshape([rows, length])
    }

    fn gradients(&self, tensors: &Tensors) -> (Tensor<2>, GradientsParams) {
        let Tensors { inputs, targets, mask, documents } = tensors.clone();
        let [rows, length] = targets.dims();
        let hidden = self.hidden(inputs, documents.as_ref());
        let width = hidden.dims()[2];
        let hidden = hidden.reshape([rows * length, width]);
        let HeadLoss { nats, hidden: hidden_gradient, head } = head_loss(
            hidden.clone().inner(),
            self.head_weight().inner(),
            targets.reshape([rows * length]).inner(),
            mask.map(|mask| mask.reshape([rows * length, 1]).inner()),
        );
        // By the chain rule, the gradient of this sum for every parameter below is that of the loss.
        let bridge = (hidden * Tensor::from_inner(hidden_gradient)).sum();
        let mut params = GradientsParams::from_grads(bridge.backward(), self);
        let id = self.head_id();
        let head = match params.remove::<2>(id) {
            Some(embedding) => embedding + head,
            None => head,
        };
        params.register(id, head);
        (nats.reshape([rows, length]), params)
    }

    fn seq_len(&self) -> Option<usize> {
        Some(Gpt::seq_len(self))
    }
}
