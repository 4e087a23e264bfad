//! Places documents into rows, window by window, so that no document that fits is cut.
//!
//! A document fits if one row can have all its ids except the first as targets: `seq_len + 1` ids. In a
//! longer document, each `seq_len` ids, with the ids ahead of them, are a row. The rest is a part at the
//! document's beginning, which is placed like a document. But where inputs look further ahead than one id,
//! that part would lack some of their targets. Then the rest is a part at the document's end, which begins a
//! row that other documents may fill.
//!
//! A window's documents are placed longest first, each into the row with the least room that is enough. Parts in rows
//! that stay underfull are left over: they are placed and delivered with the next window's documents. A part is left
//! over only once. So what a window leaves over depends on its own documents alone, and a resume needs only one window
//! before. The stream's last window leaves nothing over.
//!
//! The anchor is the cursor before the window that left something over or, if none did, before the window
//! itself. The skip says which of the two, and how many rows of the window were delivered. If the stream's
//! end cut the window short, the skip also says how long it is, since more documents may follow at a resume.

use super::bins::Bins;
use super::{LONG_DOCUMENT, Packer};
use crate::config::Packing;
use crate::cursor::{LaneCursor, Omitted, Tracked};
use crate::document::{Part, Sequence, Tokens};
use crate::error::{Error, Result};
use crate::order::permutation;
use crate::stage::window::{self, Windowed};

/// The length of the first window, in documents.
const FIRST_WINDOW: u64 = 16;

/// A row is underfull if more than this share of it is empty, in percent. Over the Rust sources in windows of
/// 64, this leaves 0.27 % of padding at 1,024, and 0.33 % if nothing is carried on. Values from 10 to 50 do
/// as well.
const UNDERFULL: usize = 25;

/// Best-fit packing: one window that drains and one that fills.
#[derive(Debug)]
pub(super) struct BestFit {
    seq_len: usize,
    width: usize,
    /// How many segments a row holds at most.
    most: usize,
    window: u64,
    start: LaneCursor,
    /// The rows that the stream had delivered before it was resumed, to be made again.
    resume: Skip,
    /// The cursor before the filling window; unknown until a document is read.
    anchor: Option<LaneCursor>,
    /// The cursor after the last document that was read.
    end: LaneCursor,
    /// What drains is rows; a place is an anchor and the skip before the window's first row.
    windows: Windowed<Tokens, Vec<Part>, (LaneCursor, Skip)>,
    /// The parts that the window before the filling one left over, and the cursor before that window.
    carried: Vec<Part>,
    prelude: Option<LaneCursor>,
    /// What was left out in the filling window, what counts with the next window, and what with the next row.
    left_out: Omitted,
    carried_out: Omitted,
    left_out_before: Option<Box<Omitted>>,
    finished: bool,
}

/// The parts of the cursor's number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Skip {
    /// Whether the anchor is the cursor before the previous window.
    prelude: bool,
    /// Rows of the window that were delivered.
    delivered: u64,
    /// How many documents the window has, if it is the stream's last.
    last: Option<u64>,
}

impl Skip {
    /// One bit, 32 bits, and the rest; a rest of 0 says that the window is not the last.
    fn encode(self) -> u64 {
        let last = self.last.map_or(0, |documents| documents + 1);
        last << 33 | self.delivered << 1 | u64::from(self.prelude)
    }

    fn decode(skip: u64) -> Self {
        let delivered = skip >> 1 & u64::from(u32::MAX);
        Self { prelude: skip & 1 == 1, delivered, last: (skip >> 33).checked_sub(1) }
    }
}

impl BestFit {
    pub(super) fn new(packing: &Packing, start: &LaneCursor) -> Self {
        Self {
            seq_len: packing.seq_len,
            width: packing.width(),
            most: packing.max_segments.unwrap_or(usize::MAX),
            window: packing.window as u64,
            start: *start,
            resume: Skip::default(),
            anchor: None,
            end: *start,
            windows: Windowed::new("rows of best-fit packing", (*start, Skip::default())),
            carried: Vec::new(),
            prelude: None,
            left_out: Omitted::default(),
            carried_out: Omitted::default(),
            left_out_before: None,
            finished: false,
        }
    }

    /// How many documents the filling window has, if it is known to be the stream's last.
    fn last(&self) -> Option<u64> {
        match self.resume.last {
            Some(documents) if !self.resume.prelude => Some(documents),
            _ => Some(self.filled()).filter(|len| self.finished && *len < self.size()),
        }
    }

    /// How long the filling window will be; one until a document says more.
    fn size(&self) -> u64 {
        match self.resume.last {
            _ if self.anchor.is_none() => 1,
            Some(documents) if !self.resume.prelude => documents,
            _ => self.whole(),
        }
    }

    /// How long it is now.
    fn filled(&self) -> u64 {
        self.windows.filling.len() as u64
    }

    /// How long the filling window will be unless the stream ends: as long as all before it, within bounds.
    fn whole(&self) -> u64 {
        window::length(self.anchor.unwrap_or(self.start).documents, FIRST_WINDOW, self.window)
    }

    /// Refuses a last window that is not shorter than others, or that gave no rows. `resume` describes the
    /// filling window, unless there is a prelude.
    fn check_last(&self) -> Result<()> {
        match self.resume {
            Skip { prelude: false, last: Some(documents), delivered }
                if documents >= self.whole()
                    || delivered == 0
                    || documents + self.carried.len() as u64 == 0 =>
            {
                Err(refused(&format!("a last window of {documents} documents gave {delivered} rows")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses a window that is shorter than it was when the cursor was made.
    fn check_filled(&self) -> Result<()> {
        let Skip { prelude, delivered, last } = self.resume;
        let len = self.filled();
        let was = last.filter(|_| !prelude).unwrap_or_else(|| self.whole());
        if (prelude || delivered > 0) && len < was {
            return Err(refused(&format!("a window of {was} documents has {len}")));
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.finished && self.filled() == 0 && self.carried.is_empty()
    }

    /// Begins to drain the filled window.
    fn turn(&mut self) -> Result<()> {
        self.check_filled()?;
        let anchor = self.anchor.unwrap_or(self.start);
        let last = self.last();
        let (mut rows, mut parts) = self.cut();
        let bins = || Bins::new(self.seq_len + 1, self.most);
        let mut left_over = Vec::new();
        if last.is_none() {
            let mut own = bins();
            own.place(parts);
            left_over = own.take_underfull((self.seq_len + 1) * UNDERFULL / 100 + 1);
            parts = own.into_rows().flatten().collect();
        }
        // What is left out counts with the window's first row, or with the next window's if all of this one is left over.
        let is_left_over = rows.is_empty() && parts.is_empty() && !left_over.is_empty();
        let mut left_out = std::mem::take(&mut self.carried_out);
        let counts_with = if is_left_over { &mut self.carried_out } else { &mut left_out };
        *counts_with += std::mem::take(&mut self.left_out);
        let mut bins = bins();
        parts.append(&mut self.carried);
        bins.place(parts);
        self.carried = left_over.into_iter().map(|part| part.detached(LONG_DOCUMENT * self.width)).collect();
        let carries = !self.carried.is_empty();
        let before = std::mem::replace(&mut self.prelude, carries.then_some(anchor));
        self.anchor = Some(self.end);
        if std::mem::take(&mut self.resume.prelude) {
            if !carries {
                return Err(refused("the window before leaves nothing over"));
            }
            return self.check_last();
        }
        rows.extend(bins.into_rows());
        let place = [anchor.epoch, anchor.documents];
        // Of the shuffle's number the lower half: how much was delivered, and not how long its window is.
        let skips = (0..anchor.depth()).map(|depth| anchor.skip(depth) & u64::from(u32::MAX));
        let key: Vec<u64> = place.into_iter().chain(skips).collect();
        let order = permutation("best fit", &key, rows.len());
        let resumed = std::mem::take(&mut self.resume).delivered;
        if resumed == 0 {
            if let Some(before) = self.left_out_before.take() {
                left_out += *before;
            }
            self.left_out_before = left_out.boxed();
        }
        // The cursor of a window's last row is the next window's start.
        let places = [
            (before.unwrap_or(anchor), Skip { prelude: before.is_some(), delivered: 0, last }),
            match carries {
                true => (anchor, Skip { prelude: true, ..Skip::default() }),
                false => (self.end, Skip::default()),
            },
        ];
        self.windows.drain(rows.into_iter().map(Some).collect(), order, resumed, places)?;
        Ok(())
    }

    /// Returns the full rows of the filling window's long documents, and the parts to place.
    fn cut(&mut self) -> (Vec<Vec<Part>>, Vec<Part>) {
        let (mut rows, mut parts) = (Vec::new(), Vec::new());
        for tokens in self.windows.take().into_iter().filter(|tokens| !tokens.is_empty()) {
            let len = tokens.len();
            let mut from = 0;
            if len > self.seq_len + 1 && self.width == self.seq_len + 1 {
                from = (len - 1) % self.seq_len;
                if from > 0 {
                    parts.push(Part::new(&tokens, 0..from + 1));
                }
            }
            while len - from > self.seq_len + 1 {
                rows.push(vec![Part::new(&tokens, from..len.min(from + self.width))]);
                from += self.seq_len;
            }
            parts.push(Part::new(&tokens, from..len));
        }
        (rows, parts)
    }
}

impl Packer for BestFit {
    /// Enough that the next window is whole when this one is drained.
    fn room(&self) -> usize {
        self.windows.room(self.size())
    }

    fn push(&mut self, Tracked { value: tokens, cursor }: Tracked<Tokens>) -> Result<()> {
        if self.anchor.is_none() {
            let depth = cursor.depth();
            self.anchor = Some(self.start.upstream(depth));
            self.resume = Skip::decode(self.start.skip(depth));
            self.check_last()?;
        }
        self.end = cursor;
        self.windows.filling.push(tokens);
        Ok(())
    }

    fn leave_out(&mut self, tokens: Tracked<Tokens>, ledger: Omitted) -> Result<()> {
        self.push(tokens)?;
        self.left_out += ledger;
        Ok(())
    }

    fn is_due(&self) -> bool {
        self.windows.is_drained()
    }

    fn finish(&mut self) {
        self.finished = true;
        self.windows.cut();
    }

    fn pop(&mut self) -> Result<Option<Tracked<Sequence>>> {
        loop {
            if let Some((parts, (place, skip), delivered)) = self.windows.next() {
                let cursor = place.anchored(Skip { delivered, ..skip }.encode());
                let row = Sequence::new(parts, self.width).leaving_out(self.left_out_before.take());
                return Ok(Some(Tracked::new(row, cursor)));
            }
            if self.windows.lacks(self.size()) > 0 || self.is_done() {
                return Ok(None);
            }
            self.turn()?;
        }
    }

    fn left_out(&self) -> Omitted {
        let mut left_out = self.left_out_before.as_deref().cloned().unwrap_or_default();
        left_out += self.carried_out.clone();
        left_out += self.left_out.clone();
        left_out
    }

    fn end(&self) -> LaneCursor {
        self.end
    }
}

fn refused(problem: &str) -> Error {
    Error::resume(format!("best-fit packing: {problem}"))
}
