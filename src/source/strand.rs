//! One of the splits that a lane reads side by side, as far as it was read.

use std::ops::Range;

use super::abreast::{Key, Scale};
use super::corpus::Opened;
use super::framed::{self, LEAST_TAIL, Taken};
use super::framing::{Framer, Place};
use super::records::Stop;
use super::split::Split;
use super::stored::Rest;
use super::window::{Piece, Window};
use crate::error::Result;
use crate::segment::{Entry, StoredSplit};

/// A split under way.
#[derive(Debug)]
pub(super) struct Strand {
    /// Which of the lane's splits of the epoch it is, and its number among all.
    pub(super) ordinal: u64,
    pub(super) number: u32,
    pub(super) split: Split,
    pub(super) scale: Scale,
    pub(super) next: Next,
    /// Its tokens, if they are stored, and how far they were read.
    pub(super) stored: Option<Stored>,
    /// All documents of its group up to this key were delivered.
    pub(super) passed: Option<Key>,
}

/// Where reading goes on in a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// At its first document, wherever that is.
    First,
    At(Place),
    /// Nowhere: it is read.
    End,
}

/// Tokens that are read instead of a split's text.
#[derive(Debug)]
pub(super) struct Stored {
    tokens: StoredSplit,
    /// The number of the next document, and where the ids of the one before it end.
    nth: usize,
    ids: u64,
}

/// A document longer than all that may be read at once: its scan, and how far the file was read.
pub(super) type Long = (Framer, u64);

impl Strand {
    /// Where its next document stands in the order of the group, or before that; none if it is read to its end.
    pub(super) fn key(&self) -> Option<Key> {
        let byte = match self.next {
            Next::First => self.split.begin,
            Next::At(place) => place.byte,
            Next::End => return None,
        };
        Some(self.key_of(byte))
    }

    /// Where a document that begins at `byte` stands.
    pub(super) fn key_of(&self, byte: u64) -> Key {
        self.scale.key(self.ordinal, byte)
    }

    /// The tokens that are read instead of its text.
    pub(super) fn tokens(&self) -> Option<&StoredSplit> {
        self.stored.as_ref().map(|stored| &stored.tokens)
    }

    /// Reads tokens instead of text, from the first document on that was not delivered.
    pub(super) fn read_stored(&mut self, tokens: StoredSplit) -> Result<()> {
        let is_passed = |begin| self.passed.is_some_and(|passed| self.key_of(begin) <= passed);
        let nth = tokens.partition_point(is_passed)?;
        let ids =
            nth.checked_sub(1).map_or(Ok(0), |before| tokens.entry(before).map(|entry| entry.ids_end))?;
        self.stored = Some(Stored { tokens, nth, ids });
        self.find_stored()
    }

    /// Reads the text instead of tokens that turned out to be damaged.
    pub(super) fn turn_to_text(&mut self) {
        (self.stored, self.next) = (None, Next::First);
    }

    /// Says where the next document is whose tokens are stored.
    fn find_stored(&mut self) -> Result<()> {
        let Some(Stored { tokens, nth, .. }) = &self.stored else { return Ok(()) };
        self.next = match *nth < tokens.documents() {
            true => {
                let (byte, line) = tokens.entry(*nth)?.start;
                Next::At(Place { byte, line })
            }
            false => Next::End,
        };
        Ok(())
    }

    /// Goes back to a document whose tokens are stored, the first of the `documents` that were gathered last.
    pub(super) fn go_back_stored(&mut self, entry: &Entry, ids_begin: u64, documents: usize) {
        if let Some(stored) = &mut self.stored {
            (stored.nth, stored.ids) = (stored.nth - documents, ids_begin);
        }
        let (byte, line) = entry.start;
        self.next = Next::At(Place { byte, line });
    }

    /// Gathers the documents that begin before share `until` of the split, as many as `rest` admits, and reads their
    /// tokens instead of text. Each is given to `add`, with where its ids begin and where they lie in the segment.
    pub(super) fn gather_stored(
        &mut self,
        until: u64,
        rest: &mut Rest,
        mut add: impl FnMut(Entry, u64, Range<usize>),
    ) -> Result<()> {
        let end = self.scale.place(until);
        let Some(Stored { tokens, nth, ids }) = &mut self.stored else { return Ok(()) };
        tokens.bring(*ids, rest.ids());
        while *nth < tokens.documents() {
            let entry = tokens.entry(*nth)?;
            let range = *ids..entry.ids_end;
            let byte = entry.start.0;
            if byte >= end || !rest.admits(range.end.saturating_sub(range.start) as usize) {
                break;
            }
            let place = entry.text_bytes.map_or(Ok(0..0), |_| tokens.place(range))?;
            let begin = std::mem::replace(ids, entry.ids_end);
            *nth += 1;
            add(entry, begin, place);
        }
        self.find_stored()
    }

    /// Gathers the documents of the text that begin before share `until` of the split, until the window is full or has
    /// `slab_bytes`. If it has nothing yet, and not even one document fits, that document's scan is given back.
    pub(super) fn gather_text(
        &mut self,
        opened: &mut Opened,
        until: u64,
        slab_bytes: usize,
        window: &mut Window,
    ) -> Result<Option<Long>> {
        let end = self.split.end.min(self.scale.place(until));
        match opened {
            Opened::Records(records) => {
                let place = match self.next {
                    Next::End => return Ok(None),
                    Next::At(place) => place,
                    Next::First => Place::record(self.split.begin),
                };
                let (first, at) = (window.framed.len(), window.bytes.len());
                let room = slab_bytes.saturating_sub(at);
                let stop = records.take(place.byte, end, room, window);
                let (ordinal, split) = (self.ordinal, self.split);
                window.pieces.push(Piece { ordinal, split, frames: first..window.framed.len(), at });
                self.next = match stop? {
                    Stop::At(next) if next < split.end => Next::At(Place::record(next)),
                    Stop::At(_) | Stop::End => Next::End,
                };
            }
            Opened::Text(content, shape) => {
                if self.next == Next::First {
                    let of = (self.ordinal, self.split);
                    let first = framed::begin(content, *shape, of, Place::default(), slab_bytes, window)?;
                    self.next = first.map_or(Next::End, Next::At);
                }
                let of = (self.ordinal, Split { end, ..self.split });
                let mut tail = if self.split.is_exact && end == self.split.end { 0 } else { LEAST_TAIL };
                while let Next::At(place) = self.next
                    && place.byte < end
                {
                    let reach = content.len().unwrap_or(u64::MAX).min(end.saturating_add(tail));
                    let room = slab_bytes.saturating_sub(window.bytes.len()) as u64;
                    match framed::take(content, *shape, of, place, (slab_bytes, reach), window)? {
                        Taken::All => self.next = Next::End,
                        Taken::Beyond(next) => self.go_on(next),
                        Taken::Beginning { framer, read } if read >= place.byte.saturating_add(room) => {
                            return Ok(Some((framer, read)));
                        }
                        Taken::UpTo(next) => {
                            window.drop_rest();
                            self.next = Next::At(next);
                            // There is no room for the document that begins there, or for more documents.
                            if window.is_full() || room <= reach.saturating_sub(place.byte) {
                                break;
                            }
                            tail = LEAST_TAIL.max(4 * tail);
                        }
                        Taken::Beginning { .. } => {
                            window.drop_rest();
                            tail = LEAST_TAIL.max(4 * tail);
                        }
                        Taken::Nothing => break,
                    }
                }
                window.drop_rest();
            }
        }
        Ok(None)
    }

    /// Notes where the next document begins.
    pub(super) fn go_on(&mut self, next: Place) {
        self.next = if next.byte < self.split.end { Next::At(next) } else { Next::End };
    }
}
