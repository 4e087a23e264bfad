//! A permutation of any length that stores nothing: the item at one place is computed from the place alone.
//!
//! It is a Feistel network over the fewest bits that can count the items, whose two halves may differ by one bit. A
//! result beyond the last item goes through the network again until it is an item ("cycle walking": Black and Rogaway,
//! "Ciphers with Arbitrary Finite Domains", 2002), which takes less than two passes on average. The round function is
//! the finalizer of MurmurHash3, and its keys are BLAKE3 output. It mixes well and fast, and hides nothing: it is no
//! cipher.

use super::Draws;

/// How often each half is changed by the other. With few bits a round changes little, so there are more.
const ROUNDS: usize = 6;
const ROUNDS_OF_FEW: usize = 24;

/// How many bits are few.
const FEW: u32 = 8;

/// The permutation of `0..len` that a key selects within a domain.
#[derive(Clone, Debug)]
pub(crate) struct Scatter {
    len: u64,
    /// The bits of the lower half.
    shift: u32,
    low: u64,
    high: u64,
    keys: Vec<[u64; 2]>,
}

impl Scatter {
    /// The permutation of `0..len` that `key` selects within `domain`, a name for what is permuted.
    pub(crate) fn new(domain: &str, key: &[u64], len: u64) -> Self {
        let mut draws = Draws::new(domain, key);
        let mut word = || u64::from(draws.next()) | (u64::from(draws.next()) << 32);
        let bits = u64::BITS - len.saturating_sub(1).leading_zeros();
        let rounds = if bits < FEW { ROUNDS_OF_FEW } else { ROUNDS };
        let keys = (0..rounds).map(|_| [word(), word()]).collect();
        let shift = bits.div_ceil(2);
        Self { len, shift, low: (1 << shift) - 1, high: (1 << (bits - shift)) - 1, keys }
    }

    /// How many items there are.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The item at `place`, which must be less than the length.
    pub(crate) fn at(&self, place: u64) -> u64 {
        debug_assert!(place < self.len, "place {place} of {}", self.len);
        let mut item = self.pass(place);
        while item >= self.len {
            item = self.pass(item);
        }
        item
    }

    /// The place of `item`, which must be less than the length: [`at`](Self::at) of it is the item.
    pub(crate) fn place_of(&self, item: u64) -> u64 {
        debug_assert!(item < self.len, "item {item} of {}", self.len);
        let mut place = self.pass_back(item);
        while place >= self.len {
            place = self.pass_back(place);
        }
        place
    }

    fn pass_back(&self, item: u64) -> u64 {
        let (mut high, mut low) = (item >> self.shift, item & self.low);
        for [of_high, of_low] in self.keys.iter().rev() {
            low = (low ^ mixed(high ^ of_low)) & self.low;
            high = (high ^ mixed(low ^ of_high)) & self.high;
        }
        (high << self.shift) | low
    }

    fn pass(&self, item: u64) -> u64 {
        let (mut high, mut low) = (item >> self.shift, item & self.low);
        for [of_high, of_low] in &self.keys {
            high = (high ^ mixed(low ^ of_high)) & self.high;
            low = (low ^ mixed(high ^ of_low)) & self.low;
        }
        (high << self.shift) | low
    }
}

/// The finalizer of MurmurHash3 (Austin Appleby, public domain).
fn mixed(mut word: u64) -> u64 {
    word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    word = (word ^ (word >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn all(domain: &str, key: &[u64], len: u64) -> Vec<u64> {
        let scatter = Scatter::new(domain, key, len);
        (0..len).map(|place| scatter.at(place)).collect()
    }

    #[test]
    fn each_item_comes_once_around_every_power_of_two() {
        let lens = (1..=18).flat_map(|power| (1_u64 << power) - 1..=(1 << power) + 1);
        for len in (0..70).chain(lens) {
            let mut items = all("once", &[len], len);
            let scatter = Scatter::new("once", &[len], len);
            assert!((0..).zip(&items).all(|(place, item)| scatter.place_of(*item) == place), "{len}");
            items.sort_unstable();
            assert!(items.into_iter().eq(0..len), "{len}");
        }
    }

    /// Places of a huge permutation come back as items of it, and no two are the same.
    #[test]
    fn the_longest_is_a_permutation_too() {
        for len in [u64::MAX, (1 << 63) + 1, 1 << 63, 100_000_000_000] {
            let scatter = Scatter::new("long", &[len], len);
            let mut items: Vec<u64> =
                (0..10_000).chain(len - 10_000..len).map(|place| scatter.at(place)).collect();
            assert!(items.iter().all(|item| *item < len));
            items.sort_unstable();
            items.dedup();
            assert_eq!(items.len(), 20_000);
        }
    }

    /// The order for a seed is public behaviour: changing these numbers breaks every cursor. Another implementation
    /// computed them.
    #[test]
    fn the_order_is_the_same_for_ever() {
        assert_eq!(all("golden", &[], 8), [2, 5, 0, 6, 1, 7, 4, 3]);
        assert_eq!(all("golden", &[42, 1], 11), [2, 9, 3, 5, 8, 0, 6, 4, 1, 7, 10]);
        let long = Scatter::new("golden", &[7], 1_000_000_007);
        assert_eq!(
            [0, 1, 2, 1_000_000_006].map(|place| long.at(place)),
            [193_949_070, 104_856_673, 740_917_835, 225_431_989]
        );
    }

    /// The sum over `counts` of (count - expected)^2 / expected.
    fn chi_squared(counts: impl Iterator<Item = u64>, expected: f64) -> f64 {
        counts.map(|count| (count as f64 - expected).powi(2) / expected).sum()
    }

    #[test]
    fn each_order_of_a_few_items_is_as_likely() {
        for len in [3, 4, 5, 6] {
            let orders = (1..=len).product::<u64>();
            let mut seen: HashMap<Vec<u64>, u64> = HashMap::new();
            for key in 0..orders * 400 {
                *seen.entry(all("even", &[key], len)).or_default() += 1;
            }
            let chi = chi_squared(seen.values().copied(), 400.0);
            let free = (orders - 1) as f64;
            // Five standard deviations of chi-squared.
            assert!(seen.len() as u64 == orders && chi < free + 5.0 * (2.0 * free).sqrt(), "{len}: {chi}");
        }
    }

    /// How far apart the items of neighbouring places are, and where items of neighbouring keys are, is as random as
    /// can be.
    #[test]
    fn neighbours_are_far_apart() {
        const LEN: u64 = 1000;
        const CELLS: u64 = 20;
        let (mut steps, mut keys) = (vec![0_u64; CELLS as usize], vec![0_u64; CELLS as usize]);
        for key in 0..200 {
            let (items, others) = (all("near", &[key], LEN), all("near", &[key + 1], LEN));
            let cell = |from: u64, to: u64| ((to + LEN - from) % LEN * CELLS / LEN) as usize;
            items.windows(2).for_each(|pair| steps[cell(pair[0], pair[1])] += 1);
            items.iter().zip(&others).for_each(|(item, other)| keys[cell(*item, *other)] += 1);
        }
        for counts in [steps, keys] {
            let expected = counts.iter().sum::<u64>() as f64 / CELLS as f64;
            let chi = chi_squared(counts.iter().copied(), expected);
            // 19 degrees of freedom: above 50 once in ten thousand. An item has no step of 0.
            assert!(chi < 60.0, "{chi} {counts:?}");
        }
    }
}
