//! The loss on held-out batches, without gradients.

use futures::{Stream, StreamExt};

use super::Trainer;
use crate::batch::Batch;
use crate::config::names;
use crate::error::Result;
use crate::train::gradients::losses;
use crate::train::language_model::LanguageModel;
use crate::train::reading::Reading;
use crate::train::report::Validation;
use crate::train::tally::Tally;

impl<M: LanguageModel> Trainer<M> {
    /// Returns the loss on at most `train.validation_batches` of `batches`; `None` if they have no targets. With peers all
    /// have the same batches, rank r takes batches r, r + R, r + 2R and so on, and all get the loss on all of them.
    ///
    /// The targets are those of training: with `train.mask_documents` each is predicted from its own document, and a
    /// document's first id is not a target. So losses with and without that setting have different targets.
    ///
    /// # Errors
    /// The errors of the batches and of [`step`](Self::step).
    pub async fn validate<S>(&mut self, batches: S) -> Result<Option<Validation>>
    where
        S: Stream<Item = Result<Batch>> + Unpin,
    {
        let own = self.own_validation(batches).await;
        let (own, bytes) = self.peers.agree(own)?;
        let tally = self.whole_tally(&own)?;
        let bytes = self.peers.share_numbers(&[bytes as f64])?.concat().iter().sum::<f64>();
        if tally.tokens() == 0 {
            return Ok(None);
        }
        let loss = tally.loss();
        let bits_per_byte = (bytes > 0.0).then(|| tally.nats() / std::f64::consts::LN_2 / bytes);
        (self.state.validation_loss, self.state.validation_step) = (Some(loss), Some(self.state.step));
        self.state.best_validation_loss =
            Some(self.state.best_validation_loss.map_or(loss, |best| best.min(loss)));
        self.state.bits_per_byte = bits_per_byte;
        Ok(Some(Validation {
            step: self.state.step,
            validation_loss: loss,
            bits_per_byte,
            validation_tokens: tally.tokens() as u64,
            sources: tally.sources(&names(&self.config.sources)),
        }))
    }

    /// The losses on this process's share of the batches, and the bytes of text that its targets stand for.
    async fn own_validation<S>(&self, mut batches: S) -> Result<(Tally, u64)>
    where
        S: Stream<Item = Result<Batch>> + Unpin,
    {
        let (model, device) = (self.model().valid(), self.device.clone().inner());
        let (mut tally, mut bytes) = (Tally::default(), 0);
        let mut unread: Option<(Batch, Reading)> = None;
        for number in 0..self.config.train.validation_batches {
            let Some(batch) = batches.next().await.transpose()? else { break };
            if !self.peers.world().owns(number) {
                continue;
            }
            self.check(&batch)?;
            if self.scope.tokens(&batch) == 0 {
                continue;
            }
            bytes += self.scope.text_bytes(&batch);
            let losses = Reading::begin(losses(&model, &batch, self.scope, &device, self.parts)?);
            // One batch late, so that the device has work while the losses are added up.
            if let Some((batch, losses)) = unread.replace((batch, losses)) {
                tally.add(&batch, self.scope, &losses.finish()?);
            }
        }
        if let Some((batch, losses)) = unread {
            tally.add(&batch, self.scope, &losses.finish()?);
        }
        Ok((tally, bytes))
    }
}
