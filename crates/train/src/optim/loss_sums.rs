//! Adds up the losses of targets, in all and for each source. Holds two numbers per source.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::events::SourceLoss;
use crate::model::Scope;
use millstream::batch::Batch;

/// The losses of targets, added up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LossSums {
    all: Sum,
    /// By the source's place in the config. Only what came from a file has a source.
    sources: BTreeMap<usize, Sum>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Sum {
    nats: f64,
    tokens: usize,
}

impl Sum {
    fn add(&mut self, losses: &[f32]) {
        self.nats += losses.iter().copied().map(f64::from).sum::<f64>();
        self.tokens += losses.len();
    }

    fn join(&mut self, other: &Self) {
        self.nats += other.nats;
        self.tokens += other.tokens;
    }
}

impl LossSums {
    /// Adds the targets of `batch`, given the losses of all its places, `[rows, seq_len]`, row-major.
    pub(crate) fn add(&mut self, batch: &Batch, scope: Scope, losses: &[f32]) {
        let length = batch.seq_len();
        // A target is one place after the input that it is predicted from.
        let of =
            |row: usize, ids: std::ops::Range<usize>| &losses[row * length..][ids.start - 1..ids.end - 1];
        for (row, ids) in scope.targets(batch) {
            self.all.add(of(row, ids));
        }
        for piece in batch.pieces() {
            let Some(source) = batch.source(piece) else { continue };
            for ids in scope.targets_in(batch, piece) {
                self.sources.entry(source).or_default().add(of(piece.row as usize, ids));
            }
        }
    }

    /// Adds the losses of other targets.
    pub(crate) fn join(&mut self, other: &Self) {
        self.all.join(&other.all);
        for (source, sum) in &other.sources {
            self.sources.entry(*source).or_default().join(sum);
        }
    }

    /// The sum of all losses, in nats.
    pub(crate) fn nats(&self) -> f64 {
        self.all.nats
    }

    pub(crate) fn tokens(&self) -> usize {
        self.all.tokens
    }

    /// The mean loss of all targets, in nats.
    pub(crate) fn mean(&self) -> f64 {
        self.all.nats / self.all.tokens as f64
    }

    /// The loss of each source by its name; empty if there is only one.
    pub(crate) fn sources(&self, names: &[String]) -> BTreeMap<String, SourceLoss> {
        if names.len() < 2 {
            return BTreeMap::new();
        }
        let named = |(source, sum): (&usize, &Sum)| {
            let loss = SourceLoss { loss: sum.nats / sum.tokens as f64, tokens: sum.tokens as u64 };
            Some((names.get(*source)?.clone(), loss))
        };
        self.sources.iter().filter_map(named).collect()
    }
}
