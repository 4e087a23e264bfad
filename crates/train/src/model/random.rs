//! Normal and uniform numbers from a seed: small, fixed forever, and the same on every machine.
//!
//! SplitMix64 (Steele, Lea and Flood, 2014) and the polar method of Marsaglia. Holds 24 bytes.

/// Uniform 64-bit numbers.
#[derive(Clone, Debug)]
pub(crate) struct Uniform(u64);

impl Uniform {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `[0, 1)`, with 53 random bits.
    pub(crate) fn sample(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Standard normal numbers.
#[derive(Clone, Debug)]
pub(crate) struct Normal {
    uniform: Uniform,
    spare: Option<f64>,
}

impl Normal {
    pub(crate) fn new(seed: u64) -> Self {
        Self { uniform: Uniform::new(seed), spare: None }
    }

    pub(crate) fn sample(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (u, v) = (2.0 * self.uniform.sample() - 1.0, 2.0 * self.uniform.sample() - 1.0);
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                let scale = (-2.0 * s.ln() / s).sqrt();
                self.spare = Some(v * scale);
                return u * scale;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_numbers_have_mean_zero_and_variance_one() {
        let mut normal = Normal::new(7);
        let values: Vec<f64> = (0..20_000).map(|_| normal.sample()).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 0.03, "{mean}");
        assert!((variance - 1.0).abs() < 0.05, "{variance}");
    }

    #[test]
    fn the_sequence_of_a_seed_is_pinned() {
        // The reference implementation's first output for seed 1234567.
        assert_eq!(Uniform::new(1_234_567).bits(), 6_457_827_717_110_365_317);
    }
}
