//! Which source each row comes from.
//!
//! Within each stretch of constant weights the rows are apportioned by Balinski and Young's quota method ("The Quota
//! Method of Apportionment", 1975). Row n may go to any source that it does not lift above that source's share of n,
//! rounded up. Among these, it goes to the source with the greatest share per row, counting this row. So after any
//! number of rows each source has its share of them, rounded up or down.
//!
//! That order repeats, so it would fall in step with the lanes, which each have their own rows of it: with
//! two sources of equal weight and two lanes, each lane would read one source only. So, block by block, rows
//! swap places with their neighbours at random by the seed, as long as every source keeps its share, rounded
//! up or down. The source of a row is still a function of the row's number: its block is made again from the
//! seed.

use std::sync::{Arc, Mutex};

use crate::order::Draws;
use crate::threads::lock;

/// The most that shares add up to: the resolution of weights.
const MAX_PERIOD: u32 = 1 << 16;

/// The least number of rows of a block.
const LEAST_BLOCK: usize = 512;

/// How many times each row of a block is moved.
const SWEEPS: usize = 4;

/// The source of each row of the global order: a fixed function of the seed and the row's number.
#[derive(Clone)]
pub(crate) struct Schedule {
    seed: u64,
    stretches: Vec<Stretch>,
    /// The last block that was asked for, here and by any clone: lanes advance side by side.
    block: Option<Arc<Block>>,
    shared: Arc<Mutex<Option<Arc<Block>>>>,
}

#[derive(Clone, Debug)]
struct Stretch {
    first_row: u64,
    shares: Arc<[u32]>,
    /// The sources of the rows of one block, before any is swapped.
    order: Arc<[u16]>,
}

struct Block {
    first_row: u64,
    sources: Vec<u16>,
}

impl Block {
    fn source(&self, row: u64) -> Option<usize> {
        let at = row.checked_sub(self.first_row)?;
        self.sources.get(usize::try_from(at).ok()?).map(|&source| usize::from(source))
    }
}

impl Schedule {
    /// Returns a schedule with these shares from the first row on.
    ///
    /// # Panics
    /// If no share is above zero, there are more than 65,536 sources, or the shares add up to more than
    /// 65,536.
    pub(crate) fn new(seed: u64, shares: &[u32]) -> Self {
        Self { seed, stretches: vec![Stretch::new(0, shares)], block: None, shared: Arc::default() }
    }

    /// Changes the shares from `first_row` on.
    ///
    /// # Panics
    /// Like [`Schedule::new`], and if the last change is later.
    #[must_use]
    pub(crate) fn with_change(mut self, first_row: u64, shares: &[u32]) -> Self {
        let last = self.stretches.last().map_or(0, |last| last.first_row);
        assert!(last <= first_row, "the change at row {first_row} comes after the one at row {last}");
        self.stretches.retain(|stretch| stretch.first_row < first_row);
        self.stretches.push(Stretch::new(first_row, shares));
        self.shared = Arc::default();
        self
    }

    pub(crate) fn source(&mut self, row: u64) -> usize {
        if self.stretches.iter().all(|stretch| stretch.shares.len() == 1) {
            return 0;
        }
        let known = |block: &Option<Arc<Block>>| block.as_ref().and_then(|block| block.source(row));
        if let Some(source) = known(&self.block) {
            return source;
        }
        let mut shared = lock(&self.shared);
        if known(&shared).is_none() {
            *shared = Some(Arc::new(self.make(row)));
        }
        self.block.clone_from(&shared);
        known(&shared).expect("the block has the row")
    }

    /// The shares at a row, then those after each later change.
    pub(crate) fn shares_from(&self, row: u64) -> impl Iterator<Item = &[u32]> {
        self.stretches[self.stretch_at(row)..].iter().map(|stretch| &*stretch.shares)
    }

    /// Every stretch's first row and shares.
    pub(crate) fn changes(&self) -> Vec<(u64, &[u32])> {
        self.stretches.iter().map(|stretch| (stretch.first_row, &*stretch.shares)).collect()
    }

    /// Draws sources for a row whose own source has ended: endlessly, at random by the shares. The first that
    /// has not ended gets the row. So the draws do not depend on which sources have ended, and a resumed
    /// stream finds the same.
    pub(super) fn substitutes(&self, row: u64, shares: &[u32]) -> impl Iterator<Item = usize> {
        let mut draws = Draws::new("millstream substitutes", &[self.seed, row]);
        let sum: u32 = shares.iter().sum();
        std::iter::repeat_with(move || {
            let mut place = draws.up_to(sum - 1);
            let is_beyond = |share: &&u32| {
                let beyond = place >= **share;
                place = place.wrapping_sub(if beyond { **share } else { 0 });
                beyond
            };
            shares.iter().take_while(is_beyond).count()
        })
    }

    fn stretch_at(&self, row: u64) -> usize {
        self.stretches.partition_point(|stretch| stretch.first_row <= row) - 1
    }

    fn make(&self, row: u64) -> Block {
        let index = self.stretch_at(row);
        let Stretch { first_row, shares, order } = &self.stretches[index];
        let number = (row - first_row) / order.len() as u64;
        let first_row = first_row + number * order.len() as u64;
        let end = self.stretches.get(index + 1).map_or(u64::MAX, |next| next.first_row);
        let mut sources = swapped(order, shares, Draws::new("millstream mixture", &[self.seed, first_row]));
        sources.truncate(usize::try_from(end - first_row).unwrap_or(usize::MAX));
        Block { first_row, sources }
    }
}

impl Stretch {
    fn new(first_row: u64, shares: &[u32]) -> Self {
        let period = apportion(shares);
        let order = period.repeat(LEAST_BLOCK.div_ceil(period.len()));
        Self { first_row, shares: shares.into(), order: order.into() }
    }
}

/// Returns the same rows, mixed as far as each source keeps its share, rounded up or down, at each row.
///
/// The j-th row of a source of share s in a period of p has a place, counted from 0, of at least (j - 1) p /
/// s, rounded down, and less than j p / s, rounded up. These bounds are the same as having the share rounded
/// at each row. So neighbours may swap places as long as both stay within their bounds.
fn swapped(order: &[u16], shares: &[u32], mut draws: Draws) -> Vec<u16> {
    let period: u64 = shares.iter().map(|&share| u64::from(share)).sum();
    let mut rows = vec![0_u64; shares.len()];
    let place = |&source: &u16| {
        let (share, before) = (u64::from(shares[usize::from(source)]), rows[usize::from(source)]);
        rows[usize::from(source)] += 1;
        MovableRow {
            source,
            first: before * period / share,
            last: ((before + 1) * period).div_ceil(share) - 1,
        }
    };
    let mut places: Vec<MovableRow> = order.iter().map(place).collect();
    for _ in 0..SWEEPS {
        for start in 0..places.len() {
            let MovableRow { first, last, .. } = places[start];
            let target = (first + u64::from(draws.up_to((last - first) as u32))) as usize;
            walk(&mut places, start, target);
        }
    }
    places.into_iter().map(|place| place.source).collect()
}

/// A row of a source, and the first and last place that it may have.
struct MovableRow {
    source: u16,
    first: u64,
    last: u64,
}

/// Moves the row at `at` towards `target`, past one neighbour of another source after the other. It stops
/// where a row would leave its bounds.
fn walk(places: &mut [MovableRow], mut at: usize, target: usize) {
    while at < target && places[at + 1].source != places[at].source && places[at + 1].first <= at as u64 {
        places.swap(at, at + 1);
        at += 1;
    }
    while at > target && places[at - 1].source != places[at].source && places[at - 1].last >= at as u64 {
        places.swap(at - 1, at);
        at -= 1;
    }
}

/// The sources of one period of rows.
fn apportion(shares: &[u32]) -> Vec<u16> {
    assert!(shares.len() <= 1 << 16, "{} sources are too many", shares.len());
    let period: u64 = shares.iter().map(|&share| u64::from(share)).sum();
    assert!((1..=u64::from(MAX_PERIOD)).contains(&period), "shares that add up to {period}");
    let mut rows = vec![0_u64; shares.len()];
    let next = |rows: &mut Vec<u64>, n: u64| {
        let share = |source: usize| u64::from(shares[source]);
        let below = (0..shares.len()).filter(|&source| rows[source] * period < share(source) * n);
        // The first of those with the greatest share per row, counting this row.
        let most = below.reduce(|best, source| {
            let better = share(source) * (rows[best] + 1) > share(best) * (rows[source] + 1);
            if better { source } else { best }
        });
        let source = most.expect("the shares of n rows add up to n, and fewer are given");
        rows[source] += 1;
        source as u16
    };
    (1..=period).map(|n| next(&mut rows, n)).collect()
}

/// Returns whole shares in the proportion of `weights`, in lowest terms: exact if all weights are multiples
/// of 0.0001 and small enough, else within one part in [`MAX_PERIOD`]. A positive weight has a positive
/// share.
///
/// # Panics
/// If a weight is negative or not finite, or no weight is above zero.
pub(crate) fn shares(weights: &[f64]) -> Vec<u32> {
    let sum: f64 = weights.iter().sum();
    assert!(weights.iter().all(|weight| *weight >= 0.0) && sum.is_finite() && sum > 0.0, "{weights:?}");
    let exact = [1.0, 10.0, 100.0, 1_000.0, 10_000.0].into_iter().find_map(|scale| whole(weights, scale));
    let shares = exact.unwrap_or_else(|| rounded(weights, sum));
    let divisor = shares.iter().fold(0, |a, &b| gcd(a, b));
    let shares = shares.iter().map(|share| share / divisor).collect::<Vec<_>>();
    match u32::try_from(shares.iter().sum::<u64>()) {
        Ok(period) if period <= MAX_PERIOD => shares.iter().map(|&share| share as u32).collect(),
        _ => rounded(weights, sum).iter().map(|&share| share as u32).collect(),
    }
}

/// The weights times `scale`, if those are whole numbers.
fn whole(weights: &[f64], scale: f64) -> Option<Vec<u64>> {
    let whole = |weight: &f64| {
        let scaled = weight * scale;
        let near = (scaled - scaled.round()).abs() <= 1e-9 * scaled.max(1.0);
        (near && scaled < 2_f64.powi(53)).then_some(scaled.round() as u64)
    };
    let shares: Vec<u64> = weights.iter().map(whole).collect::<Option<_>>()?;
    shares.iter().zip(weights).all(|(share, weight)| (*share > 0) == (*weight > 0.0)).then_some(shares)
}

/// Returns shares that add up to [`MAX_PERIOD`], by the largest remainders.
fn rounded(weights: &[f64], sum: f64) -> Vec<u64> {
    let positive = weights.iter().filter(|weight| **weight > 0.0).count();
    // One for each, and the rest in proportion.
    let rest = f64::from(MAX_PERIOD) - positive as f64;
    let quota = |weight: f64| weight / sum * rest;
    let mut shares: Vec<u64> =
        weights.iter().map(|&weight| u64::from(weight > 0.0) + quota(weight) as u64).collect();
    let left = u64::from(MAX_PERIOD).saturating_sub(shares.iter().sum());
    let mut order: Vec<usize> = (0..weights.len()).filter(|&source| weights[source] > 0.0).collect();
    order.sort_by(|&a, &b| quota(weights[b]).fract().total_cmp(&quota(weights[a]).fract()).then(a.cmp(&b)));
    order.iter().cycle().take(left as usize).for_each(|&source| shares[source] += 1);
    shares
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shares_are_in_the_weights_proportion(weights in prop::collection::vec(prop_oneof![Just(0.0), 1e-6..1e6], 1..9)) {
            let sum: f64 = weights.iter().sum();
            prop_assume!(sum > 0.0);
            let shares = shares(&weights);
            let period: u32 = shares.iter().sum();
            prop_assert!(period <= MAX_PERIOD);
            for (share, weight) in shares.iter().zip(&weights) {
                let (has, due) = (f64::from(*share) / f64::from(period), weight / sum);
                prop_assert!((has - due).abs() <= 10.0 / f64::from(MAX_PERIOD), "{has} {due}");
                prop_assert_eq!(*share > 0, *weight > 0.0);
            }
        }
    }

    #[test]
    fn decimal_weights_are_exact() {
        assert_eq!(shares(&[3.0, 1.0]), [3, 1]);
        assert_eq!(shares(&[0.7, 0.2, 0.1]), [7, 2, 1]);
        assert_eq!(shares(&[0.0, 0.0003, 2.5]), [0, 3, 25_000]);
        assert_eq!(shares(&[4e9, 6e9]), [2, 3]);
        assert_eq!(shares(&[1e12 + 1.0, 1e12 - 1.0]).iter().sum::<u32>(), MAX_PERIOD);
    }

    #[test]
    fn each_lane_has_about_each_share_in_the_long_run() {
        for (shares, lanes) in
            [(&[1, 1][..], 2), (&[3, 1], 2), (&[3, 1], 4), (&[5, 3], 8), (&[7, 2, 1], 2), (&[98, 1, 1], 10)]
        {
            let mut schedule = Schedule::new(7, shares);
            let period: u32 = shares.iter().sum();
            let rows = 20_000 * lanes;
            let mut counts = vec![vec![0_u32; shares.len()]; lanes];
            for row in 0..rows {
                counts[row % lanes][schedule.source(row as u64)] += 1;
            }
            for (lane, counts) in counts.iter().enumerate() {
                for (count, share) in counts.iter().zip(shares) {
                    let (has, due) = (f64::from(*count) / 20_000.0, f64::from(*share) / f64::from(period));
                    assert!(
                        (has - due).abs() < 0.12 && has > 0.5 * due,
                        "lane {lane} of {lanes}: {has} of {due}"
                    );
                }
            }
        }
    }

    #[test]
    fn blocks_differ_and_are_the_same_however_they_are_asked_for() {
        let mut schedule = Schedule::new(7, &[1, 1]).with_change(700, &[2, 1, 1]);
        let forwards: Vec<usize> = (0..5000).map(|row| schedule.source(row)).collect();
        let mut backwards: Vec<usize> = (0..5000).rev().map(|row| schedule.clone().source(row)).collect();
        backwards.reverse();
        assert_eq!(forwards, backwards);
        assert_ne!(forwards[1000..1400], forwards[2000..2400]);
        let mut other = Schedule::new(8, &[1, 1]);
        assert!((0..500).any(|row| other.source(row) != forwards[row as usize]));
    }
}
