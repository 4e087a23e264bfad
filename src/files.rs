//! The files of a corpus, in their fixed order, and places in them.
//!
//! - `listing`: the files as a run keeps them, to say later which have changed
//! - `lines`: the line that a byte is on
//! - `codec`: which compression a file has
//! - `lossless`: paths of any bytes in JSON

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::error::Unit;
pub use crate::location::Location;

mod codec;
mod lines;
mod listing;
pub(crate) mod lossless;

pub(crate) use codec::{Codec, DetectedCodec, HEAD_BYTES, UnreadKind, ZSTD_WINDOW};
use lines::Lines;
pub use listing::{Changes, Listing, Renamed, Resized};

/// Where a document begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// The file, by its place in the corpus's [`Files`].
    pub file: u32,
    /// The line, from 1, counted from the one that `from` lies in; 0 where lines mean nothing.
    /// [`Files::line`] says which line of the file that is.
    pub line: u64,
    /// The offset in the file's text, in bytes, or the number of the row, from 0, where the file's unit is rows.
    pub byte: u64,
    /// The offset in the file that lines are counted from, in bytes: where the document's split begins.
    pub from: u64,
}

/// One file of a corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it is.
    pub location: Location,
    /// Its length in bytes when the corpus was opened.
    pub len: u64,
    /// What its store called its content then: its etag, or else when it was last changed. None of a local file.
    pub etag: Option<String>,
    /// Which `[[source]]` it belongs to, from 0.
    pub source: usize,
    /// What positions in it are counted in.
    pub unit: Unit,
}

impl File {
    /// Its path or URL, as errors name it; `-` for standard input, and `synthetic://…` for made documents.
    pub fn path(&self) -> &Path {
        self.location.as_path()
    }
}

/// The length of the path of the directory that all of these files lie in, with the separator at its end.
pub(crate) fn common_directory<'a>(paths: impl Iterator<Item = &'a [u8]>) -> usize {
    let is_separator = |byte: &u8| *byte == b'/' || cfg!(windows) && *byte == b'\\';
    let directory = |path: &'a [u8]| &path[..path.iter().rposition(is_separator).map_or(0, |at| at + 1)];
    let common = paths.map(directory).reduce(|common, other| {
        let equal = common.iter().zip(other).take_while(|(one, other)| one == other).count();
        directory(&common[..equal])
    });
    common.map_or(0, <[u8]>::len)
}

/// The files of a corpus. A [`Position`] names one by its place in this list.
#[derive(Debug, Default)]
pub struct Files {
    files: Vec<File>,
    lines: Lines,
}

impl Files {
    /// The files, in the order in which positions number them.
    pub fn new(files: Vec<File>) -> Self {
        Self { files, lines: Lines::default() }
    }

    /// The files of what came from no file.
    pub(crate) fn none() -> Arc<Self> {
        static NONE: OnceLock<Arc<Files>> = OnceLock::new();
        NONE.get_or_init(Arc::default).clone()
    }

    /// The path of file `file`; empty for a document that came from no file.
    pub fn path(&self, file: u32) -> &Path {
        self.known_path(file).unwrap_or(Path::new(""))
    }

    /// The path of file `file`; `None` for a document that came from no file.
    pub(crate) fn known_path(&self, file: u32) -> Option<&Path> {
        self.files.get(file as usize).map(File::path)
    }

    /// What positions in file `file` are counted in.
    pub(crate) fn unit(&self, file: u32) -> Unit {
        self.files.get(file as usize).map_or(Unit::Byte, |file| file.unit)
    }

    /// The line of its file that `position` is on, from 1; 0 where lines mean nothing, and in remote files where it is
    /// not counted from the file's start.
    ///
    /// For a position whose line is not counted from the file's start it reads the file as far as the
    /// position's `from`, and blocks meanwhile. What was counted is kept: many look-ups in one file read it
    /// once, and at most 1 MiB more each.
    ///
    /// # Errors
    /// The system's, and one for a file that is shorter now, or compressed.
    pub fn line(&self, position: Position) -> io::Result<u64> {
        let Position { file, line, from, .. } = position;
        let is_counted = from == 0 || self.get(file as usize).is_none_or(|file| !file.location.is_remote());
        if line == 0 || !is_counted {
            return Ok(0);
        }
        Ok(self.lines.before(file, self.path(file), from)? + line)
    }

    /// As [`line`](Files::line), and 0 for a line that cannot be counted any more.
    pub(crate) fn line_or_none(&self, position: Position) -> u64 {
        self.line(position).unwrap_or(0)
    }
}

impl std::ops::Deref for Files {
    type Target = [File];

    fn deref(&self) -> &[File] {
        &self.files
    }
}
