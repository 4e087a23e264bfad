//! Adds up the losses of targets, in all and for each source. Holds two numbers per source.

use std::collections::BTreeMap;

use crate::events::SourceLoss;
use crate::model::Scope;
use millstream::batch::Batch;

/// The losses of targets, added up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LossSums {
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

    /// All sums in a row: of all targets, and of each source.
    pub(crate) fn to_numbers(&self) -> Vec<f64> {
        let sources =
            self.sources.iter().flat_map(|(source, sum)| [*source as f64, sum.nats, sum.tokens as f64]);
        [self.all.nats, self.all.tokens as f64].into_iter().chain(sources).collect()
    }

    /// Adds the numbers of another, from [`to_numbers`](Self::to_numbers).
    pub(crate) fn add_numbers(&mut self, numbers: &[f64]) {
        let add = |sum: &mut Sum, nats: f64, tokens: f64| {
            sum.nats += nats;
            sum.tokens += tokens as usize;
        };
        let [nats, tokens, sources @ ..] = numbers else { return };
        add(&mut self.all, *nats, *tokens);
        for [source, nats, tokens] in sources.as_chunks().0 {
            add(self.sources.entry(*source as usize).or_default(), *nats, *tokens);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_ranks_add_up() {
        let sums = |sources: &[(usize, f64, usize)]| {
            let sum = |&(source, nats, tokens): &(usize, f64, usize)| (source, Sum { nats, tokens });
            let sources: BTreeMap<_, _> = sources.iter().map(sum).collect();
            let nats = sources.values().map(|sum| sum.nats).sum();
            LossSums { all: Sum { nats, tokens: sources.values().map(|sum| sum.tokens).sum() }, sources }
        };
        let mut whole = LossSums::default();
        for rank in [sums(&[(0, 1.5, 3), (2, 0.5, 1)]), sums(&[]), sums(&[(1, 2.0, 4), (2, 0.25, 2)])] {
            whole.add_numbers(&rank.to_numbers());
        }
        assert_eq!(whole, sums(&[(0, 1.5, 3), (1, 2.0, 4), (2, 0.75, 3)]));
    }
}
