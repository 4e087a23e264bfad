//! Compares a run with the reference, batch by batch, up to the first difference.

use std::fmt;
use std::iter::Peekable;

use serde::Serialize;

use super::log::{Delivered, Reader, Row};
use crate::cursor::{Cursor, Digest};
use crate::error::Result;

/// How many documents of a row are named.
const NAMED: usize = 4;

/// The first place where a run differs from the reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The batch, from 0.
    pub batch: u64,
    /// The row within the whole batch, from 0. Absent if the batch itself is missing or one too many, or if only the
    /// running digest in the cursor after it differs.
    pub row: Option<usize>,
    /// What the reference has there: the row's documents as `path:line`, in order, or the digest.
    pub expected: Vec<String>,
    /// What the run has there.
    pub found: Vec<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, row, expected, found } = self;
        let Some(row) = row else {
            return match (&expected[..], &found[..]) {
                ([], _) => write!(f, "batch {batch} is one too many: {}", documents(found)),
                (_, []) => write!(f, "batch {batch} is missing: {}", documents(expected)),
                _ => write!(
                    f,
                    "the cursor after batch {batch} has another digest: it should be {}; it is {}",
                    expected.concat(),
                    found.concat()
                ),
            };
        };
        write!(f, "batch {batch}, row {row}: ")?;
        if expected == found {
            write!(f, "other ids of the same documents, {}", documents(expected))
        } else {
            write!(f, "it should be made of {}; it is made of {}", documents(expected), documents(found))
        }
    }
}

fn documents(list: &[String]) -> String {
    match list.len().saturating_sub(NAMED) {
        _ if list.is_empty() => "no document".to_owned(),
        0 => list.join(", "),
        more => format!("{} and {more} more", list[..NAMED].join(", ")),
    }
}

/// How much was compared, and what differed first.
#[derive(Clone, Debug, Default)]
pub(super) struct Compared {
    pub(super) batches: u64,
    pub(super) rows: u64,
    pub(super) difference: Option<Difference>,
}

impl Compared {
    /// Compares `found` with the next batches of `expected`. Reads nothing more after a difference.
    pub(super) fn go_on<E, F>(&mut self, expected: &mut E, found: F) -> Result<()>
    where
        E: Iterator<Item = Result<Delivered>>,
        F: Iterator<Item = Result<Delivered>>,
    {
        for found in found {
            if self.difference.is_some() {
                break;
            }
            let found = found?;
            match expected.next().transpose()? {
                Some(expected) => self.pair(&expected, &found),
                None => self.difference = Some(Difference::whole(found.batch, &[], &found.rows)),
            }
        }
        Ok(())
    }

    /// Ends the comparison: `expected` should have no more batches.
    pub(super) fn end(&mut self, expected: &mut impl Iterator<Item = Result<Delivered>>) -> Result<()> {
        if self.difference.is_none()
            && let Some(missing) = expected.next().transpose()?
        {
            self.difference = Some(Difference::whole(missing.batch, &missing.rows, &[]));
        }
        Ok(())
    }

    fn pair(&mut self, expected: &Delivered, found: &Delivered) {
        if found.batch > expected.batch {
            self.difference = Some(Difference::whole(expected.batch, &expected.rows, &[]));
            return;
        }
        if found.batch < expected.batch {
            self.difference = Some(Difference::whole(found.batch, &[], &found.rows));
            return;
        }
        let rows = expected.rows.len().max(found.rows.len());
        self.difference =
            (0..rows).find(|&row| expected.rows.get(row) != found.rows.get(row)).map(|row| Difference {
                batch: found.batch,
                row: Some(row),
                expected: expected.rows.get(row).map(places).unwrap_or_default(),
                found: found.rows.get(row).map(places).unwrap_or_default(),
            });
        self.batches += 1;
        self.rows += rows as u64;
        if self.difference.is_none()
            && let (Some(should), Some(is)) = (expected.digest, found.digest)
            && should != is
        {
            let batch = found.batch;
            let (expected, found) = (vec![should.to_string()], vec![is.to_string()]);
            self.difference = Some(Difference { batch, row: None, expected, found });
        }
    }
}

impl Difference {
    fn whole(batch: u64, expected: &[Row], found: &[Row]) -> Self {
        let all = |rows: &[Row]| rows.iter().flat_map(places).collect();
        Self { batch, row: None, expected: all(expected), found: all(found) }
    }
}

fn places(row: &Row) -> Vec<String> {
    row.documents.iter().map(ToString::to_string).collect()
}

/// The batches that the ranks of a world make together. If several ranks have rows of one batch, row k of rank r is row
/// `k * world + r`.
#[derive(Debug)]
pub(super) struct Together(Vec<Peekable<Reader>>);

impl Together {
    pub(super) fn new(ranks: Vec<Reader>) -> Self {
        Self(ranks.into_iter().map(Iterator::peekable).collect())
    }

    /// Returns the next batch; `None` if all ranks have ended. A rank that lacks the batch, or has fewer rows, leaves
    /// its places to the others, which the comparison will notice. The digest is that of all ranks' cursors.
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
        let digest = match parts.len() == self.0.len() {
            true => {
                let cursors: Vec<Cursor> = parts.iter().map(|part| part.cursor.clone()).collect();
                Some(Cursor::merge(&cursors)?.digest())
            }
            false => None,
        };
        Ok(interleave(parts, digest))
    }
}

impl Iterator for Together {
    type Item = Result<Delivered>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Takes the rows of all parts in turn. `digest` is that of the result.
fn interleave(parts: Vec<Delivered>, digest: Option<Digest>) -> Option<Delivered> {
    let first = parts.first()?;
    let (batch, cursor) = (first.batch, first.cursor.clone());
    let mut ranks: Vec<_> = parts.into_iter().map(|part| part.rows.into_iter()).collect();
    let mut rows = Vec::new();
    loop {
        let before = rows.len();
        rows.extend(ranks.iter_mut().filter_map(Iterator::next));
        if rows.len() == before {
            return Some(Delivered { batch, rows, cursor, digest });
        }
    }
}
