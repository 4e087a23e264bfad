//! Which bytes of a text the delivered ids stand for, told by decoding them.
//!
//! The pipeline goes from bytes to ids. This goes the other way, so that a fault there is not repeated here. A tokenizer
//! that changes texts (lower case, other white space) cannot be decoded exactly: then the text between special tokens is
//! encoded anew, and the ids must be the same.

use std::collections::HashMap;
use std::ops::Range;

use crate::tokenizer::Tokenizer;

/// The longest run of ids that share characters.
const LONGEST: usize = 12;

/// A tokenizer, and what must be known of its special tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ids<'a> {
    pub(super) tokenizer: &'a dyn Tokenizer,
    /// The added tokens, with their spelling.
    pub(super) special: &'a HashMap<u32, String>,
}

/// Where ids and text part: the number of the first id that does not fit, and the byte where it would stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parting {
    pub(super) id: usize,
    pub(super) byte: usize,
}

impl Ids<'_> {
    /// The text of ids, special tokens included.
    pub(super) fn text(&self, ids: &[u32]) -> String {
        let runs = ids.chunk_by(|a, b| self.special.contains_key(a) == self.special.contains_key(b));
        runs.map(|run| match self.special.contains_key(&run[0]) {
            true => run.iter().map(|id| &*self.special[id]).collect(),
            false => self.tokenizer.decode(run),
        })
        .collect()
    }

    /// The bytes of `text` that each id stands for, from byte `from` on. Ids that share a character have all of its
    /// bytes. Where encoding begins anew, `cuts`, is only asked if the ids cannot be decoded exactly.
    pub(super) fn spans(
        &self,
        ids: &[u32],
        text: &str,
        from: usize,
        cuts: &[usize],
    ) -> Result<Vec<Range<usize>>, Parting> {
        let decoded = self.decoded(ids, text, from);
        match decoded {
            Err(parting) if !self.is_exact(text) => self.encoded(ids, text, from, cuts).ok_or(parting),
            found => found,
        }
    }

    fn decoded(&self, ids: &[u32], text: &str, from: usize) -> Result<Vec<Range<usize>>, Parting> {
        let (mut spans, mut at) = (Vec::with_capacity(ids.len()), from);
        while spans.len() < ids.len() {
            let id = spans.len();
            let parting = Parting { id, byte: at };
            let (taken, len) = self.next(&ids[id..], text.get(at..).ok_or(parting)?).ok_or(parting)?;
            spans.resize(id + taken, at..at + len);
            at += len;
        }
        Ok(spans)
    }

    /// How many ids stand for the beginning of `text`, as few as possible, and for how many bytes of it.
    fn next(&self, ids: &[u32], text: &str) -> Option<(usize, usize)> {
        if let Some(spelling) = self.special.get(&ids[0]) {
            return text.starts_with(spelling).then_some((1, spelling.len()));
        }
        let is_plain = |id: &&u32| !self.special.contains_key(id);
        let most = ids.iter().take(LONGEST).take_while(is_plain).count();
        (1..=most).find_map(|taken| {
            let decoded = self.tokenizer.decode(&ids[..taken]);
            let fits = |text: &str| text.starts_with(&*decoded);
            match () {
                () if decoded.is_empty() => None,
                () if fits(text) => Some((taken, decoded.len())),
                // A decoder that takes the space before the first word for its own shows it before the second.
                () if text.starts_with(' ')
                    && fits(&text[1..])
                    && self.tokenizer.decode(&ids[..taken].repeat(2)) == format!("{decoded} {decoded}") =>
                {
                    Some((taken, decoded.len() + 1))
                }
                () => None,
            }
        })
    }

    /// Whether the tokenizer gives back what it encodes.
    pub(super) fn is_exact(&self, text: &str) -> bool {
        let mut ids = Vec::new();
        let encoded = self.tokenizer.encode(text, &mut ids);
        encoded.is_ok() && self.text(&ids).trim_start() == text.trim_start()
    }

    /// As [`spans`](Self::spans), by encoding what stands between special tokens.
    fn encoded(&self, ids: &[u32], text: &str, from: usize, cuts: &[usize]) -> Option<Vec<Range<usize>>> {
        let (mut spans, mut at) = (Vec::with_capacity(ids.len()), from);
        let mut rest = ids;
        while let Some(first) = rest.first() {
            if let Some(spelling) = self.special.get(first) {
                text.get(at..)?.starts_with(spelling.as_str()).then_some(())?;
                spans.push(at..at + spelling.len());
                at += spelling.len();
                rest = &rest[1..];
                continue;
            }
            let plain = rest.iter().take_while(|id| !self.special.contains_key(id)).count();
            let (run, behind) = rest.split_at(plain);
            let end = match behind.first() {
                Some(id) => at + text.get(at..)?.find(&*self.special[id])?,
                None => text.len(),
            };
            let start = at;
            let within = cuts.iter().copied().filter(|cut| start < *cut && *cut < end);
            let (mut made, first) = (Vec::new(), spans.len());
            for end in within.chain([end]) {
                let known = spans.len();
                self.tokenizer.encode_spans(&text[at..end], &mut made, &mut spans).ok()?;
                spans[known..].iter_mut().for_each(|span| *span = span.start + at..span.end + at);
                at = end;
            }
            // The last run may be cut.
            let is_cut = behind.is_empty() && made.starts_with(run);
            (is_cut || made == run).then_some(())?;
            spans.truncate(first + run.len());
            rest = behind;
        }
        Some(spans)
    }
}
