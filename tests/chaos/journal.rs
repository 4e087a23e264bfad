//! What a child writes about each batch: a line of JSON, so that a kill costs at most an incomplete line.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use millstream::{Batch, Cursor};
use serde::{Deserialize, Serialize};

/// A line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Line {
    Batch(Delivered),
    /// The stream has ended. So many documents were skipped.
    End {
        skipped: u64,
    },
    /// The child has delivered what it was asked for.
    Enough,
}

/// A batch, or a rank's part of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Delivered {
    pub(crate) number: u64,
    /// The turns before it and after it, over all ranks.
    pub(crate) turns: (u64, u64),
    /// A digest of each row: its ids, which of them are learned from, and where they come from.
    pub(crate) rows: Vec<String>,
    /// A digest of the lanes' states after it.
    pub(crate) state: String,
    /// The pieces of documents; only a quiet run names them.
    pub(crate) pieces: Vec<PieceOf>,
}

/// A piece of a document.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct PieceOf {
    pub(crate) path: PathBuf,
    pub(crate) byte: u64,
    /// Where the piece begins in its document and in its row, and its length.
    pub(crate) offset: u32,
    pub(crate) from: u32,
    pub(crate) len: u32,
}

impl Delivered {
    /// Describes a batch that came after `before` turns.
    pub(crate) fn of(batch: &Batch, before: u64, with_pieces: bool) -> Self {
        let mut rows: Vec<blake3::Hasher> = (0..batch.rows()).map(|row| row_digest(batch, row)).collect();
        for piece in batch.pieces() {
            let hasher = &mut rows[piece.row as usize];
            hasher.update(place(batch.path(piece)).as_os_str().as_encoded_bytes());
            for number in [piece.position.byte, piece.offset.into(), piece.from.into(), piece.to.into()] {
                hasher.update(&number.to_le_bytes());
            }
        }
        let piece_of = |piece: &millstream::batch::Piece| PieceOf {
            path: batch.path(piece).to_owned(),
            byte: piece.position.byte,
            offset: piece.offset,
            from: piece.from,
            len: piece.to - piece.from,
        };
        Self {
            number: batch.number(),
            turns: (before, batch.cursor().turn()),
            rows: rows.iter().map(|hasher| hasher.finalize().to_hex()[..16].to_owned()).collect(),
            state: state(batch.cursor()),
            pieces: if with_pieces { batch.pieces().iter().map(piece_of).collect() } else { Vec::new() },
        }
    }
}

/// A file and its directory, which keeps its name when it moves.
fn place(path: &Path) -> &Path {
    let above = path.parent().and_then(Path::parent).unwrap_or(Path::new(""));
    path.strip_prefix(above).expect("it is above")
}

fn row_digest(batch: &Batch, row: usize) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&batch.lengths()[row].to_le_bytes());
    for id in batch.row(row) {
        hasher.update(&id.to_le_bytes());
    }
    for (_, places) in batch.masked().filter(|(of, _)| *of == row) {
        hasher.update(&(places.start as u64).to_le_bytes());
        hasher.update(&(places.end as u64).to_le_bytes());
    }
    hasher
}

/// A digest of all that a cursor says of its lanes: places, rows, skipped documents and digests.
pub(crate) fn state(cursor: &Cursor) -> String {
    let cursor = serde_json::to_value(cursor).expect("it serializes");
    blake3::hash(cursor["lanes"].to_string().as_bytes()).to_hex()[..16].to_owned()
}

/// Appends lines.
pub(crate) struct Writer(File);

impl Writer {
    pub(crate) fn open(path: &Path) -> Self {
        Self(File::options().append(true).open(path).expect("the journal"))
    }

    pub(crate) fn push(&mut self, line: &Line) {
        let mut line = serde_json::to_vec(line).expect("it serializes");
        line.push(b'\n');
        self.0.write_all(&line).expect("written");
    }
}

/// Reads lines as they come.
pub(crate) struct Reader {
    file: File,
    rest: Vec<u8>,
}

impl Reader {
    /// Makes an empty journal, and reads it from its start.
    pub(crate) fn create(path: &Path) -> Self {
        File::create(path).expect("a file");
        Self { file: File::open(path).expect("a file"), rest: Vec::new() }
    }

    /// The whole lines since the last call.
    pub(crate) fn news(&mut self) -> Vec<Line> {
        self.file.read_to_end(&mut self.rest).expect("read");
        let Some(end) = self.rest.iter().rposition(|&byte| byte == b'\n') else { return Vec::new() };
        let whole: Vec<u8> = self.rest.drain(..=end).collect();
        let lines = whole.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
        lines.map(|line| serde_json::from_slice(line).expect("a line")).collect()
    }
}
