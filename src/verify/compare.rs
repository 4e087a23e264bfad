//! Compares a run with the reference, batch by batch, up to the first difference. Then finds out what happened to the
//! rows there.
//!
//! Held in memory: one batch of each. The expected row is sought in the rest of the run, and the found one in the
//! reference, which is read once more for it.

use std::collections::HashMap;

use super::difference::{Difference, DifferenceKind, RowAt};
use super::log::{Delivered, Row};
use crate::cursor::{Digest, Ledger};
use crate::error::Result;

/// The pairing of a batch's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pairing {
    /// Rows of the same number.
    InOrder,
    /// Equal rows: ranks may divide the rows of a batch as they like.
    Free,
}

/// How much was compared, and the first difference.
#[derive(Debug)]
pub(super) struct Compared {
    pub(super) batches: u64,
    pub(super) rows: u64,
    pairing: Pairing,
    odd: Option<Odd>,
}

/// A difference under examination.
#[derive(Debug, Default)]
struct Odd {
    batch: u64,
    row: Option<usize>,
    /// The rows that differ, if they exist; for a whole batch, its first.
    expected: Option<Row>,
    found: Option<Row>,
    /// The names that a report gives the rows.
    names: [Vec<String>; 2],
    expected_at: Option<RowAt>,
    /// Whether only the cursors differ.
    is_cursor: bool,
}

impl Compared {
    pub(super) fn new(pairing: Pairing) -> Self {
        Self { batches: 0, rows: 0, pairing, odd: None }
    }

    pub(super) fn differs(&self) -> bool {
        self.odd.is_some()
    }

    /// Whether more of the run is needed to find out what happened to a row.
    pub(super) fn is_looking(&self) -> bool {
        self.odd.as_ref().is_some_and(Odd::is_looking)
    }

    /// Compares `found` with the next batches of `expected`. After a difference it looks in `found` for the row that
    /// was expected.
    pub(super) fn go_on<E, F>(&mut self, expected: &mut E, found: F) -> Result<()>
    where
        E: Iterator<Item = Result<Delivered>>,
        F: Iterator<Item = Result<Delivered>>,
    {
        for found in found {
            if self.differs() && !self.is_looking() {
                break;
            }
            let found = found?;
            match &mut self.odd {
                Some(odd) => odd.look(&found, 0),
                None => match expected.next().transpose()? {
                    Some(expected) => self.pair(expected, found),
                    None => self.odd = Some(Odd::whole(found.batch, Vec::new(), found.rows)),
                },
            }
        }
        Ok(())
    }

    /// Ends the comparison: `expected` should have no more batches. Returns the first difference; `reference` is all
    /// of the reference.
    pub(super) fn end<E, R>(&mut self, expected: &mut E, reference: R) -> Result<Option<Difference>>
    where
        E: Iterator<Item = Result<Delivered>>,
        R: Iterator<Item = Result<Delivered>>,
    {
        if self.odd.is_none()
            && let Some(missing) = expected.next().transpose()?
        {
            self.odd = Some(Odd::whole(missing.batch, missing.rows, Vec::new()));
        }
        let Some(odd) = self.odd.take() else { return Ok(None) };
        // Among rows without an order, an equal row of the same batch came before.
        let from = match self.pairing {
            Pairing::InOrder => odd.row.unwrap_or(0),
            Pairing::Free => usize::MAX,
        };
        odd.explain(reference, from).map(Some)
    }

    fn pair(&mut self, expected: Delivered, found: Delivered) {
        let batch = expected.batch;
        if found.batch > batch {
            let mut odd = Odd::whole(batch, expected.rows, Vec::new());
            odd.look(&found, 0);
            self.odd = Some(odd);
            return;
        }
        if found.batch < batch {
            self.odd = Some(Odd::whole(found.batch, Vec::new(), found.rows));
            return;
        }
        self.batches += 1;
        self.rows += expected.rows.len().max(found.rows.len()) as u64;
        let odd = match self.pairing {
            Pairing::InOrder => in_order(&expected.rows, &found.rows),
            Pairing::Free => free(&expected.rows, &found.rows),
        };
        if let Some((row, expected, there)) = odd {
            let mut odd = Odd::row(batch, row, expected.cloned(), there.cloned());
            if self.pairing == Pairing::InOrder {
                odd.look(&found, row + 1);
            }
            self.odd = Some(odd);
        } else if let [Some(should), Some(is)] = [expected.own, found.own].map(|own| own?.counted)
            && should != is
        {
            let name = |(digest, ledger): (Digest, Ledger)| match should.0 == is.0 {
                true => format!("the ledger {ledger:?}"),
                false => format!("the digest {digest}"),
            };
            self.odd = Some(Odd::cursor(batch, [should.clone(), is.clone()].map(name)));
        }
    }
}

/// A row's number, and what differs there.
type Unequal<'a> = (usize, Option<&'a Row>, Option<&'a Row>);

/// The first row that is not equal to the one of its number.
fn in_order<'a>(expected: &'a [Row], found: &'a [Row]) -> Option<Unequal<'a>> {
    let identity = |row: &'a Row| &row.identity;
    (0..expected.len().max(found.len()))
        .map(|row| (row, expected.get(row), found.get(row)))
        .find(|(_, expected, found)| expected.map(identity) != found.map(identity))
}

/// The first expected row that was not found, and the first found row that was not expected. The number is the
/// former's, or else the latter's.
fn free<'a>(expected: &'a [Row], found: &'a [Row]) -> Option<Unequal<'a>> {
    let surplus = |of: &'a [Row], without: &[Row]| {
        let mut left: HashMap<&str, usize> = HashMap::new();
        for row in without {
            *left.entry(&row.identity).or_default() += 1;
        }
        of.iter().enumerate().find(|(_, row)| match left.get_mut(row.identity.as_str()) {
            Some(left @ 1..) => {
                *left -= 1;
                false
            }
            _ => true,
        })
    };
    let (missing, extra) = (surplus(expected, found), surplus(found, expected));
    let (row, _) = missing.or(extra)?;
    Some((row, missing.map(|(_, row)| row), extra.map(|(_, row)| row)))
}

impl Odd {
    fn row(batch: u64, row: usize, expected: Option<Row>, found: Option<Row>) -> Self {
        let names = [&expected, &found].map(|row| row.as_ref().map_or(Vec::new(), |row| row.names.clone()));
        Self { batch, row: Some(row), expected, found, names, ..Self::default() }
    }

    fn whole(batch: u64, expected: Vec<Row>, found: Vec<Row>) -> Self {
        let names = [&expected, &found].map(|rows| rows.iter().flat_map(|row| row.names.clone()).collect());
        let (expected, found) = (expected.into_iter().next(), found.into_iter().next());
        Self { batch, expected, found, names, ..Self::default() }
    }

    fn cursor(batch: u64, names: [String; 2]) -> Self {
        Self { batch, names: names.map(|name| vec![name]), is_cursor: true, ..Self::default() }
    }

    fn is_looking(&self) -> bool {
        self.expected.is_some() && self.expected_at.is_none()
    }

    /// Looks for the expected row among those of a batch of the run, from row `from` on.
    fn look(&mut self, run: &Delivered, from: usize) {
        let Some(expected) = self.expected.as_ref().filter(|_| self.expected_at.is_none()) else { return };
        let at = run.rows.iter().skip(from).position(|row| row.identity == expected.identity);
        self.expected_at = at.map(|at| RowAt { batch: run.batch, row: from + at });
    }

    /// Looks for the found row in the reference: the nearest one to row `from` of the batch that differs.
    fn explain(self, reference: impl Iterator<Item = Result<Delivered>>, from: usize) -> Result<Difference> {
        let (mut before, mut after) = (None, None);
        if let Some(found) = &self.found {
            // How many rows the reference has before the place that differs, and before the row at hand.
            let (mut place, mut rows) = (0, 0);
            'reference: for delivered in reference {
                let Delivered { batch, rows: of_batch, .. } = delivered?;
                for (row, it) in of_batch.iter().enumerate() {
                    let is_before = (batch, row) < (self.batch, from);
                    let at = (rows, RowAt { batch, row });
                    rows += 1;
                    place += u64::from(is_before);
                    match it.identity == found.identity {
                        true if is_before => before = Some(at),
                        true => {
                            after = Some(at);
                            break 'reference;
                        }
                        false => {}
                    }
                }
            }
            if let (Some((back, _)), Some((ahead, _))) = (before, after) {
                if place - back <= ahead - place { after = None } else { before = None }
            }
        }
        let found_at = before.or(after).map(|(_, at)| at);
        let kind = self.kind(before.is_some(), after.is_some());
        let Self { batch, row, names: [expected, found], expected_at, .. } = self;
        Ok(Difference { batch, row, kind, expected, found, expected_at, found_at })
    }

    /// What has happened, if the reference has the found row before this place, or after it.
    fn kind(&self, before: bool, after: bool) -> DifferenceKind {
        let is_lost = self.is_looking();
        let is_named_alike = self.expected.is_some() && self.names[0] == self.names[1];
        match self.found.is_some() {
            _ if self.is_cursor => DifferenceKind::Cursor,
            true if before => DifferenceKind::Repeated,
            true if !after && is_lost && is_named_alike => DifferenceKind::Changed,
            true if !after && is_lost => DifferenceKind::Replaced,
            true if !after => DifferenceKind::Inserted,
            _ if is_lost => DifferenceKind::Lost,
            _ => DifferenceKind::Moved,
        }
    }
}
