//! The tests that a fast engine must pass before it runs.
//!
//! The probes aim at known and possible mistakes of the engine: how runs of digits, white space and punctuation are
//! cut, contractions, the class of a character, special tokens, normalizers. A character class of a pattern shows in
//! where the pattern cuts, so characters stand between letters, digits, spaces and themselves. A cut shows only where a
//! token would reach across it. So the vocabulary's own tokens stand beside each other, and the numbers of four digits
//! hold each token of two or three digits at every place in a run. The probes take the reference a tenth of a second.

use super::candidate::Candidate;
use super::caught::caught;
use super::reference::{Reference, Refusal};
use super::unassigned;

mod pieces;

use pieces::{PIECES, RECENT};

/// How many added tokens are probed. Files with thousands of them number reserved ones.
const ADDED: usize = 512;

/// How many tokens of the vocabulary are probed.
const WORDS: usize = 3000;

/// The texts that both engines must give equal ids for; `added` are the added tokens, `words` what the vocabulary's
/// tokens spell. They have no characters that are for the reference alone.
pub(super) fn probes(added: &[String], words: &[String]) -> Vec<String> {
    let mut probes = vec![String::new()];
    for piece in PIECES {
        probes.push((*piece).to_owned());
        probes.push(around(piece));
    }
    for digit in ['7', '٣', '९', '０', '𝟙'] {
        for len in 1..=8 {
            let run = String::from_iter(std::iter::repeat_n(digit, len));
            probes.push(run.clone());
            probes.push(format!("a{run}b {run} -{run}.{run}\n{run}"));
        }
    }
    let numbers: Vec<String> = (0..10_000).map(|number| format!("{number:04}")).collect();
    probes.extend(numbers.chunks(500).map(|some| some.join(" ")));
    probes.extend(numbers.chunks(500).step_by(4).map(|some| some.concat()));
    probes.extend(beside(words));
    for token in added.iter().take(ADDED) {
        probes.push(token.clone());
        probes.push(around(token));
        probes.push(format!("{token} {token}\n{} {}", token.to_lowercase(), token.to_uppercase()));
    }
    for run in ["a", "A", " ", "\n", "-", "é", "語", "9", "aB1_"] {
        probes.push(run.repeat(600));
    }
    probes.push(mixture(added));
    // Every 61st character of the planes that have any, and every one of the recent blocks.
    let spread = (0..0x323b0).step_by(61).chain((0..0x2000).step_by(3));
    let recent = RECENT.iter().flat_map(|&(first, last)| first..=last);
    let classes: Vec<char> = spread.chain(recent).filter_map(char::from_u32).collect();
    probes.extend(
        classes.chunks(64).map(|chars| chars.iter().map(|c| format!("a{c}B1{c}{c}.{c} {c}\n")).collect()),
    );
    probes.into_iter().map(|probe| unassigned::without(&probe)).collect()
}

/// Puts tokens of a vocabulary beside themselves and others. First come those that are not letters alone,
/// which patterns cut through most, then as many of the rest as there is room for, from all over the
/// vocabulary.
fn beside(words: &[String]) -> impl Iterator<Item = String> {
    let is_plain =
        |word: &&String| word.trim_start_matches(' ').bytes().all(|byte| byte.is_ascii_alphabetic());
    let (plain, others): (Vec<_>, Vec<_>) = words.iter().partition(is_plain);
    let spread = |words: Vec<&String>, most: usize| {
        let step = words.len().div_ceil(most.max(1)).max(1);
        words.into_iter().step_by(step).cloned().collect::<Vec<_>>()
    };
    let mut some = spread(others, WORDS * 2 / 3);
    some.extend(spread(plain, WORDS - some.len()));
    let last = some.last().cloned().unwrap_or_default();
    let pairs: Vec<String> = some
        .iter()
        .scan(last, |before, word| Some((std::mem::replace(before, word.clone()), word)))
        .map(|(before, word)| format!("{before}{word}{word} {word}.{word}\n"))
        .collect();
    pairs.chunks(64).map(<[_]>::concat).collect::<Vec<_>>().into_iter()
}

fn around(piece: &str) -> String {
    format!("a{piece}b {piece} 1{piece}2 .{piece}. {piece}{piece}\n{piece}X {piece}x\n{piece}")
}

/// Pieces, digits and added tokens one after the other, in a fixed pseudo-random order.
fn mixture(added: &[String]) -> String {
    let extra = ["a", "Z", "word", "42", "1234567", "x1", "."];
    let all: Vec<&str> =
        PIECES.iter().copied().chain(extra).chain(added.iter().take(ADDED).map(String::as_str)).collect();
    let mut state = 1_u64;
    let mut text = String::new();
    for _ in 0..6_000 {
        // Knuth's MMIX generator; its high bits are the good ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(all[(state >> 33) as usize % all.len()]);
    }
    text
}

/// Returns the first `bytes` bytes of texts. The last text is cut at a character.
pub(super) fn first<S: AsRef<str>>(
    texts: impl IntoIterator<Item = S>,
    bytes: usize,
) -> impl Iterator<Item = String> {
    let mut left = bytes;
    let mut texts = texts.into_iter();
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let text = texts.next()?;
        let whole = text.as_ref();
        let part = &whole[..whole.floor_char_boundary(left)];
        left = if part.len() < whole.len() { 0 } else { left - part.len() };
        Some(part.to_owned())
    })
}

/// Returns the engines that give the reference's ids for all `texts`, in their order. If none does, returns the mistake
/// of the last one. It reads no further than the last engine gets. Texts that always go to the reference are passed
/// over.
pub(super) fn admit<S: AsRef<str>>(
    name: &str,
    mut engines: Vec<Candidate>,
    reference: &Reference,
    texts: impl IntoIterator<Item = S>,
) -> Result<Vec<Candidate>, String> {
    let mut reason = String::new();
    for text in texts {
        if unassigned::has_any(text.as_ref()) {
            continue;
        }
        let right = Right::encode(reference, text.as_ref());
        engines.retain(|engine| match right.compare(engine, text.as_ref()) {
            Ok(()) => true,
            Err(difference) => {
                let engine = engine.engine().to_string();
                tracing::warn!(
                    tokenizer = name,
                    engine,
                    difference,
                    "this engine differs from the reference"
                );
                reason = difference;
                false
            }
        });
        if engines.is_empty() {
            return Err(reason);
        }
    }
    Ok(engines)
}

/// The reference's result for a text: the correct one.
pub(super) struct Right<'a> {
    reference: &'a Reference,
    pub(super) ids: Result<Vec<u32>, Refusal>,
}

impl<'a> Right<'a> {
    pub(super) fn encode(reference: &'a Reference, text: &str) -> Self {
        let mut ids = Vec::new();
        let ids = caught(|| reference.encode(text, &mut ids)).map(|()| ids);
        Self { reference, ids }
    }

    /// Checks that an engine gives the same result, or returns the difference.
    fn compare(&self, engine: &Candidate, text: &str) -> Result<(), String> {
        let mut ours = Vec::new();
        let ran = caught(|| engine.encode(text, &mut ours));
        match (ran, &self.ids) {
            (Ok(()), Ok(right)) if ours == *right => Ok(()),
            // If both refuse a text, it is refused either way. If the reference gives up on it, the right ids are
            // unknown.
            (Err(_), Err(_)) | (_, Err(Refusal::GaveUp(_))) => Ok(()),
            (Ok(()), Ok(right)) => {
                let at = first_difference(&ours, right);
                let near = |ids: &[u32]| ids[at.saturating_sub(2)..ids.len().min(at + 6)].to_vec();
                Err(format!(
                    "near {:?} the fast engine gives the ids {:?}, the reference {:?}",
                    excerpt(&self.reference.decode(&near(right)).unwrap_or_default()),
                    near(&ours),
                    near(right),
                ))
            }
            (Err(e), Ok(_)) => Err(format!("the fast engine fails on {:?}: {e}", excerpt(text))),
            (Ok(()), Err(e)) => Err(format!("the reference fails on {:?}: {e}", excerpt(text))),
        }
    }
}

/// How many ids are equal before the first that is not.
pub(super) fn first_difference(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn excerpt(text: &str) -> &str {
    &text[..text.floor_char_boundary(60)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_hold_what_they_promise() {
        let words = ["mill", "12", "'re", "\n\n", "e\u{301}"].map(str::to_owned);
        let probes = probes(&["<|mine|>".to_owned()], &words);
        assert!(probes.iter().any(String::is_empty));
        for part in [
            "a<|mine|>b", "a77777777b", "\r\n", "\u{a0}", "👩‍👩‍👧‍👦", "'RE", "\u{1c89}", "a\u{301}b", "9731 9732",
            "80018002", "mill12", "1212 12.12", "'re\n\n",
        ] {
            assert!(probes.iter().any(|probe| probe.contains(part)), "{part:?}");
        }
        let vocabulary: Vec<String> = (0..100_000).map(|n| format!(" token{n}")).collect();
        let bytes: usize = super::probes(&[], &vocabulary).iter().map(String::len).sum();
        assert!(bytes < 768 << 10, "{bytes} bytes are too many for a load");
    }
}
