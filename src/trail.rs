//! The cursors of a run, on disk. To find what a past batch read, resume from the cursor before it.
//!
//! Each line is one compact JSON object: a cursor without its fingerprint. A fingerprint is long and hardly
//! ever changes, so it has its own line before the first cursor that it belongs to. Lines are written in one
//! call, so a kill leaves whole lines and at most one torn line at the end, which is ignored. Held in memory:
//! one fingerprint, and while the file is read two more fingerprints and two lines.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cursor::{Cursor, Fingerprint};
use crate::error::{Error, Result};

/// The name of the file in a run's directory.
pub const FILE: &str = "cursors.jsonl";

/// Writes a trail.
#[derive(Debug)]
pub struct Trail {
    path: PathBuf,
    fingerprint: Option<Fingerprint>,
}

/// The only field that is read in every line. A line without it holds a fingerprint.
#[derive(Deserialize)]
struct Line {
    batch: Option<u64>,
}

/// A fingerprint's line.
#[derive(Serialize, Deserialize)]
struct Header<F> {
    fingerprint: F,
}

impl Trail {
    /// Opens the trail at `path` to continue after `batch` batches, and cuts off later cursors of an earlier run. 0
    /// starts the trail over. The first cursor creates the file.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read or cut, [`Error::Cursor`] if it is not a trail.
    pub fn open(path: impl Into<PathBuf>, batch: u64) -> Result<Self> {
        let path = path.into();
        let found = find(&path, batch)?;
        let kept = found.as_ref().map_or(0, |found| found.end);
        let fingerprint = found.map(|found| found.fingerprint(&path)).transpose()?;
        let cut = || OpenOptions::new().write(true).open(&path)?.set_len(kept);
        match cut() {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io(&path, "cut the trail", e)),
            _ => Ok(Self { path, fingerprint }),
        }
    }

    /// Appends a cursor, which must be later than those before it.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be written.
    pub fn record(&mut self, cursor: &Cursor) -> Result<()> {
        let mut lines = Vec::new();
        let new = self.fingerprint.as_ref() != Some(cursor.fingerprint());
        let write = |lines: &mut Vec<u8>| -> std::io::Result<()> {
            if new {
                serde_json::to_writer(&mut *lines, &Header { fingerprint: cursor.fingerprint() })?;
                lines.push(b'\n');
            }
            let mut object: Map<String, Value> = serde_json::from_value(serde_json::to_value(cursor)?)?;
            object.remove("fingerprint");
            serde_json::to_writer(&mut *lines, &object)?;
            lines.push(b'\n');
            OpenOptions::new().create(true).append(true).open(&self.path)?.write_all(lines)
        };
        write(&mut lines).map_err(|e| Error::io(&self.path, "write the trail", e))?;
        if new {
            self.fingerprint = Some(cursor.fingerprint().clone());
        }
        Ok(())
    }
}

/// Returns all cursors in the trail at `path`. Without a trail there are none.
///
/// # Errors
/// As [`nearest`].
pub fn all(path: impl AsRef<Path>) -> Result<Vec<Cursor>> {
    let (path, mut cursors) = (path.as_ref(), Vec::new());
    walk(path, |entry| {
        cursors.push(entry.whole(path)?);
        Ok(true)
    })?;
    Ok(cursors)
}

/// Returns the last cursor in the trail at `path` that has at most `batch` batches before it, or `None` if
/// there is no such cursor or no trail.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read, [`Error::Cursor`] if it is not a trail.
pub fn nearest(path: impl AsRef<Path>, batch: u64) -> Result<Option<Cursor>> {
    let path = path.as_ref();
    find(path, batch)?.map(|found| found.whole(path)).transpose()
}

/// A cursor of a trail.
#[derive(Default)]
struct TrailEntry {
    batch: u64,
    /// The line that holds its fingerprint.
    header: Vec<u8>,
    cursor: Vec<u8>,
    /// The number of its line, from 1.
    line: u64,
    /// Where its line ends, in bytes.
    end: u64,
}

impl TrailEntry {
    fn fingerprint(&self, path: &Path) -> Result<Fingerprint> {
        let header = serde_json::from_slice(&self.header).map_err(|e| self.damaged(path, &e))?;
        let Header { fingerprint } = header;
        Ok(fingerprint)
    }

    fn whole(&self, path: &Path) -> Result<Cursor> {
        let whole = || -> serde_json::Result<Cursor> {
            let mut object: Map<String, Value> = serde_json::from_slice(&self.cursor)?;
            object.extend(serde_json::from_slice::<Map<String, Value>>(&self.header)?);
            serde_json::from_value(Value::Object(object))
        };
        whole().map_err(|e| self.damaged(path, &e))
    }

    fn damaged(&self, path: &Path, error: &serde_json::Error) -> Error {
        damaged(path, self.line, error)
    }
}

/// Finds the last cursor with at most `batch` batches before it, in whole lines only.
fn find(path: &Path, batch: u64) -> Result<Option<TrailEntry>> {
    let mut found = None;
    walk(path, |entry| {
        let is_wanted = entry.batch <= batch;
        if is_wanted {
            let found = found.get_or_insert_with(TrailEntry::default);
            std::mem::swap(found, entry);
            entry.header.clone_from(&found.header);
        }
        Ok(is_wanted)
    })?;
    Ok(found)
}

/// Goes through the cursors of a trail, in whole lines only, until `goes_on` does not.
fn walk(path: &Path, mut goes_on: impl FnMut(&mut TrailEntry) -> Result<bool>) -> Result<()> {
    let fail = |e| Error::io(path, "read the trail", e);
    let mut file = match File::open(path) {
        Ok(file) => BufReader::new(file),
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(fail(e)),
    };
    let (mut text, mut entry, mut end) = (Vec::new(), TrailEntry::default(), 0);
    for number in 1.. {
        text.clear();
        end += file.read_until(b'\n', &mut text).map_err(fail)? as u64;
        if text.last() != Some(&b'\n') {
            break;
        }
        let line: Line = serde_json::from_slice(&text).map_err(|e| damaged(path, number, &e))?;
        let Some(batch) = line.batch else {
            entry.header.clone_from(&text);
            continue;
        };
        std::mem::swap(&mut entry.cursor, &mut text);
        (entry.batch, entry.line, entry.end) = (batch, number, end);
        if !goes_on(&mut entry)? {
            break;
        }
    }
    Ok(())
}

fn damaged(path: &Path, line: u64, error: &serde_json::Error) -> Error {
    Error::Cursor {
        path: path.to_owned(),
        problem: format!(
            "line {line} of this trail is not a cursor: {error}; remove the file to go on without its record \
             of past batches"
        ),
    }
}
