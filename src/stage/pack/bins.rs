//! Best fit: each part goes where the least room stays.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::document::Part;

/// Rows that are being filled.
#[derive(Debug)]
pub(super) struct Bins {
    capacity: usize,
    /// How many parts a row holds at most.
    most: usize,
    rows: Vec<Vec<Part>>,
    /// The room of each row that has some, in ids, and the row: the least room that is enough is found in
    /// logarithmic time, and of those alike the first row.
    room: BTreeSet<(usize, usize)>,
}

impl Bins {
    /// Rows of at most `capacity` ids and `most` parts, none so far.
    pub(super) fn new(capacity: usize, most: usize) -> Self {
        Self { capacity, most, rows: Vec::new(), room: BTreeSet::new() }
    }

    /// Places parts of at most `capacity` ids, the longest first and those alike in their order. What goes on with a
    /// document comes before all these and begins a row: behind another document its first id, which was a target in
    /// its own, would be one again.
    pub(super) fn place(&mut self, mut parts: Vec<Part>) {
        parts.sort_by_key(|part| (part.offset() == 0, Reverse(part.len())));
        for part in parts {
            let fit = self.room.range((part.len(), 0)..).next().filter(|_| part.offset() == 0);
            let (room, row) = match fit {
                Some(&fit) => {
                    self.room.remove(&fit);
                    fit
                }
                None => {
                    self.rows.push(Vec::new());
                    (self.capacity, self.rows.len() - 1)
                }
            };
            let room = room - part.len();
            self.rows[row].push(part);
            if room > 0 && self.rows[row].len() < self.most {
                self.room.insert((room, row));
            }
        }
    }

    /// Takes out the rows that have room for more parts, `least` ids of it or more.
    pub(super) fn take_underfull(&mut self, least: usize) -> Vec<Part> {
        let underfull = self.room.split_off(&(least, 0));
        underfull.into_iter().flat_map(|(_, row)| std::mem::take(&mut self.rows[row])).collect()
    }

    /// The rows, in the order in which they were begun.
    pub(super) fn into_rows(self) -> impl Iterator<Item = Vec<Part>> {
        self.rows.into_iter().filter(|row| !row.is_empty())
    }
}
