//! One of the splits that a lane reads side by side, and how far it has been read.

use std::ops::Range;
use std::path::Path;

use super::framed::{self, Taken};
use super::grouper::no_sample;
use super::stored::StepRoom;
use crate::document::NO_IDS;
use crate::error::{Error, Result};
use crate::segment::{Boundary, Entry, EntryEnd, StoredText};
use crate::shards::{StoredNotes, StoredSplit};
use crate::source::formats::Opened;
use crate::source::formats::records::Stop;
use crate::source::framing::Framer;
use crate::source::interleave::{DocumentKey, Scale};
use crate::source::split::{DealtSplit, LEAST_TAIL, Split};
use crate::source::window::{Window, WindowPiece};

/// A split that is being read.
#[derive(Debug)]
pub(crate) struct OpenSplit {
    /// Its ordinal among the lane's splits of the epoch, and its number among all.
    pub(crate) ordinal: u64,
    pub(crate) split: Split,
    pub(crate) scale: Scale,
    pub(crate) next: Next,
    /// Its tokens, if they are stored, and how far they have been read.
    pub(crate) stored: Option<OpenTokens>,
    /// All documents of its group up to this key have been delivered.
    pub(crate) passed: Option<DocumentKey>,
    /// Whether its tokens go to the cache: its text is being read, from its beginning.
    pub(crate) is_recorded: bool,
}

/// Where reading goes on in a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// At its first document from this byte or row on.
    From(u64),
    /// At this document.
    At(Boundary),
    /// Nowhere: the split has been read.
    End,
}

/// Tokens that are read instead of a split's text.
#[derive(Debug)]
pub(crate) struct OpenTokens {
    tokens: StoredSplit,
    /// The number of the next document, and where the previous one ends.
    nth: usize,
    end: EntryEnd,
}

/// A document whose tokens were found.
#[derive(Debug)]
pub(crate) struct FoundTokens {
    pub(crate) entry: Entry,
    /// Where the document before it ends.
    pub(crate) begin: EntryEnd,
    /// Where its ids are in the segment, and what is stored beside them.
    pub(crate) range: Range<usize>,
    pub(crate) notes: StoredNotes,
}

/// A document longer than may be read at once: its scan, and how far the file has been read.
pub(crate) type Long = (Framer, u64);

impl OpenSplit {
    /// A lower bound for the key of its next document; `None` if it has been read to its end.
    pub(crate) fn key(&self) -> Option<DocumentKey> {
        let byte = match self.next {
            Next::From(byte) => byte,
            Next::At(boundary) => boundary.byte,
            Next::End => return None,
        };
        Some(self.key_of(byte))
    }

    /// The split, among the lane's.
    pub(crate) fn dealt(&self) -> DealtSplit {
        DealtSplit { ordinal: self.ordinal, split: self.split }
    }

    /// The key of a document that begins at `byte`.
    pub(crate) fn key_of(&self, byte: u64) -> DocumentKey {
        self.scale.key(self.ordinal, byte)
    }

    /// The tokens that are read instead of its text.
    pub(crate) fn tokens(&self) -> Option<&StoredSplit> {
        self.stored.as_ref().map(|stored| &stored.tokens)
    }

    /// Reads tokens instead of text, from the first document on that has not been delivered.
    pub(crate) fn read_stored(&mut self, tokens: StoredSplit) -> Result<()> {
        let is_passed = |begin| self.passed.is_some_and(|passed| self.key_of(begin) <= passed);
        let mut nth = tokens.partition_point(is_passed)?;
        if let Some(byte) = self.last() {
            let begins =
                |nth| -> Result<bool> { Ok(tokens.nth(nth)?.is_some_and(|entry| entry.start.byte == byte)) };
            match self.partly() {
                None if nth == 0 || !begins(nth - 1)? => return Err(no_document(tokens.path(), byte)),
                None => {}
                Some(sample) => {
                    // What is left out of the record comes first.
                    while tokens.nth(nth)?.is_some_and(|entry| entry.text == StoredText::LeftOut) {
                        nth += 1;
                    }
                    nth = nth.saturating_add(sample as usize);
                    if !begins(nth)? {
                        return Err(no_sample(tokens.path(), byte, sample));
                    }
                }
            }
        }
        let before = nth.checked_sub(1).map(|before| tokens.entry(before)).transpose()?;
        let end = before.map_or_else(EntryEnd::default, |before| before.end);
        self.stored = Some(OpenTokens { tokens, nth, end });
        self.find_stored()
    }

    /// Reads its text, from about the first document on that has not been delivered. Rows and bytes of text can be
    /// sought; other records (`is_sought` is false) are read from the last known place on.
    pub(crate) fn read_text(&mut self, is_sought: bool) {
        self.stored = None;
        let from = match (self.last(), self.passed) {
            (Some(byte), _) => byte,
            (None, Some(passed)) if is_sought => self.scale.place(passed.share),
            (None, _) => self.split.begin,
        };
        self.next = Next::From(from.max(self.split.begin));
    }

    /// Where the record begins of the last document that was delivered, if it is of this split.
    fn last(&self) -> Option<u64> {
        self.passed.filter(|passed| passed.ordinal == self.ordinal).map(|passed| passed.byte)
    }

    /// Finds the place of the next document whose tokens are stored.
    fn find_stored(&mut self) -> Result<()> {
        let Some(OpenTokens { tokens, nth, .. }) = &self.stored else { return Ok(()) };
        self.next = match tokens.nth(*nth)? {
            Some(entry) => Next::At(entry.start),
            None => Next::End,
        };
        Ok(())
    }

    /// How many documents of that record were delivered, if not all were.
    fn partly(&self) -> Option<u64> {
        let passed = self.passed.filter(|passed| passed.ordinal == self.ordinal)?;
        Some(passed.sample).filter(|sample| *sample < u64::MAX)
    }

    /// Goes back to a document whose tokens are stored: the first of the last `documents` that were gathered.
    pub(crate) fn go_back_stored(&mut self, entry: &Entry, begin: EntryEnd, documents: usize) {
        if let Some(stored) = &mut self.stored {
            (stored.nth, stored.end) = (stored.nth - documents, begin);
        }
        self.next = Next::At(entry.start);
    }

    /// Goes back to a document of the text, or to where the first one is looked for.
    pub(crate) fn go_back(&mut self, start: Boundary) {
        let is_found = self.split.is_found || start.byte > self.split.begin;
        self.next = if is_found { Next::At(start) } else { Next::From(start.byte) };
    }

    /// Where the documents that begin before share `until` end.
    fn end_of(&self, until: u64) -> u64 {
        if until == u64::MAX { u64::MAX } else { self.scale.place(until) }
    }

    /// Gathers the documents that begin before share `until` of the split, as many as `rest` has room for, as tokens.
    /// Those of one record stay together. Gives each to `add`.
    pub(crate) fn gather_stored(
        &mut self,
        until: u64,
        rest: &mut StepRoom,
        mut add: impl FnMut(FoundTokens),
    ) -> Result<()> {
        let until = self.end_of(until);
        let mut record = None;
        let Some(OpenTokens { tokens, nth, end }) = &mut self.stored else { return Ok(()) };
        tokens.bring(end.ids, rest.ids());
        while *nth < tokens.documents() {
            let entry = tokens.entry(*nth)?;
            let goes_on = record.replace(entry.start.byte) == Some(entry.start.byte);
            if entry.start.byte >= until || !rest.admits(entry.end.since(*end)) && !goes_on {
                break;
            }
            let (range, notes) = match entry.text {
                StoredText::Bytes(_) => {
                    (tokens.place(end.ids..entry.end.ids)?, tokens.notes_on(&(*end..entry.end), *nth)?)
                }
                // Its columns decide whether it counts.
                StoredText::LeftOut if entry.end.notes > end.notes => {
                    (NO_IDS, tokens.notes_on(&(*end..entry.end), *nth)?)
                }
                StoredText::Failed | StoredText::Skipped | StoredText::LeftOut => {
                    (NO_IDS, StoredNotes::default())
                }
            };
            let begin = std::mem::replace(end, entry.end);
            *nth += 1;
            add(FoundTokens { entry, begin, range, notes });
        }
        self.find_stored()
    }

    /// Gathers the documents of the text that begin before share `until` of the split, until the window is full or has
    /// `slab_bytes`. If the window is empty and not even one document fits, returns that document's scan.
    pub(crate) fn gather_text(
        &mut self,
        opened: &mut Opened,
        path: &Path,
        until: u64,
        slab_bytes: usize,
        window: &mut Window,
    ) -> Result<Option<Long>> {
        let end = self.split.end.min(self.end_of(until));
        match opened {
            Opened::Records(records) => {
                let from = match self.next {
                    Next::End => return Ok(None),
                    Next::At(Boundary { byte, .. }) | Next::From(byte) => byte,
                };
                if let (Next::From(_), Some(last)) = (self.next, self.last())
                    && let Some(problem) = records.problem(last)?
                {
                    return Err(Error::resume(format!("{} ({last}): {problem}", path.display())));
                }
                let (first, at) = (window.framed.len(), window.bytes.len());
                let room = slab_bytes.saturating_sub(at);
                let stop = records.take(from, end, room, window);
                let (ordinal, split) = (self.ordinal, self.split);
                window.pieces.push(WindowPiece { ordinal, frames: first..window.framed.len(), at });
                let stop = stop.inspect_err(|_| {
                    // What was found before is delivered.
                    if let Some(last) = window.framed[first..].last() {
                        self.next = Next::At(last.frame.next);
                    }
                })?;
                self.next = match stop {
                    Stop::At(next) if next < split.end => Next::At(Boundary::record(next)),
                    Stop::At(_) | Stop::End => Next::End,
                };
            }
            Opened::Text(content, shape) => {
                if let Next::From(from) = self.next {
                    let mut dealt = self.dealt();
                    let first = framed::seek(content, *shape, &mut dealt, from, slab_bytes, window)?;
                    self.split = dealt.split;
                    self.next = first.map_or(Next::End, Next::At);
                    let is_last = |last: &u64| first.is_none_or(|first| first.byte > *last);
                    if let Some(last) = self.last().filter(is_last) {
                        return Err(no_document(path, last));
                    }
                }
                let dealt = DealtSplit { ordinal: self.ordinal, split: Split { end, ..self.split } };
                let mut tail = if self.split.is_exact && end == self.split.end { 0 } else { LEAST_TAIL };
                while let Next::At(boundary) = self.next
                    && boundary.byte < end
                {
                    let reach = content.len().unwrap_or(u64::MAX).min(end.saturating_add(tail));
                    let room = slab_bytes.saturating_sub(window.bytes.len()) as u64;
                    let n = room.min(reach.saturating_sub(boundary.byte)) as usize;
                    match framed::take(content, *shape, dealt, boundary, n, window)? {
                        Taken::All => self.next = Next::End,
                        Taken::Beyond(next) => self.go_on(next),
                        // There is no room for more, or standard input has no more yet.
                        Taken::Beginning { framer, read }
                            if read >= boundary.byte.saturating_add(room) || read < reach =>
                        {
                            return Ok(Some((framer, read)));
                        }
                        Taken::UpTo(next) => {
                            window.drop_rest();
                            self.next = Next::At(next);
                            // There is no room for the document that begins there, or for any more.
                            if window.is_full() || room <= reach.saturating_sub(boundary.byte) {
                                break;
                            }
                            tail = LEAST_TAIL.max(4 * tail);
                        }
                        Taken::Beginning { .. } => {
                            window.drop_rest();
                            tail = LEAST_TAIL.max(4 * tail);
                        }
                    }
                }
                window.drop_rest();
            }
        }
        Ok(None)
    }

    /// Notes where the next document begins.
    pub(crate) fn go_on(&mut self, next: Boundary) {
        self.next = if next.byte < self.split.end { Next::At(next) } else { Next::End };
    }
}

fn no_document(path: &Path, byte: u64) -> Error {
    Error::resume(format!("{} (byte {byte}): no document begins there", path.display()))
}
