//! Adds up the losses of targets by what their documents say: by the names of `train.loss_by`, and by the values of each.
//! Holds two numbers for each value.
//!
//! A value that a run has seen keeps its sum for the rest of the run, so that its curve has no gaps. New values of a step
//! get one while there is room: those with the most targets first, over all ranks. So the number of ranks changes nothing.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::config::{RunConfig, SOURCE};
use crate::events::{LossByValue, MeanLoss};
use crate::model::Scope;
use millstream::batch::{Batch, Piece};
use millstream::config::names;
use millstream::cursor::{NONE, OTHER};
use millstream::document::{label, quoted};

/// How many values of a column have a sum each. The rest are summed as [`OTHER`].
const MOST: usize = 32;

/// The losses of some targets, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sum {
    pub(crate) nats: f64,
    pub(crate) tokens: usize,
}

impl Sum {
    /// Adds the targets at these places of a row, given the losses of all places of `batch`, `[rows, seq_len]`, row-major.
    pub(super) fn add(&mut self, batch: &Batch, row: usize, places: Range<usize>, losses: &[f32]) {
        // A target is one place after the input that it is predicted from.
        let losses = &losses[row * batch.seq_len()..][places.start - 1..places.end - 1];
        self.nats += losses.iter().copied().map(f64::from).sum::<f64>();
        self.tokens += losses.len();
    }

    pub(super) fn join(&mut self, other: &Self) {
        self.nats += other.nats;
        self.tokens += other.tokens;
    }

    /// The mean loss of the targets, in nats.
    pub(crate) fn mean(&self) -> f64 {
        self.nats / self.tokens as f64
    }
}

/// The names of `train.loss_by`, and what tells the value of each.
#[derive(Clone, Debug)]
pub(crate) struct LossNames {
    names: Vec<String>,
    sources: Vec<String>,
}

impl LossNames {
    /// The names of `train.loss_by`. One source alone is not told apart.
    pub(crate) fn from_config(config: &RunConfig) -> Self {
        let sources = names(&config.data.sources);
        let is_told = |name: &&String| *name != SOURCE || sources.len() > 1;
        Self { names: config.train.loss_by.iter().filter(is_told).cloned().collect(), sources }
    }

    /// The value of a name that the targets of a piece count for.
    fn value<'a>(&'a self, name: &str, batch: &'a Batch, piece: &Piece) -> Cow<'a, str> {
        if name == SOURCE {
            let source = batch.source(piece).and_then(|source| self.sources.get(source));
            return source.map_or(Cow::Borrowed(NONE), |source| quoted(source.into()));
        }
        label(batch.column(piece, name))
    }
}

/// Sums by name, and by value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct LossBy(BTreeMap<String, BTreeMap<String, Sum>>);

impl LossBy {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the targets of `batch`, given the losses of all its places, `[rows, seq_len]`, row-major. If `known` has no room
    /// for a new value, its targets count for the others.
    pub(crate) fn add(
        &mut self,
        batch: &Batch,
        scope: Scope,
        losses: &[f32],
        names: &LossNames,
        known: &Self,
    ) {
        if names.names.is_empty() {
            return;
        }
        let sum = |piece| {
            let mut sum = Sum::default();
            let targets = scope.targets_in(batch, piece);
            targets.for_each(|places| sum.add(batch, piece.row as usize, places, losses));
            (piece, sum)
        };
        let sums: Vec<(&Piece, Sum)> =
            batch.pieces().iter().map(sum).filter(|(_, sum)| sum.tokens > 0).collect();
        for name in &names.names {
            let (values, has_room) = (self.0.entry(name.clone()).or_default(), known.room(name) > 0);
            for (piece, sum) in &sums {
                let value = names.value(name, batch, piece);
                match values.get_mut(&*value) {
                    Some(all) => all.join(sum),
                    None if has_room || known.has(name, &value) => {
                        values.entry(value.into_owned()).or_default().join(sum);
                    }
                    None => values.entry(OTHER.to_owned()).or_default().join(sum),
                }
            }
        }
    }

    /// Adds the losses of other targets.
    pub(crate) fn join(&mut self, other: &Self) {
        for (name, values) in &other.0 {
            let all = self.0.entry(name.clone()).or_default();
            for (value, sum) in values {
                match all.get_mut(value) {
                    Some(all) => all.join(sum),
                    None => all.entry(value.clone()).or_default().join(sum),
                }
            }
        }
    }

    /// Leaves as many new values as `known` has room for, those with the most targets, and sums the rest as one.
    pub(crate) fn limit(&mut self, known: &Self) {
        for (name, values) in &mut self.0 {
            let new = values.iter().filter(|(value, _)| !known.has(name, value));
            let mut new: Vec<_> = new.map(|(value, sum)| (Reverse(sum.tokens), value.clone())).collect();
            new.sort_unstable();
            for (_, value) in new.into_iter().skip(known.room(name)) {
                let sum = values.remove(&value).unwrap_or_default();
                values.entry(OTHER.to_owned()).or_default().join(&sum);
            }
        }
    }

    /// How many new values of a name have room. As many sources have as the config has.
    fn room(&self, name: &str) -> usize {
        if name == SOURCE {
            return usize::MAX;
        }
        let values = self.0.get(name).into_iter().flatten();
        MOST.saturating_sub(values.filter(|(value, _)| !is_reserved(value)).count())
    }

    /// Whether a value needs no room.
    fn has(&self, name: &str, value: &str) -> bool {
        is_reserved(value) || self.0.get(name).is_some_and(|values| values.contains_key(value))
    }

    /// The mean of each value that has targets.
    pub(crate) fn means(&self) -> LossByValue {
        let mean = |(value, sum): (&String, &Sum)| {
            let mean = MeanLoss { loss: sum.mean(), tokens: sum.tokens as u64 };
            (sum.tokens > 0).then(|| (value.clone(), mean))
        };
        let named =
            self.0.iter().map(|(name, values)| (name.clone(), values.iter().filter_map(mean).collect()));
        named.filter(|(_, means): &(_, BTreeMap<_, _>)| !means.is_empty()).collect()
    }

    /// Begins new sums of all values.
    pub(crate) fn reset(&mut self) {
        self.0.values_mut().flat_map(BTreeMap::values_mut).for_each(|sum| *sum = Sum::default());
    }

    /// Forgets the values of other names.
    pub(crate) fn retain(&mut self, names: &LossNames) {
        self.0.retain(|name, _| names.names.contains(name));
    }
}

/// Whether a value is always told apart.
fn is_reserved(value: &str) -> bool {
    value == NONE || value == OTHER
}
