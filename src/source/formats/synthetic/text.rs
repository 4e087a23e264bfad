//! One synthetic document: sentences of random words.
//!
//! The random numbers are those of SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators",
//! 2014), started afresh for each document. The text for a seed is public behaviour: a change of it changes every corpus
//! that somebody made.

use super::words::{BITS, ROOM, Words};

/// The remaining bits of 64 are too few to choose another word.
const WORDS_AT_ONCE: u64 = (u64::BITS / BITS) as u64;

/// About how far the last word passes the length that was wanted, in bytes.
const PASSED: usize = 2;

/// Makes the documents of one source.
#[derive(Debug)]
pub(super) struct Writer {
    words: &'static Words,
    /// A number that is mixed with every document's number.
    seed: u64,
    /// The length of the shortest document, and how many lengths there are.
    shortest: usize,
    lengths: u64,
    /// Room for the longest document, and the bytes copied behind it.
    text: Box<[u8]>,
}

impl Writer {
    /// A writer of the documents of `seed`, which are `mean` bytes long on average.
    pub(super) fn new(seed: u64, mean: usize) -> Self {
        let shortest = mean / 4;
        let longest = 2 * mean - shortest;
        Self {
            words: Words::all(),
            seed: mixed(seed),
            shortest,
            lengths: (longest - shortest) as u64 + 1,
            text: vec![0; longest + 2 * ROOM].into(),
        }
    }

    /// Document `number`, which is ASCII and never empty.
    pub(super) fn document(&mut self, number: u64) -> &[u8] {
        let Self { words, text, .. } = self;
        let mut chance = Chance(mixed(self.seed.wrapping_add(number)));
        let len = self.shortest + (chance.next() % self.lengths) as usize;
        let enough = len.saturating_sub(PASSED).max(1);
        let mut at = 0;
        while at < enough {
            let start = at;
            let bits = chance.next();
            let (in_sentence, comma_behind) = (4 + bits % 16, 2 + (bits >> 4) % 32);
            let space = if (bits >> 16).is_multiple_of(6) { b'\n' } else { b' ' };
            let (mut drawn, mut nth) = (0, 0);
            while nth < in_sentence && at < enough {
                drawn = if nth % WORDS_AT_ONCE == 0 { chance.next() } else { drawn >> BITS };
                let word = words.draw(drawn);
                text[at..at + ROOM].copy_from_slice(&word.bytes);
                at += usize::from(word.len);
                nth += 1;
                if nth == comma_behind && nth < in_sentence {
                    text[at - 1..=at].copy_from_slice(b", ");
                    at += 1;
                }
            }
            text[start] = text[start].to_ascii_uppercase();
            text[at - 1..=at].copy_from_slice(&[b'.', space]);
            at += 1;
        }
        // Nothing stands behind the last full stop.
        &text[..at - 1]
    }
}

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }
}

/// A number whose bits depend on all bits of another.
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn document(seed: u64, mean: usize, number: u64) -> String {
        String::from_utf8(Writer::new(seed, mean).document(number).to_vec()).expect("ASCII")
    }

    #[test]
    fn the_text_of_a_seed_is_the_same_for_ever() {
        assert_eq!(
            document(42, 64, 0),
            "Pud nin tebas wader. Buhobut wulem ba podabam pen mor nul jol vobrem pluglel wit lat. Plutajol glulad."
        );
        let mut hasher = blake3::Hasher::new();
        let mut writer = Writer::new(42, 2048);
        (0..1000).for_each(|number| _ = hasher.update(writer.document(number)));
        assert_eq!(
            hasher.finalize().to_hex().as_str(),
            "ef61f50af4703b5ad3789d9f049e6bf521eda7cfccf1fc892643bb16248144a0"
        );
    }

    #[test]
    fn a_document_follows_from_its_number_and_the_seed() {
        let mut writer = Writer::new(7, 200);
        let texts: Vec<Vec<u8>> = (0..100).map(|number| writer.document(number).to_vec()).collect();
        for number in (0..100).rev() {
            assert_eq!(writer.document(number), texts[number as usize]);
            assert_ne!(document(8, 200, number).into_bytes(), texts[number as usize]);
        }
        assert_eq!(texts.iter().collect::<HashSet<_>>().len(), 100);
        // Numbers and seeds far out, and neighbours of each other.
        let far: HashSet<String> = [0, 1, u64::MAX]
            .iter()
            .flat_map(|&seed| [0, 1, u64::MAX].map(|n| document(seed, 200, n)))
            .collect();
        assert_eq!(far.len(), 9);
    }

    #[test]
    fn it_is_sentences_of_the_length_that_is_wanted() {
        for mean in [16, 100, 2048, 10_000] {
            let mut writer = Writer::new(1, mean);
            let mut bytes = 0;
            let n = 20_000_000 / mean as u64;
            for number in 0..n {
                let text = std::str::from_utf8(writer.document(number)).expect("ASCII");
                assert!(text.is_ascii() && text.ends_with('.') && !text.contains("  "), "{text:?}");
                assert!(text.starts_with(|first: char| first.is_ascii_uppercase()), "{text:?}");
                assert!(text.len() + 4 > mean / 4 && text.len() < 2 * mean + ROOM, "{text:?}");
                bytes += text.len();
            }
            let found = bytes as f64 / n as f64;
            assert!((found / mean as f64 - 1.0).abs() < 0.03, "{found} and not {mean}");
        }
    }
}
