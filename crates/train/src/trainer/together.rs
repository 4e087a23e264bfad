//! What a trainer does with its peers besides steps: it joins their cursors, counts and losses, and checks that their
//! parameters are equal.

use std::hash::Hasher;
use std::time::Duration;

use burn::module::{ModuleVisitor, Param};
use burn::tensor::Tensor;
use twox_hash::XxHash3_64;

use super::Trainer;
use crate::device::reading::failed;
use crate::model::{LanguageModel, Unigram};
use crate::optim::LossSums;
use crate::peers::Peers;
use millstream::batch::Batch;
use millstream::cursor::Cursor;
use millstream::error::{Error, Result};

impl<M: LanguageModel> Trainer<M> {
    /// Trains together with other processes: each step sums the gradients of all of them, and all take the same step.
    /// Call it before the first step, and after [`restored`](Self::restored).
    ///
    /// With several peers, [`step`](Self::step), [`validate`](Self::validate), [`save`](Self::save) and
    /// [`unigram_loss`](Self::unigram_loss) wait for all of them.
    #[must_use]
    pub fn with_peers(self, peers: Peers) -> Self {
        let unigram = match peers.is_first() {
            true => self.unigram,
            // The first rank has the counts of earlier sessions.
            false => Unigram::new(self.unigram.vocab()),
        };
        Self { unigram, peers, ..self }
    }

    /// The processes that train the model together.
    pub fn peers(&self) -> &Peers {
        &self.peers
    }

    /// How long the steps have waited for the peers and summed with them since the last call; `None` without peers.
    pub(crate) fn take_summed(&mut self) -> Option<Duration> {
        let summed = std::mem::take(&mut self.summed);
        (!self.peers.is_alone()).then_some(summed)
    }

    /// Checks that the parameters of all ranks are equal, bit for bit, after the same step.
    pub(crate) fn check_equal(&self) -> Result<()> {
        if self.peers.is_alone() {
            return Ok(());
        }
        let digest = self.peers.agree(digest(self.model()))?;
        let all = self.peers.share((self.state.step, digest))?;
        match all.iter().position(|other| *other != all[0]) {
            None => Ok(()),
            Some(rank) => Err(self.peers.fail(Error::Train(format!(
                "after step {} the parameters of rank {rank} differ from those of rank 0: all ranks need the same build, \
                 kind of CPU or GPU, and checkpoint; resume from the last checkpoint",
                self.state.step
            )))),
        }
    }

    /// Where the data continues for all ranks; `None` before the first step.
    pub(crate) fn whole_cursor(&self) -> Result<Option<Cursor>> {
        if self.peers.is_alone() {
            return Ok(self.cursor.clone());
        }
        let cursors: Vec<Cursor> = self.peers.share(self.cursor.clone())?.into_iter().flatten().collect();
        if cursors.is_empty() {
            return Ok(None);
        }
        Cursor::merge(&cursors).map(Some).map_err(|e| self.peers.fail(e))
    }

    /// How often each id was a target, on all ranks together.
    pub(super) fn whole_unigram(&self) -> Result<Unigram> {
        let mut whole = Unigram::new(self.unigram.vocab());
        self.peers.share(self.unigram.clone())?.iter().for_each(|counts| whole.join(counts));
        Ok(whole)
    }

    /// Adds the targets of one of this rank's batches, given the losses of all its places.
    pub(super) fn add_losses(&self, own: &mut LossSums, batch: &Batch, losses: &[f32]) {
        own.add_by(batch, self.scope, losses, &self.loss_names, &self.state.loss_by);
    }

    /// The losses of all ranks' targets.
    pub(super) fn whole_losses(&self, own: LossSums) -> Result<LossSums> {
        let mut all = self.peers.share(own)?.into_iter();
        let mut whole = all.next().unwrap_or_default();
        all.for_each(|losses| whole.join(&losses));
        whole.by.limit(&self.state.loss_by);
        Ok(whole)
    }
}

fn digest<M: LanguageModel>(model: &M) -> Result<u64> {
    struct Digest(XxHash3_64, Result<()>);
    impl ModuleVisitor for Digest {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            match param.val().inner().try_into_data() {
                Ok(data) => self.0.write(data.as_bytes()),
                Err(e) => self.1 = Err(failed(e)),
            }
        }
    }
    let mut digest = Digest(XxHash3_64::new(), Ok(()));
    model.visit(&mut digest);
    digest.1.map(|()| digest.0.finish())
}
