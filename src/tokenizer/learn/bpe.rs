//! Byte-pair encoding: the most frequent pair of neighbouring tokens becomes a token, again and again
//! (Sennrich et al., 2016, <https://aclanthology.org/P16-1162>).
//!
//! Existing trainers keep several queue entries for one pair and count in 32 bits; which of two equal entries
//! they take depends on a hash table's seed. This one keeps a single count per pair, breaks ties by the
//! smaller ids, and never iterates a hash table.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// A pair that occurs once is typical of this sample and of no other text.
const LEAST: i64 = 2;

type Pair = (u32, u32);

pub(super) struct Learned {
    /// Every token's spelling, by id: the bytes, then one for each merge.
    pub(super) tokens: Vec<String>,
    /// The spellings of what each merge joins, first merge first.
    pub(super) merges: Vec<(String, String)>,
}

#[derive(Default)]
struct Occurrences {
    count: i64,
    /// The words that hold the pair, or once held it.
    words: Vec<u32>,
}

struct Word {
    tokens: Vec<u32>,
    count: i64,
}

/// Makes up to `merges` merges from `words` and how often each occurs. `bytes` spells the 256 bytes. No token
/// is spelled like one of `reserved`.
pub(super) fn learn(
    bytes: Vec<String>,
    words: Vec<(String, u64)>,
    merges: usize,
    reserved: &[String],
) -> Learned {
    let mut words: Vec<Word> = words
        .into_iter()
        .map(|(word, count)| Word {
            tokens: word.bytes().map(u32::from).collect(),
            count: i64::try_from(count).unwrap_or(i64::MAX),
        })
        .collect();
    let mut pairs: HashMap<Pair, Occurrences> = HashMap::new();
    for (i, word) in (0..).zip(&words) {
        for pair in word.tokens.windows(2) {
            add(&mut pairs, (pair[0], pair[1]), word.count, i);
        }
    }
    // Counts only fall once a pair's second token exists. So an entry that is too high is put back with its
    // true count, and a top entry that is true is the greatest.
    let mut queue: BinaryHeap<(i64, Reverse<Pair>)> =
        pairs.iter().map(|(&pair, found)| (found.count, Reverse(pair))).collect();

    let mut taken: HashSet<String> = reserved.iter().cloned().collect();
    let mut learned = Learned { tokens: bytes, merges: Vec::new() };
    while learned.merges.len() < merges
        && let Some((count, Reverse(pair))) = queue.pop()
    {
        let Entry::Occupied(found) = pairs.entry(pair) else { continue };
        let now = found.get().count;
        if now < LEAST {
            found.remove();
            continue;
        }
        if now != count {
            queue.push((now, Reverse(pair)));
            continue;
        }
        let found = found.remove();
        let (left, right) = (&learned.tokens[pair.0 as usize], &learned.tokens[pair.1 as usize]);
        let spelling = format!("{left}{right}");
        // Two merges to the same spelling would need two ids. So the pair stays two tokens, in the file too.
        if !taken.insert(spelling.clone()) {
            continue;
        }
        learned.merges.push((left.clone(), right.clone()));
        let new = u32::try_from(learned.tokens.len()).unwrap_or(u32::MAX);
        learned.tokens.push(spelling);

        let mut fresh = Vec::new();
        for i in found.words {
            let word = &mut words[i as usize];
            let count = word.count;
            merge(&mut word.tokens, pair, new, |pair, change| {
                if change > 0 {
                    if add(&mut pairs, pair, count, i) {
                        fresh.push(pair);
                    }
                } else if let Some(found) = pairs.get_mut(&pair) {
                    found.count -= count;
                }
            });
        }
        queue.extend(fresh.into_iter().map(|pair| (pairs[&pair].count, Reverse(pair))));
    }
    learned
}

/// Counts `pair` in word `word`. Returns whether the pair is new.
fn add(pairs: &mut HashMap<Pair, Occurrences>, pair: Pair, count: i64, word: u32) -> bool {
    let found = pairs.entry(pair).or_default();
    let new = found.words.is_empty();
    found.count = found.count.saturating_add(count);
    if found.words.last() != Some(&word) {
        found.words.push(word);
    }
    new
}

/// Replaces every `pair` in `tokens` by `new`, from the left. Reports each neighbouring pair that goes (-1)
/// or comes (+1), except `pair` itself.
fn merge(tokens: &mut Vec<u32>, pair: Pair, new: u32, mut change: impl FnMut(Pair, i8)) {
    let (mut read, mut write) = (0, 0);
    while read < tokens.len() {
        let next = tokens.get(read + 1).copied();
        if tokens[read] != pair.0 || next != Some(pair.1) {
            tokens[write] = tokens[read];
            (read, write) = (read + 1, write + 1);
            continue;
        }
        if write > 0 {
            let before = tokens[write - 1];
            change((before, pair.0), -1);
            change((before, new), 1);
        }
        if let Some(&after) = tokens.get(read + 2) {
            change((pair.1, after), -1);
            change((new, after), 1);
        }
        tokens[write] = new;
        (read, write) = (read + 2, write + 1);
    }
    tokens.truncate(write);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merges(words: &[(&str, u64)], most: usize, reserved: &[&str]) -> Vec<String> {
        let bytes = (0..=255_u8).map(|b| char::from(b).to_string()).collect();
        let words = words.iter().map(|(word, count)| (word.to_string(), *count)).collect();
        let reserved: Vec<String> = reserved.iter().map(ToString::to_string).collect();
        let learned = learn(bytes, words, most, &reserved);
        assert_eq!(learned.tokens.len(), 256 + learned.merges.len());
        learned.merges.into_iter().map(|(a, b)| format!("{a}+{b}")).collect()
    }

    #[test]
    fn the_most_frequent_pair_first_and_the_smaller_ids_at_a_tie() {
        // Sennrich's own example, without its end-of-word sign.
        let words = [("low", 5), ("lower", 2), ("newest", 6), ("widest", 3)];
        assert_eq!(merges(&words, 7, &[]), ["e+s", "es+t", "l+o", "lo+w", "e+w", "n+ew", "new+est"]);
    }

    #[test]
    fn pairs_that_occur_once_are_not_learned() {
        assert_eq!(merges(&[("abc", 1), ("bcd", 1)], 9, &[]), ["b+c"]);
    }

    #[test]
    fn reserved_spellings_are_not_made() {
        assert_eq!(merges(&[("eos", 9)], 9, &["eos"]), ["e+o"]);
    }

    /// The counts of the pairs in all words must stay true after any merge.
    #[test]
    fn changes_keep_the_counts_true() {
        for text in ["aaaa", "aaaaa", "abab", "ababa", "aabaab", "xabyabz", "abba"] {
            for pair in [(97, 97), (97, 98), (98, 97)] {
                let mut tokens: Vec<u32> = text.bytes().map(u32::from).collect();
                let mut counts: HashMap<Pair, i64> = HashMap::new();
                tokens.windows(2).for_each(|p| *counts.entry((p[0], p[1])).or_default() += 1);
                merge(&mut tokens, pair, 256, |pair, change| {
                    *counts.entry(pair).or_default() += i64::from(change);
                });
                for p in tokens.windows(2) {
                    *counts.entry((p[0], p[1])).or_default() -= 1;
                }
                counts.remove(&pair);
                assert!(counts.values().all(|&left| left == 0), "{text} {pair:?}: {counts:?}");
            }
        }
    }
}
