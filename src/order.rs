//! The only source of randomness: permutations and numbers that depend on nothing but their key.
//!
//! A permutation is a Fisher–Yates shuffle that draws from the extendable output of BLAKE3. So two published algorithms
//! define it, and it stays the same for ever, on every machine. It takes four bytes of output for each item, and holds
//! only the permutation itself. [`Scatter`] holds nothing at all, for permutations of any length.

mod scatter;

pub(crate) use scatter::Scatter;

/// Returns the permutation of `0..n` that `key` selects within `domain`, a name for what is permuted.
///
/// # Panics
/// If `n` is more than `u32::MAX`.
pub(crate) fn permutation(domain: &str, key: &[u64], n: usize) -> Vec<u32> {
    let n = u32::try_from(n).expect("a permutation of at most 2^32 - 1 items");
    let mut draws = Draws::new(domain, key);
    let mut order: Vec<u32> = (0..n).collect();
    for last in (1..n).rev() {
        order.swap(last as usize, draws.up_to(last) as usize);
    }
    order
}

/// Returns a number from 0 up to but not including 1, which `key` selects within `domain`: the upper 53 bits
/// of the digest's first eight bytes, read as a little-endian number.
pub(crate) fn uniform(domain: &str, key: &[u64]) -> f64 {
    let key: Vec<u8> = key.iter().flat_map(|word| word.to_le_bytes()).collect();
    let digest = blake3::derive_key(domain, &key);
    let first = u64::from_le_bytes(digest[..8].try_into().expect("eight bytes"));
    (first >> 11) as f64 / 2_f64.powi(53)
}

/// Uniform random numbers from BLAKE3's extendable output.
pub(crate) struct Draws {
    output: blake3::OutputReader,
    block: [u8; 256],
    used: usize,
}

impl Draws {
    pub(crate) fn new(domain: &str, key: &[u64]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(domain);
        for word in key {
            hasher.update(&word.to_le_bytes());
        }
        Self { output: hasher.finalize_xof(), block: [0; 256], used: 256 }
    }

    /// Returns 32 random bits.
    pub(crate) fn next(&mut self) -> u32 {
        if self.used == self.block.len() {
            self.output.fill(&mut self.block);
            self.used = 0;
        }
        let word = self.block[self.used..self.used + 4].try_into().expect("four bytes");
        self.used += 4;
        u32::from_le_bytes(word)
    }

    /// Returns a number from 0 to `last`, each equally likely.
    ///
    /// The method is from Lemire, "Fast Random Integer Generation in an Interval" (2019): take the high half
    /// of a product, and draw again for the few low halves that would favour some numbers.
    pub(crate) fn up_to(&mut self, last: u32) -> u32 {
        let bound = u64::from(last) + 1;
        let uneven = (1_u64 << 32) % bound;
        loop {
            let product = u64::from(self.next()) * bound;
            if product & 0xffff_ffff >= uneven {
                return (product >> 32) as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// The order for a seed is public behaviour: changing these numbers breaks every cursor. Another
    /// implementation of the two algorithms computed them.
    #[test]
    fn the_order_is_the_same_for_ever() {
        assert_eq!(permutation("golden", &[], 0), [0; 0]);
        assert_eq!(permutation("golden", &[], 1), [0]);
        assert_eq!(permutation("golden", &[], 8), [3, 4, 5, 2, 7, 0, 6, 1]);
        assert_eq!(permutation("golden", &[42, 1], 8), [1, 6, 3, 0, 5, 7, 4, 2]);
        assert_eq!(permutation("other", &[42, 1], 8), [7, 0, 5, 6, 3, 2, 4, 1]);
        let digest = |order: &[u32]| {
            let bytes: Vec<u8> = order.iter().flat_map(|item| item.to_le_bytes()).collect();
            blake3::hash(&bytes).to_hex().to_string()
        };
        assert_eq!(
            digest(&permutation("golden", &[7], 65_537)),
            "d8090bef5713a1e39b77a694596abb0d5604758582c0af82c216bc81dbbab96a"
        );
    }

    fn comes_once(n: usize) {
        let mut seen = vec![false; n];
        for item in permutation("once", &[n as u64], n) {
            assert!(!std::mem::replace(&mut seen[item as usize], true), "{item} comes twice of {n}");
        }
        assert!(!seen.contains(&false), "an item of {n} is missing");
    }

    #[test]
    fn each_item_comes_once_around_every_power_of_two() {
        (0..=66).for_each(comes_once);
        for power in 6..=20 {
            ((1 << power) - 2..=(1 << power) + 2).for_each(comes_once);
        }
    }

    #[test]
    fn each_item_comes_once_beyond() {
        [1_234_567, 2_097_151, 3_000_000, 4_194_305, 9_999_991, 16_777_217].into_iter().for_each(comes_once);
    }

    #[test]
    fn each_order_is_as_likely() {
        let mut seen: HashMap<Vec<u32>, u32> = HashMap::new();
        for key in 0..24_000 {
            *seen.entry(permutation("even", &[key], 4)).or_default() += 1;
        }
        // 24 orders of 1,000 each; the sum of squares is chi-squared with 23 degrees of freedom, which
        // exceeds 60 once in thirty thousand.
        let chi: f64 = seen.values().map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0).sum();
        assert!(seen.len() == 24 && chi < 60.0, "{chi} {seen:?}");
    }
}
