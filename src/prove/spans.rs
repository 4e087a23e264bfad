//! Which bytes of a text the delivered ids stand for, told by decoding them.
//!
//! The pipeline goes from bytes to ids. This goes the other way, so that a fault there is not repeated here. A tokenizer
//! that changes texts (lower case, other white space) cannot be decoded exactly: then the text between special tokens is
//! encoded anew, and the ids must be the same. White space that a token drops around it is no id's.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;

use crate::tokenizer::{END_OF_TEXT, Tokenizer};

/// The longest run of ids that share characters.
const LONGEST: usize = 12;

/// An added token of a tokenizer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Added {
    pub(super) spelling: String,
    /// Whether white space before it is dropped.
    pub(super) lstrip: bool,
    /// Whether white space behind it is dropped.
    pub(super) rstrip: bool,
    /// Whether it stands for what the tokenizer has no other id for.
    pub(super) is_unknown: bool,
}

/// The added tokens of a tokenizer.
pub(super) fn added(tokenizer: &dyn Tokenizer) -> HashMap<u32, Added> {
    let json = tokenizer.tokenizer_json().and_then(|json| serde_json::from_str::<Value>(json).ok());
    let json = json.unwrap_or_default();
    let (unknown, unknown_id) = (&json["model"]["unk_token"], &json["model"]["unk_id"]);
    let token = |token: &Value| {
        let flag = |name: &str| token[name].as_bool().unwrap_or(false);
        let added = Added {
            spelling: token["content"].as_str()?.to_owned(),
            lstrip: flag("lstrip"),
            rstrip: flag("rstrip"),
            is_unknown: token["content"] == *unknown || token["id"] == *unknown_id,
        };
        Some((u32::try_from(token["id"].as_u64()?).ok()?, added))
    };
    let tokens = json["added_tokens"].as_array().into_iter().flatten();
    let special: HashMap<u32, Added> = tokens.filter_map(token).collect();
    match (special.is_empty(), tokenizer.id(END_OF_TEXT)) {
        (true, Some(id)) => {
            HashMap::from([(id, Added { spelling: END_OF_TEXT.to_owned(), ..Added::default() })])
        }
        _ => special,
    }
}

/// A tokenizer, and what must be known of its special tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ids<'a> {
    pub(super) tokenizer: &'a dyn Tokenizer,
    pub(super) special: &'a HashMap<u32, Added>,
}

/// Where ids and text part: the number of the first id that does not fit, and the byte where it would stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parting {
    pub(super) id: usize,
    pub(super) byte: usize,
}

impl Ids<'_> {
    /// Whether a text that ends turns is a token, or has one.
    pub(super) fn has_token(&self, end: &str) -> bool {
        let mut ids = Vec::new();
        self.tokenizer.id(end.trim()).is_some()
            || self.special.values().any(|added| end.contains(&added.spelling))
            || self.tokenizer.encode(end, &mut ids).is_ok() && ids.len() == 1
    }

    /// The text of ids, special tokens included.
    pub(super) fn text(&self, ids: &[u32]) -> String {
        let runs = ids.chunk_by(|a, b| self.special.contains_key(a) == self.special.contains_key(b));
        runs.map(|run| match self.special.contains_key(&run[0]) {
            true => run.iter().map(|id| &*self.special[id].spelling).collect(),
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
            let left = text.get(at..).ok_or(parting)?;
            let dropped = self.dropped(ids[..id].last(), ids.get(id), left);
            let next = |skip: usize| Some((skip, self.next(ids, id, left.get(skip..)?)?));
            let (skip, (taken, len)) = (0..=dropped).find_map(next).ok_or(parting)?;
            at += skip;
            spans.resize(id + taken, at..at + len);
            at += len;
        }
        Ok(self.with_dropped(ids, text, spans))
    }

    /// How much white space at the beginning of `text`, which stands between two ids, is dropped.
    fn dropped(&self, before: Option<&u32>, behind: Option<&u32>, text: &str) -> usize {
        let added = |id: Option<&u32>| id.and_then(|id| self.special.get(id));
        let is_dropped = added(before).is_some_and(|added| added.rstrip)
            || added(behind).is_some_and(|added| added.lstrip);
        if is_dropped { text.len() - text.trim_start().len() } else { 0 }
    }

    /// The bytes of an id, with the white space around them that its token would drop.
    pub(super) fn reach(&self, id: u32, span: &Range<usize>, text: &str) -> Range<usize> {
        let (before, behind) = (text.get(..span.start), text.get(span.end..));
        let (Some(added), Some(before), Some(behind)) = (self.special.get(&id), before, behind) else {
            return span.clone();
        };
        let start = if added.lstrip { before.trim_end().len() } else { span.start };
        let end = if added.rstrip { text.len() - behind.trim_start().len() } else { span.end };
        start..end
    }

    /// The last id has what is dropped behind it, if that is the rest of the text.
    fn with_dropped(&self, ids: &[u32], text: &str, mut spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
        if let Some(last) = spans.last_mut()
            && let Some(rest) = text.get(last.end..)
            && self.dropped(ids.last(), None, rest) == rest.len()
        {
            last.end = text.len();
        }
        spans
    }

    /// How many ids from number `first` on stand for the beginning of `text`, as few as possible, and for how many bytes
    /// of it.
    fn next(&self, ids: &[u32], first: usize, text: &str) -> Option<(usize, usize)> {
        let (before, ids) = (ids[..first].last(), &ids[first..]);
        if let Some(Added { spelling, is_unknown, .. }) = self.special.get(&ids[0]) {
            let len = match text.starts_with(spelling) {
                false if *is_unknown => self.unknown(ids, text),
                is_there => usize::from(is_there) * spelling.len(),
            };
            return (len > 0).then_some((1, len));
        }
        let is_inside = before.is_some_and(|before| !self.special.contains_key(before));
        let is_plain = |id: &&u32| !self.special.contains_key(id);
        let most = ids.iter().take(LONGEST).take_while(is_plain).count();
        (1..=most).find_map(|taken| {
            let decoded = self.tokenizer.decode(&ids[..taken]);
            let fits = |text: &str| text.starts_with(&*decoded);
            // Such as a space before the first word, which may be the tokenizer's.
            let (is_empty, is_alone) = (decoded.is_empty(), most == 1);
            match () {
                () if fits(text) && !is_empty => Some((taken, decoded.len())),
                () if is_empty && !is_inside && !is_alone => None,
                // A decoder that takes the space before the first word for its own shows it before the second.
                () if text.starts_with(' ')
                    && fits(&text[1..])
                    && self.tokenizer.decode(&ids[..taken].repeat(2)) == format!("{decoded} {decoded}") =>
                {
                    Some((taken, decoded.len() + 1))
                }
                () if is_empty && is_alone && self.tokenizer.decode(&[ids[0]; 2]) == " " => Some((1, 0)),
                () if taken == ids.len() => cut(&decoded, text).map(|len| (taken, len)),
                () => None,
            }
        })
    }

    /// How many bytes at the beginning of `text` the token for unknown text stands for, which `ids` begin with. Some
    /// tokenizers have one for all that is together, and others one for each character.
    fn unknown(&self, ids: &[u32], text: &str) -> usize {
        let most = if ids.get(1) == Some(&ids[0]) { 1 } else { text.len() };
        let next = ids.get(1).and_then(|id| text.find(&*self.special.get(id)?.spelling));
        let text = &text[..next.unwrap_or(text.len())];
        let is_unknown = |char: &char| {
            let mut made = Vec::new();
            let encoded = self.tokenizer.encode(char.encode_utf8(&mut [0; 4]), &mut made);
            encoded.is_ok() && made.contains(&ids[0])
        };
        text.chars().take(most).take_while(is_unknown).map(char::len_utf8).sum()
    }

    /// Whether the tokenizer gives back what it encodes.
    pub(super) fn is_exact(&self, text: &str) -> bool {
        let mut ids = Vec::new();
        let encoded = self.tokenizer.encode(text, &mut ids);
        encoded.is_ok() && self.text(&ids).trim_start() == text.trim_start()
    }

    /// As [`spans`](Self::spans), by encoding what stands between special tokens. The one for unknown text is none of them
    /// if the text does not spell it.
    fn encoded(&self, ids: &[u32], text: &str, from: usize, cuts: &[usize]) -> Option<Vec<Range<usize>>> {
        let special = |id: &u32| {
            self.special.get(id).filter(|added| !added.is_unknown || text.contains(&added.spelling))
        };
        let (mut spans, mut at) = (Vec::with_capacity(ids.len()), from);
        while spans.len() < ids.len() {
            let (done, rest) = ids.split_at(spans.len());
            let left = text.get(at..)?;
            if let Some(Added { spelling, .. }) = special(&rest[0]) {
                let dropped = self.dropped(done.last(), rest.first(), left);
                at += if left.starts_with(spelling) { 0 } else { dropped };
                text[at..].starts_with(spelling).then_some(())?;
                spans.push(at..at + spelling.len());
                at += spelling.len();
                continue;
            }
            let plain = rest.iter().take_while(|id| special(id).is_none()).count();
            let (run, behind) = rest.split_at(plain);
            let end = match behind.first() {
                Some(id) => at + left.find(&*self.special[id].spelling)?,
                None => text.len(),
            };
            let start = at + self.dropped(done.last(), None, &text[at..end]);
            let is_stripped = behind.first().is_some_and(|id| self.special[id].lstrip);
            let stop = if is_stripped { text[..end].trim_end().len().max(start) } else { end };
            let whole_or_bare = [at..end, start..stop].into_iter();
            spans.extend(whole_or_bare.filter_map(|place| self.run(run, text, place, cuts)).next()?);
            at = end;
        }
        Some(self.with_dropped(ids, text, spans))
    }

    /// The spans of a run of ids that encoding `place` gives. A run at the end of the text may be cut.
    fn run(&self, run: &[u32], text: &str, place: Range<usize>, cuts: &[usize]) -> Option<Vec<Range<usize>>> {
        let (mut made, mut spans, mut at) = (Vec::new(), Vec::new(), place.start);
        let within = cuts.iter().copied().filter(|cut| place.start < *cut && *cut < place.end);
        for end in within.chain([place.end]) {
            let known = spans.len();
            self.tokenizer.encode_spans(&text[at..end], &mut made, &mut spans).ok()?;
            spans[known..].iter_mut().for_each(|span| *span = span.start + at..span.end + at);
            at = end;
        }
        let is_cut = place.end == text.len() && made.starts_with(run);
        (is_cut || made == run).then_some(())?;
        spans.truncate(run.len());
        Some(spans)
    }
}

/// For how many bytes of `text` the last ids stand, if they end within a character, where a row ends. The bytes of that
/// character do not count: they are known once the next ids are.
fn cut(decoded: &str, text: &str) -> Option<usize> {
    let known = decoded.trim_end_matches(char::REPLACEMENT_CHARACTER);
    let is_cut =
        known.len() < decoded.len() && text.strip_prefix(known)?.starts_with(|char: char| !char.is_ascii());
    is_cut.then_some(known.len())
}
