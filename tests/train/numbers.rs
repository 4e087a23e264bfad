//! Numbers that look random, and are the same in every run.

/// Even numbers of 31 bits.
pub(crate) fn numbers(seed: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(seed), |state| {
        Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    })
    .skip(1)
    .map(|state| state >> 33)
}
