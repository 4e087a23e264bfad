//! Documents from the pieces of batches: the ids of a document that rows have cut are put together again.

use std::collections::HashMap;
use std::ops::Range;

use crate::batch::{Batch, Piece};

/// Which document: its source, the number of its file there, and where it begins.
pub(super) type Key = (usize, u32, u64);

/// The ids of a document so far, and whether each is learned from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Gathered {
    pub(super) ids: Vec<u32>,
    pub(super) learned: Vec<bool>,
}

/// What a piece is of its document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The document up to here. More may follow if it reaches its row's end.
    Beginning { gathered: Gathered, is_whole: bool },
    /// The rest of a document whose beginning was before the first batch.
    Rest,
    /// The end of a document that is known already: rows overlap.
    Repeated,
    /// The rest of a document, in a row that begins with it.
    Inside,
}

/// The documents that reach the end of their row.
#[derive(Debug, Default)]
pub(super) struct Documents {
    open: HashMap<Key, Gathered>,
    /// How many ids those have of which the next row repeats some.
    repeated: HashMap<Key, usize>,
    /// Whether rows may cut documents.
    cuts: bool,
    /// Whether documents may have begun before the first batch.
    is_within: bool,
}

impl Documents {
    pub(super) fn new(cuts: bool) -> Self {
        Self { cuts, ..Self::default() }
    }

    /// The same for batches from the middle of a stream.
    pub(super) fn within_stream(self) -> Self {
        Self { is_within: true, ..self }
    }

    /// Adds the piece of a document. `learned` says of all ids of the batch whether they are learned from.
    pub(super) fn add(&mut self, key: Key, batch: &Batch, piece: &Piece, learned: &[bool]) -> Part {
        let (row, offset) = (piece.row as usize, piece.offset as usize);
        let places: Range<usize> =
            row * batch.width() + piece.from as usize..row * batch.width() + piece.to as usize;
        let overlap = batch.width() - batch.seq_len();
        let is_repeated = |len: &usize| places.len() <= overlap && offset + places.len() <= *len;
        let mut gathered = match offset {
            0 => Gathered::default(),
            _ if !self.cuts => return Part::Inside,
            _ => match self.open.remove(&key).filter(|open| open.ids.len() >= offset) {
                Some(open) => open,
                None if self.repeated.get(&key).is_some_and(is_repeated) => return Part::Repeated,
                None if self.is_within => return Part::Rest,
                None => return Part::Inside,
            },
        };
        // Rows overlap by some ids.
        let known = (gathered.ids.len() - offset).min(places.len());
        gathered.ids.extend(&batch.ids()[places.start + known..places.end]);
        gathered.learned.extend(&learned[places.start + known..places.end]);
        let is_whole = !self.cuts || piece.to < batch.lengths()[row];
        match self.cuts && piece.to as usize + overlap > batch.lengths()[row] as usize {
            true => self.repeated.insert(key, gathered.ids.len()),
            false => self.repeated.remove(&key),
        };
        Part::Beginning { gathered, is_whole }
    }

    /// Keeps a document that may go on in another row.
    pub(super) fn keep(&mut self, key: Key, gathered: Gathered) {
        self.open.insert(key, gathered);
    }

    /// How many documents may go on.
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }
}
