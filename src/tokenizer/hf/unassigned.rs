//! Characters that the reference does not know yet.
//!
//! Each version of Unicode assigns some thousand characters: an unassigned character becomes a letter, a digit or a
//! mark, and patterns cut around it differently. The engines follow different versions. So a text with a character that
//! the reference's version does not assign goes to the reference, whichever engine runs. The reference's normalizers
//! follow a still older version than its patterns, so texts with characters that they do not know go to it too.

use std::sync::LazyLock;

use regex_syntax::hir::{Class, HirKind};

mod normalizers;

/// How many bytes are looked at together.
const BLOCK: usize = 64;

/// A bit for each character.
static UNASSIGNED: LazyLock<Box<[u64]>> = LazyLock::new(|| {
    let mut bits = vec![0_u64; (char::MAX as usize + 1) / 64].into_boxed_slice();
    // The tables that the reference's patterns are compiled with.
    let parsed = regex_syntax::parse(r"\p{Cn}").map(regex_syntax::hir::Hir::into_kind);
    if let Ok(HirKind::Class(Class::Unicode(class))) = parsed {
        for character in class.iter().flat_map(|range| u32::from(range.start())..=u32::from(range.end())) {
            set(&mut bits, character);
        }
    }
    for character in normalizers::RANGES.iter().flat_map(|&(first, last)| first..=last) {
        set(&mut bits, character);
    }
    bits
});

/// Whether a text has a character that the reference's patterns or normalizers do not know.
#[inline]
pub(super) fn has_any(text: &str) -> bool {
    !text.is_ascii() && has_any_beyond_ascii(text)
}

fn has_any_beyond_ascii(mut text: &str) -> bool {
    let unassigned = &**UNASSIGNED;
    loop {
        let ascii = text.as_bytes().chunks(BLOCK).take_while(|block| block.is_ascii()).map(<[u8]>::len).sum();
        text = &text[ascii..];
        let mut characters = text.char_indices();
        loop {
            match characters.next() {
                None => return false,
                Some((_, character)) if is_in(unassigned, character) => return true,
                Some((at, _)) if at >= BLOCK => {
                    text = &text[at..];
                    break;
                }
                Some(_) => {}
            }
        }
    }
}

/// The text without such characters.
pub(super) fn without(text: &str) -> String {
    text.chars().filter(|character| !is_in(&UNASSIGNED, *character)).collect()
}

fn set(bits: &mut [u64], character: u32) {
    bits[character as usize / 64] |= 1 << (character % 64);
}

fn is_in(bits: &[u64], character: char) -> bool {
    let number = character as usize;
    bits[number / 64] >> (number % 64) & 1 == 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_the_reference_knows_is_assigned() {
        // Tolong Siki, of Unicode 17; reserved; a noncharacter.
        for character in ['\u{11db3}', '\u{378}', '\u{ffff}'] {
            assert!(has_any(&format!("a{character}")), "{character:?}");
        }
        // Garay, of Unicode 16; private use.
        for character in ['a', 'é', '語', '😀', '\u{10d40}', '\u{e000}', '\0'] {
            assert!(!has_any(&character.to_string()), "{character:?}");
        }
    }

    /// The regex engine that cuts the reference's words, fancy-regex, agrees.
    #[test]
    fn the_references_patterns_agree() {
        let class = fancy_regex::Regex::new(r"^\p{Cn}$").expect("a pattern");
        let some = (0..=char::MAX as u32).step_by(7).filter_map(char::from_u32);
        for character in some {
            let is_matched = class.is_match(&character.to_string()).expect("it ends");
            let number = u32::from(character);
            let is_new = normalizers::RANGES.iter().any(|&(first, last)| (first..=last).contains(&number));
            assert_eq!(is_in(&UNASSIGNED, character), is_matched || is_new, "{character:?}");
        }
    }

    proptest! {
        #[test]
        fn it_is_found_wherever_it_stands(before in "[a-z語é]{0,200}", after in "[a-z語é]{0,200}") {
            let rest = before.clone() + &after;
            prop_assert!(!has_any(&rest));
            let text = format!("{before}\u{11db3}{after}");
            prop_assert!(has_any(&text));
            prop_assert_eq!(without(&text), rest);
        }
    }
}
