//! A run as its directory has it: its sessions, its trail, and which batches its steps used.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;

use crate::progress;
use millstream::replay::{Run, Session, merged};
use millstream::{Cursor, Error, Result, trail};
use millstream_train::{Checkpoint, RunDirectory, SessionConfig};

/// The end of the metrics that is read for the last step, in bytes.
const TAIL: u64 = 1 << 20;

/// Which batches the steps of a run used.
#[derive(Debug)]
pub(super) struct Steps {
    /// Where each session begins, ascending.
    sessions: Vec<Begin>,
    /// The batches that no step used, in order: those that are excluded, and those without targets.
    unused: Vec<Range<u64>>,
}

/// Where a session begins.
#[derive(Clone, Copy, Debug)]
struct Begin {
    /// The steps and batches before it.
    step: u64,
    batch: u64,
    /// How many batches a step uses.
    accumulate: u64,
}

/// The only field of a line of metrics that counts here.
#[derive(Deserialize)]
struct Line {
    step: u64,
}

/// Reads the directory of a run. `moved` are settings that say where its files are now.
pub(super) fn read(root: &Path, moved: &[String]) -> Result<(Run, Steps)> {
    let directory = RunDirectory::open(root)?;
    let mut configs = directory.sessions()?;
    // Files are read where the last session has them.
    if let Some(last) = configs.last_mut() {
        last.config = directory.config(moved)?;
    }
    let mut trail = trail::all(directory.trail())?;
    if trail.is_empty() {
        progress::say("the run has no trail of cursors (train.trail_every): it is read from its start");
    }
    let checkpoint = Checkpoint::latest(&directory.checkpoints())?;
    let saved = checkpoint.as_ref().map(|checkpoint| checkpoint.state().step).unwrap_or_default();
    if let Some(cursor) = checkpoint.map(|checkpoint| checkpoint.cursor()).transpose()?.flatten() {
        // Of several ranks, it knows all lanes, and the trail only the first one's.
        let lanes = |cursor: &Cursor| cursor.known_lanes().count();
        let place = trail.partition_point(|other| other.batch() <= cursor.batch());
        let before = place.checked_sub(1).map(|before| &trail[before]);
        if before.is_none_or(|before| before.batch() < cursor.batch() || lanes(before) < lanes(&cursor)) {
            trail.insert(place, cursor);
        }
    }
    let begin = |session: &SessionConfig| Begin {
        step: session.step,
        batch: session.batch,
        accumulate: session.config.train.accumulate.max(1) as u64,
    };
    let begins = configs.iter().map(begin).collect();
    let session = |session: SessionConfig| Session { begins: session.batch, config: session.config.data };
    let files = directory.listing()?;
    let batches = trail.last().map_or(0, |last| last.batch());
    let sessions = configs.into_iter().map(session).collect();
    let mut run = Run { sessions, batches, trail, unused: directory.unused_batches()?, files };
    let steps =
        Steps { sessions: begins, unused: merged([run.excluded_batches(), run.unused.clone()].concat()) };
    match last_step(&directory.metrics())? {
        Some(step) if step > saved => run.batches = run.batches.max(steps.batches(step)),
        _ => {}
    }
    Ok((run, steps))
}

impl Steps {
    /// The step that used a batch, from 1.
    pub(super) fn of(&self, batch: u64) -> u64 {
        let Some(Begin { step, batch: begin, accumulate }) =
            self.sessions.iter().rfind(|begin| begin.batch <= batch)
        else {
            return batch + 1;
        };
        let within = |range: &Range<u64>| range.end.min(batch).saturating_sub(range.start.max(*begin));
        let unused: u64 = self.unused.iter().map(within).sum();
        step + (batch - begin - unused) / accumulate + 1
    }

    /// How many batches there are up to the end of `step`.
    pub(super) fn batches(&self, step: u64) -> u64 {
        let Some(Begin { step: before, batch, accumulate }) =
            self.sessions.iter().rfind(|begin| begin.step <= step)
        else {
            return 0;
        };
        let (mut at, mut left) = (*batch, (step - before) * accumulate);
        for range in &self.unused {
            let free = range.start.saturating_sub(at);
            if left <= free {
                break;
            }
            left -= free;
            at = at.max(range.end);
        }
        at + left
    }
}

/// The last step of the metrics, if there is one.
fn last_step(path: &Path) -> Result<Option<u64>> {
    let tail = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = match tail() {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(|e| Error::io(path, "read", e))?,
    };
    // A run that goes on may be writing a line.
    let step = |line: &[u8]| serde_json::from_slice::<Line>(line).ok().map(|line| line.step);
    Ok(bytes.split(|byte| *byte == b'\n').rev().find_map(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Steps {
        let begin = |step, batch, accumulate| Begin { step, batch, accumulate };
        Steps { sessions: vec![begin(0, 0, 2), begin(3, 6, 3)], unused: vec![2..2, 8..12, 13..14] }
    }

    #[test]
    fn a_step_uses_the_batches_that_are_not_left_out() {
        let of: Vec<u64> = [0, 1, 2, 3, 4, 5, 6, 7, 12, 14, 15, 16, 17].map(|batch| steps().of(batch)).into();
        assert_eq!(of, [1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 5, 5, 6]);
    }

    #[test]
    fn a_step_ends_behind_its_last_batch() {
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(|step| steps().batches(step)), [0, 2, 4, 6, 13, 17, 20]);
    }
}
