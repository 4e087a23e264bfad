//! The patterns and special tokens that are published with tiktoken, next to the ranks
//! (<https://github.com/openai/tiktoken/blob/main/tiktoken_ext/openai_public.py>).
//!
//! They are spelled as they were when the encodings came out, and as in Hugging Face's files: the fast engine
//! knows them by their spelling.

use crate::error::{Error, Result};
use crate::tokenizer::END_OF_TEXT;

/// The pattern of GPT-2.
pub(in crate::tokenizer) const GPT2: &str =
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

/// The pattern of GPT-3.5 and GPT-4.
pub(in crate::tokenizer) const CL100K: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The pattern of GPT-4o.
const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const PREFIX: &str = "<|fim_prefix|>";
const MIDDLE: &str = "<|fim_middle|>";
const SUFFIX: &str = "<|fim_suffix|>";
const END_OF_PROMPT: &str = "<|endofprompt|>";

/// Special tokens and their ids.
type Special = &'static [(&'static str, u32)];

const PUBLISHED: &[(&str, &str, Special)] = &[
    ("gpt2", GPT2, &[(END_OF_TEXT, 50256)]),
    ("r50k_base", GPT2, &[(END_OF_TEXT, 50256)]),
    ("p50k_base", GPT2, &[(END_OF_TEXT, 50256)]),
    ("p50k_edit", GPT2, &[(END_OF_TEXT, 50256), (PREFIX, 50281), (MIDDLE, 50282), (SUFFIX, 50283)]),
    (
        "cl100k_base",
        CL100K,
        &[
            (END_OF_TEXT, 100257),
            (PREFIX, 100258),
            (MIDDLE, 100259),
            (SUFFIX, 100260),
            (END_OF_PROMPT, 100276),
        ],
    ),
    ("o200k_base", O200K, &[(END_OF_TEXT, 199999), (END_OF_PROMPT, 200018)]),
];

/// Returns the pattern that a config's `pattern` stands for, and its special tokens if it is a name.
pub(super) fn published(pattern: &str) -> Result<(&str, Special)> {
    if let Some((_, pattern, special)) = PUBLISHED.iter().find(|(name, ..)| *name == pattern) {
        return Ok((pattern, special));
    }
    // A regex without any regex syntax would find only its own letters in the text.
    if pattern.chars().all(|c| c.is_ascii_alphanumeric() || "_-. ".contains(c)) {
        let names: Vec<&str> = PUBLISHED.iter().map(|(name, ..)| *name).collect();
        let problem = format!("{pattern:?} is neither a known name ({}) nor a regex", names.join(", "));
        return Err(Error::config("tokenizer.pattern", problem));
    }
    Ok((pattern, &[]))
}

#[cfg(test)]
mod tests {
    use fancy_regex::Regex;

    use super::*;

    /// The pattern of tiktoken 0.14 in place of [`GPT2`].
    const NOW_GPT2: &str = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s";

    /// The pattern of tiktoken 0.14 in place of [`CL100K`].
    const NOW_CL100K: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s";

    /// One character of each class that the patterns tell apart. `v` stands for `r` too, and `s` for `d`, `m` and `t`.
    const CLASSES: [char; 10] = ['\'', 's', 'l', 'v', 'e', '1', ' ', '\n', '\t', '!'];

    const LONGEST: u32 = 6;

    fn texts() -> impl Iterator<Item = String> {
        (0..=LONGEST).flat_map(|len| {
            (0..CLASSES.len().pow(len)).map(move |number| {
                (0..len).map(|at| CLASSES[number / CLASSES.len().pow(at) % CLASSES.len()]).collect()
            })
        })
    }

    fn cuts<'a>(pattern: &Regex, text: &'a str) -> Vec<&'a str> {
        pattern.find_iter(text).map(|word| word.expect("it ends").as_str()).collect()
    }

    /// Whether the white space at the end of a text goes on after its last line end: there cl100k's patterns differ.
    fn ends_beyond_a_line(text: &str) -> bool {
        let end = &text[text.trim_end().len()..];
        end.contains('\n') && !end.ends_with('\n')
    }

    #[test]
    fn tiktokens_own_patterns_cut_alike() {
        for (ours, theirs, differs) in
            [(GPT2, NOW_GPT2, (|_| false) as fn(&str) -> bool), (CL100K, NOW_CL100K, ends_beyond_a_line)]
        {
            let (ours, theirs) =
                (Regex::new(ours).expect("a pattern"), Regex::new(theirs).expect("a pattern"));
            for text in texts().filter(|text| !differs(text)) {
                assert_eq!(cuts(&ours, &text), cuts(&theirs, &text), "{text:?}");
            }
        }
        let (ours, theirs) =
            (Regex::new(CL100K).expect("a pattern"), Regex::new(NOW_CL100K).expect("a pattern"));
        assert_ne!(cuts(&ours, "a\n "), cuts(&theirs, "a\n "));
        // Alike for both: the letters that `v` and `s` stand for, and other cases.
        for text in ["it'll I'd 'm 't 're 'RE 'S 'Ll'VE", "\u{17f}'\u{17f} a\r\n\r\n b\u{a0}\u{3000}c 1234 ½"]
        {
            assert_eq!(cuts(&ours, text), cuts(&theirs, text));
        }
    }
}
