//! Adds up the losses of targets, in all and for each source. Holds two numbers per source.

use std::collections::BTreeMap;

use super::report::SourceLoss;
use super::scope::Scope;
use crate::batch::Batch;

/// Sums over targets.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tally {
    all: Sum,
    /// By the source's place in the config. Only what came from a file has a source.
    sources: BTreeMap<usize, Sum>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sum {
    nats: f64,
    tokens: usize,
}

impl Sum {
    fn add(&mut self, losses: &[f32]) {
        self.nats += losses.iter().copied().map(f64::from).sum::<f64>();
        self.tokens += losses.len();
    }
}

impl Tally {
    /// Adds the targets of `batch`, given the losses of all its places, `[rows, seq_len]`, row-major.
    pub(super) fn add(&mut self, batch: &Batch, scope: Scope, losses: &[f32]) {
        let length = batch.seq_len();
        // A target is one place after the input that it is predicted from.
        let of =
            |row: usize, ids: std::ops::Range<usize>| &losses[row * length..][ids.start - 1..ids.end - 1];
        for (row, ids) in scope.targets(batch) {
            self.all.add(of(row, ids));
        }
        for piece in batch.pieces() {
            let (Some(source), ids) = (batch.source(piece), scope.targets_in(batch, piece)) else { continue };
            if !ids.is_empty() {
                self.sources.entry(source).or_default().add(of(piece.row as usize, ids));
            }
        }
    }

    /// The sum of all losses, in nats.
    pub(super) fn nats(&self) -> f64 {
        self.all.nats
    }

    /// The number of targets.
    pub(super) fn tokens(&self) -> usize {
        self.all.tokens
    }

    /// The mean loss of all targets, in nats.
    pub(super) fn loss(&self) -> f64 {
        self.all.nats / self.all.tokens as f64
    }

    /// The loss of each source by its name; empty if there is only one.
    pub(super) fn sources(&self, names: &[String]) -> BTreeMap<String, SourceLoss> {
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
