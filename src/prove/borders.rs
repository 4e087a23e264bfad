//! Ids at the places where the model begins to write.

use serde::Serialize;

use super::expected::Expected;
use super::spans::Ids;

/// How far text is looked at on each side of a border, in bytes.
const SIDE: usize = 64;

/// The borders between what a model reads and what it writes, and their ids with `border = "overlap"` and with
/// `border = "split"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Borders {
    /// How many there are.
    pub borders: u64,
    /// At how many of them both ways give other ids.
    pub differing: u64,
    /// How many ids the text around them has as one text: `border = "overlap"`.
    pub overlap: u64,
    /// How many it has if both sides are encoded apart: `border = "split"`.
    pub split: u64,
}

impl Borders {
    /// Counts the borders of one document. Special tokens separate texts anyway.
    pub(super) fn count(&mut self, expected: &Expected, ids: &Ids<'_>) {
        let text = &expected.text;
        for place in expected.turns.iter().filter(|turn| turn.parts.is_empty()).map(|turn| turn.start.end) {
            let before = &text[text.floor_char_boundary(place.saturating_sub(SIDE))..place];
            let behind = &text[place..text.ceil_char_boundary((place + SIDE).min(text.len()))];
            let special = || ids.special.values().map(|special| &*special.spelling);
            let end = special().filter_map(|special| Some(before.rfind(special)? + special.len())).max();
            let start = special().filter_map(|special| behind.find(special)).min();
            let (before, behind) = (&before[end.unwrap_or(0)..], &behind[..start.unwrap_or(behind.len())]);
            let encode = |text: &str| {
                let mut made = Vec::new();
                ids.tokenizer.encode(text, &mut made).map(|()| made)
            };
            let whole = encode(&[before, behind].concat());
            let (Ok(whole), Ok(before), Ok(behind)) = (whole, encode(before), encode(behind)) else {
                continue;
            };
            let apart = [before, behind].concat();
            self.borders += 1;
            self.differing += u64::from(whole != apart);
            self.overlap += whole.len() as u64;
            self.split += apart.len() as u64;
        }
    }
}
