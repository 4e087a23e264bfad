//! Adds up the losses of targets, in all and by what their documents say.

use serde::{Deserialize, Serialize};

use super::loss_by::{LossBy, LossNames, Sum};
use crate::model::Scope;
use millstream::batch::Batch;

/// The losses of targets, added up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LossSums {
    pub(crate) all: Sum,
    pub(crate) by: LossBy,
}

impl LossSums {
    /// Adds the targets of `batch`, given the losses of all its places, `[rows, seq_len]`, row-major.
    pub(crate) fn add(&mut self, batch: &Batch, scope: Scope, losses: &[f32]) {
        for (row, places) in scope.targets(batch) {
            self.all.add(batch, row, places, losses);
        }
    }

    /// As [`add`](Self::add), and by these names too. `known` has the values so far.
    pub(crate) fn add_by(
        &mut self,
        batch: &Batch,
        scope: Scope,
        losses: &[f32],
        names: &LossNames,
        known: &LossBy,
    ) {
        self.add(batch, scope, losses);
        self.by.add(batch, scope, losses, names, known);
    }

    /// Adds the losses of other targets.
    pub(crate) fn join(&mut self, other: &Self) {
        self.all.join(&other.all);
        self.by.join(&other.by);
    }
}
