//! The first place where a run differs from the reference, for people and scripts.

use std::fmt;

use serde::Serialize;

use crate::excerpt::first;

/// How many documents of a row are named.
const NAMED: usize = 4;

/// The first place where a run differs from the reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The batch, from 0.
    pub batch: u64,
    /// The row within the whole batch, from 0. Absent if the batch itself is missing or one too many, or if only the
    /// digest or the ledger in the cursor after it differs.
    pub row: Option<usize>,
    /// The kind of difference.
    pub kind: DifferenceKind,
    /// The reference's row: where its documents begin, in order, or the name that a loader gives the
    /// row; or the digest or the ledger.
    pub expected: Vec<String>,
    /// The run's row, likewise.
    pub found: Vec<String>,
    /// Where the expected row comes later in the run instead, if it does.
    pub expected_at: Option<RowAt>,
    /// Where the reference has the found row, if it does. Of several equal rows, the nearest.
    pub found_at: Option<RowAt>,
}

/// The kind of a difference from the reference.
///
/// "Comes" and "has" refer to the compared batches: a row that comes after the last of them counts as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DifferenceKind {
    /// The expected row comes nowhere in the rest of the run, and a later row of the reference, or none, is in its place.
    Lost,
    /// The found row was due before, and now comes again.
    Repeated,
    /// The found row has the name of the expected one and other contents, which the reference has nowhere.
    Changed,
    /// The rows come in another order.
    Moved,
    /// The reference has the found row nowhere, and the expected row, if there is one, comes later.
    Inserted,
    /// The reference has the found row nowhere, and the expected row comes nowhere in the rest of the run.
    Replaced,
    /// The rows are equal so far, but the digest or the ledger in the cursor is not.
    Cursor,
}

impl fmt::Display for DifferenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The place of a row in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RowAt {
    /// The batch, from 0.
    pub batch: u64,
    /// The row within the whole batch, from 0.
    pub row: usize,
}

impl fmt::Display for RowAt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} of batch {}", self.row, self.batch)
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, row, kind, expected, found, .. } = self;
        match (kind, row) {
            (DifferenceKind::Cursor, _) => write!(
                f,
                "the cursor after batch {batch} differs: it should have {}; it has {}",
                expected.concat(),
                found.concat()
            ),
            (DifferenceKind::Changed, Some(row)) => write!(
                f,
                "batch {batch}, row {row}: changed: it is {}, as expected, but with other contents",
                names(found)
            ),
            (DifferenceKind::Lost | DifferenceKind::Moved | DifferenceKind::Replaced, Some(row)) => {
                write!(f, "batch {batch}, row {row}: {kind}: {}; {}", self.due(), self.there())
            }
            (_, Some(row)) => write!(f, "batch {batch}, row {row}: {kind}: {}; {}", self.there(), self.due()),
            (_, None) if self.is_one_too_many() => {
                write!(f, "batch {batch} is one too many: {}", names(found))?;
                self.found_at.map_or(Ok(()), |at| write!(f, "; it begins with {at}{}", self.again()))
            }
            (_, None) => {
                write!(f, "batch {batch} is missing: {}", names(expected))?;
                self.expected_at.map_or(Ok(()), |at| write!(f, "; its first row comes as {at}"))
            }
        }
    }
}

impl Difference {
    fn is_one_too_many(&self) -> bool {
        self.expected.is_empty()
    }

    /// The expected row, and what happened to it.
    fn due(&self) -> String {
        match (&self.expected[..], self.expected_at) {
            ([], None) => "expected nothing there".to_owned(),
            (expected, None) => {
                format!("expected {}, which comes nowhere in the rest of the run", names(expected))
            }
            (expected, Some(at)) => format!("expected {}, which comes as {at}", names(expected)),
        }
    }

    /// The found row, and where the reference has it.
    fn there(&self) -> String {
        match (&self.found[..], self.found_at) {
            ([], None) => "there is nothing".to_owned(),
            (found, None) => format!("it is {}, which the reference has nowhere", names(found)),
            (found, Some(at)) => format!("it is {at}{} ({})", self.again(), names(found)),
        }
    }

    fn again(&self) -> &'static str {
        match self.kind {
            DifferenceKind::Repeated => " again",
            _ => " of the reference",
        }
    }
}

fn names(list: &[String]) -> String {
    match list {
        [] => "no document".to_owned(),
        list => first(list.iter().cloned(), NAMED),
    }
}
