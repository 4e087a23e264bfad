//! The text of a template, before minijinja reads it.
//!
//! minijinja does not know `{% generation %}`, and takes some texts that Jinja refuses: those whose tags are not
//! closed.

use minijinja::Error;

use super::operators::GENERATION;
use super::{MARKS, fail};

/// The longest template, in bytes. Those of real models have 40 KB.
const LONGEST: usize = 256 << 10;
/// The longest tag, in bytes: minijinja reads `a + a + …` into a tree that is as deep.
const LONGEST_TAG: usize = 16 << 10;
/// The most branches of all conditions, which it nests.
const MOST_BRANCHES: usize = 4096;

/// The text as minijinja takes it, with generation blocks as blocks of the filter [`GENERATION`].
pub(super) fn prepare(source: &str) -> Result<String, Error> {
    if source.len() > LONGEST {
        return fail(format!("the template is longer than {} KiB", LONGEST >> 10));
    }
    if source.contains(MARKS) {
        return fail("the template has a character that is none: U+10FFFE or U+10FFFF");
    }
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let (mut out, mut rest) = (String::with_capacity(source.len()), &*source);
    let mut tags = Tags::default();
    loop {
        let begins = |at: &usize| rest[at + 1..].starts_with(['{', '%', '#']);
        let Some(start) = memchr::memchr_iter(b'{', rest.as_bytes()).find(begins) else { break };
        let (text, tag) = rest.split_at(start);
        out.push_str(text);
        let end = match tag.as_bytes()[1] {
            b'#' => tag.get(2..).and_then(|comment| comment.find("#}")).map(|end| end + 4),
            b'%' => tag_length(tag, "%}")?,
            _ => tag_length(tag, "}}")?,
        };
        let Some(end) = end else { return fail("a tag or a comment is not closed") };
        let (tag, after) = tag.split_at(end);
        if let Some(body) = tag.strip_prefix("{%") {
            let body = body.trim_start_matches(['-', '+']).trim_start();
            let is_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
            let (word, body) = body.split_at(body.find(|char| !is_word(char)).unwrap_or(body.len()));
            out.push_str(&tag[..tag.len() - word.len() - body.len()]);
            match tags.next(word, body)? {
                Some(instead) => out.push_str(&instead),
                None => out.push_str(word),
            }
            out.push_str(body);
        } else {
            out.push_str(tag);
        }
        rest = after;
    }
    out.push_str(rest);
    match tags.open.pop() {
        None => Ok(out),
        Some(tag) => fail(format!("`{{% {tag} %}}` is not closed")),
    }
}

#[derive(Default)]
struct Tags<'a> {
    /// The tags that are to be closed.
    open: Vec<&'a str>,
    branches: usize,
}

impl<'a> Tags<'a> {
    /// Takes the tag `word`, which `body` follows. Says what stands for the word.
    fn next(&mut self, word: &'a str, body: &str) -> Result<Option<String>, Error> {
        match word {
            "generation" => {
                self.open.push(word);
                return Ok(Some(format!("filter {GENERATION}")));
            }
            "if" | "for" | "macro" | "call" | "filter" | "with" => self.open.push(word),
            "set" => {
                // Behind the names, a block has no `=`.
                let names = |char: char| char.is_alphanumeric() || " \t\n_.,()".contains(char);
                if !body.trim_start_matches(names).starts_with('=') {
                    self.open.push(word);
                }
            }
            "elif" | "else" => {
                self.branches += 1;
                if self.branches > MOST_BRANCHES {
                    return fail(format!("the template has more than {MOST_BRANCHES} branches"));
                }
            }
            // minijinja would leave open what it jumps out of.
            "break" | "continue" => {
                let mut left = self.open.iter().rev().take_while(|tag| **tag != "for");
                if let Some(tag) = left.find(|tag| **tag != "if") {
                    return fail(format!("`{{% {word} %}}` cannot leave `{{% {tag} %}}`"));
                }
            }
            _ => match (word.strip_prefix("end"), self.open.last().copied()) {
                (Some(ended), Some(open)) if ended == open => {
                    self.open.pop();
                    return Ok((word == "endgeneration").then(|| "endfilter".to_owned()));
                }
                (Some(_), Some(open)) => {
                    return fail(format!("`{{% {word} %}}` stands where `{{% end{open} %}}` is expected"));
                }
                (Some(_), None) => return fail(format!("`{{% {word} %}}` closes nothing")),
                (None, _) => return fail(format!("unknown tag `{word}`")),
            },
        }
        Ok(None)
    }
}

/// The length of the tag at the beginning of a text, which ends with `end` outside strings and brackets.
fn tag_length(text: &str, end: &str) -> Result<Option<usize>, Error> {
    let bytes = text.as_bytes();
    let mut open = 0_usize;
    let mut at = 2;
    while let Some(&byte) = bytes.get(at) {
        if at > LONGEST_TAG {
            return fail(format!("a tag is longer than {} KiB", LONGEST_TAG >> 10));
        }
        if open == 0 && bytes[at..].starts_with(end.as_bytes()) {
            return Ok(Some(at + 2));
        }
        match byte {
            b'"' | b'\'' => {
                at += 1;
                while bytes.get(at).is_some_and(|next| *next != byte) {
                    let escape = bytes.get(at + 1).filter(|_| bytes[at] == b'\\');
                    // minijinja reads these otherwise than Python.
                    if let Some(char @ (b'/' | b'a' | b'v' | b'N' | b'U' | b'\n')) = escape {
                        return fail(format!("unknown escape `\\{}` in a string", char.escape_ascii()));
                    }
                    at += if escape.is_some() { 2 } else { 1 };
                }
            }
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    Ok(None)
}
