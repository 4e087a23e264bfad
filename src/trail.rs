//! The cursors that a run passes, on disk: what was read in a batch of the past is found from the one before it.
//!
//! One compact JSON object a line: a cursor without its fingerprint, which is long and hardly ever changes; it
//! stands in a line of its own before the first cursor that it belongs to. Lines are written in one call, so
//! a kill leaves whole ones and at most one torn at the end, which counts for nothing. Held in memory: one
//! fingerprint, and the file while it is read.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::cursor::{Cursor, Fingerprint};
use crate::error::{Error, Result};

/// Writes a trail.
#[derive(Debug)]
pub struct Trail {
    path: PathBuf,
    fingerprint: Option<Fingerprint>,
}

/// What is looked at in every line.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line {
    Cursor { batch: u64 },
    Fingerprint { fingerprint: Fingerprint },
}

impl Trail {
    /// Opens the trail at `path` to go on after `batch` batches, and cuts off what a run that went further has
    /// left. 0 begins anew. The file comes to be with the first cursor.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read or cut, [`Error::Cursor`] if it is no trail.
    pub fn open(path: impl Into<PathBuf>, batch: u64) -> Result<Self> {
        let path = path.into();
        let bytes = read(&path)?;
        let (mut fingerprint, mut kept) = (None, 0);
        for entry in entries(&path, &bytes) {
            let (text, line) = entry?;
            match line {
                Line::Cursor { batch: at } if at > batch => break,
                Line::Cursor { .. } => {}
                Line::Fingerprint { fingerprint: next } => fingerprint = Some(next),
            }
            kept += text.len() as u64;
        }
        let cut = || OpenOptions::new().write(true).open(&path)?.set_len(kept);
        match cut() {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io(&path, "cut the trail", e)),
            _ => Ok(Self { path, fingerprint }),
        }
    }

    /// Adds a cursor, which is to come after those before it.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be written.
    pub fn record(&mut self, cursor: &Cursor) -> Result<()> {
        let mut lines = Vec::new();
        let new = self.fingerprint.as_ref() != Some(cursor.fingerprint());
        let write = |lines: &mut Vec<u8>| -> std::io::Result<()> {
            if new {
                let fingerprint = cursor.fingerprint().clone();
                serde_json::to_writer(&mut *lines, &Line::Fingerprint { fingerprint })?;
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

/// The last cursor of the trail at `path` that has at most `batch` batches before it; none if there is none, or no
/// trail.
///
/// # Errors
/// [`Error::Io`] if the file cannot be read, [`Error::Cursor`] if it is no trail.
pub fn nearest(path: impl AsRef<Path>, batch: u64) -> Result<Option<Cursor>> {
    let path = path.as_ref();
    let bytes = read(path)?;
    let (mut fingerprint, mut found) = (None, None);
    for entry in entries(path, &bytes) {
        let (text, line) = entry?;
        match line {
            Line::Cursor { batch: at } if at > batch => break,
            Line::Cursor { .. } => found = Some((fingerprint, text)),
            Line::Fingerprint { .. } => fingerprint = Some(text),
        }
    }
    let Some((fingerprint, text)) = found else { return Ok(None) };
    let whole = || -> serde_json::Result<Cursor> {
        let mut object: Map<String, Value> = serde_json::from_slice(text)?;
        if let Some(fingerprint) = fingerprint {
            object.extend(serde_json::from_slice::<Map<String, Value>>(fingerprint)?);
        }
        serde_json::from_value(Value::Object(object))
    };
    whole().map(Some).map_err(|e| damaged(path, &format!("batch {batch}"), &e))
}

/// The file's whole lines; nothing if there is no file.
fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(Error::io(path, "read the trail", e)),
    };
    bytes.truncate(memchr::memrchr(b'\n', &bytes).map_or(0, |end| end + 1));
    Ok(bytes)
}

fn entries<'a>(path: &Path, bytes: &'a [u8]) -> impl Iterator<Item = Result<(&'a [u8], Line)>> {
    bytes.split_inclusive(|&byte| byte == b'\n').zip(1u64..).map(move |(text, number)| {
        let line = serde_json::from_slice(text).map_err(|e| damaged(path, &format!("line {number}"), &e))?;
        Ok((text, line))
    })
}

fn damaged(path: &Path, place: &str, error: &serde_json::Error) -> Error {
    Error::Cursor {
        path: path.to_owned(),
        problem: format!(
            "{place} of this trail is no cursor: {error}; remove the file to go on without what it tells of the past"
        ),
    }
}
