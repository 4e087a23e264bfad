//! From the size of a corpus to settings that suit it.

/// How large a corpus is, about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// Its text, in bytes.
    pub(super) text: u64,
    pub(super) documents: u64,
}

/// How a tokenizer is learned from a corpus of a size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Learned {
    pub(super) vocab_size: u32,
    pub(super) sample: &'static str,
}

/// A model that suits a corpus, and how long it is trained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Shape {
    pub(super) seq_len: u32,
    pub(super) batch_size: u32,
    pub(super) layers: u32,
    pub(super) d_model: u32,
    pub(super) heads: u32,
    pub(super) d_ff: u32,
    pub(super) steps: u32,
    pub(super) lr: &'static str,
    pub(super) min_lr: &'static str,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

impl Size {
    /// A vocabulary that the text has enough words for; none where bytes do better.
    pub(super) fn learned(self) -> Option<Learned> {
        let learned = |vocab_size, sample| Some(Learned { vocab_size, sample });
        match self.text {
            text if text < 64 * KIB => None,
            text if text < MIB => learned(512, "1MiB"),
            text if text < 16 * MIB => learned(2048, "16MiB"),
            text if text < 128 * MIB => learned(4096, "16MiB"),
            text if text < GIB => learned(16000, "64MiB"),
            _ => learned(32000, "256MiB"),
        }
    }

    /// Rows, batches and a model.
    pub(super) fn shape(self) -> Shape {
        match self.text {
            text if text < MIB => Shape {
                seq_len: 64,
                batch_size: 8,
                layers: 2,
                d_model: 64,
                heads: 2,
                d_ff: 128,
                steps: 200,
                lr: "3e-3",
                min_lr: "3e-4",
            },
            text if text < 128 * MIB => Shape {
                seq_len: 128,
                batch_size: 16,
                layers: 4,
                d_model: 128,
                heads: 4,
                d_ff: 384,
                steps: 800,
                lr: "3e-3",
                min_lr: "3e-4",
            },
            text if text < 2 * GIB => Shape {
                seq_len: 256,
                batch_size: 16,
                layers: 6,
                d_model: 512,
                heads: 8,
                d_ff: 1536,
                steps: 10000,
                lr: "1e-3",
                min_lr: "1e-4",
            },
            _ => Shape {
                seq_len: 1024,
                batch_size: 16,
                layers: 12,
                d_model: 768,
                heads: 12,
                d_ff: 2048,
                steps: 20000,
                lr: "6e-4",
                min_lr: "6e-5",
            },
        }
    }

    /// The share of the documents to hold out, so that some are held out for certain; 0 where there are too few.
    pub(super) fn holdout(self) -> f64 {
        match self.documents {
            0..100 => 0.0,
            100..400 => 0.1,
            400..4000 => 0.05,
            4000..200_000 => 0.01,
            _ => 0.001,
        }
    }
}

/// A number of bytes for people.
pub(in crate::cli) fn bytes(bytes: u64) -> String {
    let units = [(GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_corpora_get_more_of_everything() {
        let sizes = [1, 100 * KIB, 10 * MIB, 100 * MIB, GIB, 100 * GIB];
        let at = |text| Size { text, documents: text / 1000 };
        for pair in sizes.windows(2) {
            let (small, large) = (at(pair[0]), at(pair[1]));
            let vocabulary = |size: Size| size.learned().map_or(256, |learned| learned.vocab_size);
            assert!(vocabulary(small) < vocabulary(large) || pair[0] >= GIB);
            assert!(small.shape().seq_len <= large.shape().seq_len);
            assert!(small.shape().steps <= large.shape().steps);
        }
        assert_eq!(at(KIB).learned(), None);
    }

    #[test]
    fn a_hold_out_has_some_documents() {
        for documents in [100, 399, 400, 3999, 4000, 199_999, 200_000] {
            let held_out = Size { text: 0, documents }.holdout() * documents as f64;
            assert!(held_out >= 10.0, "{held_out} of {documents}");
        }
        assert_eq!(Size { text: 0, documents: 99 }.holdout(), 0.0);
    }
}
