//! Best fit: each part goes where it leaves the least room.

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
    /// The rows that have room, as (room in ids, row). The least room that is enough is found in logarithmic
    /// time; among equals, the first row.
    room: BTreeSet<(usize, usize)>,
}

impl Bins {
    /// Returns no rows yet; each will hold at most `capacity` ids and `most` parts.
    pub(super) fn new(capacity: usize, most: usize) -> Self {
        Self { capacity, most, rows: Vec::new(), room: BTreeSet::new() }
    }

    /// Places parts of at most `capacity` ids, the longest first and equal ones in their order. Parts that
    /// continue a document come before all these and begin a row: after another document, their first id,
    /// which already was a target in its own document, would be a target again.
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

    /// Removes the rows that have room for more parts, `least` ids or more, and returns their parts.
    pub(super) fn take_underfull(&mut self, least: usize) -> Vec<Part> {
        let underfull = self.room.split_off(&(least, 0));
        underfull.into_iter().flat_map(|(_, row)| std::mem::take(&mut self.rows[row])).collect()
    }

    /// Returns the rows in the order in which they were begun.
    pub(super) fn into_rows(self) -> impl Iterator<Item = Vec<Part>> {
        self.rows.into_iter().filter(|row| !row.is_empty())
    }
}
