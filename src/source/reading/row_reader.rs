//! Looks up one lane's finished rows, group by group.

use std::ops::Range;
use std::sync::Arc;

use super::row_places::RowPlaces;
use crate::budget::{Budget, Lease};
use crate::cursor::LaneCursor;
use crate::document::{Arena, FinishedPiece, FinishedRows, Sequence};
use crate::error::{Error, Result};
use crate::files::{Files, Position};
use crate::rows::{RowRun, RowSegment, RowSet, StoredPiece};
use crate::segment::{BLOCK, HeldIds, StoredIds};
use crate::shards::{Piece, SegmentRange};
use crate::source::lane::Lane;
use crate::store::FileOpener;

/// Looks up the rows of one lane.
#[derive(Debug)]
pub(crate) struct RowReader {
    set: Arc<RowSet>,
    files: Arc<Files>,
    /// The numbers of the source's first file, and of its first segment among the stored files.
    first_file: u32,
    first_segment: u32,
    lane: Lane,
    is_held_out: bool,
    is_remote: bool,
    places: Option<RowPlaces>,
    opener: FileOpener,
    budget: Option<Arc<Budget>>,
    at: LaneCursor,
}

/// The place of a reader's files among those of a corpus.
#[derive(Debug)]
pub(crate) struct RowFiles {
    pub(crate) files: Arc<Files>,
    pub(crate) first_file: u32,
    pub(crate) first_segment: u32,
    pub(crate) opener: FileOpener,
}

/// Rows that were looked up.
#[derive(Debug, Default)]
pub(crate) struct RowGroup {
    epoch: u64,
    rows: Arc<FinishedRows>,
    next: usize,
}

/// A row that is sought: its segment, and its number there.
#[derive(Clone, Copy, Debug)]
struct Sought<'a> {
    segment: &'a RowSegment,
    nth: usize,
}

impl RowGroup {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// How many pieces of documents the rows have.
    pub(crate) fn pieces(&self) -> u64 {
        self.rows.pieces() as u64
    }

    /// Takes the next row, and moves the cursor behind it.
    pub(crate) fn pop(&mut self, at: &mut LaneCursor) -> Option<Sequence> {
        if self.next == self.rows.len() {
            return None;
        }
        let row = Sequence::finished(self.rows.clone(), self.next);
        self.next += 1;
        if at.epoch != self.epoch {
            (at.epoch, at.split) = (self.epoch, 0);
        }
        at.split += 1;
        at.documents += 1;
        Some(row)
    }
}

impl RowReader {
    /// Looks up the rows of a lane from `at` on.
    pub(crate) fn new(
        set: Arc<RowSet>,
        RowFiles { files, first_file, first_segment, opener }: RowFiles,
        lane: Lane,
        budget: Option<Arc<Budget>>,
        at: &LaneCursor,
    ) -> Self {
        let is_held_out = lane.holdout.is_held_out();
        let is_remote = set.remote().next().is_some();
        let places = None;
        Self {
            set,
            files,
            first_file,
            first_segment,
            lane,
            is_held_out,
            is_remote,
            places,
            opener,
            budget,
            at: *at,
        }
    }

    /// Whether some rows are in a store.
    pub(crate) fn is_remote(&self) -> bool {
        self.is_remote
    }

    /// Looks up at most `step` rows; `None` if the lane ends. If `is_ahead`, the system is asked for all of their pages
    /// first.
    pub(crate) fn read(&mut self, step: u64, is_ahead: bool) -> Result<Option<RowGroup>> {
        let set = self.set.clone();
        let run = set.run(self.is_held_out);
        if !self.find_row(run)? {
            return Ok(None);
        }
        let Some(places) = &self.places else { return Ok(None) };
        let step = if self.is_remote { step.min(self.most_fetched()) } else { step };
        let behind = places.len().min(self.at.split + step);
        let sought = places.at(self.at.split..behind).into_iter().map(|row| {
            let (segment, nth) = run.at(row);
            Sought { segment: &run.segments()[segment], nth }
        });
        let sought: Vec<Sought<'_>> = sought.collect();
        let rows = match is_ahead {
            true => self.asked(&sought)?,
            false => self.at_hand(&sought)?,
        };
        rows.soon(0);
        let group = RowGroup { epoch: self.at.epoch, rows: Arc::new(rows), next: 0 };
        self.at.documents += sought.len() as u64;
        self.at.split = behind;
        Ok(Some(group))
    }

    /// Moves to the next row. Returns false if the lane ends.
    fn find_row(&mut self, run: &RowRun) -> Result<bool> {
        loop {
            if self.lane.epochs.is_some_and(|epochs| self.at.epoch >= epochs) {
                return Ok(false);
            }
            if self.places.as_ref().is_none_or(|places| places.epoch() != self.at.epoch) {
                let is_start = self.places.is_none();
                // Those that are held out come in the order that they have in any run.
                let is_shuffled = self.lane.shuffle_splits && !self.is_held_out;
                let places = RowPlaces::new(run.len(), self.lane, self.at.epoch, is_shuffled);
                if is_start {
                    run.scatter();
                    self.check_start(places.len())?;
                }
                self.places = Some(places);
            }
            let rows = self.places.as_ref().map_or(0, RowPlaces::len);
            if rows == 0 {
                return Ok(false);
            }
            if self.at.split < rows {
                return Ok(true);
            }
            (self.at.epoch, self.at.split) = (self.at.epoch + 1, 0);
        }
    }

    /// Refuses a start that is no place of the lane's epoch.
    fn check_start(&self, rows: u64) -> Result<()> {
        let (at, lane) = (self.at, self.lane.lane);
        if at.split <= rows && (at.byte, at.line) == (0, 0) {
            return Ok(());
        }
        Err(Error::resume(format!("row {} of lane {lane}, which has {rows} in an epoch", at.split)))
    }

    /// How many rows a store is asked for at once: each takes at least a block of ids, of pieces and of ends.
    fn most_fetched(&self) -> u64 {
        let row = 4 * self.set.rules().stride() + 4 * BLOCK;
        (self.opener.room() / (2 * row as u64)).max(1)
    }

    /// Looks up rows whose pages are in memory. Each pass tells the processor what the next one reads, so that it waits for
    /// the memory once and not for each row.
    fn at_hand(&self, sought: &[Sought<'_>]) -> Result<FinishedRows> {
        let mut rows = self.no_rows(sought.len());
        for Sought { segment, nth } in sought {
            segment.tokens().soon(segment.ends(*nth));
        }
        let mut pieces = Vec::with_capacity(sought.len());
        for Sought { segment, nth } in sought {
            let of_row = segment.pieces(*nth, segment.tokens().mapped_bytes(segment.ends(*nth))?)?;
            segment.tokens().soon(of_row.clone());
            pieces.push(of_row);
        }
        for (Sought { segment, nth }, of_row) in sought.iter().zip(pieces) {
            let tokens = segment.tokens();
            segment
                .pieces_in(*nth, tokens.mapped_bytes(of_row)?, |piece| rows.piece(self.finished(piece)))?;
            tokens.mapped_bytes(segment.ids(*nth))?;
            let arena = segment
                .arena(&self.files)
                .ok_or_else(|| Error::resume("rows that are not here".to_owned()))?;
            rows.row(arena.clone(), segment.first_id(*nth), rows.pieces());
        }
        Ok(rows)
    }

    /// Looks up rows together: first all their ends, then their pieces and ids. The bytes of rows in a store are held.
    fn asked(&self, sought: &[Sought<'_>]) -> Result<FinishedRows> {
        let mut rows = self.no_rows(sought.len());
        let fetch = |ranges: Vec<SegmentRange>| {
            self.opener
                .fetch(ranges.into_iter().map(|(segment, range)| (self.first_segment + segment, range)))
        };
        let wanted: Vec<Piece<'_>> = sought.iter().map(|row| row.piece(row.segment.ends(row.nth))).collect();
        wanted.iter().for_each(|piece| piece.tokens.will_need_again(piece.bytes.clone()));
        let mut wanted_of_rows = Vec::with_capacity(2 * sought.len());
        self.set.sums().read(&wanted, fetch, |number, bytes| {
            let row = &sought[number];
            wanted_of_rows.push(row.piece(row.segment.pieces(row.nth, bytes)?));
            wanted_of_rows.push(row.piece(row.segment.ids(row.nth)));
            Ok(())
        })?;
        wanted_of_rows.iter().for_each(|piece| piece.tokens.will_need_again(piece.bytes.clone()));
        let (mut held, mut found) = (Vec::new(), Vec::new());
        self.set.sums().read(&wanted_of_rows, fetch, |number, bytes| {
            let Sought { segment, nth } = sought[number / 2];
            if number % 2 == 0 {
                return segment.pieces_in(nth, bytes, |piece| rows.piece(self.finished(piece)));
            }
            let here = segment.arena(&self.files);
            let at = here.map_or(held.len(), |_| segment.first_id(nth));
            if here.is_none() {
                segment.tokens().append(bytes, &mut held);
            }
            found.push((here.cloned(), at, rows.pieces()));
            Ok(())
        })?;
        let fetched = self.fetched(held);
        for (here, at, pieces_end) in found {
            rows.row(here.unwrap_or_else(|| fetched.clone()), at, pieces_end);
        }
        Ok(rows)
    }

    /// A group without rows, and room for some.
    fn no_rows(&self, room: usize) -> FinishedRows {
        FinishedRows::with_room(room, self.set.rules().stride())
    }

    /// A piece with the corpus's number of its file.
    fn finished(&self, piece: StoredPiece) -> FinishedPiece {
        let StoredPiece { len, offset, file, document: (ids, text_bytes), byte, line, from } = piece;
        let position = Position { file: self.first_file + file, line, byte, from };
        FinishedPiece { len, offset: offset as u32, document: (ids as u32, text_bytes as u32), position }
    }

    /// Ids that came from a store, as an arena.
    fn fetched(&self, ids: Vec<u32>) -> Arc<Arena> {
        let lease = self.budget.as_ref().map(|budget| budget.charge(size_of_val(&*ids)));
        let tokenizer = self.set.rules().tokenizer.as_str().into();
        let held =
            HeldIds::new(self.set.path().to_owned(), tokenizer, ids, lease.unwrap_or_else(Lease::none));
        Arena::rows(StoredIds::Held(held.into()), self.files.clone())
    }
}

impl<'a> Sought<'a> {
    fn piece(&self, bytes: Range<usize>) -> Piece<'a> {
        Piece { tokens: self.segment.tokens(), bytes }
    }
}
