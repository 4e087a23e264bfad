//! From the size of a corpus to settings that suit it.

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The size of a vocabulary for a corpus of so many bytes, and how much of the text it is learned from; `None` if bytes are
/// better.
pub(super) fn learned(text: u64) -> Option<(u32, &'static str)> {
    match text {
        text if text < 64 * KIB => None,
        text if text < MIB => Some((512, "1MiB")),
        text if text < 16 * MIB => Some((2048, "16MiB")),
        text if text < 128 * MIB => Some((4096, "16MiB")),
        text if text < GIB => Some((16000, "64MiB")),
        _ => Some((32000, "256MiB")),
    }
}

/// Rows, batches, a model and its training for so many bytes of text: `seq_len`, `batch_size`, `layers`, `d_model`, `heads`,
/// `d_ff` and `steps`; `lr` and `min_lr`.
pub(super) fn shape(text: u64) -> ([u32; 7], [&'static str; 2]) {
    match text {
        text if text < MIB => ([64, 8, 2, 64, 2, 128, 200], ["3e-3", "3e-4"]),
        text if text < 128 * MIB => ([128, 16, 4, 128, 4, 384, 800], ["3e-3", "3e-4"]),
        text if text < 2 * GIB => ([256, 16, 6, 512, 8, 1536, 10000], ["1e-3", "1e-4"]),
        _ => ([1024, 16, 12, 768, 12, 2048, 20000], ["6e-4", "6e-5"]),
    }
}

/// The share of so many documents to hold out, so that some surely are; 0 if there are too few.
pub(super) fn holdout(documents: u64) -> f64 {
    match documents {
        0..100 => 0.0,
        100..400 => 0.1,
        400..4000 => 0.05,
        4000..200_000 => 0.01,
        _ => 0.001,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_out_has_some_documents() {
        for documents in [100, 399, 400, 3999, 4000, 199_999, 200_000] {
            let held_out = holdout(documents) * documents as f64;
            assert!(held_out >= 10.0, "{held_out} of {documents}");
        }
        assert_eq!(holdout(99), 0.0);
    }
}
