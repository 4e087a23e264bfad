//! What the fast engine must get right before it runs.
//!
//! The probes aim at what it has been seen to get wrong, or could: how runs of digits, white space and
//! punctuation are cut, contractions, which class a character has, special tokens, normalizers. Every
//! character class of a pattern shows in where it cuts, so characters stand between letters, digits,
//! spaces and themselves. They take the reference some tens of milliseconds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::fast::Fast;
use super::reference::Reference;
use crate::error::panic_message;

/// How many added tokens are probed; files with thousands reserve them by number.
const ADDED: usize = 512;

/// Each stands alone, between others, and in the mixture.
const PIECES: &[&str] = &[
    // White space of every kind, alone and in runs.
    " ",
    "  ",
    "   ",
    "        ",
    "\t",
    "\t\t",
    "\n",
    "\n\n",
    "\n\n\n",
    "\r",
    "\r\n",
    "\r\n\r\n",
    " \n",
    "\n ",
    " \t",
    "\t ",
    " \r\n ",
    "\n    ",
    "\n\t\t",
    "\u{a0}",
    "\u{a0}\u{a0}",
    " \u{a0}",
    "\u{a0} ",
    "\u{2003}",
    "\u{2003} ",
    "\u{3000}",
    "\u{3000}\u{3000}",
    "\u{2028}",
    "\u{2029}",
    "\u{85}",
    "\u{b}",
    "\u{c}",
    "\u{1680}",
    "\u{200b}",
    "\u{feff}",
    "\u{180e}",
    // Contractions in every case, with the typographic apostrophe, and their lookalikes.
    "'s",
    "'t",
    "'re",
    "'ve",
    "'m",
    "'ll",
    "'d",
    "'S",
    "'T",
    "'RE",
    "'VE",
    "'M",
    "'LL",
    "'D",
    "'Re",
    "'lL",
    "'",
    "''",
    "'x",
    "'\u{17f}",
    "\u{2019}s",
    "\u{2019}re",
    " 's",
    "I'm",
    "we'll've",
    "DON'T",
    "O'Neil's",
    "'sa",
    "'tis",
    // Words in several scripts; cases that change length; combining marks; right to left.
    "the",
    "The",
    "THE",
    "camelCase",
    "HTTPServer",
    "snake_case",
    "ß",
    "ẞ",
    "İ",
    "ı",
    "ǅ",
    "ﬁ",
    "naïve",
    "nai\u{308}ve",
    "e\u{301}\u{302}",
    "\u{301}",
    "\u{301}a",
    "Ω",
    "ώρα",
    "Привет",
    "שלום",
    "שָׁלוֹם",
    "مرحبا",
    "हिन्दी",
    "ไทยคำ",
    "မြန်မာ",
    "한국어",
    "\u{1112}\u{1161}\u{11ab}",
    "日本語",
    "ひらがなカタカナー",
    "中文字符",
    "々",
    "〇",
    "Å",
    "𝒜𝓃",
    "𐐷",
    "ʰ",
    "ª",
    "ℵ",
    "ⅷ",
    // Digits: other scripts, other numbers.
    "٣",
    "٤٥٦",
    "९८७६",
    "一二三",
    "½",
    "²³",
    "①②",
    "Ⅻ",
    "𝟘𝟙𝟚𝟛",
    "０１２３",
    "3.14159",
    "1,000,000",
    "0x1F",
    "1e-9",
    // Emoji: joiners, skin tones, flags, keycaps.
    "😀",
    "😀😀",
    "👩‍👩‍👧‍👦",
    "👍🏽",
    "🇩🇪🇫🇷",
    "1️⃣",
    "❤️",
    "🏴󠁧󠁢󠁳󠁣󠁴󠁿",
    // Control characters, unassigned and private ones.
    "\0",
    "\0\0",
    "\u{1}",
    "\u{7}",
    "\u{8}",
    "\u{1b}[0m",
    "\u{7f}",
    "\u{9f}",
    "\u{ad}",
    "\u{200d}",
    "\u{200e}",
    "\u{202e}",
    "\u{fffd}",
    "\u{ffff}",
    "\u{e000}",
    "\u{10ffff}",
    "\u{378}",
    // Punctuation, in runs and beside line ends and slashes.
    ".",
    "...",
    "!?",
    "--",
    "----------------",
    "==",
    "//",
    "///",
    "/*",
    "*/",
    "</",
    "/>",
    "{}",
    "}}",
    "});\n",
    ");\r\n",
    "\"\"\"",
    "```",
    "::",
    "->",
    "=>",
    "&&",
    "||",
    "#![",
    "@",
    "$",
    "€",
    "°",
    "±",
    "«",
    "»",
    "—",
    "…",
    "、",
    "。",
    "?/\n",
    "_",
    "__",
    "___init___",
    // What a text that imitates special tokens holds.
    "<|endoftext|>",
    "<|im_start|>",
    "<s>",
    "</s>",
    "[CLS]",
    "[SEP]",
    "<unk>",
    "<0x0A>",
    "▁",
    "▁▁",
    "Ġ",
    "Ċ",
    "##ing",
];

/// The blocks in which recent versions of Unicode assigned characters, first and last.
const RECENT: &[(u32, u32)] = &[
    (0x0870, 0x08ff),
    (0x0c5c, 0x0cf3),
    (0x1acf, 0x1aee),
    (0x1c80, 0x1c8f),
    (0x20bf, 0x20c1),
    (0x2427, 0x2429),
    (0x2ffc, 0x2fff),
    (0x31e4, 0x31ef),
    (0xa7c0, 0xa7ff),
    (0x105c0, 0x105f3),
    (0x10940, 0x1095f),
    (0x10d40, 0x10d8f),
    (0x10ec2, 0x10ec7),
    (0x11380, 0x113e2),
    (0x116d0, 0x116e3),
    (0x11b60, 0x11b67),
    (0x11bc0, 0x11bf9),
    (0x11db0, 0x11de9),
    (0x13460, 0x1347f),
    (0x16100, 0x16139),
    (0x16d40, 0x16d79),
    (0x16ea0, 0x16ed3),
    (0x18cff, 0x18d1e),
    (0x1cc00, 0x1cc0f),
    (0x1cebb, 0x1cef0),
    (0x1e5d0, 0x1e5ff),
    (0x1e6c0, 0x1e6ff),
    (0x1fa70, 0x1faff),
    (0x2ebf0, 0x2ebff),
    (0x323b0, 0x323bf),
];

/// The texts that both engines must give equal ids for.
pub(super) fn probes(added: &[String]) -> Vec<String> {
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
    probes
}

fn around(piece: &str) -> String {
    format!("a{piece}b {piece} 1{piece}2 .{piece}. {piece}{piece}\n{piece}X {piece}x\n{piece}")
}

/// Pieces, digits and added tokens one after the other in a fixed order without a pattern.
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

/// That both engines give equal ids for `text`, or what differs.
pub(super) fn compare(fast: &Fast, reference: &Reference, text: &str) -> Result<(), String> {
    let (mut ours, mut right) = (Vec::new(), Vec::new());
    let ran = caught(|| fast.encode(text, &mut ours));
    let ran_right = caught(|| reference.encode(text, &mut right));
    match (ran, ran_right) {
        (Ok(()), Ok(())) if ours == right => Ok(()),
        // A text that both refuse is refused either way.
        (Err(_), Err(_)) => Ok(()),
        (Ok(()), Ok(())) => {
            let at = ours.iter().zip(&right).take_while(|(a, b)| a == b).count();
            let near = |ids: &[u32]| ids[at.saturating_sub(2)..ids.len().min(at + 6)].to_vec();
            Err(format!(
                "near {:?} the fast engine gives the ids {:?}, the reference {:?}",
                excerpt(&reference.decode(&near(&right))),
                near(&ours),
                near(&right),
            ))
        }
        (Err(e), Ok(())) => Err(format!("the fast engine fails on {:?}: {e}", excerpt(text))),
        (Ok(()), Err(e)) => Err(format!("the reference fails on {:?}: {e}", excerpt(text))),
    }
}

/// What an engine does; a panic is a refusal too.
pub(super) fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|payload| Err(format!("it panicked: {}", panic_message(&*payload))))
}

fn excerpt(text: &str) -> &str {
    &text[..text.floor_char_boundary(60)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_hold_what_they_promise() {
        let probes = probes(&["<|mine|>".to_owned()]);
        assert!(probes.iter().any(String::is_empty));
        for part in ["a<|mine|>b", "a77777777b", "\r\n", "\u{a0}", "👩‍👩‍👧‍👦", "'RE", "\u{1c89}", "a\u{301}b"]
        {
            assert!(probes.iter().any(|probe| probe.contains(part)), "{part:?}");
        }
        let bytes: usize = probes.iter().map(String::len).sum();
        assert!(bytes < 512 << 10, "{bytes} bytes are too many for a load");
    }
}
