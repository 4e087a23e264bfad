//! What a child leaves behind: one line of JSON for each batch, so that a kill at any moment costs at most an
//! incomplete line.
//!
//! A line holds what the batch is made of and the cursor after it: the log is also the checkpoint.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::batch::Batch;
use crate::cursor::{Cursor, Digest};
use crate::error::{Error, Result};

/// One delivered batch.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Delivered {
    /// Its number in the run of one process, from 0.
    pub(super) batch: u64,
    pub(super) rows: Vec<Row>,
    /// The cursor after it.
    pub(super) cursor: Cursor,
    /// The running digest after it, over all lanes; `None` if a rank alone has the batch.
    pub(super) digest: Option<Digest>,
}

/// One row: a digest of its ids, and the documents that they come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) digest: String,
    pub(super) documents: Vec<Place>,
}

/// Where a document begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// `None` if it came from no file.
    path: Option<String>,
    line: u64,
    byte: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.path, self.line) {
            (None, _) => f.write_str("(no file)"),
            (Some(path), 0) => write!(f, "{path} (byte {})", self.byte),
            (Some(path), line) => write!(f, "{path}:{line}"),
        }
    }
}

/// A document as it is logged: file, line and byte.
type Mark = (usize, u64, u64);

/// A batch as it is logged.
#[derive(Serialize, Deserialize)]
struct Line {
    batch: u64,
    /// The files that no earlier line named. Documents name a file by its index in the lists of all lines together.
    paths: Vec<String>,
    rows: Vec<(String, Vec<Mark>)>,
    cursor: Cursor,
}

/// Writes a log.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    file: File,
    known: HashMap<PathBuf, usize>,
}

impl Writer {
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|e| Error::io(path, "create", e))?;
        Ok(Self { path: path.to_owned(), file, known: HashMap::new() })
    }

    /// Appends a batch. What was handed to the system outlives the process, so nothing is synced.
    pub(super) fn push(&mut self, batch: &Batch) -> Result<()> {
        let mut paths = Vec::new();
        let mut rows: Vec<(String, Vec<Mark>)> =
            (0..batch.rows()).map(|row| (digest(batch, row), Vec::new())).collect();
        for piece in batch.pieces() {
            let path = batch.path(piece);
            let file = self.known.get(path).copied().unwrap_or_else(|| {
                paths.push(path.display().to_string());
                let place = self.known.len();
                self.known.insert(path.to_owned(), place);
                place
            });
            rows[piece.row as usize].1.push((file, piece.position.line, piece.position.byte));
        }
        let line = Line { batch: batch.number(), paths, rows, cursor: batch.cursor().clone() };
        let fail = |e| Error::io(&self.path, "write", e);
        let mut line = serde_json::to_vec(&line).map_err(|e| fail(e.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(fail)
    }
}

/// A digest of a row's ids and of how many of them count.
fn digest(batch: &Batch, row: usize) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&batch.lengths()[row].to_le_bytes());
    let bytes: Vec<u8> = batch.row(row).iter().flat_map(|id| id.to_le_bytes()).collect();
    hasher.update(&bytes);
    hasher.finalize().to_hex()[..32].to_owned()
}

/// Reads a log, batch by batch. An incomplete last line is ignored.
#[derive(Debug)]
pub(super) struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    paths: Vec<String>,
}

impl Reader {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io(path, "read", e))?;
        Ok(Self { path: path.to_owned(), file: BufReader::new(file), paths: Vec::new() })
    }

    fn read(&mut self) -> Result<Option<Delivered>> {
        let mut line = Vec::new();
        self.file.read_until(b'\n', &mut line).map_err(|e| Error::io(&self.path, "read", e))?;
        if line.last() != Some(&b'\n') {
            return Ok(None);
        }
        let Line { batch, paths, rows, cursor } = serde_json::from_slice(&line).map_err(|e| self.torn(&e))?;
        self.paths.extend(paths);
        let rows = rows
            .into_iter()
            .map(|(digest, documents)| {
                let documents =
                    documents.into_iter().map(|document| self.place(document)).collect::<Option<_>>();
                Some(Row { digest, documents: documents? })
            })
            .collect::<Option<_>>()
            .ok_or_else(|| self.torn(&"a document of an unnamed file"))?;
        let digest = Some(cursor.digest());
        Ok(Some(Delivered { batch, rows, cursor, digest }))
    }

    fn place(&self, (file, line, byte): Mark) -> Option<Place> {
        // A log has an empty path for what came from no file.
        let path = Some(self.paths.get(file)?.clone()).filter(|path| !path.is_empty());
        Some(Place { path, line, byte })
    }

    fn torn(&self, problem: &dyn fmt::Display) -> Error {
        Error::Verify { problem: format!("{}: this is not a log of batches: {problem}", self.path.display()) }
    }
}

impl Iterator for Reader {
    type Item = Result<Delivered>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}
