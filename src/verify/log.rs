//! The log of a child: one line of JSON for each batch, so that a kill at any moment costs at most an incomplete line.
//!
//! A line has the contents of the batch and the loader's saved state after it: the log is also the checkpoint.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::batch::Batch;
use crate::cursor::{Cursor, Digest};
use crate::error::{Error, Result};

/// One delivered batch.
#[derive(Clone, Debug)]
pub(super) struct Delivered {
    /// Its number in the run of one process, from 0.
    pub(super) batch: u64,
    pub(super) rows: Vec<Row>,
    /// The loader's saved state after it.
    pub(super) state: State,
    /// The running digest after it, over all lanes; `None` if a rank alone has the batch, and for any loader.
    pub(super) digest: Option<Digest>,
}

impl Delivered {
    /// How many batches of the run came before the one that follows.
    pub(super) fn after(&self) -> u64 {
        match &self.state {
            State::Cursor(cursor) => cursor.batch(),
            State::Text(_) => self.batch + 1,
        }
    }
}

/// A loader's saved state after a batch, to continue from.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// A Millstream loader's.
    Cursor(Cursor),
    /// Any loader's: only the loader itself can read it.
    Text(String),
}

/// One row.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// Rows are the same if this is.
    pub(super) identity: String,
    /// Its name in words: where its documents begin, in order, or the name that its loader gives it.
    pub(super) names: Vec<String>,
}

/// A document as it is logged: file and byte.
type Mark = (usize, u64);

/// A batch as a Millstream loader logs it.
#[derive(Serialize, Deserialize)]
struct Line {
    batch: u64,
    /// The files that no earlier line named. Documents name a file by its index in the lists of all lines together.
    paths: Vec<String>,
    rows: Vec<(String, Vec<Mark>)>,
    cursor: Cursor,
}

/// A batch as any loader logs it.
#[derive(Deserialize)]
struct AnyLine {
    batch: u64,
    /// For each row a digest of its contents, and its name in words.
    rows: Vec<(String, String)>,
    state: String,
}

/// Writes the log of a Millstream loader.
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

    /// Appends a batch. Bytes that were handed to the system outlive the process, so nothing is synced.
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
            rows[piece.row as usize].1.push((file, piece.position.byte));
        }
        let line = Line { batch: batch.number(), paths, rows, cursor: batch.cursor().clone() };
        let fail = |e| Error::io(&self.path, "write", e);
        let mut line = serde_json::to_vec(&line).map_err(|e| fail(e.into()))?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(fail)
    }
}

/// A digest of a row's ids, of how many of them count, and of those that are not learned from, if there are any.
fn digest(batch: &Batch, row: usize) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&batch.lengths()[row].to_le_bytes());
    let bytes: Vec<u8> = batch.row(row).iter().flat_map(|id| id.to_le_bytes()).collect();
    hasher.update(&bytes);
    for (_, places) in batch.masked().filter(|(of, _)| *of == row) {
        for place in [places.start, places.end] {
            hasher.update(&(place as u64).to_le_bytes());
        }
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// Reads a log, batch by batch. An incomplete last line is ignored.
#[derive(Debug)]
pub(super) struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    format: Format,
}

/// Whose log it is.
#[derive(Debug)]
enum Format {
    /// A Millstream loader's, with the paths that the lines so far have named.
    Millstream(Vec<String>),
    /// Any loader's, with the number that its next batch must have.
    Any(u64),
}

impl Reader {
    /// Opens the log of a Millstream loader.
    pub(super) fn open(path: &Path) -> Result<Self> {
        Self::of(path, Format::Millstream(Vec::new()))
    }

    /// Opens the log of any loader, which began with batch `from`.
    pub(super) fn open_any(path: &Path, from: u64) -> Result<Self> {
        Self::of(path, Format::Any(from))
    }

    fn of(path: &Path, format: Format) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io(path, "read", e))?;
        Ok(Self { path: path.to_owned(), file: BufReader::new(file), format })
    }

    fn read(&mut self) -> Result<Option<Delivered>> {
        let mut line = Vec::new();
        self.file.read_until(b'\n', &mut line).map_err(|e| Error::io(&self.path, "read", e))?;
        if line.last() != Some(&b'\n') {
            return Ok(None);
        }
        let delivered = match &mut self.format {
            Format::Millstream(paths) => millstream(&line, paths),
            Format::Any(next) => any(&line, next),
        };
        let path = self.path.display();
        let torn =
            |problem| Error::Verify { problem: format!("{path}: this is not a log of batches: {problem}") };
        delivered.map(Some).map_err(torn)
    }
}

impl Iterator for Reader {
    type Item = Result<Delivered>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// A line of a Millstream loader's log.
fn millstream(line: &[u8], paths: &mut Vec<String>) -> std::result::Result<Delivered, String> {
    let Line { batch, paths: more, rows, cursor } =
        serde_json::from_slice(line).map_err(|e| e.to_string())?;
    paths.extend(more);
    let row = |(digest, documents): (String, Vec<Mark>)| {
        let mut row = Row { identity: digest, names: Vec::with_capacity(documents.len()) };
        for (file, byte) in documents {
            let name = name(paths.get(file)?, byte);
            row.identity.extend([" ", &name]);
            row.names.push(name);
        }
        Some(row)
    };
    let rows = rows.into_iter().map(row).collect::<Option<_>>().ok_or("a document of an unnamed file")?;
    let digest = Some(cursor.digest());
    Ok(Delivered { batch, rows, state: State::Cursor(cursor), digest })
}

/// Where a document begins, in words. A log has an empty path for a document from no file.
fn name(path: &str, byte: u64) -> String {
    let path = if path.is_empty() { "(no file)" } else { path };
    format!("{path} (byte {byte})")
}

/// A line of any loader's log.
fn any(line: &[u8], next: &mut u64) -> std::result::Result<Delivered, String> {
    let AnyLine { batch, rows, state } = serde_json::from_slice(line).map_err(|e| e.to_string())?;
    if batch != *next {
        return Err(format!(
            "it has batch {batch} where batch {next} must be; a child numbers its batches one by one, from \
             `loader.from` of its orders on"
        ));
    }
    *next += 1;
    let rows = rows.into_iter().map(|(identity, name)| Row { identity, names: vec![name] }).collect();
    Ok(Delivered { batch, rows, state: State::Text(state), digest: None })
}
