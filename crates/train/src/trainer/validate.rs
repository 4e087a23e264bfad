//! The loss on held-out batches, without gradients.

use std::future::pending;
use std::pin::{Pin, pin};

use burn::tensor::Device;
use futures::future::{Either, select};
use futures::{Stream, StreamExt};
use serde::{Deserialize, Serialize};

use super::Trainer;
use crate::device::reading::Reading;
use crate::events::Validation;
use crate::model::LanguageModel;
use crate::optim::LossSums;
use crate::optim::gradients::losses;
use crate::peers::Decision;
use millstream::batch::Batch;
use millstream::error::Result;

/// A stream of batches.
pub(crate) trait Batches: Stream<Item = Result<Batch>> + Unpin {}

impl<S: Stream<Item = Result<Batch>> + Unpin> Batches for S {}

/// A rank's status after each batch. All ranks stop when one does not go on.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize)]
enum Status {
    GoOn,
    Ended,
    Failed,
    Stop,
}

impl<M: LanguageModel> Trainer<M> {
    /// Returns the loss on at most `train.validation_batches` of `batches`; `None` if they have no targets. R peers all get
    /// the same batches: rank r computes batches r, r + R, r + 2R and so on, and each gets the loss on all.
    ///
    /// The targets are those of training: with `train.mask_documents` each is predicted from its own document, and a
    /// document's first id is not a target. So losses with and without that setting have different targets.
    ///
    /// # Errors
    /// The errors of the batches and of [`step`](Self::step).
    pub async fn validate(
        &mut self,
        batches: impl Stream<Item = Result<Batch>> + Unpin,
    ) -> Result<Option<Validation>> {
        self.validate_until(batches, pin!(pending())).await?.step()
    }

    /// As [`validate`](Self::validate), unless `stop` gets ready on a rank while it awaits a batch.
    pub(crate) async fn validate_until(
        &mut self,
        batches: impl Batches,
        stop: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<Decision<Validation>> {
        let mut own = OwnValidation::default();
        let ended = self.own_validation(batches, stop, &mut own).await;
        if let Some(rank) = self.peers.agree(ended)? {
            return Ok(Decision::Stop { rank });
        }
        let losses = self.whole_losses(own.losses)?;
        let bytes = self.peers.share(own.bytes)?.iter().sum::<u64>() as f64;
        if losses.all.tokens == 0 {
            return Ok(Decision::WithoutTargets);
        }
        let loss = losses.all.mean();
        let bits_per_byte = (bytes > 0.0).then(|| losses.all.nats / std::f64::consts::LN_2 / bytes);
        (self.state.validation_loss, self.state.validation_step) = (Some(loss), Some(self.state.step));
        self.state.best_validation_loss =
            Some(self.state.best_validation_loss.map_or(loss, |best| best.min(loss)));
        self.state.bits_per_byte = bits_per_byte;
        Ok(Decision::Step(Validation {
            step: self.state.step,
            validation_loss: loss,
            bits_per_byte,
            validation_tokens: losses.all.tokens as u64,
            loss_by: losses.by.means(),
        }))
    }

    /// Adds up the losses on this process's share of the batches. Returns the rank that was asked to stop, if any.
    async fn own_validation(
        &self,
        mut batches: impl Batches,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        own: &mut OwnValidation,
    ) -> Result<Option<usize>> {
        let (model, device) = (self.model().valid(), self.device.clone().inner());
        for number in 0..self.config.train.validation_batches {
            // `stop` is polled first, so that batches that are always ready cannot hide it.
            let mine = match select(stop.as_mut(), batches.next()).await {
                Either::Left(_) => Ok(Status::Stop),
                Either::Right((None, _)) => Ok(Status::Ended),
                Either::Right((Some(Ok(batch)), _)) if self.peers.world().owns(number) => {
                    self.add_validation(batch, &model, &device, own).map(|()| Status::GoOn)
                }
                Either::Right((Some(batch), _)) => batch.map(|_| Status::GoOn),
            };
            let status = mine.as_ref().map_or(Status::Failed, |status| *status);
            let all = self.peers.share(status)?;
            mine?;
            let first = |status: Status| all.iter().position(|one| *one == status);
            if let Some(rank) = first(Status::Stop) {
                return Ok(Some(rank));
            }
            if first(Status::Failed).or(first(Status::Ended)).is_some() {
                break;
            }
        }
        self.read_last(own).map(|()| None)
    }

    /// Queues the losses of a batch on the device, and adds those of the batch before meanwhile.
    fn add_validation(
        &self,
        batch: Batch,
        model: &M,
        device: &Device,
        own: &mut OwnValidation,
    ) -> Result<()> {
        self.check(&batch)?;
        if self.scope.tokens(&batch) == 0 {
            return Ok(());
        }
        own.bytes += self.scope.text_bytes(&batch);
        let losses = Reading::begin(losses(model, &batch, self.scope, device, self.parts)?);
        self.read_last(own)?;
        own.unread = Some((batch, losses));
        Ok(())
    }

    fn read_last(&self, own: &mut OwnValidation) -> Result<()> {
        if let Some((batch, losses)) = own.unread.take() {
            self.add_losses(&mut own.losses, &batch, &losses.finish()?);
        }
        Ok(())
    }
}

/// The part of a validation that this process computes.
#[derive(Default)]
struct OwnValidation {
    losses: LossSums,
    /// The bytes of text that the targets stand for.
    bytes: u64,
    /// The last batch and its losses, which the device may still compute.
    unread: Option<(Batch, Reading)>,
}
