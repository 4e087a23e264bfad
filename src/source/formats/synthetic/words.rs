//! The words of synthetic documents, and how often each comes.
//!
//! Words are made of syllables, and the frequent ones are short. The word of rank r, from 0, comes as often as
//! 1 / (r + 2.7): the law of Zipf, with the shift that Mandelbrot gave it ("An informational theory of the statistical
//! structure of language", 1953). It is drawn by looking up 17 random bits in a table.

use std::sync::LazyLock;

const WORDS: usize = 8192;

/// How many random bits choose one.
pub(super) const BITS: u32 = 17;

/// The room of a word and the space behind it, in bytes. Copying all of it is faster than copying only the used bytes.
pub(super) const ROOM: usize = 16;

/// Words before these ranks have one syllable and two; the others have three.
const SHORT: [usize; 2] = [256, 4096];

const ONSETS: [&str; 20] =
    ["b", "d", "f", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "br", "gl", "pl", "st", "tr"];
const VOWELS: [&str; 5] = ["a", "e", "i", "o", "u"];
const CODAS: [&str; 8] = ["", "n", "s", "r", "t", "l", "m", "d"];

/// A word and the space behind it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word {
    pub(super) bytes: [u8; ROOM],
    /// How many of the bytes are used.
    pub(super) len: u8,
}

/// All words, and which of them some random bits choose.
#[derive(Debug)]
pub(super) struct Words {
    words: Box<[Word]>,
    drawn: Box<[u16]>,
}

impl Words {
    /// The words, which are the same for all seeds.
    pub(super) fn all() -> &'static Self {
        static ALL: LazyLock<Words> = LazyLock::new(Words::new);
        &ALL
    }

    fn new() -> Self {
        // Whole numbers, so that every machine rounds alike.
        let share = |rank: usize| 1_000_000_000_000 / (10 * rank as u64 + 27);
        let all: u64 = (0..WORDS).map(share).sum();
        let mut drawn = Vec::with_capacity(1 << BITS);
        let mut sum = 0;
        for rank in 0..WORDS {
            sum += share(rank);
            drawn.resize(((u128::from(sum) << BITS) / u128::from(all)) as usize, rank as u16);
        }
        Self { words: (0..WORDS).map(word).collect(), drawn: drawn.into() }
    }

    /// The word that the lowest bits of a random number choose.
    pub(super) fn draw(&self, bits: u64) -> Word {
        self.words[usize::from(self.drawn[bits as usize & ((1 << BITS) - 1)])]
    }
}

/// The word of a rank. A syllable ends in its vowel, but for the last one, so that no two words are the same.
fn word(rank: usize) -> Word {
    let syllables = 1 + SHORT.iter().filter(|&&first| rank >= first).count();
    let each = ONSETS.len() * VOWELS.len();
    // A step that shares no factor with their number meets all of them, far apart.
    let mut left = rank * 7919 % (each.pow(syllables as u32) * CODAS.len());
    let mut take = |n: usize| {
        let taken = left % n;
        left /= n;
        taken
    };
    let coda = CODAS[take(CODAS.len())];
    let mut text = String::with_capacity(ROOM);
    for _ in 0..syllables {
        text += ONSETS[take(ONSETS.len())];
        text += VOWELS[take(VOWELS.len())];
    }
    text += coda;
    text += " ";
    let mut bytes = [0; ROOM];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    Word { bytes, len: text.len() as u8 }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn text(word: Word) -> String {
        String::from_utf8(word.bytes[..usize::from(word.len)].to_vec()).expect("text")
    }

    #[test]
    fn words_differ_and_frequent_ones_are_short() {
        let words: Vec<String> = (0..WORDS).map(|rank| text(word(rank))).collect();
        assert_eq!(words.iter().collect::<HashSet<_>>().len(), WORDS);
        let is_word = |word: &String| word.trim_end().bytes().all(|byte| byte.is_ascii_lowercase());
        assert!(words.iter().all(|word| is_word(word) && word.ends_with(' ') && word.len() > 2));
        let mean = |words: &[String]| words.iter().map(String::len).sum::<usize>() / words.len();
        assert!(mean(&words[..256]) < mean(&words[256..4096]));
        assert!(mean(&words[256..4096]) < mean(&words[4096..]));
    }

    #[test]
    fn they_come_as_often_as_the_law_says() {
        let Words { drawn, .. } = Words::all();
        assert_eq!(drawn.len(), 1 << BITS);
        let mut times = vec![0_u32; WORDS];
        drawn.iter().for_each(|&rank| times[usize::from(rank)] += 1);
        assert!(times.iter().all(|&times| times > 0));
        let harmonic: f64 = (0..WORDS).map(|rank| 1.0 / (rank as f64 + 2.7)).sum();
        for (rank, &times) in times.iter().enumerate() {
            let expected = f64::from(1 << BITS) / (rank as f64 + 2.7) / harmonic;
            assert!((f64::from(times) - expected).abs() < 1.01, "rank {rank}: {times} and not {expected}");
        }
    }
}
