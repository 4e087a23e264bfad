//! The text of a template, before minijinja reads it.
//!
//! minijinja does not know `{% generation %}`, and takes some texts that Jinja refuses: those whose tags are not
//! closed.

use super::program::GENERATION;
use super::{MARKS, fail};
use minijinja::Error;

/// The longest template, in bytes. Those of real models have 20 KB.
const LONGEST: usize = 256 << 10;
/// The longest tag, in bytes: minijinja reads `a + a + …` into a tree that is as deep.
const LONGEST_TAG: usize = 16 << 10;
/// The most branches of all conditions, which it nests.
const MOST_BRANCHES: usize = 4096;

/// The text as minijinja takes it, with generation blocks as scopes that [`GENERATION`] names.
pub(super) fn prepare(source: &str) -> Result<String, Error> {
    if source.len() > LONGEST {
        return fail(format!("the template is longer than {} KiB", LONGEST >> 10));
    }
    if source.contains(MARKS) {
        return fail("the template has a character that is none: U+10FFFE or U+10FFFF");
    }
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut scanner =
        Scanner { rest: &source, out: String::with_capacity(source.len()), open: Vec::new(), branches: 0 };
    while scanner.step()? {}
    match scanner.open.pop() {
        None => Ok(scanner.out),
        Some(tag) => fail(format!("`{{% {tag} %}}` is not closed")),
    }
}

struct Scanner<'a> {
    rest: &'a str,
    out: String,
    /// The tags that are to be closed.
    open: Vec<&'a str>,
    branches: usize,
}

impl<'a> Scanner<'a> {
    /// Takes the next so many bytes over.
    fn copy(&mut self, length: usize) {
        let (taken, rest) = self.rest.split_at(length);
        self.out.push_str(taken);
        self.rest = rest;
    }

    /// Takes the next so many bytes of a tag over, with the escapes of its strings as minijinja knows them.
    fn copy_tag(&mut self, length: usize) -> Result<(), Error> {
        let (mut taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        while let Some(at) = taken.find('\\') {
            self.out.push_str(&taken[..at]);
            let mut after = taken[at + 1..].chars();
            match after.next() {
                Some('/') => self.out.push_str("\\\\/"),
                Some('a') => self.out.push_str("\\x07"),
                Some('v') => self.out.push_str("\\x0b"),
                Some('\n') => {}
                Some('N') => return fail("the names of characters after `\\N` are not known"),
                Some('U') => {
                    let code = after.as_str().get(..8).and_then(|code| u32::from_str_radix(code, 16).ok());
                    // One of ASCII could end the string.
                    let char = code.and_then(char::from_u32).filter(|char| !char.is_ascii());
                    let Some(char) = char.filter(|char| !MARKS.contains(char)) else {
                        return fail("`\\U` wants the eight digits of a character beyond ASCII");
                    };
                    self.out.push(char);
                    after = after.as_str()[8..].chars();
                }
                Some(char) => self.out.extend(['\\', char]),
                None => self.out.push('\\'),
            }
            taken = after.as_str();
        }
        self.out.push_str(taken);
        Ok(())
    }

    /// Goes over the text up to the end of the next tag. `false` at the end.
    fn step(&mut self) -> Result<bool, Error> {
        let next =
            self.rest.match_indices('{').find(|(at, _)| self.rest[at + 1..].starts_with(['{', '%', '#']));
        let Some((start, _)) = next else {
            self.copy(self.rest.len());
            return Ok(false);
        };
        self.copy(start);
        if self.rest.starts_with("{#") {
            match self.rest[2..].find("#}") {
                Some(end) => self.copy(end + 4),
                None => return fail("a comment is not closed"),
            }
            return Ok(true);
        }
        let is_block = self.rest.starts_with("{%");
        let length = tag_length(self.rest, if is_block { "%}" } else { "}}" })?;
        if length > LONGEST_TAG {
            return fail(format!("a tag is longer than {} KiB", LONGEST_TAG >> 10));
        }
        let tag = &self.rest[..length];
        if !is_block {
            self.copy_tag(length)?;
            return Ok(true);
        }
        let body = tag[2..].trim_start_matches(['-', '+']).trim_start();
        let word = &body
            [..body.find(|char: char| !char.is_ascii_alphanumeric() && char != '_').unwrap_or(body.len())];
        self.block(word, tag, &body[word.len()..])?;
        Ok(true)
    }

    /// Takes the tag `word` over, of which `body` follows the word.
    fn block(&mut self, word: &'a str, tag: &'a str, body: &str) -> Result<(), Error> {
        let start = word.as_ptr() as usize - tag.as_ptr() as usize;
        match word {
            "raw" => {
                let ends_bare = !tag.ends_with("-%}");
                if body.trim() != "%}" && body.trim() != "-%}" {
                    return fail("unknown tag `raw`");
                }
                self.copy(tag.len());
                // Jinja keeps a line end here, and minijinja takes one away.
                if ends_bare && self.rest.starts_with('\n') {
                    self.out.push('\n');
                }
                let Some(end) = end_of_raw(self.rest) else { return fail("`{% raw %}` is not closed") };
                self.copy(end);
            }
            "generation" => {
                self.open.push(word);
                self.copy(start);
                self.out.push_str(&format!("with {GENERATION} = 1"));
                self.rest = &self.rest[word.len()..];
                self.copy_tag(tag.len() - start - word.len())?;
            }
            "endgeneration" => {
                self.close("generation")?;
                self.copy(start);
                self.out.push_str("endwith");
                self.rest = &self.rest[word.len()..];
                self.copy_tag(tag.len() - start - word.len())?;
            }
            "if" | "for" | "macro" | "call" | "filter" | "with" => {
                self.open.push(word);
                self.copy_tag(tag.len())?;
            }
            "set" => {
                if !assigns(body) {
                    self.open.push(word);
                }
                self.copy_tag(tag.len())?;
            }
            "elif" | "else" => {
                self.branches += 1;
                if self.branches > MOST_BRANCHES {
                    return fail(format!("the template has more than {MOST_BRANCHES} branches"));
                }
                self.copy_tag(tag.len())?;
            }
            "break" | "continue" => self.copy_tag(tag.len())?,
            _ => match word.strip_prefix("end") {
                Some(opened) => {
                    self.close(opened)?;
                    self.copy_tag(tag.len())?;
                }
                None => return fail(format!("unknown tag `{word}`")),
            },
        }
        Ok(())
    }

    fn close(&mut self, opened: &str) -> Result<(), Error> {
        match self.open.pop() {
            Some(tag) if tag == opened => Ok(()),
            Some(tag) => fail(format!("`{{% end{opened} %}}` stands where `{{% end{tag} %}}` is expected")),
            None => fail(format!("`{{% end{opened} %}}` closes nothing")),
        }
    }
}

/// The length of the tag at the beginning of a text, which ends with `end` outside strings and brackets.
fn tag_length(text: &str, end: &str) -> Result<usize, Error> {
    let bytes = text.as_bytes();
    let mut open = 0_usize;
    let mut at = 2;
    while let Some(&byte) = bytes.get(at) {
        if open == 0 && bytes[at..].starts_with(end.as_bytes()) {
            return Ok(at + 2);
        }
        match byte {
            b'"' | b'\'' => {
                at += 1;
                while bytes.get(at).is_some_and(|next| *next != byte) {
                    if bytes[at..].starts_with(b"\\N") {
                        return fail("the names of characters, as in `\\N{BULLET}`, are unknown");
                    }
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
            }
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    fail("a tag is not closed")
}

/// Where `{% endraw %}` ends.
fn end_of_raw(text: &str) -> Option<usize> {
    text.match_indices("{%").find_map(|(at, _)| {
        let tag = text[at + 2..].trim_start_matches(['-', '+']).trim_start();
        let after = tag.strip_prefix("endraw")?.trim_start();
        let end = after.strip_prefix(['-', '+']).unwrap_or(after).strip_prefix("%}")?;
        Some(text.len() - end.len())
    })
}

/// Whether the `set` with this body has a `=`, and so no block.
fn assigns(body: &str) -> bool {
    let bytes = body.as_bytes();
    let mut open = 0_usize;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => open += 1,
            b')' | b']' | b'}' => open = open.saturating_sub(1),
            b'=' if open == 0 => return true,
            // What follows is a filter of a block.
            b'|' if open == 0 => return false,
            b'"' | b'\'' => return bytes[at..].contains(&b'='),
            _ => {}
        }
    }
    false
}
