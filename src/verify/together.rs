//! The batches that the ranks of a world make together.

use std::iter::Peekable;

use super::log::{Delivered, Reader, Row, State};
use crate::cursor::{Cursor, Digest};
use crate::error::Result;

/// The batches that the ranks of a world make together.
///
/// Row k of rank r of a Millstream loader is row `k * world + r`, if several ranks have rows of one batch. Any loader's
/// rows are those of rank 0, then those of rank 1, and so on.
#[derive(Debug)]
pub(super) struct Together(Vec<Peekable<Reader>>);

impl Together {
    pub(super) fn new(ranks: Vec<Reader>) -> Self {
        Self(ranks.into_iter().map(Iterator::peekable).collect())
    }

    /// Returns the next batch; `None` if all ranks have ended. A rank that lacks the batch, or has fewer rows, leaves
    /// its places to the others, which the comparison will notice.
    fn read(&mut self) -> Result<Option<Delivered>> {
        let mut heads = Vec::new();
        for rank in &mut self.0 {
            match rank.peek() {
                Some(Ok(delivered)) => heads.push(delivered.batch),
                Some(Err(_)) => return rank.next().transpose(),
                None => {}
            }
        }
        let Some(batch) = heads.into_iter().min() else { return Ok(None) };
        let is_next =
            |head: &Result<Delivered>| head.as_ref().is_ok_and(|delivered| delivered.batch == batch);
        let parts: Result<Vec<Delivered>> =
            self.0.iter_mut().filter_map(|rank| rank.next_if(is_next)).collect();
        let parts = parts?;
        let Some(Delivered { state, .. }) = parts.first() else { return Ok(None) };
        let state = state.clone();
        let digest = self.digest(&parts)?;
        let rows = parts.into_iter().map(|part| part.rows);
        let rows = match state {
            State::Cursor(_) => interleave(rows),
            State::Text(_) => rows.flatten().collect(),
        };
        Ok(Some(Delivered { batch, rows, state, digest }))
    }

    /// The digest of the cursors of all ranks, if all have the batch.
    fn digest(&self, parts: &[Delivered]) -> Result<Option<Digest>> {
        let cursor = |part: &Delivered| match &part.state {
            State::Cursor(cursor) => Some(cursor.clone()),
            State::Text(_) => None,
        };
        let cursors: Vec<Cursor> = parts.iter().filter_map(cursor).collect();
        if cursors.len() < self.0.len() {
            return Ok(None);
        }
        Ok(Some(Cursor::merge(&cursors)?.digest()))
    }
}

impl Iterator for Together {
    type Item = Result<Delivered>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Takes a row of each part in turn.
fn interleave(parts: impl Iterator<Item = Vec<Row>>) -> Vec<Row> {
    let mut parts: Vec<_> = parts.map(Vec::into_iter).collect();
    let mut rows = Vec::new();
    loop {
        let before = rows.len();
        rows.extend(parts.iter_mut().filter_map(Iterator::next));
        if rows.len() == before {
            return rows;
        }
    }
}
