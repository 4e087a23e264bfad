//! Rendered texts: their special tokens become ids, and the stretches between are plain text.
//!
//! The Hugging Face libraries cut added tokens out of a text first. Then they normalize and encode each stretch between
//! on its own. So here each stretch is encoded on its own, with the engine that runs all other texts, and three things
//! are taken care of:
//! - Some added tokens take the white space beside them (`lstrip`, `rstrip`).
//! - Llama's and Mistral's newer files treat only the stretch at the text's beginning as such (`prepend_scheme`). The
//!   others are encoded with a file that never does.
//! - Added tokens that are not marked as special are cut out of every text. They are text in what somebody wrote, so
//!   stretches are encoded with a file that marks them.
//! - Unigram's model has the special tokens among its pieces, and finds them in plain text. A stretch in which it has
//!   found one is encoded again with a file without these pieces, as SentencePiece itself encodes it. The library would
//!   give the special token; transformers' `sanitize_control_tokens` refuses such a text.
//!
//! If special tokens are sought after normalizing, a stretch is not normalized on its own. Such a text is encoded as a
//! whole, with special tokens parsed. Where that finds others than the template wrote, it goes by stretches.
//!
//! Held in memory besides the tokenizer: the tables of a changed file, from the first text that needs it.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::loaded::Loaded;
use super::outline::{Added, Outline};
use crate::config::SpecialTokens;
use crate::tokenizer::{EncodeError, MarkedText, Piece, Run};

pub(super) struct MarkedEncoder {
    /// The tokens that templates write, by their spelling.
    tokens: HashMap<String, Token, foldhash::fast::RandomState>,
    /// Their ids, but for that of unknown text.
    ids: HashSet<u32>,
    /// The token that stands for unknown text, if templates could write it.
    unknown: Option<String>,
    /// Whether any of them takes white space.
    strips: bool,
    /// Encodes texts as a whole, with special tokens parsed.
    whole: Option<Engines>,
    /// Encodes stretches of plain text; `None` if special tokens are parsed in all text.
    stretches: Option<Engines>,
    /// Encodes stretches in which the model has found special tokens by itself; `None` if it finds none.
    without: Option<Engines>,
}

#[derive(Clone, Copy)]
struct Token {
    id: u32,
    lstrip: bool,
    rstrip: bool,
}

/// The files that texts are encoded with: at the text's beginning, and anywhere else.
struct Engines {
    first: File,
    later: File,
}

/// The tokenizer's file, or a change of it, which is loaded when a text needs it.
#[derive(Default)]
struct File {
    change: Change,
    loaded: OnceLock<Result<Loaded, String>>,
    /// Some short stretches, each in its place by a hash.
    short: [OnceLock<Short>; PLACES],
}

/// A stretch of a few bytes, with its ids.
struct Short {
    text: Box<str>,
    ids: Box<[u32]>,
}

/// A stretch is short if it has at most this many bytes.
const SHORT: usize = 16;

/// How many short stretches are remembered. Templates have a few, such as the line end between two messages, in every
/// text: calling the engine for each would take as long as encoding a hundred bytes more.
const PLACES: usize = 32;

/// How a file is changed.
#[derive(Clone, Copy, Default, PartialEq)]
struct Change {
    /// Marks the tokens that templates write as special, so that they can be text.
    marks: bool,
    /// Lets no text begin in its own way.
    never_prepends: bool,
    /// Parses special tokens.
    parses: bool,
    /// Takes the special tokens out of the model's pieces. To be used with `marks`.
    unlists: bool,
}

impl MarkedEncoder {
    pub(super) fn new(own: &Loaded) -> Result<Self, String> {
        let outline = Outline::read(&own.file.json)?;
        let written: HashMap<&str, &Added> = (outline.added_tokens().iter())
            .filter(|token| is_written(token))
            .map(|token| (token.content.as_str(), token))
            .collect();
        let tokens: HashMap<String, Token, _> = (own.vocabulary.added.iter())
            .filter_map(|(spelling, id)| {
                let Added { lstrip, rstrip, .. } = **written.get(spelling.as_str())?;
                Some((spelling.clone(), Token { id: *id, lstrip, rstrip }))
            })
            .collect();
        let marks = written.values().any(|token| !token.special);
        let is_sought_normalized = outline.normalizes() && written.values().any(|token| token.normalized);
        let engines = |change: Change| {
            let later = Change { never_prepends: outline.prepends_to_first(), ..change };
            Engines { first: File::of(change), later: File::of(later) }
        };
        let is_text = own.file.special == SpecialTokens::Text;
        let whole = Change { parses: is_text, ..Change::default() };
        let unknown = tokens.iter().find(|(spelling, token)| outline.is_unknown(spelling, token.id));
        let unknown = unknown.map(|(spelling, token)| (spelling.clone(), token.id));
        let ids = tokens.values().map(|token| token.id);
        let without = Change { marks: true, unlists: true, ..Change::default() };
        Ok(Self {
            ids: ids.filter(|id| unknown.as_ref().is_none_or(|(_, unknown)| unknown != id)).collect(),
            unknown: unknown.map(|(spelling, _)| spelling),
            strips: tokens.values().any(|token| token.lstrip || token.rstrip),
            tokens,
            whole: (!is_text || is_sought_normalized).then(|| engines(whole)),
            stretches: is_text.then(|| engines(Change { marks, ..Change::default() })),
            without: outline.finds_special().then(|| engines(without)),
        })
    }

    /// Appends the ids of a text, and their runs.
    pub(super) fn encode(
        &self,
        own: &Loaded,
        text: &MarkedText<'_>,
        ids: &mut Vec<u32>,
        runs: &mut Vec<Run>,
    ) -> Result<(), EncodeError> {
        if let Some(whole) = &self.whole {
            let (start, first) = (ids.len(), runs.len());
            for part in text.parts() {
                whole.encode(own, text, part, ids, runs)?;
            }
            if self.stretches.is_none() || self.has_found_alone(text, &ids[start..]) {
                return Ok(());
            }
            ids.truncate(start);
            runs.truncate(first);
        }
        match &self.stretches {
            Some(stretches) => self.encode_stretches(own, stretches, text, ids, runs),
            None => Ok(()),
        }
    }

    fn encode_stretches(
        &self,
        own: &Loaded,
        stretches: &Engines,
        text: &MarkedText<'_>,
        ids: &mut Vec<u32>,
        runs: &mut Vec<Run>,
    ) -> Result<(), EncodeError> {
        let all = text.text();
        let mut pieces = text.pieces().peekable();
        // Where the last piece ends, with the white space that it took.
        let mut done = 0;
        while let Some(piece) = pieces.next() {
            match piece {
                Piece::Special(mut bytes) => {
                    let Token { id, lstrip, rstrip } = self.token(own, &all[bytes.clone()])?;
                    if lstrip {
                        bytes.start = done.max(all[..bytes.start].trim_end().len());
                    }
                    if rstrip {
                        bytes.end = all.len() - all[bytes.end..].trim_start().len();
                    }
                    done = bytes.end;
                    ids.push(id);
                    runs.push(Run { bytes, ids: 1 });
                }
                Piece::Plain(range) => {
                    let start = range.start.max(done);
                    let mut end = range.end.max(start);
                    if self.strips
                        && let Some(Piece::Special(next)) = pieces.peek()
                        && self.token(own, &all[next.clone()])?.lstrip
                    {
                        end = start + all[start..end].trim_end().len();
                    }
                    done = end;
                    if start < end {
                        self.encode_stretch(own, stretches, text, start..end, ids, runs)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn encode_stretch(
        &self,
        own: &Loaded,
        stretches: &Engines,
        text: &MarkedText<'_>,
        range: Range<usize>,
        ids: &mut Vec<u32>,
        runs: &mut Vec<Run>,
    ) -> Result<(), EncodeError> {
        let (start, first) = (ids.len(), runs.len());
        stretches.encode(own, text, range.clone(), ids, runs)?;
        let Some(without) = &self.without else { return Ok(()) };
        let has_unknown = |unknown: &String| text.text()[range.clone()].contains(unknown.as_str());
        if !ids[start..].iter().any(|id| self.ids.contains(id))
            && !self.unknown.as_ref().is_some_and(has_unknown)
        {
            return Ok(());
        }
        ids.truncate(start);
        runs.truncate(first);
        without.encode(own, text, range, ids, runs)
    }

    /// The token of a spelling that the template wrote.
    fn token(&self, own: &Loaded, spelling: &str) -> Result<Token, EncodeError> {
        match self.tokens.get(spelling) {
            Some(token) => Ok(*token),
            None => {
                let id = own.id(spelling).ok_or_else(|| EncodeError::unknown(spelling))?;
                Ok(Token { id, lstrip: false, rstrip: false })
            }
        }
    }

    /// Whether the tokens in these ids are those that the template wrote, and no others.
    fn has_found_alone(&self, text: &MarkedText<'_>, ids: &[u32]) -> bool {
        let written = || text.special().map(|range| &text.text()[range]);
        // Its id tells nothing: the model gives it, too.
        let is_unknown = |spelling: &&str| self.unknown.as_deref() == Some(*spelling);
        if let Some(unknown) = &self.unknown
            && text.text().matches(unknown.as_str()).count() != written().filter(is_unknown).count()
        {
            return false;
        }
        let found = ids.iter().filter(|id| self.ids.contains(id)).map(|id| Some(*id));
        let others = written().filter(|spelling| !is_unknown(spelling));
        found.eq(others.map(|spelling| self.tokens.get(spelling).map(|token| token.id)))
    }
}

impl Engines {
    fn encode(
        &self,
        own: &Loaded,
        text: &MarkedText<'_>,
        range: Range<usize>,
        ids: &mut Vec<u32>,
        runs: &mut Vec<Run>,
    ) -> Result<(), EncodeError> {
        let file = if range.start == 0 { &self.first } else { &self.later };
        let loaded = file.loaded(own)?;
        text.encode(range, ids, runs, |text, ids, wanted| match wanted {
            Some(wanted) => loaded.encode_spans(text, ids, wanted),
            None if text.len() <= SHORT => file.encode_short(loaded, text, ids),
            None => loaded.encode(text, ids),
        })
    }
}

impl File {
    fn of(change: Change) -> Self {
        Self { change, ..Self::default() }
    }

    fn loaded<'a>(&'a self, own: &'a Loaded) -> Result<&'a Loaded, EncodeError> {
        if self.change == Change::default() {
            return Ok(own);
        }
        let load = || {
            let special = if self.change.parses { SpecialTokens::Parse } else { own.file.special };
            own.changed(self.change.apply(&own.file.json)?, special)
        };
        self.loaded.get_or_init(load).as_ref().map_err(|problem| problem.as_str().into())
    }

    /// Appends the ids of a short stretch, and remembers them if its place is free.
    fn encode_short(&self, loaded: &Loaded, text: &str, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
        let hash =
            text.bytes().fold(text.len(), |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let place = &self.short[hash % PLACES];
        let known = place.get();
        if let Some(known) = known.filter(|known| *known.text == *text) {
            ids.extend_from_slice(&known.ids);
            return Ok(());
        }
        let start = ids.len();
        loaded.encode(text, ids)?;
        if known.is_none() {
            let own = ids.get(start..).unwrap_or_default();
            // If another thread was first, its stretch stays.
            let _ = place.set(Short { text: text.into(), ids: own.into() });
        }
        Ok(())
    }
}

impl Change {
    fn apply(self, json: &str) -> Result<Arc<str>, String> {
        let mut file: Value = serde_json::from_str(json).map_err(|e| e.to_string())?;
        if self.marks {
            let tokens = file.get_mut("added_tokens").and_then(Value::as_array_mut);
            for token in tokens.into_iter().flatten().filter_map(Value::as_object_mut) {
                if token.get("content").and_then(Value::as_str).is_some_and(is_control) {
                    token.insert("special".to_owned(), Value::Bool(true));
                }
            }
        }
        if self.unlists {
            if !Outline::read(json)?.replaces_spaces() {
                let problem = "its model finds special tokens in plain text, and this text has one; take the document \
                               out, or set tokenizer.special_tokens = \"parse\"";
                return Err(problem.to_owned());
            }
            unlist(&mut file);
        }
        if self.never_prepends
            && let Some(pre_tokenizer) = file.get_mut("pre_tokenizer")
        {
            never_prepend(pre_tokenizer);
        }
        Ok(file.to_string().into())
    }
}

/// Whether templates write an added token, so that it is text in what somebody else wrote.
fn is_written(token: &Added) -> bool {
    token.special || is_control(&token.content)
}

/// Whether an added token is more than vocabulary, by its spelling: words and white space are that wherever they stand.
fn is_control(spelling: &str) -> bool {
    !spelling.chars().all(|c| c.is_alphanumeric() || c.is_whitespace() || matches!(c, '▁' | '_' | '\'' | '-'))
}

/// Takes special tokens out of the pieces of Unigram's model. Each leaves its place and its score to a piece that no text
/// has, so that everything else stays as it is: the model gets no spaces.
fn unlist(file: &mut Value) {
    let tokens = file["added_tokens"].as_array();
    let is_special = |token: &&Value| token["special"] == true;
    let special: HashSet<String> = (tokens.into_iter().flatten().filter(is_special))
        .filter_map(|token| token["content"].as_str().map(str::to_owned))
        .collect();
    let mut unlisted = HashSet::new();
    let pieces = file["model"]["vocab"].as_array_mut().into_iter().flatten();
    for piece in pieces.filter_map(|entry| entry.get_mut(0)) {
        if let Value::String(spelling) = piece
            && special.contains(spelling)
        {
            unlisted.insert(spelling.clone());
            spelling.insert(0, ' ');
        }
    }
    // They would get other ids, beyond the model's.
    if let Some(tokens) = file["added_tokens"].as_array_mut() {
        tokens.retain(|token| token["content"].as_str().is_none_or(|content| !unlisted.contains(content)));
    }
}

/// Lets a pre-tokenizer, or the steps of one, put nothing before the text's beginning alone.
fn never_prepend(step: &mut Value) {
    if step["prepend_scheme"] == "first"
        && let Some(keys) = step.as_object_mut()
    {
        keys.remove("add_prefix_space");
        keys.insert("prepend_scheme".to_owned(), "never".into());
    }
    let steps = step.get_mut("pretokenizers").and_then(Value::as_array_mut);
    steps.into_iter().flatten().for_each(never_prepend);
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of ranges may have one")]
mod library_tests;
#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of ranges may have one")]
mod tests;
