//! Cuts documents, one after the other, into rows.
//!
//! A row is a function of its first id. It ends when it is full, when the last segment that it may hold ends, or when
//! the stream ends. The next row begins `seq_len` ids further, so that its first input is the first id that was not an
//! input yet. If a row ends before that id, the next row begins with the next document.
//!
//! The anchor is the cursor before the document that holds the next row's first id. The skip is 0 if the row
//! begins with that document and nothing of it was delivered. Otherwise it says how many of the document's
//! ids are done, and the row begins with the last of these.

use super::{LONG_DOCUMENT, Packer};
use crate::config::{PackRule, Packing};
use crate::cursor::{LaneCursor, Omitted, Tracked};
use crate::document::{Part, Sequence, Tokens};
use crate::error::{Error, Result};

/// Concatenation; and padding, which is concatenation with one segment a row.
#[derive(Debug)]
pub(super) struct Cutter {
    seq_len: usize,
    width: usize,
    /// How many segments a row holds at most.
    most: usize,
    start: LaneCursor,
    /// The cursor after the last document that was read; unknown until one is read.
    after: Option<LaneCursor>,
    open: Option<Open>,
    /// The row so far, and the cursor before the document of each of its parts.
    parts: Vec<Part>,
    befores: Vec<LaneCursor>,
    len: usize,
    /// Whether the row's first id was also in the row before.
    again: bool,
    /// What was left out since the row before, with the number of the row's parts before it.
    left_out: Vec<(usize, Omitted)>,
    finished: bool,
}

/// The document that is being cut, the cursor before it, and the first of its ids that is in no row yet.
#[derive(Debug)]
struct Open {
    tokens: Tokens,
    before: LaneCursor,
    next: usize,
}

impl Cutter {
    pub(super) fn new(packing: &Packing, start: &LaneCursor) -> Self {
        let most = match packing.mode {
            PackRule::Pad => 1,
            PackRule::Concat | PackRule::BestFit => packing.max_segments.unwrap_or(usize::MAX),
        };
        Self {
            seq_len: packing.seq_len,
            width: packing.width(),
            most,
            start: *start,
            after: None,
            open: None,
            parts: Vec::new(),
            befores: Vec::new(),
            len: 0,
            again: false,
            left_out: Vec::new(),
            finished: false,
        }
    }

    /// Whether the row will get no longer, though it is not full.
    fn is_over(&self) -> bool {
        self.open.is_none() && (self.finished || self.parts.len() == self.most)
    }

    /// The cursor before the first document, which has `len` ids, and how many of these are done.
    fn before_first(&self, depth: usize, len: usize) -> Result<(LaneCursor, usize)> {
        let done = self.start.skip(depth);
        if done > len as u64 {
            return Err(Error::resume(format!("{done} ids were packed of a document of {len}")));
        }
        Ok((self.start.upstream(depth), done as usize))
    }

    /// Fills the row from the first document.
    #[cold]
    fn take_first(&mut self, tokens: Tokens, depth: usize) -> Result<()> {
        let (before, done) = self.before_first(depth, tokens.len())?;
        self.again |= done > 0;
        self.take(tokens, before, done.saturating_sub(1));
        Ok(())
    }

    /// Fills the row from a document, which stays open if ids of it are left.
    fn take(&mut self, tokens: Tokens, before: LaneCursor, next: usize) {
        let end = next + (self.width - self.len);
        let part = if tokens.len() <= end {
            Part::rest(tokens, next)
        } else {
            let part = Part::new(&tokens, next..end);
            self.open = Some(Open { tokens, before, next: end });
            part
        };
        self.len += part.len();
        // A part that does not fill the row waits for the documents that follow.
        let part = if self.len < self.width { part.detached(LONG_DOCUMENT * self.width) } else { part };
        self.parts.push(part);
        self.befores.push(before);
    }

    /// Closes the row and begins the next.
    fn close(&mut self) -> Tracked<Sequence> {
        let mut again = self.len.saturating_sub(self.seq_len);
        let overlaps = std::mem::replace(&mut self.again, again > 0);
        // Ids of the open document are taken again with those that follow, as one part.
        if let Some(open) = &mut self.open {
            self.befores.pop();
            let ids = again.min(self.parts.last().map_or(0, Part::len));
            open.next -= ids;
            again -= ids;
        }
        // The next row has about as many parts as this one.
        let mut kept = Vec::with_capacity(self.parts.len() + 1);
        let closed = self.befores.len();
        for part in self.parts[..closed].iter().rev() {
            if again == 0 {
                break;
            }
            let part = part.tail(again).detached(LONG_DOCUMENT * self.width);
            again -= part.len();
            kept.push(part);
        }
        kept.reverse();
        self.befores.drain(..closed - kept.len());
        // What is behind a part that is kept will be read again by who resumes behind this row.
        let done = closed - kept.len();
        let left_out = if self.left_out.is_empty() { None } else { self.take_left_out(done) };
        let cursor = match (kept.first().zip(self.befores.first()), &self.open) {
            (Some((part, before)), _) => before.anchored(part.offset() as u64 + 1),
            (None, Some(open)) => open.before.anchored(open.next as u64 + 1),
            (None, None) => self.after.unwrap_or(self.start).anchored(0),
        };
        self.len = kept.iter().map(Part::len).sum();
        let row = std::mem::replace(&mut self.parts, kept);
        let row = Sequence::new(row, self.width).overlapping(overlaps).leaving_out(left_out);
        Tracked::new(row, cursor)
    }

    /// What was left out before the row's part `done`. What is behind it counts with the next row.
    #[cold]
    fn take_left_out(&mut self, done: usize) -> Option<Box<Omitted>> {
        let mut sum = Omitted::default();
        self.left_out.extract_if(.., |(parts, _)| *parts <= done).for_each(|(_, ledger)| sum += ledger);
        self.left_out.iter_mut().for_each(|(parts, _)| *parts -= done);
        sum.boxed()
    }
}

impl Packer for Cutter {
    fn room(&self) -> usize {
        usize::from(self.open.is_none() && self.len < self.width && !self.is_over())
    }

    fn push(&mut self, Tracked { value: tokens, cursor }: Tracked<Tokens>) -> Result<()> {
        match self.after.replace(cursor) {
            Some(before) => self.take(tokens, before, 0),
            None => self.take_first(tokens, cursor.depth())?,
        }
        Ok(())
    }

    fn leave_out(&mut self, Tracked { cursor, .. }: Tracked<Tokens>, ledger: Omitted) -> Result<()> {
        if self.after.replace(cursor).is_none() {
            self.before_first(cursor.depth(), 0)?;
        }
        match self.left_out.last_mut() {
            Some((parts, sum)) if *parts == self.parts.len() => *sum += ledger,
            _ => self.left_out.push((self.parts.len(), ledger)),
        }
        Ok(())
    }

    fn is_due(&self) -> bool {
        let left = self.open.as_ref().map_or(0, |open| open.tokens.len() - open.next);
        self.len + left >= self.width
    }

    fn finish(&mut self) {
        self.finished = true;
    }

    fn pop(&mut self) -> Result<Option<Tracked<Sequence>>> {
        if let Some(Open { tokens, before, next }) = self.open.take_if(|_| self.len < self.width) {
            self.take(tokens, before, next);
        }
        if self.len < self.width && !self.is_over() {
            return Ok(None);
        }
        if self.len > usize::from(self.again) {
            return Ok(Some(self.close()));
        }
        // One id that was delivered before, and that no other id may follow here.
        self.parts.clear();
        self.befores.clear();
        self.left_out.iter_mut().for_each(|(parts, _)| *parts = 0);
        (self.len, self.again) = (0, false);
        Ok(None)
    }

    fn left_out(&self) -> Omitted {
        let mut sum = Omitted::default();
        self.left_out.iter().for_each(|(_, ledger)| sum += ledger.clone());
        sum
    }

    fn end(&self) -> LaneCursor {
        self.after.unwrap_or(self.start)
    }
}
