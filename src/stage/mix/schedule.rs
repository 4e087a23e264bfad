//! Which source each row comes from.
//!
//! Within each stretch of constant weights the rows are apportioned by Balinski and Young's quota method ("The
//! Quota Method of Apportionment", 1975): row n goes, among the sources that it does not lift above their share
//! of n rounded up, to the one with the most share for each row that it would have. After any number of rows
//! each source then has its share of them, rounded up or down. Shares are whole numbers, so that the order
//! repeats after their sum, and the source of any row is one look-up.

use std::sync::Arc;

/// The most that shares add up to: the resolution of weights, and the bytes that a schedule takes twice over.
pub const MAX_PERIOD: u32 = 1 << 16;

/// The source of each row of the global order: a fixed function of the row's number.
#[derive(Clone, Debug)]
pub struct Schedule {
    stretches: Vec<Stretch>,
}

#[derive(Clone, Debug)]
struct Stretch {
    first_row: u64,
    shares: Arc<[u32]>,
    /// The sources of the rows of one period.
    order: Arc<[u16]>,
}

impl Schedule {
    /// Sources with these shares, from the first row on.
    ///
    /// # Panics
    /// If no share is above zero, there are more than 65,536 sources, or the shares add up to more than
    /// [`MAX_PERIOD`].
    pub fn new(shares: &[u32]) -> Self {
        Self { stretches: vec![Stretch::new(0, shares)] }
    }

    /// Other shares from `first_row` on.
    ///
    /// # Panics
    /// As [`Schedule::new`], or if the last change is later.
    #[must_use]
    pub fn with_change(mut self, first_row: u64, shares: &[u32]) -> Self {
        let last = self.stretches.last().map_or(0, |last| last.first_row);
        assert!(last <= first_row, "the change at row {first_row} comes after the one at row {last}");
        self.stretches.retain(|stretch| stretch.first_row < first_row);
        self.stretches.push(Stretch::new(first_row, shares));
        self
    }

    /// The source of a row.
    pub fn source(&self, row: u64) -> usize {
        let Stretch { first_row, order, .. } = &self.stretches[self.stretch_at(row)];
        usize::from(order[((row - first_row) % order.len() as u64) as usize])
    }

    /// The shares at a row, and those after each change behind it.
    pub fn shares_from(&self, row: u64) -> impl Iterator<Item = &[u32]> {
        self.stretches[self.stretch_at(row)..].iter().map(|stretch| &*stretch.shares)
    }

    fn stretch_at(&self, row: u64) -> usize {
        self.stretches.partition_point(|stretch| stretch.first_row <= row) - 1
    }
}

impl Stretch {
    fn new(first_row: u64, shares: &[u32]) -> Self {
        Self { first_row, shares: shares.into(), order: apportion(shares).into() }
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
        // The first of those with the greatest share for each row that they would have.
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

/// Whole shares in the proportion of `weights`, in lowest terms: exact if all weights are multiples of
/// 0.0001 and small enough, else within one part in [`MAX_PERIOD`]. A positive weight has a positive share.
///
/// # Panics
/// If a weight is negative or not finite, or none is above zero.
pub fn shares(weights: &[f64]) -> Vec<u32> {
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

/// Shares of [`MAX_PERIOD`], by the largest remainders.
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
        fn each_prefix_has_each_share_rounded_up_or_down(
            shares in prop::collection::vec(prop_oneof![2 => 0_u32..4, 1 => 0_u32..400], 1..14),
        ) {
            let period: u32 = shares.iter().sum();
            prop_assume!(period > 0);
            let schedule = Schedule::new(&shares);
            let mut rows = vec![0_u64; shares.len()];
            for row in 0..2 * u64::from(period) {
                rows[schedule.source(row)] += 1;
                for (count, &share) in rows.iter().zip(&shares) {
                    let (has, due) = (count * u64::from(period), (row + 1) * u64::from(share));
                    prop_assert!(has.abs_diff(due) < u64::from(period), "{rows:?} after row {row}");
                }
            }
        }

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
    fn a_change_begins_at_its_row() {
        let schedule =
            Schedule::new(&[1, 0]).with_change(5, &[0, 1]).with_change(5, &[1, 1]).with_change(7, &[0, 1]);
        let sources: Vec<usize> = (0..9).map(|row| schedule.source(row)).collect();
        assert_eq!(sources, [0, 0, 0, 0, 0, 0, 1, 1, 1]);
        assert!(schedule.shares_from(6).eq([[1, 1], [0, 1]]));
    }
}
