//! Merging the cursors of several ranks into one.

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
        let [first, rest @ ..] = cursors else { return Err(refused("there is no cursor")) };
        let mut whole = first.clone();
        for (index, cursor) in rest.iter().enumerate() {
            let number = index + 2;
            whole.fingerprint.check(&cursor.fingerprint).map_err(|error| match error {
                Error::Fingerprint { field, saved, now } => refused(&format!(
                    "number {number} does not match the first: its {field} is {saved}, not {now}"
                )),
                other => other,
            })?;
            if cursor.batch != whole.batch || cursor.turn != whole.turn {
                return Err(refused(&format!(
                    "the first is of batch {} and number {number} of batch {}; take those that all ranks saved \
                     after the same batch",
                    whole.batch, cursor.batch
                )));
            }
            if cursor.sources != whole.sources || cursor.lanes.len() != whole.lanes.len() {
                return Err(refused(&format!("number {number} has other lanes or sources than the first")));
            }
            if cursor.history != whole.history {
                return Err(refused(&format!("number {number} has another history than the first")));
            }
            for (lane, (mine, theirs)) in whole.lanes.iter_mut().zip(&cursor.lanes).enumerate() {
                match (&*mine, theirs) {
                    (_, None) => {}
                    (None, Some(_)) => mine.clone_from(theirs),
                    (Some(one), Some(other)) if one == other => {}
                    (Some(_), Some(_)) => {
                        return Err(refused(&format!(
                            "lane {lane} stands elsewhere in number {number} than in those before it"
                        )));
                    }
                }
            }
        }
        match whole.lanes.iter().position(Option::is_none) {
            Some(lane) => Err(refused(&format!(
                "lane {lane} of {} is in none of them; give the cursors of all ranks",
                whole.lanes.len()
            ))),
            None => Ok(whole),
        }
    }
}

fn refused(problem: &str) -> Error {
    Error::Merge { problem: problem.to_owned() }
}
