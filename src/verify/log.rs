//! The log of a child: one line of JSON for each batch, so that a kill at any moment costs at most an incomplete line.
//!
//! A line has the contents of the batch and the loader's saved state after it: the log is also the checkpoint.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::orders::merged;
use crate::batch::Batch;
use crate::cursor::{Cursor, Digest, Ledger};
use crate::error::{Error, Result};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Delivered {
    /// Its number in the run of one process, from 0.
    pub(super) batch: u64,
    pub(super) rows: Vec<Row>,
    /// The loader's saved state after it: a cursor as JSON, or what only the loader itself can read.
    pub(super) state: String,
    /// What a Millstream loader adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) own: Option<Own>,
}

/// What only a Millstream loader logs of a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Own {
    /// How many batches of the run came before the one that follows.
    after: u64,
    /// The running digest and the ledger after the batch, over all lanes; `None` if a rank alone has the batch.
    pub(super) counted: Option<(Digest, Ledger)>,
}

fn counted(cursor: &Cursor) -> (Digest, Ledger) {
    (cursor.digest(), cursor.ledger())
}

impl Delivered {
    /// How many batches of the run came before the one that follows.
    pub(super) fn after(&self) -> u64 {
        self.own.as_ref().map_or(self.batch + 1, |own| own.after)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub(super) struct Row {
    /// Rows are the same if this is.
    pub(super) identity: String,
    /// Its name in words: where its documents begin, in order, or the name that its loader gives it.
    pub(super) names: Vec<String>,
}

impl From<Row> for Vec<String> {
    fn from(Row { identity, names }: Row) -> Self {
        std::iter::once(identity).chain(names).collect()
    }
}

impl TryFrom<Vec<String>> for Row {
    type Error = &'static str;

    fn try_from(row: Vec<String>) -> std::result::Result<Self, Self::Error> {
        let mut row = row.into_iter();
        let identity = row.next().ok_or("a row needs a digest and a name")?;
        Ok(Self { identity, names: row.collect() })
    }
}

/// Writes the log of a Millstream loader.
#[derive(Debug)]
pub(super) struct Writer {
    path: PathBuf,
    file: File,
}

impl Writer {
    pub(super) fn create(path: &Path) -> Result<Self> {
        let file = File::create(path).map_err(|e| Error::io(path, "create", e))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Appends a batch. Bytes that were handed to the system outlive the process, so nothing is synced.
    pub(super) fn push(&mut self, batch: &Batch) -> Result<()> {
        let mut names = vec![Vec::new(); batch.rows()];
        for piece in batch.pieces() {
            let path = batch.path(piece);
            let path = if path.as_os_str().is_empty() { Path::new("(no file)") } else { path };
            names[piece.row as usize].push(format!("{} (byte {})", path.display(), piece.position.byte));
        }
        let row = |(row, names): (usize, Vec<String>)| Row { identity: digest(batch, row, &names), names };
        let rows = names.into_iter().enumerate().map(row).collect();
        let cursor = batch.cursor();
        let own = Some(Own { after: cursor.batch(), counted: Some(counted(cursor)) });
        let fail = |e| Error::io(&self.path, "write", e);
        let json = |e: serde_json::Error| fail(e.into());
        let state = serde_json::to_string(cursor).map_err(json)?;
        let delivered = Delivered { batch: batch.number(), rows, state, own };
        let mut line = serde_json::to_vec(&delivered).map_err(json)?;
        line.push(b'\n');
        self.file.write_all(&line).map_err(fail)
    }
}

/// A digest of a row's ids, of how many of them count, of those that are not learned from, and of the names of its
/// documents.
fn digest(batch: &Batch, row: usize, names: &[String]) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&batch.lengths()[row].to_le_bytes());
    let bytes: Vec<u8> = batch.row(row).iter().flat_map(|id| id.to_le_bytes()).collect();
    hasher.update(&bytes);
    for (_, places) in batch.masked().filter(|(of, _)| *of == row) {
        for place in [places.start, places.end] {
            hasher.update(&(place as u64).to_le_bytes());
        }
    }
    for name in names {
        hasher.update(name.as_bytes());
    }
    hasher.finalize().to_hex()[..32].to_owned()
}

/// Reads a log, batch by batch. An incomplete last line is ignored.
#[derive(Debug)]
pub(super) struct Reader {
    path: PathBuf,
    file: BufReader<File>,
    /// The number that the next batch of any loader must have. A Millstream loader may leave batches out.
    next: Option<u64>,
}

impl Reader {
    /// Opens a log. That of any loader began with batch `from`.
    pub(super) fn open(path: &Path, from: Option<u64>) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io(path, "read", e))?;
        Ok(Self { path: path.to_owned(), file: BufReader::new(file), next: from })
    }

    fn read(&mut self) -> Result<Option<Delivered>> {
        let mut line = Vec::new();
        self.file.read_until(b'\n', &mut line).map_err(|e| Error::io(&self.path, "read", e))?;
        if line.last() != Some(&b'\n') {
            return Ok(None);
        }
        let delivered: std::result::Result<Delivered, String> =
            serde_json::from_slice(&line).map_err(|e| e.to_string());
        let path = self.path.display();
        let torn =
            |problem| Error::Verify { problem: format!("{path}: this is not a log of batches: {problem}") };
        let delivered = delivered.map_err(torn)?;
        if let Some(next) = &mut self.next {
            if delivered.batch != *next {
                return Err(torn(format!(
                    "it has batch {} where batch {next} must be; a child numbers its batches one by one, from \
                     `loader.from` of its orders on",
                    delivered.batch
                )));
            }
            *next += 1;
        }
        Ok(Some(delivered))
    }
}

impl Iterator for Reader {
    type Item = Result<Delivered>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// The batches that the ranks of a world make together.
///
/// Row k of rank r of a Millstream loader is row `k * world + r`, if several ranks have rows of one batch. Any loader's
/// rows are those of rank 0, then those of rank 1, and so on.
#[derive(Debug)]
pub(super) struct Together(Vec<Peekable<Reader>>);

impl Together {
    pub(super) fn new(ranks: Vec<Reader>) -> Self {
        Self(ranks.into_iter().map(Iterator::peekable).collect())
    }

    /// Returns the next batch; `None` if all ranks have ended. A rank that lacks the batch, or has fewer rows, leaves
    /// its places to the others, which the comparison will notice.
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
        let Some(Delivered { state, own, .. }) = parts.first() else { return Ok(None) };
        let (state, mut own) = (state.clone(), own.clone());
        if let Some(own) = &mut own {
            let has_all = parts.len() == self.0.len();
            let states = parts.iter().map(|part| &part.state);
            own.counted = has_all.then(|| merged(states)).transpose()?.map(|cursor| counted(&cursor));
        }
        let rows = parts.into_iter().map(|part| part.rows);
        let rows = if own.is_some() { interleave(rows) } else { rows.flatten().collect() };
        Ok(Some(Delivered { batch, rows, state, own }))
    }
}

impl Iterator for Together {
    type Item = Result<Delivered>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Takes a row of each part in turn.
fn interleave(parts: impl Iterator<Item = Vec<Row>>) -> Vec<Row> {
    let mut parts: Vec<_> = parts.map(Vec::into_iter).collect();
    let mut rows = Vec::new();
    loop {
        let before = rows.len();
        rows.extend(parts.iter_mut().filter_map(Iterator::next));
        if rows.len() == before {
            return rows;
        }
    }
}
