//! Merging the cursors of several ranks into one.

use std::path::Path;

use super::Cursor;
use crate::error::{Error, Result};

impl Cursor {
    /// Merges the cursors that all ranks saved after the same batch. The result has every lane, so it resumes
    /// exactly at any world size that divides the lanes. A whole cursor stays as it is.
    ///
    /// # Errors
    /// [`Error::Merge`] if the cursors are of different batches or runs, if two of them disagree on a lane,
    /// or if a lane is missing.
    pub fn merge(cursors: &[Self]) -> Result<Self> {
        let name = |index| if index == 0 { "the first".to_owned() } else { format!("number {}", index + 1) };
        merge(cursors, name)
    }

    /// Loads and merges cursors. Errors name the files.
    ///
    /// # Errors
    /// As [`load`](Cursor::load) and [`merge`](Cursor::merge).
    pub fn merge_files(paths: &[impl AsRef<Path>]) -> Result<Self> {
        let cursors = paths.iter().map(Self::load).collect::<Result<Vec<_>>>()?;
        merge(&cursors, |index| paths[index].as_ref().display().to_string())
    }
}

/// Merges cursors that errors call by their names.
fn merge(cursors: &[Cursor], name: impl Fn(usize) -> String) -> Result<Cursor> {
    let [first, rest @ ..] = cursors else { return Err(refused("there is no cursor")) };
    let mut whole = first.clone();
    for (cursor, index) in rest.iter().zip(1..) {
        let (one, other) = (name(0), name(index));
        whole.fingerprint.check(&cursor.fingerprint).map_err(|error| match error {
            Error::Fingerprint { field, saved, now } => {
                refused(&format!("{other} does not match {one}: its {field} is {saved}, not {now}"))
            }
            other => other,
        })?;
        if cursor.batch != whole.batch || cursor.turn != whole.turn {
            return Err(refused(&format!(
                "{one} is of batch {} and {other} of batch {}; take those that all ranks saved after the same batch",
                whole.batch, cursor.batch
            )));
        }
        if cursor.sources != whole.sources || cursor.lanes.len() != whole.lanes.len() {
            return Err(refused(&format!("{other} has other lanes or sources than {one}")));
        }
        if cursor.ledger_by != whole.ledger_by {
            return Err(refused(&format!("{other} counts by another column than {one}")));
        }
        if cursor.history != whole.history {
            return Err(refused(&format!("{other} has another history than {one}")));
        }
        for (lane, (mine, theirs)) in whole.lanes.iter_mut().zip(&cursor.lanes).enumerate() {
            match (&*mine, theirs) {
                (_, None) => {}
                (None, Some(_)) => mine.clone_from(theirs),
                (Some(one), Some(other)) if one == other => {}
                (Some(_), Some(_)) => {
                    return Err(refused(&format!(
                        "lane {lane} stands elsewhere in {other} than in those before it"
                    )));
                }
            }
        }
    }
    // Some ranks may have saved before they knew the stream's length.
    let mut lengths = cursors.iter().filter_map(|cursor| cursor.length.as_ref());
    if let Some(known) = lengths.find(|length| length.rounds().is_some()) {
        whole.length = Some(known.clone());
    }
    match whole.lanes.iter().position(Option::is_none) {
        Some(lane) => Err(missing(lane, cursors)),
        None => Ok(whole),
    }
}

/// Says which rank's cursor is missing, if it can be told, because no cursor has `lane`.
fn missing(lane: usize, cursors: &[Cursor]) -> Error {
    let lanes = cursors[0].lanes.len();
    let world = cursors.iter().find_map(world);
    let of_rank = world.map_or_else(String::new, |world| {
        format!(", so that of rank {} of {world} is missing", lane % world)
    });
    refused(&format!("lane {lane} of {lanes} is in none of them{of_rank}; give the cursors of all ranks"))
}

/// How many ranks there were, as the lanes of one rank tell.
fn world(cursor: &Cursor) -> Option<usize> {
    let known = || cursor.known_lanes();
    let (first, world) = (known().next()?, cursor.lanes.len() / known().count());
    known().eq((first..cursor.lanes.len()).step_by(world)).then_some(world)
}

fn refused(problem: &str) -> Error {
    Error::Merge { problem: problem.to_owned(), remedy: None }
}
