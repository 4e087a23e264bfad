//! Which documents are kept for validation.

/// A share of the documents, drawn by a digest of their text, and which side of it a stream delivers. Of a document that
/// a template renders, the text is the record that it is rendered from.
///
/// A document is held out if the first eight bytes of its text's BLAKE3 digest, read as a little-endian number, are
/// less than `fraction` times 2^64. So copies of one text fall on the same side, and the side depends on nothing else.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Holdout {
    /// The share of the documents that are held out, from 0 to 1.
    pub fraction: f64,
    /// Which documents are delivered.
    pub side: Side,
}

/// A side of the hold-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// The documents that are not held out.
    #[default]
    Train,
    /// The documents that are held out.
    HeldOut,
}

impl Side {
    /// The name of the side in cursors and token caches.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::HeldOut => "held out",
        }
    }
}

impl Default for Holdout {
    /// Nothing is held out.
    fn default() -> Self {
        Self { fraction: 0.0, side: Side::Train }
    }
}

impl Holdout {
    /// Whether a stream of this side delivers `text`. Without a hold-out nothing is hashed.
    pub(crate) fn delivers(&self, text: &str) -> bool {
        self.delivers_digest(if self.fraction > 0.0 { digest(text.as_bytes()) } else { 0 })
    }

    /// The same for a text with this digest.
    pub(crate) fn delivers_digest(&self, digest: u64) -> bool {
        let is_held_out = self.fraction > 0.0 && (digest as f64) < self.fraction * 2_f64.powi(64);
        is_held_out == (self.side == Side::HeldOut)
    }
}

/// The first eight bytes of the BLAKE3 digest of a text's bytes, as a little-endian number.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let digest = blake3::hash(bytes);
    u64::from_le_bytes(digest.as_bytes()[..8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_held_out(fraction: f64, text: &str) -> bool {
        let (train, held_out) = (
            Holdout { fraction, side: Side::Train }.delivers(text),
            Holdout { fraction, side: Side::HeldOut }.delivers(text),
        );
        assert_ne!(train, held_out, "each document is on one side");
        held_out
    }

    #[test]
    fn holds_out_the_share_that_it_says() {
        let texts: Vec<_> = (0..10_000).map(|n| n.to_string()).collect();
        let count = |fraction| texts.iter().filter(|text| is_held_out(fraction, text)).count();
        assert_eq!((count(0.0), count(1.0)), (0, 10_000));
        assert!((800..1200).contains(&count(0.1)), "{}", count(0.1));
    }

    /// By its specification, the BLAKE3 digest of nothing begins with af 13 49 b9 f5 f9 a1 a6.
    #[test]
    fn reads_the_digest_as_little_endian() {
        let first = 0xa6a1_f9f5_b949_13af_u64 as f64 / 2_f64.powi(64);
        assert!(is_held_out(first + 1e-9, ""));
        assert!(!is_held_out(first - 1e-9, ""));
    }
}
